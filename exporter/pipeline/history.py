"""Reads rows of the history: by Arrow where many files have few rows, else by Spark, which takes long to open a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from exporter.history.schema import CYCLES, OBSERVATIONS, TABLES, VERSION
from exporter.history.writer import arrow_schema
from exporter.pipeline import schemas
from exporter.pipeline.connectors import spark_path
from exporter.pipeline.files import HistoryFile
from exporter.pipeline.transactions import with_topic_id
from exporter.storage.places import Place, in_parallel, parquet_source

MANY_FILES: Final = 32
FEW_ROWS: Final = 500_000
"""Number of rows that fit into the memory of both processes."""
_FILES_AT_ONCE: Final = 256


def read_history(spark: SparkSession, history: Place, table: str, files: Iterable[HistoryFile]) -> DataFrame:
    """`OBSERVATIONS` or `CYCLES` of these files. Raises ArrowException or OSError if one of many cannot be read."""
    schema = {OBSERVATIONS: schemas.OBSERVATIONS, CYCLES: schemas.CYCLES}[table]
    files = tuple(files)
    rows = _few_rows(files) if len(files) >= MANY_FILES else None
    if not files:
        known = spark.createDataFrame([], schema)
    elif rows is not None:
        known = spark.createDataFrame(rows)
    else:
        reader = spark.read.schema(schema).option("basePath", spark_path(history / VERSION / table))
        known = reader.parquet(*(spark_path(file.path) for file in files))
        if not all(file.cluster_id.isascii() for file in files):
            # Spark decodes each escape of a folder's name as Latin-1; the bytes are UTF-8. That is done for every row.
            known = known.withColumn("cluster_id", f.decode(f.encode("cluster_id", "ISO-8859-1"), "UTF-8"))
    return with_topic_id(known) if table == OBSERVATIONS else known


def _few_rows(files: Sequence[HistoryFile]) -> pa.Table | None:
    """Reads all rows; None if there are too many."""
    parts: list[pa.Table] = []
    for first in range(0, len(files), _FILES_AT_ONCE):
        parts += in_parallel(_rows_of, files[first : first + _FILES_AT_ONCE], files[0].path)
        if sum(map(len, parts)) > FEW_ROWS:
            return None
    return pa.concat_tables(parts).combine_chunks()  # Spark 4.2 takes only some chunks of a table


def _rows_of(file: HistoryFile) -> pa.Table:
    """Reads the rows with the columns of this version, and those of the file's path."""
    found, columns = pq.ParquetFile(parquet_source(file.path)).read(), arrow_schema(TABLES[file.table])
    count = len(found)
    if not found.schema.equals(columns):
        rows = [
            found[field.name].cast(field.type) if field.name in found.column_names else pa.nulls(count, field.type)
            for field in columns
        ]
        found = pa.Table.from_arrays(rows, schema=columns)
    for name, text in (("cluster_id", file.cluster_id), ("date", file.day)):
        found = found.append_column(name, pa.repeat(text, count))
    return found
