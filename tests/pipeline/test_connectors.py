"""Where the jars of Spark's connectors are taken from."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pyspark
import pytest

from exporter.pipeline.connectors import (
    AWS_SDK_VERSION,
    DELTA,
    DELTA_VERSION,
    HADOOP_AWS,
    KAFKA,
    JarsError,
    connectors_of,
    jars_of,
    require_delta,
)
from exporter.storage.places import place_of


def test_the_folder_that_is_named_comes_first(tmp_path: Path) -> None:
    """All jars in it, by their whole path; a folder without any is refused."""
    with pytest.raises(JarsError, match="holds no jar"):
        jars_of(tmp_path, [KAFKA])
    (tmp_path / "a.jar").touch()

    assert jars_of(tmp_path, [KAFKA]) == {"spark.jars": str(tmp_path / "a.jar")}


def test_a_folder_without_delta_is_a_sentence(tmp_path: Path) -> None:
    """It names the jars, and the other way to have them."""
    (tmp_path / "a.jar").touch()
    with pytest.raises(JarsError, match=r"has no jar of Delta: add those of io\.delta:delta-spark_4\.2_2\.13:4\.4\.0"):
        jars_of(tmp_path, [DELTA])


def test_without_a_folder_spark_has_them_or_gets_them_by_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the pipeline's image they lie among PySpark's own jars, and nothing is fetched."""
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "__init__.py"))
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "hadoop-client-api-3.5.0.jar").touch()
    of_kafka, of_s3, of_delta = (jars_of(None, [each]) for each in (KAFKA, HADOOP_AWS, DELTA))
    for name in ("delta-spark_4.2_2.13-4.4.0.jar", "spark-sql-kafka-0-10_2.13-4.2.0.jar", "hadoop-aws-3.5.0.jar"):
        (tmp_path / "jars" / name).touch()

    assert of_kafka["spark.jars.packages"] == f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    assert of_s3["spark.jars.packages"].split(",")[:2] == [
        "org.apache.hadoop:hadoop-aws:3.5.0",
        f"software.amazon.awssdk:s3-transfer-manager:{AWS_SDK_VERSION}",
    ]
    assert "software.amazon.awssdk:bundle" in of_s3["spark.jars.excludes"]  # 686 MB of all services
    assert of_delta["spark.jars.packages"] == "io.delta:delta-spark_4.2_2.13:4.4.0,io.delta:delta-storage:4.4.0"
    assert jars_of(None, [KAFKA, HADOOP_AWS, DELTA]) == {}


def test_a_submission_without_delta_is_a_sentence() -> None:
    """`spark-submit` has the jars of the session."""
    spark = Mock()
    require_delta(spark)
    spark._jvm.org.apache.spark.util.Utils.classIsLoadable.return_value = False
    with pytest.raises(
        JarsError, match=r"no jar of Delta: give spark-submit --packages io\.delta:delta-spark_4\.2_2\.13"
    ):
        require_delta(spark)


def test_a_place_in_s3_needs_its_connector() -> None:
    """Maven brings none for gs and abfs: their connectors are in the folder of `--jars`."""
    assert connectors_of([place_of("s3://bucket/a"), place_of("/a")]) == (DELTA, HADOOP_AWS)
    assert connectors_of([place_of("gs://bucket/a"), place_of("/a")]) == (DELTA,)


def test_the_version_of_aws_is_that_of_the_pinned_jars() -> None:
    """constraints/spark-jars.xml, from which the image has them."""
    pinned = Path("constraints/spark-jars.xml").read_text()

    assert f"<artifactId>s3-transfer-manager</artifactId><version>{AWS_SDK_VERSION}</version>" in pinned
    assert f"<artifactId>delta-spark_4.2_2.13</artifactId><version>{DELTA_VERSION}</version>" in pinned
