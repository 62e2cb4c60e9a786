"""One Spark session for the whole run: two threads, half a gigabyte, nothing outside the loopback."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from exporter.pipeline.session import open_session
from tests.brokers.maven import spark_kafka_jars
from tests.marks import starts
from tests.pipeline.program import Begin, Program


@pytest.fixture(scope="session")
@starts("spark")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    temporary: Path = tmp_path_factory.mktemp("spark")
    jars = ",".join(str(it) for it in sorted(spark_kafka_jars().glob("*.jar")))
    session = open_session("local[2]", str(temporary), memory="512m", partitions=2, more={"spark.jars": jars})
    yield session
    session.stop()


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Begins programs, and ends what is left of them."""
    begun: list[Program] = []

    def begin_one(arguments: Sequence[str]) -> Program:
        begun.append(Program(arguments, tmp_path / "said.txt"))
        return begun[-1]

    yield begin_one
    for program in begun:
        program.end()
