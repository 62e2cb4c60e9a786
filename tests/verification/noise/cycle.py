"""Reads a cluster as one cycle does: leaders, then coordinators, then the ends of partitions, then positions of groups.

The instants of these readings differ by tens of milliseconds. A short transaction may end in between, and the cycle then
sees what a real one would see.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from exporter.snapshot import (
    CompletingId,
    CompletingTransaction,
    Completions,
    CoordinatorTransaction,
    GroupOffset,
    Impact,
    SecondRead,
    Snapshot,
    TopicPartition,
)
from tests.evaluation.builders import NOW_MS, Entry, listed, proof, snapshot, transaction
from tests.verification.noise.owners import Owner, StreamsOwner
from tests.verification.noise.plans import DAY_MS, PlannedTransaction
from tests.verification.noise.workload import MAX_TIMEOUT_MS

POSITION_AGE_MS: Final = 5_000
"""Consumers commit their positions every five seconds."""
FETCH_MS: Final = 50
OFFSETS_A_MS: Final = 0.05
"""Growth of every partition by all its writers: 50 offsets a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """An owner, with its partition and the group that reads this."""

    owner: Owner
    timeout_ms: int
    row: int
    """Row of its partition."""
    offsets_row: int
    """Row of the partition of `__consumer_offsets` with the offsets that it commits."""
    group: str
    """A read_committed group, which reads up to the last stable offset at once."""
    position_phase_ms: int
    """Time of the group's commits, modulo POSITION_AGE_MS."""


Key = tuple[int, int, int]
"""(row, producer id, start offset) of an open transaction."""


def offset_at(at_ms: int) -> int:
    """The end of any partition's log at this instant."""
    return int((at_ms - NOW_MS + DAY_MS) * OFFSETS_A_MS)


class Reading:
    """Reading of one cycle: first every owner is taken, then the snapshot is made."""

    def __init__(self, names: Sequence[TopicPartition], *, read_ms: int, listed_ms: int, ends_ms: int) -> None:
        """`names` has the partition of each row; the instants are those of leaders, coordinators and ends."""
        self._names = names
        self._read_ms, self._listed_ms, self._ends_ms = read_ms, listed_ms, ends_ms
        self.keys: set[Key] = set()
        """Transactions in the snapshot."""
        self.completing: dict[CompletingId, tuple[Seat, PlannedTransaction]] = {}
        """Transactions that are decided and wait for their markers at `listed_ms`."""
        self._open: list[tuple[PlannedTransaction, int, int]] = []
        """(transaction, row, start offset) at `read_ms`."""
        self._active: dict[int, tuple[Seat, PlannedTransaction]] = {}
        """The transactions by producer id, at `listed_ms`."""
        self._oldest_ms: dict[int, int] = {}
        """The time of the first record of the oldest transaction that is open at `ends_ms`, by row."""
        self._readers: dict[int, tuple[Seat, Sequence[PlannedTransaction]]] = {}
        """The owner by row, with its transactions since the last commit of the group's position."""

    def take(self, seat: Seat) -> None:
        """Reads the transactions of one owner."""
        # A group stands behind a transaction that lasts, which those of Kafka Streams do not.
        is_short = isinstance(seat.owner, StreamsOwner)
        since_ms = self._read_ms if is_short else self._read_ms - POSITION_AGE_MS - FETCH_MS
        planned = seat.owner.during(since_ms, self._ends_ms)
        if not is_short:
            self._readers[seat.row] = seat, planned
        for each in planned:
            if each.is_known and each.is_open(self._listed_ms):
                self._active[each.producer_id] = seat, each
                if each.decided_ms <= self._listed_ms:
                    self.completing[CompletingId(each.transactional_id, each.producer_id)] = seat, each
            for row, first_ms in each.places(seat.row, seat.offsets_row):
                if first_ms <= self._read_ms < each.ended_ms:
                    self._open.append((each, row, offset_at(first_ms)))
                if first_ms <= self._ends_ms < each.ended_ms:
                    self._oldest_ms[row] = min(self._oldest_ms.get(row, first_ms), first_ms)

    def snapshot(self, before: Reading | None) -> Snapshot:
        """The snapshot; it describes what the cycle `before` has seen."""
        seen = set() if before is None else before.keys
        entries, lasting, held = [], set(), []
        for each, row, start_offset in self._open:
            if each.is_known and each.producer_id not in self._active:
                continue  # it has ended since: a second read does not find it any more
            entry, key = self._entry(each, row, start_offset), (row, each.producer_id, start_offset)
            entries.append(entry)
            self.keys.add(key)
            if key in seen:
                lasting.add(each.producer_id)
                if start_offset == entry.last_stable_offset < entry.high_watermark:
                    held.append(row)
        is_unverified = any(entry.second_read is not SecondRead.NOT_ASKED for entry in entries)
        return snapshot(
            entries,
            partitions=len(self._names),
            taken_at_ms=self._read_ms,
            finished_at_ms=self._ends_ms,
            took_ms=self._ends_ms - self._read_ms,
            max_timeout_ms=MAX_TIMEOUT_MS,
            transactions=tuple(
                self._transaction(*self._active[producer_id], is_described=producer_id in lasting)
                for producer_id in dict.fromkeys(entry.producer_id for entry in entries)
                if producer_id in self._active
            ),
            completing=self._completions({} if before is None else before.completing),
            impact=Impact(offsets=tuple(self._positions(held)), residents=(), failures=()) if held else None,
            proof=proof() if is_unverified else None,
        )

    def _entry(self, each: PlannedTransaction, row: int, start_offset: int) -> Entry:
        writes, last_ms = each.written(self._read_ms)
        return Entry(
            partition=row,
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
            start_offset=start_offset,
            last_sequence=writes - 1,
            coordinator_epoch=0,
            last_timestamp_ms=last_ms,
            second_read=SecondRead.NOT_ASKED if each.is_known else SecondRead.UNCHANGED,
            high_watermark=offset_at(self._ends_ms),
            last_stable_offset=offset_at(self._oldest_ms.get(row, self._ends_ms)),
        )

    def _transaction(self, seat: Seat, each: PlannedTransaction, *, is_described: bool) -> CoordinatorTransaction:
        is_decided = each.decided_ms <= self._listed_ms
        decision = "PrepareAbort" if each.is_aborted else "PrepareCommit"
        make = transaction if is_described else listed
        described = {
            "producer_epoch": each.producer_epoch + is_decided,  # as TransactionVersion 2 does
            "timeout_ms": seat.timeout_ms,
            "start_ms": each.began_ms,
            "partitions": frozenset(
                self._names[row]
                for row, first_ms in each.places(seat.row, seat.offsets_row)
                if first_ms <= self._listed_ms
            ),
        }
        return make(
            decision if is_decided else "Ongoing",
            transactional_id=each.transactional_id,
            producer_id=each.producer_id,
            **(described if is_described else {}),
        )

    def _completions(self, before: dict[CompletingId, tuple[Seat, PlannedTransaction]]) -> Completions:
        """Returns the completing transactions; those whose id was completing in the cycle `before` are described."""
        lasting = tuple(
            CompletingTransaction(
                transaction=self._transaction(*self.completing[identity], is_described=True),
                state_partition=0,
                coordinator_epoch=0,
            )
            for identity in sorted(self.completing.keys() & before.keys())
        )
        return Completions(listed=frozenset(self.completing), lasting=lasting)

    def _positions(self, rows: Sequence[int]) -> Iterator[GroupOffset]:
        """Yields the position of each row's group: the last stable offset at the time of its last commit."""
        for row in dict.fromkeys(rows):
            seat, planned = self._readers[row]
            read_ms = self._ends_ms - (self._ends_ms - seat.position_phase_ms) % POSITION_AGE_MS - FETCH_MS
            oldest_ms = min((each.began_ms for each in planned if each.is_open(read_ms)), default=read_ms)
            topic, partition = self._names[row]
            yield GroupOffset(group=seat.group, topic=topic, partition=partition, offset=offset_at(oldest_ms))
