"""A real server of S3, started when first used, and a bucket of its own for each test."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from exporter.pipeline.connectors import spark_settings
from exporter.storage.location import Location
from exporter.storage.objects import ObjectPath
from tests.marks import starts
from tests.storage.fault_proxy import FaultProxy
from tests.storage.server import ACCESS_KEY, SECRET_KEY, ObjectStore
from tests.tools import ToolUnavailable, versitygw

numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket, and the folder in which the server keeps its objects."""

    name: str
    folder: Path

    def place(self, key: str = "") -> ObjectPath:
        return ObjectPath(Location("s3", self.name, key))

    def objects(self) -> set[str]:
        """Keys of all objects, read behind the server."""
        # Not by `rglob`, which fails when a folder goes meanwhile.
        found = (
            Path(folder, name).relative_to(self.folder) for folder, _, names in os.walk(self.folder) for name in names
        )
        return {str(path) for path in found if not path.parts[0].startswith(".")}


@pytest.fixture(scope="session")
@starts("programs")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """Shared by all tests that do not stop it."""
    try:
        versitygw()
    except ToolUnavailable as missing:
        pytest.skip(str(missing))
    server = ObjectStore(tmp_path_factory.mktemp("store"))
    yield server
    server.stop()


@pytest.fixture
def spark_on_s3(spark: SparkSession, store: ObjectStore, bucket: Bucket) -> Iterator[SparkSession]:
    """The shared session; a session of the pipeline takes credentials from the environment."""
    places = spark_settings([bucket.place()], store.environment())
    chosen = {name.removeprefix("spark.hadoop."): text for name, text in places.items()}
    chosen |= {"fs.s3a.access.key": ACCESS_KEY, "fs.s3a.secret.key": SECRET_KEY}
    for name, text in chosen.items():
        spark.conf.set(name, text)
    yield spark
    for name in chosen:
        spark.conf.unset(name)


@pytest.fixture
def bucket(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A new one; the environment leads to it."""
    for name, value in store.environment().items():
        monkeypatch.setenv(name, value)
    name = f"bucket-{next(numbers)}"
    return Bucket(name, store.new_bucket(name))


@pytest.fixture
def proxy(store: ObjectStore, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    """Before the server, for faults; the environment leads to it. `bucket` comes first."""
    assert bucket.folder.is_dir()
    with FaultProxy(store.port) as made:
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.environment(made.port)["AWS_ENDPOINT_URL"])
        yield made
