"""Bytes that a silent owner's transaction keeps on a real broker's disk: the estimate against the files themselves."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from examples.workload.producers import transactional_producer
from exporter.evaluation.disk import HeldBytes
from exporter.evaluation.evaluate import all_rows
from exporter.kafka.collect import disk
from hangbench.kafka.cluster import KafkaCluster, Properties
from hangbench.waiting import until
from tests.brokers.jars import tiered_storage_jars
from tests.marks import starts
from tests.real_brokers.exporting import AT_ONCE, called
from tests.watching import Watch, rows_on

SEGMENT_BYTES: Final = 1 << 20
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": str(SEGMENT_BYTES),
    "delete.retention.ms": "100",
}
PROPERTIES: Final = {"log.cleaner.backoff.ms": 200, "log.segment.delete.delay.ms": 100}
TIERED: Final = {
    "remote.storage.enable": "true",
    "local.retention.ms": "1000",
    "retention.ms": "-1",
    "segment.bytes": str(SEGMENT_BYTES),
}
KEYS: Final = 50
RECORD_BYTES: Final = 1000
BEFORE_MEASURED: Final = 5
"""Records behind the transaction at its first measurement, of which the first estimate may miss some."""
WITHIN_BYTES: Final = SEGMENT_BYTES + BEFORE_MEASURED * 2 * RECORD_BYTES


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("3.0.2", marks=pytest.mark.slow)])
@starts("broker")
def cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    with KafkaCluster(request.param, properties=PROPERTIES) as made:
        yield made


def write(cluster: KafkaCluster, topic: str, records: int) -> None:
    """Values that nothing compresses, of few keys."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "compression.type": "none"})
    for number in range(records):
        producer.produce(topic, os.urandom(RECORD_BYTES), key=f"k{number % KEYS}".encode(), partition=0)
        producer.poll(0)
    assert producer.flush(30) == 0


@contextmanager
def silent_owner(cluster: KafkaCluster, topic: str) -> Iterator[None]:
    """A transaction with a record of one byte, which ends with the block."""
    producer = transactional_producer(cluster.bootstrap, f"{topic}-owner", timeout_ms=600_000)
    producer.begin_transaction()
    producer.produce(topic, b"x", key=b"k", partition=0)
    assert producer.flush(30) == 0
    yield
    producer.abort_transaction(30)


def log_bytes(cluster: KafkaCluster, topic: str, start_offset: int = 0) -> int:
    """Size of the partition's .log files from the segment on that holds the offset."""
    folder = cluster.broker(1).directory / "data" / f"{topic}-0"
    sizes = {}
    for path in folder.glob("*.log"):
        with suppress(FileNotFoundError):  # the cleaner, or retention, has just taken it
            sizes[int(path.stem)] = path.stat().st_size
    first = max((base for base in sizes if base <= start_offset), default=0)
    return sum(size for base, size in sizes.items() if base >= first)


def measured(watch: Watch, topic: str) -> HeldBytes | None:
    return watch.cycle().held.get((topic, 0))


def test_the_estimate_is_within_a_segment_of_the_files(
    cluster: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cleaner takes what is before the transaction, and nothing from it on; with its end everything goes."""
    monkeypatch.setattr(disk, "READ_EVERY_MS", 0)
    topic = cluster.topics.create("prices", config=COMPACTED)
    write(cluster, topic, 4000)
    with silent_owner(cluster, topic), Watch(cluster.bootstrap) as watch:
        write(cluster, topic, BEFORE_MEASURED)
        watch.cycle()
        first = until(lambda: measured(watch, topic), lambda held: held is not None)
        for _ in range(4):
            write(cluster, topic, 2000)
            watch.cycle()
        until(lambda: log_bytes(cluster, topic) - log_bytes(cluster, topic, 4000), lambda size: size < SEGMENT_BYTES)
        evaluation = watch.cycle()
        (row,) = rows_on(evaluation, topic).values()
        held, files = evaluation.held[topic, 0], log_bytes(cluster, topic, row.start_offset)
        found = called(tmp_path, "find-hanging", "--bootstrap-server", cluster.bootstrap, "--all", "--format", "json")
        why = called(tmp_path, "why", "--bootstrap-server", cluster.bootstrap, "--topic", topic, **AT_ONCE)
    until(lambda: log_bytes(cluster, topic), until_small(cluster, topic))

    print(f"held {held.bytes}, files {files}, difference {held.bytes - files}")
    assert first is not None
    assert first.bytes_per_second is None
    assert abs(held.bytes - files) <= WITHIN_BYTES
    assert held.bytes > 8 * KEYS * RECORD_BYTES
    assert held.bytes_per_second is not None
    assert held.bytes_per_second > 0
    assert row.held_bytes == held.bytes
    assert evaluation.snapshot.disk is not None
    (log_dir,) = evaluation.snapshot.disk.log_dirs
    has_space = cluster.version != "3.0.2"
    assert (log_dir.usable_bytes is not None, log_dir.total_bytes is not None) == (has_space, has_space)
    assert (held.log_dir_full_ms is not None) == has_space
    (printed,) = json.loads(found.stdout)["transactions"]
    assert 0 < printed["held_bytes"] <= files + SEGMENT_BYTES
    assert json.loads(found.stdout)["coverage"]["log_dir_failures"] == []
    assert "of the partition's log can be neither compacted nor tiered until it ends." in why.stdout


def until_small(cluster: KafkaCluster, topic: str) -> Callable[[int], bool]:
    """Writes on, because the cleaner leaves the newest segment alone."""

    def is_small(size: int) -> bool:
        write(cluster, topic, 100)
        return size < 3 * SEGMENT_BYTES

    return is_small


def test_where_nothing_is_held_back_no_size_is_read(cluster: KafkaCluster) -> None:
    """A cluster without a transaction, one that has just begun, and one that has ended."""
    topic = cluster.topics.create("quiet", config=COMPACTED)
    with Watch(cluster.bootstrap) as watch:
        nothing = watch.cycle()
        with silent_owner(cluster, topic):
            begun = watch.cycle()
        ended = watch.cycle()
        names = {statistics.api for statistics in watch.collector.statistics()}

    assert [evaluation.snapshot.disk for evaluation in (nothing, begun, ended)] == [None] * 3
    assert len(all_rows(begun)) == 1
    assert "DescribeLogDirs" not in names


def tiering(folder: Path) -> Properties:
    """Remote storage in a folder, with Kafka's own LocalTieredStorage."""
    (jar,) = tiered_storage_jars("4.3.1").iterdir()
    metadata = "rlmm.config.remote.log.metadata.topic"
    return {
        **PROPERTIES,
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "remote.log.storage.manager.class.path": str(jar),
        "remote.log.storage.manager.impl.prefix": "rsm.config.",
        "rsm.config.dir": str(folder),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
        f"{metadata}.replication.factor": 1,
        f"{metadata}.min.isr": 1,
        f"{metadata}.num.partitions": 1,
        "remote.log.manager.task.interval.ms": 500,
        "log.retention.check.interval.ms": 500,
        "log.initial.task.delay.ms": 500,
    }


@pytest.mark.slow
@pytest.mark.broker
def test_a_tiered_log_stays_on_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic without a transaction is copied and deleted locally, the one behind it is not."""
    monkeypatch.setattr(disk, "READ_EVERY_MS", 0)
    with KafkaCluster("4.3.1", properties=tiering(tmp_path)) as cluster:
        free, topic = (cluster.topics.create(name, config=TIERED) for name in ("free", "held"))
        with silent_owner(cluster, topic), Watch(cluster.bootstrap) as watch:
            write(cluster, topic, BEFORE_MEASURED)
            watch.cycle()
            until(lambda: measured(watch, topic), lambda held: held is not None)
            for _ in range(4):
                write(cluster, topic, 2000)
                write(cluster, free, 2000)
            until(lambda: log_bytes(cluster, free), lambda size: size <= 2 * SEGMENT_BYTES)
            evaluation = watch.cycle()
            (row,) = rows_on(evaluation, topic).values()
            held, files = evaluation.held[topic, 0], log_bytes(cluster, topic, row.start_offset)
        until(lambda: log_bytes(cluster, topic), lambda size: size <= 2 * SEGMENT_BYTES)

    print(f"held {held.bytes}, files {files}, difference {held.bytes - files}")
    assert held.bytes > 8_000_000
    assert abs(held.bytes - files) <= WITHIN_BYTES
