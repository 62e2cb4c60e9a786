"""Reads the records of one transactional id, or of one producer id, in `__transaction_state` by Fetch."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from kafka.record.memory_records import MemoryRecords

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.log_reader import LogBudget, LogReader
from exporter.kafka.collect.origin import LOOK_BACK_MS
from exporter.kafka.errors import BrokerFault, MalformedResponseError
from exporter.kafka.messages.fetch import MEGABYTE
from exporter.kafka.messages.log_batches import Batch
from exporter.kafka.offsets import LOG_START, offset_at_time
from exporter.kafka.state_partitions import state_partition
from exporter.kafka.topology import Topology
from exporter.snapshot import NO_LEADER, STATE_TOPIC
from exporter.transaction_log.past import LoggedState, StateRead
from exporter.transaction_log.records import MalformedRecordError, TransactionRecord, UnknownVersion, decode

RECORDS_FROM_START_MAX = 500_000
"""A longer log is read from shortly before the transaction on."""
STATES_MAX = 20_000
"""Maximum of states of one transactional id; older ones are dropped."""


@dataclass(slots=True)
class StatePartition:
    """Partition of the log, whose batches are taken in order."""

    number: int
    leader: int
    leader_epoch: int
    wanted: int
    """The producer id."""
    ids: set[str]
    """Transactional ids whose records are kept: the wanted one, and each that names the producer id."""
    begins_at_zero: bool = False
    has_gaps: bool = False
    states: deque[LoggedState] = field(default_factory=lambda: deque(maxlen=STATES_MAX))
    producer_ids: set[int] = field(default_factory=set)
    records: int = 0
    unread: str = ""

    def take(self, batch: Batch, records: bytes, offset: int) -> None:
        """Raises MalformedResponseError."""
        expected = batch.next_offset - max(batch.base_offset, offset)
        self.has_gaps |= batch.base_offset > offset or batch.records < expected
        if batch.is_control:
            return
        if batch.is_compressed:  # coordinators never do that
            self.unread = f"offset {batch.base_offset} is compressed"
            return
        try:
            found = list(MemoryRecords(records[batch.start : batch.end]).next_batch())
        except Exception as error:  # each codec has its own errors
            raise MalformedResponseError(f"a record of {STATE_TOPIC} cannot be read: {error}") from error
        for record in found:
            self.records += 1
            try:
                decoded = decode(record.key, record.value)
            except MalformedRecordError as error:
                self.unread = f"offset {record.offset}: {error}"
                continue
            if isinstance(decoded, UnknownVersion):
                self.unread = f"offset {record.offset} has the unknown version {decoded.version} of a {decoded.what}"
                continue
            if isinstance(decoded, TransactionRecord):
                self.producer_ids.add(decoded.producer_id)
                if self.wanted in {decoded.producer_id, decoded.previous_producer_id, decoded.next_producer_id}:
                    self.ids.add(decoded.transactional_id)
            if decoded.transactional_id in self.ids:
                self.has_gaps |= len(self.states) == STATES_MAX
                self.states.append(
                    LoggedState(self.number, record.offset, record.timestamp, batch.leader_epoch, decoded)
                )


async def read_state_history(
    client: ClusterClient,
    topology: Topology,
    *,
    producer_id: int,
    transactional_id: str | None,
    around_ms: int,
    budget: LogBudget,
) -> StateRead:
    """The records of the id to which the producer belongs; without an id, of every partition. Faults are in the result."""
    rows = topology.rows_of(STATE_TOPIC)
    if not rows:
        return StateRead(transactional_id=transactional_id, unread=f"{STATE_TOPIC} does not exist or is not visible")
    owned = rows if transactional_id is None else rows[(own := state_partition(transactional_id, len(rows))) : own + 1]
    partitions = [
        StatePartition(
            number=int(topology.partition[row]),
            leader=int(topology.leader[row]),
            leader_epoch=int(topology.leader_epoch[row]),
            wanted=producer_id,
            ids=set() if transactional_id is None else {transactional_id},
        )
        for row in owned
    ]
    share = max(budget.bytes_left // max(len(partitions), 1), MEGABYTE)
    await client.gather(_read(client, partition, around_ms, budget, share) for partition in partitions)
    return _joined(partitions, transactional_id)


def _joined(partitions: list[StatePartition], transactional_id: str | None) -> StateRead:
    owner = next((partition for partition in partitions if partition.states), None)
    if owner is None and transactional_id is not None:
        owner = partitions[0]
    unread = next(
        (f"{STATE_TOPIC}-{partition.number}: {partition.unread}" for partition in partitions if partition.unread), ""
    )
    found = transactional_id
    if found is None and owner is not None:
        found = min(owner.ids)
    return StateRead(
        transactional_id=found,
        states=() if owner is None else tuple(owner.states),
        owner_leader_epoch=-1 if owner is None else owner.leader_epoch,
        is_whole=not unread and all(one.begins_at_zero and not one.has_gaps for one in partitions),
        has_gaps=any(one.has_gaps for one in partitions),
        producer_ids=frozenset().union(*(partition.producer_ids for partition in partitions)),
        partitions_read=len(partitions),
        records_read=sum(partition.records for partition in partitions),
        unread=unread,
    )


async def _read(
    client: ClusterClient, partition: StatePartition, around_ms: int, budget: LogBudget, share: int
) -> None:
    if partition.leader == NO_LEADER:
        partition.unread = "it has no leader"
        return
    name = (STATE_TOPIC, partition.number)

    def limit() -> str:
        spent = reader.size >= share or budget.bytes_left <= 0
        return f"only {reader.size / MEGABYTE:.0f} MB were read" if spent else ""

    try:
        start = await offset_at_time(client, partition.leader, name, LOG_START) or 0
        partition.begins_at_zero = start == 0
        reader = LogReader(client, partition.leader, name, start, partition.take, budget)
        await reader.read_piece()
        if reader.high_watermark - start > RECORDS_FROM_START_MAX:
            since = await offset_at_time(client, partition.leader, name, max(around_ms - LOOK_BACK_MS, 0))
            if since is not None and since > reader.next_offset:
                reader.next_offset, partition.begins_at_zero = since, False
        if reader.next_offset < reader.high_watermark:
            partition.unread = await reader.read_to_end(limit) or partition.unread
    except BrokerFault as fault:
        partition.unread = str(fault)
