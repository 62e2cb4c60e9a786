"""Where the jars of Spark's connectors are taken from."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from exporter.pipeline.connectors import (
    AWS_SDK_VERSION,
    HADOOP_AWS,
    KAFKA,
    JarsError,
    connectors_of,
    jars_of,
    parquet_files,
)
from exporter.storage.places import place_of


def test_the_folder_that_is_named_comes_first(tmp_path: Path) -> None:
    """All jars in it, by their whole path; a folder without any is refused."""
    with pytest.raises(JarsError, match="holds no jar"):
        jars_of(tmp_path, [KAFKA])
    (tmp_path / "a.jar").touch()

    assert jars_of(tmp_path, [KAFKA]) == {"spark.jars": str(tmp_path / "a.jar")}


def test_without_a_folder_spark_has_them_or_gets_them_by_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the pipeline's image they lie among PySpark's own jars, and nothing is fetched."""
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "__init__.py"))
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "hadoop-client-api-3.5.0.jar").touch()
    of_kafka, of_s3 = jars_of(None, [KAFKA]), jars_of(None, [HADOOP_AWS])
    for name in ("spark-sql-kafka-0-10_2.13-4.2.0.jar", "hadoop-aws-3.5.0.jar"):
        (tmp_path / "jars" / name).touch()

    assert of_kafka["spark.jars.packages"] == f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    assert of_s3["spark.jars.packages"].split(",")[:2] == [
        "org.apache.hadoop:hadoop-aws:3.5.0",
        f"software.amazon.awssdk:s3-transfer-manager:{AWS_SDK_VERSION}",
    ]
    assert "software.amazon.awssdk:bundle" in of_s3["spark.jars.excludes"]  # 686 MB of all services
    assert jars_of(None, [KAFKA, HADOOP_AWS]) == {}


def test_a_place_in_s3_needs_its_connector() -> None:
    """Those of gs and abfs are not fetched: they are in the folder of `--jars`."""
    assert connectors_of([place_of("s3://bucket/a"), place_of("/a")]) == (HADOOP_AWS,)
    assert connectors_of([place_of("gs://bucket/a"), place_of("/a")]) == ()


def test_what_a_worker_that_was_given_up_still_writes_is_no_file_of_the_table(tmp_path: Path) -> None:
    """Spark's workers write below `_temporary`; one that was cut off goes on after the job has ended."""
    for name in ("a=1/part-0.parquet", "_temporary/0/_temporary/attempt/a=1/part-1.parquet", "a=1/_part.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    assert parquet_files(tmp_path) == (tmp_path / "a=1" / "part-0.parquet",)


def test_the_version_of_aws_is_that_of_the_pinned_jars() -> None:
    """constraints/spark-jars.xml, from which the image has them."""
    pinned = Path("constraints/spark-jars.xml").read_text()

    assert f"<artifactId>s3-transfer-manager</artifactId><version>{AWS_SDK_VERSION}</version>" in pinned
