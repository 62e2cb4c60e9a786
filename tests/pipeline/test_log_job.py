"""Where the jars of Spark's Kafka source are taken from."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from exporter.pipeline.log_job import LogJobError, jars_of


def test_the_folder_that_is_named_comes_first(tmp_path: Path) -> None:
    """All jars in it, by their whole path; a folder without any is refused."""
    with pytest.raises(LogJobError, match="holds no jar"):
        jars_of(tmp_path)
    (tmp_path / "a.jar").touch()

    assert jars_of(tmp_path) == {"spark.jars": str(tmp_path / "a.jar")}


def test_without_a_folder_spark_has_them_or_gets_them_by_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the pipeline's image they lie among PySpark's own jars, and nothing is fetched."""
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "__init__.py"))
    (tmp_path / "jars").mkdir()
    wanted = jars_of(None)
    (tmp_path / "jars" / "spark-sql-kafka-0-10_2.13-4.2.0.jar").touch()

    assert wanted == {"spark.jars.packages": f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"}
    assert jars_of(None) == {}
