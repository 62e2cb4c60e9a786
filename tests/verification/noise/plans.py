"""Plans transactions: when each begins, writes and ends. A plan is an endless iterator in the order of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Final, Protocol

SECOND_MS: Final = 1000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
COORDINATOR_SCAN_MS: Final = 10 * SECOND_MS
NEVER_MS: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTransaction:
    """One transaction as it is, with instants in milliseconds."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    began_ms: int
    """Time of the first record on its partition."""
    decided_ms: int
    """Time at which its coordinator has written the outcome."""
    ended_ms: int
    """Time of its end marker."""
    bursts: tuple[tuple[int, int], ...]
    """(first, last) instants between which the producer writes."""
    every_ms: int
    """Time between two writes within a burst."""
    offsets_from_ms: int = NEVER_MS
    """Time from which it also has an offset pending on `__consumer_offsets`."""
    is_aborted: bool = False
    is_known: bool = True
    """False if no coordinator knows its producer id: it hangs."""

    def is_open(self, at_ms: int) -> bool:
        return self.began_ms <= at_ms < self.ended_ms

    def places(self, row: int, offsets_row: int) -> tuple[tuple[int, int], ...]:
        """(row, time of the first record there) of its partition, and of `__consumer_offsets` if it has an offset there."""
        if self.offsets_from_ms == NEVER_MS:
            return ((row, self.began_ms),)
        return (row, self.began_ms), (offsets_row, self.offsets_from_ms)

    def written(self, at_ms: int) -> tuple[int, int]:
        """(number of writes, time of the last one) up to `at_ms`, at which it is open."""
        writes, last_ms = 0, self.began_ms
        for first, last in self.bursts:
            if first > at_ms:
                break
            more = (min(at_ms, last) - first) // self.every_ms
            writes, last_ms = writes + more + 1, first + more * self.every_ms
        return writes, last_ms

    def killed(self, at_ms: int, timeout_ms: int) -> PlannedTransaction:
        """Returns the transaction whose owner is killed while it is open: its coordinator aborts it by its time-out."""
        due_ms = -(-(self.began_ms + timeout_ms) // COORDINATOR_SCAN_MS) * COORDINATOR_SCAN_MS
        bursts = tuple((first, min(last, at_ms)) for first, last in self.bursts if first <= at_ms)
        return replace(self, bursts=bursts, decided_ms=due_ms, ended_ms=due_ms + 20, is_aborted=True)


Plan = Iterator[PlannedTransaction]


class Planner(Protocol):
    """Plans the transactions of owners of one kind."""

    def plan(self, random: Random, name: str, producer_id: int, from_ms: int) -> Plan:
        """The plan of the owner `name`, which is complete from `from_ms` on; `producer_id` is its first one."""

    def ids(self, name: str) -> tuple[str, ...]:
        """The transactional ids that the owner `name` uses again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """Plans a Flink sink: a transaction lasts from the first record after a checkpoint to the commit after the next one."""

    every_ms: int
    is_idle: bool
    """True if it writes one record and no more, otherwise five records a second."""
    is_pool: bool
    """True if the sink has two ids and uses them in turn. Otherwise each transaction has a new id, Flink's default."""

    def plan(self, random: Random, name: str, producer_id: int, from_ms: int) -> Plan:
        barrier, number = from_ms - 2 * self.every_ms - random.randrange(self.every_ms), 0
        while True:
            began = barrier + random.randrange(50, SECOND_MS)
            barrier += self.every_ms + random.randrange(200)  # a timer drifts
            decided = barrier + random.randrange(SECOND_MS, 5 * SECOND_MS)  # the checkpoint is complete
            at = number % 2 if self.is_pool else number
            yield PlannedTransaction(
                transactional_id=f"{name}-{at}",
                producer_id=producer_id + at,
                producer_epoch=number // 2 if self.is_pool else 0,
                began_ms=began,
                decided_ms=decided,
                ended_ms=decided + random.randrange(5, 50),
                bursts=((began, began if self.is_idle else barrier),),
                every_ms=200,
            )
            number += 1

    def ids(self, name: str) -> tuple[str, ...]:
        return (f"{name}-0", f"{name}-1") if self.is_pool else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """Plans a job that writes in bursts; a pause between two of them takes one to five minutes."""

    takes_ms: int
    """Duration of a run; runs differ by a tenth."""
    rests_ms: tuple[int, int]
    """Shortest and longest time between two runs."""

    def plan(self, random: Random, name: str, producer_id: int, from_ms: int) -> Plan:
        began, number = from_ms - random.randrange(self.takes_ms + self.rests_ms[1]), 0
        while True:
            last = began + random.randrange(9 * self.takes_ms // 10, 11 * self.takes_ms // 10)
            at, bursts = began, []
            while at < last:
                bursts.append((at, min(at + random.randrange(20 * SECOND_MS, MINUTE_MS), last)))
                at = bursts[-1][1] + random.randrange(MINUTE_MS, 5 * MINUTE_MS)
            decided = bursts[-1][1] + random.randrange(100, SECOND_MS)
            yield PlannedTransaction(
                transactional_id=name,
                producer_id=producer_id,
                producer_epoch=number,
                began_ms=began,
                decided_ms=decided,
                ended_ms=decided + random.randrange(5, 50),
                bursts=tuple(bursts),
                every_ms=100,
            )
            began, number = decided + random.randrange(*self.rests_ms), number + 1

    def ids(self, name: str) -> tuple[str, ...]:
        return (name,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Daily:
    """Plans one run a day, which writes every second and begins within the first two hours."""

    takes_ms: int
    """Duration of a run; runs differ by a twentieth."""

    def plan(self, random: Random, name: str, producer_id: int, from_ms: int) -> Plan:
        began, number = from_ms + random.randrange(2 * HOUR_MS), 0
        while True:
            last = began + random.randrange(19 * self.takes_ms // 20, 21 * self.takes_ms // 20)
            yield PlannedTransaction(
                transactional_id=name,
                producer_id=producer_id,
                producer_epoch=number,
                began_ms=began,
                decided_ms=last + 50,
                ended_ms=last + 70,
                bursts=((began, last),),
                every_ms=SECOND_MS,
            )
            began, number = began + DAY_MS, number + 1

    def ids(self, name: str) -> tuple[str, ...]:
        return (name,)


def until_killed(plan: Plan, at_ms: int, timeout_ms: int) -> Plan:
    """The plan of an owner that is killed at `at_ms`: its coordinator aborts what is open then, and nothing follows."""
    for each in plan:
        if each.began_ms > at_ms:
            return
        yield each if each.decided_ms <= at_ms else each.killed(at_ms, timeout_ms)


def hang(transactional_id: str, producer_id: int, from_ms: int) -> Plan:
    """Plans one transaction that never ends: its marker is lost, and no coordinator knows its producer id any more."""
    yield PlannedTransaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=0,
        began_ms=from_ms,
        decided_ms=NEVER_MS,
        ended_ms=NEVER_MS,
        bursts=((from_ms, from_ms),),
        every_ms=SECOND_MS,
        is_known=False,
    )
