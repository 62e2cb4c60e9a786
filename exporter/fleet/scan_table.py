"""Makes a table of a scan of one cluster, for the Spark source `kafka_transactions`.

A row without a topic is about a broker: its address and its failure. Broker -1 is the cluster: its metadata, or why there
is none, and the requests. A row with a topic is about a partition, with or without a leader. Every partition and every
broker in the metadata has one row.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from exporter.kafka.collect.scan import LeaderScan
from exporter.kafka.leadership.metadata_source import MetadataSource
from exporter.kafka.topology import Replicas
from exporter.snapshot import ENTRY_FIELDS, NO_LEADER, PartitionResult
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


def scan_table(
    cluster: str,
    found: tuple[LeaderScan, MetadataSource] | None,
    *,
    taken_at_ms: int,
    seconds: float,
    requests: tuple[ApiStatistics, ...],
    failure: str | None,
) -> pa.Table:
    """The rows of a cluster; `found` is None if it could not be read, and `failure` the reason why."""
    scan, source = (None, None) if found is None else found
    of_cluster = _table(
        1,
        cluster=[cluster],
        cluster_id=[None if scan is None else scan.topology.cluster_id],
        taken_at_ms=[taken_at_ms],
        broker=[NO_LEADER],
        failure=[failure],
        seconds=[seconds],
        out_of_date=[None if source is None else source.out_of_date],
        clock_ahead_ms=[None if source is None else source.clock_ahead_ms],
        requests=[[{name: getattr(request, name) for name in _REQUESTS} for request in requests]],
    )
    rest = [] if scan is None else [part(cluster, scan, taken_at_ms) for part in (_brokers, _partitions)]
    return pa.concat_tables([of_cluster, *rest])


def _brokers(cluster: str, scan: LeaderScan, taken_at_ms: int) -> pa.Table:
    addresses = scan.topology.brokers
    brokers = sorted({*addresses, *np.unique(scan.topology.leader).tolist(), *scan.faults} - {NO_LEADER})
    found = [addresses.get(broker) for broker in brokers]
    return _table(
        len(brokers),
        cluster=[cluster] * len(brokers),
        cluster_id=[scan.topology.cluster_id] * len(brokers),
        taken_at_ms=[taken_at_ms] * len(brokers),
        broker=brokers,
        host=[None if address is None else address.host for address in found],
        port=[None if address is None else address.port for address in found],
        failure=[scan.faults.get(broker) for broker in brokers],
    )


def _partitions(cluster: str, scan: LeaderScan, taken_at_ms: int) -> pa.Table:
    topology, entries, count = scan.topology, scan.entries(), len(scan.topology)
    counts = np.bincount(entries.row, minlength=count)
    start = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    columns = [
        pa.array(getattr(entries, name), type=kind) for name, kind in zip(ENTRY_FIELDS, _OPEN.values(), strict=True)
    ]
    structs = pa.StructArray.from_arrays(columns, fields=list(SCAN.field("open_transactions").type.value_type))
    topic = pa.array(topology.topic)
    return _table(
        count,
        cluster=[cluster] * count,
        cluster_id=[topology.cluster_id] * count,
        taken_at_ms=np.full(count, taken_at_ms, dtype=np.int64),
        broker=topology.leader,
        topic=pa.array(topology.topics, type=pa.string()).take(topic),
        topic_id=pa.array(topology.topic_ids, type=pa.string()).take(topic),
        partition=topology.partition,
        leader_epoch=topology.leader_epoch,
        replicas=_lists(topology.replicas),
        in_sync=_lists(topology.in_sync),
        answer=pa.array([answer.label for answer in PartitionResult]).take(pa.array(scan.answer)),
        reason=pa.array([reason or None for reason in scan.reasons], type=pa.string()).take(pa.array(scan.reason_code)),
        producers=scan.producers,
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
