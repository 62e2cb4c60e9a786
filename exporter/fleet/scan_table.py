"""Converts the leaders' responses to a table where a broker is read, and back where the rows of its cluster are joined.

A row without a topic is about a broker: its address, its failure, the requests to it. Broker -1 is the cluster: its
metadata, or why there is none. A row with a topic is about a partition, with or without a leader. Every partition and
every broker in the metadata has one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from exporter.kafka.client.connections import Address
from exporter.kafka.collect.scan import Entries, LeaderScan
from exporter.kafka.leadership.metadata_source import Source
from exporter.kafka.topology import Replicas, Topology
from exporter.snapshot import ENTRY_FIELDS, NO_LEADER, Answer, Int32Column
from exporter.status import ApiStatistics

_OPEN: Final = {  # the fields of a ProducerEntry, in its order; two have had other names here since before
    "producer_id": pa.int64(),
    "producer_epoch": pa.int32(),
    "last_sequence": pa.int32(),
    "last_timestamp_ms": pa.int64(),
    "coordinator_epoch": pa.int32(),
    "start_offset": pa.int64(),
}
_REQUESTS: Final = {
    "api": pa.string(),
    "requests": pa.int64(),
    "failures": pa.int64(),
    "seconds_total": pa.float64(),
    "latency_counts": pa.list_(pa.int64()),
}
_BROKERS: Final = pa.list_(pa.int32())
SCAN: Final = pa.schema(
    [
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("cluster_id", pa.string()),
        pa.field("taken_at_ms", pa.int64(), nullable=False),
        pa.field("broker", pa.int32(), nullable=False),
        pa.field("host", pa.string()),
        pa.field("port", pa.int32()),
        pa.field("failure", pa.string()),
        pa.field("seconds", pa.float64()),
        pa.field("out_of_date", pa.string()),
        pa.field("clock_ahead_ms", pa.int64()),
        pa.field("requests", pa.list_(pa.struct(list(_REQUESTS.items())))),
        pa.field("topic", pa.string()),
        pa.field("topic_id", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("replicas", _BROKERS),
        pa.field("in_sync", _BROKERS),
        pa.field("answer", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("producers", pa.int32()),
        pa.field("open_transactions", pa.list_(pa.struct(list(_OPEN.items())))),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRows:
    """Some partitions of one cluster, in the order of topic and partition."""

    topics: tuple[str, ...]
    topic_ids: tuple[str, ...]
    """(T,) "" from brokers without topic ids."""
    topic: Int32Column
    """(P,) index into `topics`."""
    partition: Int32Column
    leader: Int32Column
    leader_epoch: Int32Column
    replicas: Replicas
    in_sync: Replicas

    def __len__(self) -> int:
        return len(self.topic)


def rows_led_by(topology: Topology, broker: int) -> PartitionRows:
    """The partitions that `broker` leads; NO_LEADER: those without a leader."""
    rows = np.flatnonzero(topology.leader == broker)
    present, topic = np.unique(topology.topic[rows], return_inverse=True)
    return PartitionRows(
        topics=tuple(topology.topics[index] for index in present),
        topic_ids=tuple(topology.topic_ids[index] for index in present),
        topic=topic.astype(np.int32),
        partition=topology.partition[rows],
        leader=topology.leader[rows],
        leader_epoch=topology.leader_epoch[rows],
        replicas=_some(topology.replicas, rows),
        in_sync=_some(topology.in_sync, rows),
    )


def _some(replicas: Replicas, rows: npt.NDArray[np.int64]) -> Replicas:
    of = [replicas.of(int(row)) for row in rows]
    return _flat([len(brokers) for brokers in of], [broker for brokers in of for broker in brokers])


def _flat(lengths: Sequence[int], brokers: Sequence[int]) -> Replicas:
    start = np.concatenate(([0], np.cumsum(lengths, dtype=np.int32))).astype(np.int32)
    return Replicas(start=start, broker=np.asarray(brokers, dtype=np.int32))


def topology_of_rows(
    cluster_id: str, brokers: dict[int, Address], rows: PartitionRows
) -> tuple[Topology, npt.NDArray[np.int64]]:
    """A topology that holds `rows`, and their positions in it.

    A topology has no gaps: lower partition numbers that are not in `rows` are in it without a leader.
    """
    count = np.zeros(len(rows.topics), dtype=np.int64)
    np.maximum.at(count, rows.topic, rows.partition.astype(np.int64) + 1)
    first = np.concatenate(([0], np.cumsum(count)))
    at = (first[rows.topic] + rows.partition).astype(np.int64)
    size = int(first[-1])
    lengths = np.zeros(size, dtype=np.int32)
    lengths_in_sync = np.zeros(size, dtype=np.int32)
    lengths[at] = np.diff(rows.replicas.start)
    lengths_in_sync[at] = np.diff(rows.in_sync.start)
    topology = Topology(
        cluster_id=cluster_id,
        brokers=brokers,
        topics=rows.topics,
        topic_ids=rows.topic_ids,
        first_row=dict(zip(rows.topics, first[:-1].tolist(), strict=True)),
        topic=np.repeat(np.arange(len(rows.topics), dtype=np.int32), count),
        partition=(np.arange(size) - np.repeat(first[:-1], count)).astype(np.int32),
        leader=_spread(size, at, rows.leader, NO_LEADER),
        leader_epoch=_spread(size, at, rows.leader_epoch, -1),
        # `at` ascends, so what is flat stays in its order.
        replicas=_flat(lengths.tolist(), rows.replicas.broker.tolist()),
        in_sync=_flat(lengths_in_sync.tolist(), rows.in_sync.broker.tolist()),
        topic_errors={},
    )
    return topology, at


def _spread(size: int, at: npt.NDArray[np.int64], values: Int32Column, elsewhere: int) -> Int32Column:
    column = np.full(size, elsewhere, dtype=np.int32)
    column[at] = values
    return column


# Writing


def broker_table(
    cluster: str,
    cluster_id: str | None,
    taken_at_ms: int,
    *,
    broker: int,
    address: Address | None,
    failure: str | None,
    seconds: float,
    requests: Sequence[ApiStatistics],
    source: Source | None = None,
) -> pa.Table:
    """The row about one broker, or with NO_LEADER about the cluster, whose metadata is from `source`."""
    statistics = [{name: getattr(request, name) for name in _REQUESTS} for request in requests]
    return _table(
        1,
        cluster=[cluster],
        cluster_id=[cluster_id],
        taken_at_ms=[taken_at_ms],
        broker=[broker],
        host=[None if address is None else address.host],
        port=[None if address is None else address.port],
        failure=[failure],
        seconds=[seconds],
        out_of_date=[None if source is None else source.out_of_date],
        clock_ahead_ms=[None if source is None else source.clock_ahead_ms],
        requests=[statistics],
    )


def partition_table(
    cluster: str,
    cluster_id: str,
    taken_at_ms: int,
    rows: PartitionRows,
    scan: LeaderScan,
    at: npt.NDArray[np.int64],
) -> pa.Table:
    """The table rows about `rows`, whose positions in the scan are `at`."""
    entries = scan.entries()
    counts = np.bincount(entries.row, minlength=len(scan.topology))[at]
    start = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    columns = [
        pa.array(getattr(entries, name), type=kind) for name, kind in zip(ENTRY_FIELDS, _OPEN.values(), strict=True)
    ]
    structs = pa.StructArray.from_arrays(columns, fields=list(SCAN.field("open_transactions").type.value_type))
    labels = pa.array([answer.label for answer in Answer])
    reasons = pa.array([reason or None for reason in scan.reasons], type=pa.string())
    return _table(
        len(rows),
        cluster=[cluster] * len(rows),
        cluster_id=[cluster_id] * len(rows),
        taken_at_ms=np.full(len(rows), taken_at_ms, dtype=np.int64),
        broker=rows.leader,
        topic=pa.array(rows.topics, type=pa.string()).take(pa.array(rows.topic)),
        topic_id=pa.array(rows.topic_ids, type=pa.string()).take(pa.array(rows.topic)),
        partition=rows.partition,
        leader_epoch=rows.leader_epoch,
        replicas=_lists(rows.replicas),
        in_sync=_lists(rows.in_sync),
        answer=labels.take(pa.array(scan.answer[at])),
        reason=reasons.take(pa.array(scan.reason_code[at])),
        producers=scan.producers[at],
        open_transactions=pa.ListArray.from_arrays(pa.array(start), structs),
    )


def _lists(replicas: Replicas) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(replicas.start), pa.array(replicas.broker))


def _table(count: int, **columns: Any) -> pa.Table:
    """The given columns, and null in the others."""
    arrays = [
        pa.array(columns[field.name], type=field.type) if field.name in columns else pa.nulls(count, field.type)
        for field in SCAN
    ]
    return pa.table(arrays, schema=SCAN)


# Reading


_ABOUT_BROKERS = ["broker", "host", "port", "failure", "seconds", "out_of_date", "clock_ahead_ms", "requests"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """The content of a row about a broker."""

    broker: int
    address: Address | None
    failure: str | None
    seconds: float
    requests: tuple[ApiStatistics, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterScan:
    """All rows of one cluster, joined."""

    taken_at_ms: int
    cluster: BrokerRow
    """The row about the cluster itself; with a failure in it nothing else is known."""
    brokers: tuple[BrokerRow, ...]
    scan: LeaderScan | None
    """None where the cluster failed."""


def read_back(table: pa.Table) -> ClusterScan:
    """Join the rows of one cluster, in any order."""
    is_broker = pc.is_null(table["topic"])
    about_brokers = table.filter(is_broker).select(_ABOUT_BROKERS).to_pylist()
    rows = sorted((_broker_row(row) for row in about_brokers), key=lambda row: row.broker)
    cluster = next((row for row in rows if row.broker == NO_LEADER and row.failure is not None), rows[0])
    brokers = tuple(row for row in rows if row.broker != NO_LEADER)
    taken_at_ms = int(pc.min(table["taken_at_ms"]).as_py())
    if cluster.failure is not None:
        return ClusterScan(taken_at_ms=taken_at_ms, cluster=cluster, brokers=brokers, scan=None)
    addresses = {row.broker: row.address for row in brokers if row.address is not None}
    cluster_id = pc.filter(table["cluster_id"], is_broker)[0].as_py()
    scan = _scan(cluster_id, addresses, table.filter(pc.invert(is_broker)))
    scan.faults.update({row.broker: row.failure for row in brokers if row.failure is not None})
    return ClusterScan(taken_at_ms=taken_at_ms, cluster=cluster, brokers=brokers, scan=scan)


def _broker_row(row: dict[str, Any]) -> BrokerRow:
    return BrokerRow(
        broker=row["broker"],
        address=None if row["host"] is None else Address(row["host"], row["port"]),
        failure=row["failure"],
        seconds=row["seconds"],
        source=Source(out_of_date=row["out_of_date"], clock_ahead_ms=row["clock_ahead_ms"]),
        requests=tuple(
            ApiStatistics(**{**request, "latency_counts": tuple(request["latency_counts"])})
            for request in row["requests"]
        ),
    )


def _scan(cluster_id: str, brokers: dict[int, Address], table: pa.Table) -> LeaderScan:
    table = table.sort_by([("topic", "ascending"), ("partition", "ascending")]).combine_chunks()
    encoded = pc.dictionary_encode(table["topic"]).combine_chunks()
    rows = PartitionRows(
        topics=tuple(encoded.dictionary.to_pylist()),
        topic_ids=_topic_ids(table, encoded),
        topic=np.asarray(encoded.indices, dtype=np.int32),
        partition=np.asarray(table["partition"], dtype=np.int32),
        leader=np.asarray(table["broker"], dtype=np.int32),
        leader_epoch=np.asarray(table["leader_epoch"], dtype=np.int32),
        replicas=_replicas(table["replicas"]),
        in_sync=_replicas(table["in_sync"]),
    )
    topology, at = topology_of_rows(cluster_id, brokers, rows)
    scan = LeaderScan.unasked(topology)
    scan.restore(
        at,
        np.array([Answer[label.upper()] for label in table["answer"].to_pylist()], dtype=np.int8),
        [reason or "" for reason in table["reason"].to_pylist()],
        np.asarray(table["producers"], dtype=np.int32),
    )
    counts = np.asarray(pc.list_value_length(table["open_transactions"]), dtype=np.int64)
    open_ = pc.list_flatten(table["open_transactions"])
    columns = {
        name: np.asarray(pc.struct_field(open_, column)) for name, column in zip(ENTRY_FIELDS, _OPEN, strict=True)
    }
    scan.parts.append(Entries(row=np.repeat(at, counts), **columns))
    return scan


def _topic_ids(table: pa.Table, encoded: pa.DictionaryArray) -> tuple[str, ...]:
    """(T,) from the first row of each topic."""
    first = np.unique(np.asarray(encoded.indices, dtype=np.int64), return_index=True)[1]
    return tuple(topic_id or "" for topic_id in table["topic_id"].take(pa.array(first)).to_pylist())


def _replicas(column: pa.ChunkedArray) -> Replicas:
    lengths = np.asarray(pc.list_value_length(column), dtype=np.int32)
    brokers = np.asarray(pc.list_flatten(column), dtype=np.int32)
    return _flat(lengths.tolist(), brokers.tolist())
