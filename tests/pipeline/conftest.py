"""One Spark session for the whole run: two threads, half a gigabyte, nothing outside the loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from exporter.pipeline.session import open_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    temporary: Path = tmp_path_factory.mktemp("spark")
    session = open_session("local[2]", str(temporary), memory="512m", partitions=2)
    yield session
    session.stop()
