"""Keeps the state of the whole transaction log: a state machine for each partition, and the id of each producer id.

Memory is bounded by the live transactional ids and by two constants, however long the log is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType

from exporter.patterns import prefix_of
from exporter.snapshot import TopicPartition, TransactionState
from exporter.transaction_log.events import Event, Happening, StateMachine
from exporter.transaction_log.journal import EndedTransaction, Journal, LoggedProducer
from exporter.transaction_log.records import Decoded, Tombstone, TransactionRecord

FORMER_PRODUCERS_MAX = 20_000
"""Remembered producer ids that no longer belong to a transactional id, the newest."""
FORMER_IDS_MIN = 3
"""Ids with one prefix that were used last before another one appeared, for an application that takes a new id each time."""
COMPARED_IDS_MAX = 100
"""Ids with one prefix that are compared, those that were read first: a pool may have thousands."""
ENDED_PARTITIONS_MAX = 256
"""Partitions of one transactional id whose last outcome is remembered, the newest."""


@dataclass(slots=True)
class _Producer:
    """The transactional id of a producer id."""

    log_partition: int
    transactional_id: str
    ended: dict[TopicPartition, EndedTransaction] = field(default_factory=dict)


@dataclass(slots=True)
class Ledger:
    """Gets the records one by one, each partition of the log in its order."""

    _machines: dict[int, StateMachine] = field(default_factory=dict)
    _live: dict[int, _Producer] = field(default_factory=dict)
    _former: dict[int, _Producer] = field(default_factory=dict)
    """Oldest first."""
    _first_ms: dict[str, int] = field(default_factory=dict)
    """Time of the record by which an id appeared; none for an id whose first record compaction may have removed."""
    _last_ms: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)
    """Prefix -> id -> (partition of the log, time of the newest record), those that were read last at the end."""

    @property
    def transactional_ids(self) -> int:
        """Number of live ids."""
        return sum(len(machine.known) for machine in self._machines.values())

    def take(self, log_partition: int, decoded: Decoded, written_at_ms: int) -> tuple[Event, ...]:
        """The events of one more record; `written_at_ms` is the record's own timestamp."""
        machine = self._machines.get(log_partition)
        if machine is None:
            machine = self._machines[log_partition] = StateMachine()
        before = machine.known.get(decoded.transactional_id) if isinstance(decoded, _OF_AN_ID) else None
        events = tuple(machine.take(decoded, written_at_ms))
        if isinstance(decoded, TransactionRecord):
            self._note_use(log_partition, decoded, is_first=before is None)
            if before is None or before.record.producer_id != decoded.producer_id:
                self._hand_over(log_partition, decoded, None if before is None else before.record.producer_id)
            for event in events:
                if event.happening is Happening.PREPARED:
                    self._note_end(event)
        elif before is not None:
            self._retire(before.record.producer_id)
            self._forget_use(before.record.transactional_id)
        return events

    def journal(self, producer_ids: Iterable[int], read_to_end: Collection[int]) -> Journal:
        """The data on these producer ids; `read_to_end` are the partitions of the log that are read to their end."""
        found = {producer_id: self._logged(producer_id, read_to_end) for producer_id in producer_ids}
        known = {producer_id: logged for producer_id, logged in found.items() if logged is not None}
        return Journal(MappingProxyType(known))

    def forget(self, log_partition: int) -> None:
        """Forgets a partition of the log: its next record does not follow the previous one."""
        machine = self._machines.pop(log_partition, None)
        for known in () if machine is None else machine.known.values():
            self._retire(known.record.producer_id)
            self._forget_use(known.record.transactional_id)

    def _note_use(self, log_partition: int, record: TransactionRecord, *, is_first: bool) -> None:
        name = record.transactional_id
        if is_first and record.status is TransactionState.EMPTY and record.producer_epoch == 0:
            self._first_ms[name] = record.last_update_ms
        of_prefix = self._last_ms.setdefault(prefix_of(name), {})
        of_prefix.pop(name, None)
        of_prefix[name] = log_partition, record.last_update_ms

    def _forget_use(self, name: str) -> None:
        prefix = prefix_of(name)
        self._first_ms.pop(name, None)
        of_prefix = self._last_ms.get(
            prefix, {}
        )  # none for an id that was in two partitions of the log, and is in none now
        of_prefix.pop(name, None)
        if not of_prefix:
            self._last_ms.pop(prefix, None)

    def _takes_new_ids(self, name: str, read_to_end: Collection[int]) -> bool:
        """True if enough ids with the prefix of this one were used last before this one appeared."""
        first_ms = self._first_ms.get(name)
        if first_ms is None:
            return False
        oldest = islice(self._last_ms.get(prefix_of(name), {}).values(), COMPARED_IDS_MAX)
        former = sum(last_ms < first_ms and partition in read_to_end for partition, last_ms in oldest)
        return former >= FORMER_IDS_MIN

    def _logged(self, producer_id: int, read_to_end: Collection[int]) -> LoggedProducer | None:
        live = self._live.get(producer_id)
        producer = self._former.get(producer_id) if live is None else live
        if producer is None:
            return None
        logged = LoggedProducer(
            transactional_id=producer.transactional_id,
            is_former=live is None,
            latest=None,
            ended=MappingProxyType(dict(producer.ended)),
            takes_new_ids=self._takes_new_ids(producer.transactional_id, read_to_end),
        )
        machine = self._machines.get(producer.log_partition)
        known = None if machine is None else machine.known.get(producer.transactional_id)
        if live is None or known is None or producer.log_partition not in read_to_end:
            return logged
        return replace(
            logged,
            latest=known.record,
            open_epoch=known.record.producer_epoch if known.outcome is None else known.open_epoch,
            prepared_ms=known.prepared_at_ms,
        )

    def _hand_over(self, log_partition: int, record: TransactionRecord, producer_id_before: int | None) -> None:
        if producer_id_before is not None:
            self._retire(producer_id_before)
        elif record.previous_producer_id >= 0:
            self._remember_former(record.previous_producer_id, _Producer(log_partition, record.transactional_id))
        if record.producer_id >= 0:
            self._former.pop(record.producer_id, None)
            self._live[record.producer_id] = _Producer(log_partition, record.transactional_id)

    def _retire(self, producer_id: int) -> None:
        producer = self._live.pop(producer_id, None)
        if producer is not None:
            self._remember_former(producer_id, producer)

    def _remember_former(self, producer_id: int, producer: _Producer) -> None:
        if producer_id in self._live:
            return
        self._former[producer_id] = producer
        while len(self._former) > FORMER_PRODUCERS_MAX:
            del self._former[next(iter(self._former))]

    def _note_end(self, event: Event) -> None:
        producer = self._live.get(event.producer_id)
        if producer is None or event.outcome is None:
            return
        ended = EndedTransaction(
            producer_epoch=event.producer_epoch,
            start_ms=event.start_ms,
            decided_ms=event.at_ms,
            outcome=event.outcome,
        )
        for partition in event.partitions:
            producer.ended.pop(partition, None)
            producer.ended[partition] = ended
        while len(producer.ended) > ENDED_PARTITIONS_MAX:
            del producer.ended[next(iter(producer.ended))]


_OF_AN_ID = (TransactionRecord, Tombstone)
