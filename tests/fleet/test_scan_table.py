"""A scan that is cut into brokers' tables and put together again is the same scan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from exporter.config.settings import ScanSettings
from exporter.fleet.scan import Budget
from exporter.fleet.scan_table import (
    SCAN,
    PartitionRows,
    broker_table,
    partition_table,
    read_back,
    rows_led_by,
    topology_of_rows,
)
from exporter.kafka.client.connections import Address
from exporter.kafka.collect.scan import Entries, LeaderScan
from exporter.kafka.topology import Replicas, Topology
from exporter.snapshot import ENTRY_FIELDS, NO_LEADER, Answer, Int64Column
from exporter.status import ApiStatistics

BROKERS = {1: Address("one", 9092), 2: Address("::2", 9093)}

partitions = st.fixed_dictionaries(
    {
        "leader": st.sampled_from([NO_LEADER, 1, 2, 7]),
        "replicas": st.lists(st.integers(1, 7), max_size=3),
        "answer": st.sampled_from(list(Answer)),
        "open": st.lists(st.integers(0, 2**62), max_size=3),
    }
)
clusters = st.dictionaries(
    st.text(st.sampled_from("aZ._-é"), min_size=1, max_size=4), st.lists(partitions, min_size=1, max_size=4), max_size=4
)


def replicas(of: list[list[int]]) -> Replicas:
    start = np.concatenate(([0], np.cumsum([len(ids) for ids in of]))).astype(np.int32)
    return Replicas(start=start, broker=np.array([broker for ids in of for broker in ids], dtype=np.int32))


def scan_of(cluster: dict[str, list[dict[str, Any]]]) -> LeaderScan:
    topics = tuple(sorted(cluster))
    flat = [(index, number, part) for index, name in enumerate(topics) for number, part in enumerate(cluster[name])]
    topic = np.array([index for index, _, _ in flat], dtype=np.int32)
    topology = Topology(
        cluster_id="id",
        brokers=BROKERS,
        topic_ids=tuple(f"id of {topic}" for topic in topics),
        topics=topics,
        first_row={name: int(np.searchsorted(topic, index)) for index, name in enumerate(topics)},
        topic=topic,
        partition=np.array([number for _, number, _ in flat], dtype=np.int32),
        leader=np.array([partition["leader"] for _, _, partition in flat], dtype=np.int32),
        leader_epoch=np.arange(len(flat), dtype=np.int32),
        replicas=replicas([partition["replicas"] for _, _, partition in flat]),
        in_sync=replicas([partition["replicas"][:1] for _, _, partition in flat]),
        topic_errors={},
    )
    scan = LeaderScan.unasked(topology)
    opened: list[tuple[int, int]] = []
    for row, (_, _, partition) in enumerate(flat):
        if partition["leader"] == NO_LEADER:
            continue
        answer: Answer = partition["answer"]
        count = len(partition["open"]) + 1 if answer is Answer.READ else 0
        at = np.array([row], dtype=np.int64)
        reason = "" if answer is Answer.READ else "timed_out"
        scan.restore(at, np.array([answer], dtype=np.int8), [reason], np.array([count], dtype=np.int32))
        if answer is Answer.READ:
            opened += [(row, offset) for offset in partition["open"]]
    ids = np.arange(len(opened), dtype=np.int64)
    epochs = ids.astype(np.int32)
    rows = np.array([row for row, _ in opened], dtype=np.int64)
    offsets = np.array([offset for _, offset in opened], dtype=np.int64)
    scan.parts.append(
        Entries(
            row=rows,
            producer_id=ids,
            producer_epoch=epochs,
            last_sequence=epochs,
            last_timestamp=ids + 5,
            coordinator_epoch=epochs - 1,
            current_txn_start_offset=offsets,
        )
    )
    return scan


def part_of(scan: LeaderScan, rows: PartitionRows) -> tuple[LeaderScan, Int64Column]:
    """The task's part of the cluster: these rows, in a topology of its own."""
    topology, at = topology_of_rows("id", {}, rows)
    part = LeaderScan.unasked(topology)
    named = zip(rows.topic, rows.partition, strict=True)
    home = np.array([scan.topology.row(rows.topics[topic], int(number)) for topic, number in named], dtype=np.int64)
    where = dict(zip(home.tolist(), at.tolist(), strict=True))
    part.restore(at, scan.answer[home], scan.reason[home].tolist(), scan.producers[home])
    entries = scan.entries()
    mine = np.isin(entries.row, home)
    row = np.array([where[row] for row in entries.row[mine].tolist()], dtype=np.int64)
    part.parts.append(replace(entries.those(mine), row=row))
    return part, at


@given(clusters, st.randoms(use_true_random=False))
def test_what_was_cut_is_put_together_again(cluster: dict[str, list[dict[str, Any]]], chance: Any) -> None:
    """In any order of rows: partitions, replicas, results, open transactions, brokers and their requests."""
    scan = scan_of(cluster)
    requests = (
        ApiStatistics(api="Metadata", requests=2, failures=1, seconds_total=0.5, latency_counts=tuple(range(14))),
    )
    tables = []
    for broker in (NO_LEADER, 1, 2, 7):
        rows = rows_led_by(scan.topology, broker)
        part, at = part_of(scan, rows)
        tables.append(partition_table("name", "id", 42, rows, part, at))
        tables.append(
            broker_table(
                "name",
                "id",
                42,
                broker=broker,
                address=BROKERS.get(broker),
                failure="it is gone" if broker == 7 else None,
                seconds=1.5,
                requests=requests,
            )
        )
    table = pa.concat_tables(tables)
    order = list(range(len(table)))
    chance.shuffle(order)

    merged = read_back(table.take(pa.array(order, type=pa.int64())))

    assert table.schema == SCAN
    again = merged.scan
    assert again is not None
    assert (again.topology.topics, again.topology.first_row) == (scan.topology.topics, scan.topology.first_row)
    for name in ("topic", "partition", "leader", "leader_epoch"):
        assert getattr(again.topology, name).tolist() == getattr(scan.topology, name).tolist(), name
    for row in range(len(scan.topology)):
        assert again.topology.replicas.of(row) == scan.topology.replicas.of(row)
        assert again.topology.in_sync.of(row) == scan.topology.in_sync.of(row)
    for name in ("answer", "producers", "reason"):
        assert getattr(again, name).tolist() == getattr(scan, name).tolist(), name
    for name in ("row", *ENTRY_FIELDS):
        assert getattr(again.entries(), name).tolist() == getattr(scan.entries(), name).tolist(), name
    assert (merged.taken_at_ms, again.topology.cluster_id, again.topology.brokers) == (42, "id", BROKERS)
    assert again.faults == {7: "it is gone"}
    assert {statistics.requests for statistics in (merged.cluster, *merged.brokers)} == {requests}


def test_a_cluster_that_failed_is_nothing_but_its_reason() -> None:
    """The other rows of the cluster do not count: a part of it may have been read before the failure."""
    about: dict[str, Any] = {"address": None, "seconds": 0.0, "requests": ()}
    tables = [
        broker_table("name", "id", 42, broker=NO_LEADER, failure=None, **about),
        broker_table("name", "id", 42, broker=1, failure=None, **about),
        broker_table("name", "id", 42, broker=NO_LEADER, failure="defect", **about),
    ]
    failed = read_back(pa.concat_tables(tables))
    assert (failed.scan, failed.cluster.failure) == (None, "defect")


def test_every_part_of_a_cycle_has_the_limits_of_the_settings() -> None:
    """Executors once went by the defaults, whatever scan.transactions_limit and scan.receive_limit said."""
    scan = ScanSettings(
        interval_ms=30_000,
        deadline_ms=20_000,
        topics_include=(),
        topics_exclude=(),
        transactions_limit=7,
        receive_limit_bytes=123,
    )
    budget = Budget.of_cycle(scan)
    parts = (budget.plan, budget.read, budget.settle)
    assert {(part.transactions_limit, part.receive_limit_bytes) for part in parts} == {(7, 123)}
    assert sum(part.deadline_ms for part in parts) <= scan.deadline_ms
