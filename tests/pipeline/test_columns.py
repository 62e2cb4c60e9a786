"""New columns, and new parts of a column: rows of an older version are read, and are joined with new ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from exporter.pipeline.compact import join
from exporter.pipeline.delta import Table

OLD = pa.schema([("cluster_id", pa.string()), ("partitions", pa.list_(pa.struct([("topic", pa.string())])))])
NEW = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("partitions", pa.list_(pa.struct([("topic", pa.string()), ("topic_id", pa.string())]))),
        ("outcome", pa.string()),
    ]
)
OLD_ROW = {"cluster_id": "c", "partitions": [{"topic": "orders"}]}
NEW_ROW = {"cluster_id": "c", "partitions": [{"topic": "orders", "topic_id": "one"}], "outcome": "commit"}
EXPECTED = [{**OLD_ROW, "partitions": [{"topic": "orders", "topic_id": None}], "outcome": None}, NEW_ROW]


def columns(*parts: str) -> Any:
    text = t.StringType()
    partition = t.StructType([t.StructField(name, text) for name in parts])
    fields = [t.StructField("cluster_id", text), t.StructField("partitions", t.ArrayType(partition))]
    return t.StructType([*fields, *([t.StructField("outcome", text)] if len(parts) > 1 else [])])


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """One of each version."""
    old, new = tmp_path / "table" / "old.parquet", tmp_path / "table" / "new.parquet"
    old.parent.mkdir()
    pq.write_table(pa.Table.from_pylist([OLD_ROW], schema=OLD), old)
    pq.write_table(pa.Table.from_pylist([NEW_ROW], schema=NEW), new)
    return old, new


def test_a_table_of_an_older_version_gets_the_new_columns(spark: SparkSession, tmp_path: Path) -> None:
    """A reader that knows the table by its log alone sees the rows of both versions."""
    older, table = (Table(tmp_path, columns(*parts), "A table") for parts in (["topic"], ["topic", "topic_id"]))
    for each, row in ((older, OLD_ROW), (table, NEW_ROW)):
        basis = each.begin(spark, each.snapshot())
        each.commit(spark.createDataFrame([row], each.columns), basis)
        if each is older:
            assert [row["outcome"] for row in table.read(spark).collect()] == [None], "before a run has written to it"

    rows = DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist()
    assert sorted(rows, key=lambda row: row["outcome"] or "") == EXPECTED
    assert [row.asDict(recursive=True) for row in table.read(spark).orderBy("outcome").collect()] == EXPECTED


def test_a_table_of_a_newer_version_stays_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    """An older program reads and extends it, and makes no version of it by looking."""
    versions = []
    for parts in (["topic", "topic_id"], ["topic"], ["topic"], ["topic", "topic_id", "another"], ["topic"]):
        table = Table(tmp_path, columns(*parts), "A table")
        versions.append(table.begin(spark, table.snapshot()).number)

    assert versions == [0, 0, 0, 1, 1]


def test_of_two_commits_of_one_version_a_disk_refuses_the_second(spark: SparkSession, tmp_path: Path) -> None:
    """Delta's own class for disks looks for the file, and then renames over it."""
    spark.range(1).write.format("delta").save(str(tmp_path / "t"))
    assert not list((tmp_path / "t" / "_delta_log").glob(".*.json.crc")), "Hadoop has not written the commit"
    java: Any = spark._jvm
    settings = spark._jsc.hadoopConfiguration()
    store = java.kafka_transaction_exporter.LinkLogStore(settings)
    path = java.org.apache.hadoop.fs.Path((tmp_path / "1.json").as_uri())
    outcomes = []
    for text in ("one", "other"):
        try:
            outcomes.append(store.write(path, java.java.util.List.of(text).iterator(), False, settings))
        except Py4JJavaError as error:
            outcomes.append(error.java_exception.getClass().getName())

    assert outcomes == [None, "java.nio.file.FileAlreadyExistsException"]
    assert {each.name: each.read_text() for each in tmp_path.glob("*.json*")} == {"1.json": "one\n"}


@pytest.mark.parametrize("is_old_first", [True, False])
def test_files_of_two_versions_become_one(files: tuple[Path, Path], tmp_path: Path, *, is_old_first: bool) -> None:
    """A day in which the program was upgraded, of the history or of a table."""
    order = 1 if is_old_first else -1
    join(files[::order], tmp_path / "whole.parquet")

    assert pq.read_table(tmp_path / "whole.parquet").to_pylist() == EXPECTED[::order]
