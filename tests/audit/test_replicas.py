"""Replicas whose markers differ from their leader's: each difference by its name, and what a cleaner does by none."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from kafka.record.util import calc_crc32c
from pyspark.sql import SparkSession

from examples.workload.producers import run_transaction
from exporter.audit.verdicts import AuditVerdict
from exporter.kafka.messages.log_batches import batches
from hangbench.kafka.cluster import KafkaCluster
from hangbench.waiting import until
from tests.audit.auditor import Auditor
from tests.audit.on_spark import JobOfWorld
from tests.audit.world import Appended, World
from tests.audit.worlds import played
from tests.conftest import FreshName, MakeCluster
from tests.kafka.log_batch import CONTROL, log_batch

REPLICA: Final = 7
TOPIC, PARTITION = "topic-0", 0
CRC_AT, CHECKED_FROM, RECORDS_FROM = 17, 21, 61
"""Places in a batch of the checksum, of what it covers, and of the records (DefaultRecordBatch)."""


def markers_of(world: World) -> list[Appended]:
    return [each for each in world.logs[TOPIC, PARTITION] if next(iter(batches(each.data))).is_control]


def marker(like: Appended, *, commit: bool, offset: int | None = None) -> bytes:
    (batch,) = batches(like.data)
    rows = [(batch.max_timestamp_ms, struct.pack(">hh", 0, commit), struct.pack(">hi", 0, 0), ())]
    return log_batch(
        rows,
        base_offset=like.offset if offset is None else offset,
        producer=(batch.producer_id, batch.producer_epoch),
        attributes=CONTROL,
    )


def is_commit(each: Appended) -> bool:
    return marker(each, commit=True)[CHECKED_FROM:] == each.data[CHECKED_FROM:]


def single_record(world: World) -> Appended:
    """A batch of one record, in the middle of the log."""
    return next(
        each
        for each in world.logs[TOPIC, PARTITION][40:]
        if not (batch := next(iter(batches(each.data)))).is_control and batch.next_offset == each.offset + 1
    )


def test_a_difference_is_named_and_what_a_cleaner_has_taken_is_not(spark: SparkSession, tmp_path: Path) -> None:
    world = played(5, faults=0)
    flipped, replaced, emptied, removed = markers_of(world)[3:7]
    record = single_record(world)
    (batch,) = batches(record.data)
    data = log_batch([(1, b"k", b"v", ())], base_offset=replaced.offset)
    of_copy = {
        (TOPIC, PARTITION, flipped.offset): marker(flipped, commit=not is_commit(flipped)),
        (TOPIC, PARTITION, replaced.offset): data,
        (TOPIC, PARTITION, record.offset): marker(record, commit=True),
    }
    cleaned = {
        (TOPIC, PARTITION, emptied.offset): log_batch([], base_offset=emptied.offset, attributes=CONTROL),
        (TOPIC, PARTITION, removed.offset): b"",
    }
    work = JobOfWorld(spark, world, tmp_path, {REPLICA: of_copy, REPLICA + 1: cleaned, REPLICA + 2: {}})

    result = work.run(world.now_ms)
    again = work.run(world.now_ms)

    kinds = {True: "commit", False: "abort"}
    expected = {
        (flipped.offset, kinds[not is_commit(flipped)], kinds[is_commit(flipped)]),
        (replaced.offset, None, kinds[is_commit(replaced)]),
        (record.offset, "commit", None),
    }
    rows = work.rows("audit_transactions")
    assert {row.verdict for row in rows} == {AuditVerdict.REPLICAS_DISAGREE.value}
    assert {(row.marker_offset, row.marker, row.leader_marker) for row in rows} == expected
    assert {row.replica for row in rows} == {REPLICA}
    assert result.findings == {AuditVerdict.REPLICAS_DISAGREE: len(rows)} == {AuditVerdict.REPLICAS_DISAGREE: 3}
    assert result.transactions == {AuditVerdict.AS_DECIDED: world.decided}
    assert (result.copies, result.copies_unread) == (3 * len(world.logs), {})
    assert f"broker {REPLICA} has no marker, the leader " in " ".join(result.examples)
    assert batch.producer_id in {row.producer_id for row in rows}
    assert (again.findings, again.copies) == ({}, 0)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_a_replica_with_another_marker_on_its_disk_is_named(
    version: str, make_cluster: MakeCluster, fresh_name: FreshName, spark: SparkSession, tmp_path: Path
) -> None:
    """A follower is stopped, its file is changed with the right checksum, and it serves readers once it is in sync."""
    cluster = make_cluster(version, nodes=3)
    topic = cluster.topics.create(fresh_name("topic"))
    for _ in range(3):
        run_transaction(cluster.bootstrap, fresh_name("app"), [(topic, 0)])
    leader, *followers = in_sync(cluster, topic)
    auditor = Auditor(spark, cluster.bootstrap, tmp_path / "clean", replicas=True)
    clean = auditor.audit()
    broker = cluster.broker(followers[0])
    broker.stop()
    (path,) = (broker.directory / "data" / f"{topic}-0").glob("*.log")
    path.write_bytes(b"".join(with_commit_as_abort(path.read_bytes(), offset=3)))
    broker.start()
    until(lambda: set(in_sync(cluster, topic)), lambda found: found == {leader, *followers})

    auditor = Auditor(spark, cluster.bootstrap, tmp_path / "changed", replicas=True)
    changed = auditor.audit()

    assert (clean.findings, clean.copies, clean.copies_unread) == ({}, 2, {})
    assert (changed.findings, changed.copies_unread) == ({AuditVerdict.REPLICAS_DISAGREE: 1}, {})
    (row,) = auditor.found()
    assert (row.topic, row.replica, row.marker_offset, row.marker, row.leader_marker) == (
        topic,
        followers[0],
        3,
        "abort",
        "commit",
    )


def in_sync(cluster: KafkaCluster, topic: str) -> tuple[int, ...]:
    """The leader, and its in-sync followers."""
    return cluster.topics.in_sync(topic, 0)


def with_commit_as_abort(data: bytes, *, offset: int) -> Iterator[bytes]:
    """The batches of a log; the marker at this offset is the opposite one."""
    for batch in batches(data):
        whole = bytearray(data[batch.start : batch.end])
        if batch.base_offset == offset:
            assert batch.is_control
            at = whole.index(struct.pack(">hh", 0, 1), RECORDS_FROM)
            whole[at : at + 4] = struct.pack(">hh", 0, 0)
            whole[CRC_AT:CHECKED_FROM] = calc_crc32c(bytes(whole[CHECKED_FROM:])).to_bytes(4, "big")
        yield bytes(whole)
