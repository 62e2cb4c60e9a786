"""Plays coordinators, producers and logs in a simulated time, with faults whose truth is known, in Kafka's own bytes.

It knows nothing of the audit: what it expects follows from what it did.
"""

from __future__ import annotations

import random
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from exporter.kafka.messages.log_batches import batches
from exporter.snapshot import TopicPartition
from exporter.snapshot import TransactionState as State
from exporter.transaction_log.records import TransactionRecord
from tests.kafka.log_batch import CONTROL, log_batch
from tests.transaction_log.builders import key_of, value_of

BEGIN_MS: Final = 1_800_000_000_000
TIMEOUT_MS: Final = 60_000
HANDS_MS: Final = 3_000
"""An operator does nothing within so long of anything else."""
TOPIC_ID: Final = "topic-id"


@dataclass(frozen=True, slots=True)
class Appended:
    """A batch of a partition's log."""

    at_ms: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class StateRecord:
    """A record of the transaction log."""

    at_ms: int
    log_partition: int
    offset: int
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Truth:
    """What the audit should say about a producer on a partition; `start_ms` is that of the decision, if there is one."""

    verdict: str
    producer_id: int
    partition: TopicPartition
    start_ms: int | None


@dataclass(slots=True)
class Producer:
    """A transactional id with its coordinator's state."""

    name: str
    producer_id: int
    has_epochs: bool
    """KIP-890: each transaction has an epoch of its own."""
    log_partition: int
    epoch: int = -1
    coordinator_epoch: int = 0
    last_partitions: list[TopicPartition] = field(default_factory=list)
    """Those of the transaction before."""
    avoided: set[TopicPartition] = field(default_factory=set)
    """Partitions on which something is open that must not be ended."""


class World:
    """`partitions` and ids of `seed`; `faults` is the share of transactions with one.

    One of `pauses_ms` passes before each step of any producer. A steady world's clients neither restart nor time out.
    """

    def __init__(
        self,
        seed: int,
        *,
        partitions: int = 4,
        producers: int = 4,
        faults: float = 0.1,
        skew_ms: int = 40,
        pauses_ms: Sequence[int] = (1, 2, 5, 20, 300),
        is_steady: bool = False,
    ) -> None:
        self.random = random.Random(seed)
        self.now_ms = BEGIN_MS
        self.partitions = [(f"topic-{number % 2}", number // 2) for number in range(partitions)]
        self.logs: dict[TopicPartition, list[Appended]] = {each: [] for each in self.partitions}
        self.removed: set[tuple[TopicPartition, int]] = set()
        """(partition, offset) of batches that are gone."""
        self.state: list[StateRecord] = []
        self.truths: list[Truth] = []
        self.decided = 0
        """Transactions that were decided and completed."""
        self._next: dict[TopicPartition, int] = defaultdict(int)
        self._next_state: dict[int, int] = defaultdict(int)
        self._skew = {each: self.random.randint(-skew_ms, skew_ms) for each in self.partitions}
        self._faults = faults
        self._pauses_ms = pauses_ms
        self._is_steady = is_steady
        self.producers = [
            Producer(f"id-{number}", 1000 + number, bool(number % 2), number % 3) for number in range(producers)
        ]

    def play(self, transactions: int) -> None:
        """All producers write, one step at a time of any."""
        playing = [self._life(producer, transactions) for producer in self.producers]
        while playing:
            chosen = self.random.choice(playing)
            self.pass_time(self.random.choice(self._pauses_ms))
            if next(chosen, None) is None:
                playing.remove(chosen)

    def pass_time(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    def _life(self, producer: Producer, transactions: int) -> Iterator[bool]:
        self.initialize(producer)
        for _ in range(transactions):
            yield True
            fault = self.random.choice(FAULTS) if self.random.random() < self._faults else None
            yield from self._transaction(producer) if fault is None else fault(self, producer)
            if not self._is_steady and self.random.random() < 0.05:
                self.initialize(producer)

    def initialize(self, producer: Producer) -> None:
        producer.epoch += 1
        self.record(producer, State.EMPTY, producer.epoch, frozenset(), -1)

    def record(
        self, producer: Producer, status: State, epoch: int, partitions: frozenset[TopicPartition], start_ms: int
    ) -> None:
        """The coordinator writes its state."""
        content = TransactionRecord(
            transactional_id=producer.name,
            producer_id=producer.producer_id,
            producer_epoch=epoch,
            timeout_ms=TIMEOUT_MS,
            status=status,
            partitions=partitions,
            last_update_ms=self.now_ms,
            start_ms=start_ms,
            client_transaction_version=2 if producer.has_epochs else 0,
        )
        offset = self._next_state[producer.log_partition]
        self._next_state[producer.log_partition] += 1
        value = value_of(content, flexible=producer.has_epochs)
        self.state.append(StateRecord(self.now_ms, producer.log_partition, offset, key_of(producer.name), value))

    def write(self, producer: Producer, partition: TopicPartition, *, epoch: int | None = None) -> None:
        """A batch of one to three records."""
        rows = [(self.now_ms, b"k", b"v", ()) for _ in range(self.random.randint(1, 3))]
        self._append(partition, rows, producer, producer.epoch if epoch is None else epoch, 0)

    def mark(self, producer: Producer, partition: TopicPartition, epoch: int, *, commit: bool) -> None:
        at_ms = self.now_ms + self._skew[partition]
        key, value = struct.pack(">hh", 0, commit), struct.pack(">hi", 0, producer.coordinator_epoch)
        self._append(partition, [(at_ms, key, value, ())], producer, epoch, CONTROL)

    def _append(self, partition: TopicPartition, rows: list, producer: Producer, epoch: int, attributes: int) -> None:  # type: ignore[type-arg]
        offset = self._next[partition]
        data = log_batch(rows, base_offset=offset, producer=(producer.producer_id, epoch), attributes=attributes)
        self.logs[partition].append(Appended(self.now_ms, offset, data))
        self._next[partition] += len(rows)

    def usable(self, producer: Producer) -> list[TopicPartition]:
        return [each for each in self.partitions if each not in producer.avoided]

    def _transaction(
        self,
        producer: Producer,
        *,
        added: list[TopicPartition] | None = None,
        commit: bool | None = None,
        before_decision: Callable[[int, frozenset[TopicPartition]], None] | None = None,
        unmarked: frozenset[TopicPartition] = frozenset(),
        repeats: bool = False,
    ) -> Iterator[bool]:
        """Begins, writes, decides, marks and completes; `unmarked` get records, and no marker of the coordinator."""
        usable = self.usable(producer)
        if not usable:
            return
        if added is None:
            added = self.random.sample(usable, self.random.randint(1, len(usable)))
        start_ms = self.now_ms
        for number in range(len(added)):
            self.record(producer, State.ONGOING, producer.epoch, frozenset(added[: number + 1]), start_ms)
        written: set[TopicPartition] = set()
        for partition in added:
            # A partition may be added without a record.
            for _ in range(1 if partition in unmarked else self.random.choice((0, 1, 1, 2))):
                self.write(producer, partition)
                written.add(partition)
                yield True
        if before_decision is not None:
            before_decision(start_ms, frozenset(written))
        end = self._end_of(commit)
        epoch = producer.epoch + (producer.has_epochs or end in ("timeout", "fence"))
        prepared, completed = (
            (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
            if end == "commit"
            else (State.PREPARE_ABORT, State.COMPLETE_ABORT)
        )
        self.record(producer, prepared, epoch, frozenset(added), start_ms)
        for marked in self._marked(added, unmarked, repeats=repeats):
            self.pass_time(self.random.choice((0, 1, 3)))
            if marked is None:
                producer.coordinator_epoch += 1
            else:
                self.mark(producer, marked, epoch, commit=end == "commit")
            yield True
        self.pass_time(1)
        self.record(producer, completed, epoch, frozenset(), start_ms)
        self.decided += 1
        producer.epoch, producer.last_partitions = epoch, added
        if end in ("timeout", "fence"):
            self.pass_time(2)
            self.initialize(producer)

    def _end_of(self, commit: bool | None) -> str:  # noqa: FBT001
        if commit is not None:
            return "commit" if commit else "abort"
        others = 0 if self._is_steady else 0.3
        end = self.random.choices(("commit", "abort", "timeout", "fence"), (6, 2, others, others))[0]
        if end == "timeout":
            self.pass_time(TIMEOUT_MS)
        return end

    def _marked(
        self, added: list[TopicPartition], unmarked: frozenset[TopicPartition], *, repeats: bool
    ) -> list[TopicPartition | None]:
        """The partitions in the order of their markers; None where another coordinator takes over, and begins again."""
        marked: list[TopicPartition | None] = [
            each for each in self.random.sample(added, len(added)) if each not in unmarked
        ]
        again = self.random.sample(marked, self.random.randint(1, len(marked))) if repeats and marked else []
        return [*marked, None, *again] if again else marked

    def forget_decisions(self, share: float) -> int:
        """Compacts the first part of the transaction log, which keeps each id's last record of it; returns when it ends."""
        first = self.state[: int(len(self.state) * share)]
        last = {each.key: each for each in first}
        self.state = [*(each for each in first if last[each.key] is each), *self.state[len(first) :]]
        return self.state[len(last)].at_ms

    def compact(self, share: float) -> None:
        """Removes records from the first part of the logs, and of some transactions all of them and then the marker."""
        for partition, log in self.logs.items():
            own: dict[int, list[Appended]] = defaultdict(list)
            for each in log[: int(len(log) * share)]:
                (batch,) = batches(each.data)
                if not batch.is_control:
                    own[batch.producer_id].append(each)
                    continue
                records = own.pop(batch.producer_id, [])
                gone = self.random.choice((0, len(records) // 2, len(records)))
                self.removed |= {(partition, record.offset) for record in records[:gone]}
                if gone == len(records) and self.random.random() < 0.5:
                    self.removed.add((partition, each.offset))

    def trim(self, share: float) -> None:
        """Removes the first part of each log, as retention does."""
        for partition, log in self.logs.items():
            self.removed |= {(partition, each.offset) for each in log[: int(len(log) * share)]}

    def expect(self, verdict: str, producer: Producer, partition: TopicPartition, start_ms: int | None) -> None:
        self.truths.append(Truth(verdict, producer.producer_id, partition, start_ms))

    def _hands(self) -> None:
        self.pass_time(HANDS_MS)

    def aborted_by_hand(self, producer: Producer, *, is_refused: bool) -> Iterator[bool]:
        """An operator's ABORT ends the records before the client commits; the coordinator's marker may be refused."""
        usable = self.usable(producer)
        if not usable:
            return
        added = self.random.sample(usable, self.random.randint(1, len(usable)))
        torn = added[0]

        def by_hand(start_ms: int, written: frozenset[TopicPartition]) -> None:
            if not is_refused:
                self.write(producer, torn)
            self._hands()
            self.mark(producer, torn, producer.epoch, commit=False)
            self._hands()
            is_elsewhere = bool(written - {torn})
            self.expect("torn" if is_elsewhere else "contradicted", producer, torn, start_ms)

        unmarked = frozenset({torn}) if is_refused else frozenset()
        yield from self._transaction(producer, added=added, commit=True, before_decision=by_hand, unmarked=unmarked)
        self._hands()

    def marker_is_lost(self, producer: Producer) -> Iterator[bool]:
        usable = self.usable(producer)
        if not usable:
            return
        added = self.random.sample(usable, self.random.randint(1, len(usable)))
        lost = added[0]
        producer.avoided.add(lost)
        yield from self._transaction(
            producer,
            added=added,
            before_decision=lambda start_ms, _: self.expect("marker_missing", producer, lost, start_ms),
            unmarked=frozenset({lost}),
        )

    def written_outside(self, producer: Producer) -> Iterator[bool]:
        """Records on a partition that was not added, which is possible without partition verification."""
        usable = self.usable(producer)
        if len(usable) < 2 or not producer.has_epochs:
            return
        outside, *added = self.random.sample(usable, self.random.randint(2, len(usable)))
        producer.avoided.add(outside)

        def write(start_ms: int, _: object) -> None:
            self.write(producer, outside)
            self.expect("records_outside", producer, outside, start_ms)

        yield from self._transaction(producer, added=added, before_decision=write)

    def late_record_is_adopted(self, producer: Producer) -> Iterator[bool]:
        """A record of an older epoch comes after its transaction's end, and the next transaction there ends it."""
        usable = [each for each in producer.last_partitions if each not in producer.avoided]
        if not usable or producer.epoch < 1:
            return
        adopted = self.random.choice(usable)
        self.write(producer, adopted, epoch=producer.epoch - 1)
        yield from self._transaction(
            producer,
            added=[adopted],
            before_decision=lambda start_ms, _: self.expect("closed_by_another", producer, adopted, start_ms),
        )

    def late_record_is_aborted(self, producer: Producer) -> Iterator[bool]:
        """A hang of a record after the end of its transaction, and an operator aborts it."""
        usable = self.usable(producer)
        if not usable or producer.has_epochs:
            return
        late = self.random.choice(usable)
        self._hands()
        self.write(producer, late)
        self._hands()
        self.mark(producer, late, producer.epoch, commit=False)
        self._hands()
        self.expect("marker_without_decision", producer, late, None)
        yield True

    def coordinator_moves(self, producer: Producer) -> Iterator[bool]:
        yield from self._transaction(producer, repeats=True)


def _refused(world: World, producer: Producer) -> Iterator[bool]:
    return world.aborted_by_hand(producer, is_refused=True)


def _accepted(world: World, producer: Producer) -> Iterator[bool]:
    return world.aborted_by_hand(producer, is_refused=False)


FAULTS: Final = (
    _refused,
    _accepted,
    World.marker_is_lost,
    World.written_outside,
    World.late_record_is_adopted,
    World.late_record_is_aborted,
    World.coordinator_moves,
    World.coordinator_moves,
)
