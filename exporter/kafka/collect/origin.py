"""Reads what partitions show about one open transaction: the log around its start offset, its producer's markers elsewhere.

It reads no more than a budget allows.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.log_reader import LogBudget, LogReader
from exporter.kafka.collect.scan import scan_leaders
from exporter.kafka.errors import BrokerFault, FaultReason, MalformedResponseError
from exporter.kafka.messages.fetch import MEGABYTE, PIECE_BYTES
from exporter.kafka.messages.log_batches import Batch, markers_in
from exporter.kafka.offsets import offset_at_time
from exporter.kafka.topology import Topology
from exporter.snapshot import NO_LEADER, TransactionKey, was_read
from exporter.snapshot.origin import LoggedBatch, LoggedMarker, OtherPartitionEntry, PartitionLog, PartitionLogs

LOOK_BACK_MS = 20 * 60 * 1000
"""Time before the first record: more than Kafka's longest transaction by default (transaction.max.timeout.ms, 15
minutes).
"""
AFTER_BYTES = 8 * MEGABYTE
"""Bytes from the start offset on: while the transaction is open, its entry at the leader shows whatever follows."""
NEAR_BYTES = 2 * MEGABYTE
"""Bytes of the log of another partition, around the producer's last write."""
ELSEWHERE_MAX = 20
"""Other partitions whose logs are searched."""
NOTED_MAX = 100_000
"""Markers, gaps and other producers of one log."""
KEPT_MAX = 200
"""Batches of the producer that are kept of each log: the first ones at and after the start offset, and the last before."""


@dataclass(slots=True)
class ProducerTrace:
    """Collects what the batches of one log, taken in order, show about a producer."""

    log: PartitionLog
    opened: TransactionKey
    before: deque[LoggedBatch] = field(default_factory=lambda: deque(maxlen=KEPT_MAX))
    after: list[LoggedBatch] = field(default_factory=list)
    markers: list[LoggedMarker] = field(default_factory=list)
    others: dict[int, int] = field(default_factory=dict)
    gaps: list[int] = field(default_factory=list)
    oldest_ms: int = -1
    marker_before_ms: int = -1

    def take(self, batch: Batch, records: bytes, offset: int) -> None:
        """Raises MalformedResponseError."""
        if batch.base_offset > offset and len(self.gaps) < NOTED_MAX:
            self.gaps.append(batch.base_offset)
        if batch.is_control or batch.has_log_append_time:
            seen = self.oldest_ms if self.oldest_ms >= 0 else batch.max_timestamp_ms
            self.oldest_ms = min(seen, batch.max_timestamp_ms)
        if batch.is_control and batch.next_offset <= self.opened.start_offset:
            self.marker_before_ms = max(self.marker_before_ms, batch.max_timestamp_ms)
        if batch.producer_id != self.opened.producer_id:
            if batch.is_control and batch.producer_id >= 0 and len(self.others) < NOTED_MAX:
                self.others.setdefault(batch.producer_id, batch.base_offset)
        elif batch.is_control:
            if len(self.markers) >= NOTED_MAX:
                raise MalformedResponseError(f"the producer has more than {NOTED_MAX} markers here")
            self._take_markers(batch, records)
        else:
            self._keep(batch)

    def _keep(self, batch: Batch) -> None:
        kept = LoggedBatch(
            offset=batch.base_offset,
            next_offset=batch.next_offset,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            records=batch.records,
            first_timestamp_ms=batch.first_timestamp_ms,
            max_timestamp_ms=batch.max_timestamp_ms,
            leader_epoch=batch.leader_epoch,
            is_transactional=batch.is_transactional,
            has_log_append_time=batch.has_log_append_time,
        )
        if batch.next_offset <= self.opened.start_offset:
            self.before.append(kept)
        elif len(self.after) < KEPT_MAX:
            self.after.append(kept)

    def _take_markers(self, batch: Batch, records: bytes) -> None:
        for marker in markers_in(batch, records):
            self.markers.append(
                LoggedMarker(
                    topic=self.log.topic,
                    partition=self.log.partition,
                    offset=marker.offset,
                    producer_epoch=batch.producer_epoch,
                    coordinator_epoch=marker.coordinator_epoch,
                    timestamp_ms=marker.timestamp_ms,
                    leader_epoch=batch.leader_epoch,
                    commit=marker.commit,
                )
            )

    def log_between(self, read_from: int, read_to: int, *, unread: str = "") -> PartitionLog:
        return replace(
            self.log,
            read_from=read_from,
            read_to=read_to,
            gaps=tuple(self.gaps),
            oldest_by_broker_ms=self.oldest_ms,
            batches=(*self.before, *self.after),
            markers=tuple(self.markers),
            ended_before=dict(self.others),
            marker_before_ms=self.marker_before_ms,
            unread=unread,
        )


async def read_partition_logs(
    client: ClusterClient, topology: Topology, opened: TransactionKey, budget: LogBudget
) -> PartitionLogs:
    """Everything on partitions. Faults are in the result; raises BrokerFault only if the partition has no leader."""
    leader, leader_epoch = topology.leader_of(opened.topic, opened.partition)
    if leader == NO_LEADER:
        raise BrokerFault(FaultReason.REFUSED, f"{opened.topic}-{opened.partition} has no leader")
    empty = PartitionLog(topic=opened.topic, partition=opened.partition, leader=leader, leader_epoch=leader_epoch)
    try:
        own = await _own_log(client, empty, opened, budget)
    except BrokerFault as fault:
        own = replace(empty, unread=str(fault))
    scan = await scan_leaders(client, topology, producer_ids=frozenset({opened.producer_id}))
    entries = scan.entries()
    places = [
        OtherPartitionEntry(
            topic=topology.topics[topology.topic[row]],
            partition=int(topology.partition[row]),
            producer_epoch=int(entries.producer_epoch[index]),
            coordinator_epoch=int(entries.coordinator_epoch[index]),
            last_timestamp_ms=int(entries.last_timestamp[index]),
            start_offset=int(entries.current_txn_start_offset[index]),
        )
        for index, row in enumerate(entries.row.tolist())
    ]
    missing = int(np.count_nonzero(~was_read(scan.answer) & scan.is_subject()))
    unread = [f"partitions that could not be read, where the producer may have written: {missing}"] if missing else []
    here = (opened.topic, opened.partition)
    elsewhere = tuple(place for place in places if (place.topic, place.partition) != here)
    if len(elsewhere) > ELSEWHERE_MAX:
        unread.append(f"partitions of the producer that were not searched: {len(elsewhere) - ELSEWHERE_MAX}")
    around_ms = own.batches[0].first_timestamp_ms if own.batches else -1
    found = await client.gather(
        _markers_near(client, topology, opened, place, around_ms, budget) for place in elsewhere[:ELSEWHERE_MAX]
    )
    markers = sorted((one for log in found for one in log.markers), key=lambda marker: marker.timestamp_ms)
    unread += [f"{log.topic}-{log.partition}: {log.unread}" for log in found if log.unread]
    return PartitionLogs(
        own=own,
        markers=tuple(markers),
        entry=next((place for place in places if (place.topic, place.partition) == here), None),
        unread=tuple(unread),
    )


async def _own_log(
    client: ClusterClient, empty: PartitionLog, opened: TransactionKey, budget: LogBudget
) -> PartitionLog:
    """Reads from LOOK_BACK_MS before the first record on, as far as the budget allows."""
    begin, name = opened.start_offset, (opened.topic, opened.partition)
    first = ProducerTrace(empty, opened)
    reader = LogReader(client, empty.leader, name, begin, first.take, budget)
    await reader.read_piece()
    if first.after and first.after[0].offset == opened.start_offset:
        wanted_ms = max(first.after[0].first_timestamp_ms - LOOK_BACK_MS, 0)
        found = await offset_at_time(client, empty.leader, name, wanted_ms)
        # Reading begins no further back than half of the limit reaches, if the records before are as long as those after.
        offsets_max = budget.bytes_left // 2 * (reader.next_offset - begin) // max(reader.size, 1)
        begin = max(min(begin, begin if found is None else found), begin - offsets_max)
    read = await _read(client, empty, opened, begin, budget, bytes_max=budget.bytes_left * 3 // 4)
    if read.read_to > opened.start_offset or begin == opened.start_offset:
        return read
    return await _read(
        client, empty, opened, opened.start_offset, budget, bytes_max=max(budget.bytes_left, PIECE_BYTES)
    )


async def _markers_near(
    client: ClusterClient,
    topology: Topology,
    opened: TransactionKey,
    place: OtherPartitionEntry,
    around_ms: int,
    budget: LogBudget,
) -> PartitionLog:
    leader, leader_epoch = topology.leader_of(place.topic, place.partition)
    log = PartitionLog(topic=place.topic, partition=place.partition, leader=leader, leader_epoch=leader_epoch)
    known = [instant for instant in (around_ms, place.last_timestamp_ms) if instant >= 0]
    since_ms = max(min(known, default=0) - LOOK_BACK_MS, 0)
    try:
        begin = await offset_at_time(client, leader, (place.topic, place.partition), since_ms)
        if begin is None:
            return log
        return await _read(client, log, opened, begin, budget, bytes_max=NEAR_BYTES)
    except BrokerFault as fault:
        return replace(log, unread=str(fault))


async def _read(
    client: ClusterClient, log: PartitionLog, opened: TransactionKey, begin: int, budget: LogBudget, *, bytes_max: int
) -> PartitionLog:
    """Piece by piece to the high watermark, to AFTER_BYTES after the start offset, or until a limit is reached."""
    trace = ProducerTrace(log, opened)
    reader = LogReader(client, log.leader, (log.topic, log.partition), begin, trace.take, budget)
    size_before = 0

    def is_enough() -> bool:
        nonlocal size_before
        if reader.partition != (opened.topic, opened.partition) or reader.next_offset <= opened.start_offset:
            size_before = reader.size
        return reader.size - size_before >= AFTER_BYTES

    def limit() -> str:
        if reader.size < bytes_max and budget.bytes_left > 0:
            return ""
        return f"only {reader.size / MEGABYTE:.0f} MB were read, from offset {begin} to {reader.next_offset}"

    try:
        unread = await reader.read_to_end(limit, is_enough)
    except BrokerFault as fault:
        unread = str(fault)
    return trace.log_between(begin, reader.next_offset, unread=unread)
