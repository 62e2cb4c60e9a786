"""What really became of the workload's transactions, counted when it is certain."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from enum import Enum

from examples.workload.coordinator import COMMITTED_STATES, FORGOTTEN_STATES, Standing


class Fate(Enum):
    """How a transaction ended, as its coordinator wrote it down."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """By its client."""
    TIMED_OUT = "timed_out"
    """By its coordinator."""
    FENCED = "fenced"
    """By its coordinator, for a producer that initialised the id meanwhile."""
    UNRESOLVED = "unresolved"
    """Nobody can tell afterwards how it ended; none of these unless brokers were away for longer than a time-out."""
    NEVER_BEGUN = "never begun"
    """No partition was added: no coordinator knows of it, and it is not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Transactions of one id, or of all. `begun` is the sum of those from `committed` to `unresolved`."""

    begun: int
    committed: int
    aborted: int
    timed_out: int
    fenced: int
    unresolved: int
    crashed: int
    """Left open by a process that was killed; each of them is counted by its end as well."""
    records: int
    """Committed."""


class Ledger:
    """The counts of every id; any thread may write."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fates: dict[str, Counter[Fate]] = {}
        self._crashed: Counter[str] = Counter()
        self._records: Counter[str] = Counter()

    def enter(self, transactional_id: str, fate: Fate, *, records: int, crashed: bool = False) -> None:
        """One more transaction of so many records."""
        with self._lock:
            self._fates.setdefault(transactional_id, Counter())[fate] += 1
            self._records[transactional_id] += records if fate is Fate.COMMITTED else 0
            self._crashed[transactional_id] += crashed and fate is not Fate.NEVER_BEGUN

    def counts(self) -> dict[str, Counts]:
        """Of every id that has been entered."""
        with self._lock:
            return {name: self._of([name]) for name in sorted(self._fates)}

    def total(self) -> Counts:
        with self._lock:
            return self._of(list(self._fates))

    def _of(self, names: list[str]) -> Counts:
        fates = sum((self._fates[name] for name in names), Counter[Fate]())
        return Counts(
            begun=fates.total() - fates[Fate.NEVER_BEGUN],
            committed=fates[Fate.COMMITTED],
            aborted=fates[Fate.ABORTED],
            timed_out=fates[Fate.TIMED_OUT],
            fenced=fates[Fate.FENCED],
            unresolved=fates[Fate.UNRESOLVED],
            crashed=sum(self._crashed[name] for name in names),
            records=sum(self._records[name] for name in names),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the coordinator said, and when it had said so: milliseconds since 1970 UTC."""

    standing: Standing
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What is known of a transaction that did not end as its producer wanted."""

    began_ms: int
    """Just before its producer began, by a clock that agrees with the coordinator's to less than a transaction takes."""
    epoch: int
    """Of its producer."""
    before: Seen
    """When its producer failed, before anything was done about it."""
    after: Seen
    """When that was done."""
    is_lost: bool
    """The producer failed for good: it did not abort, nor take a new epoch, by itself."""

    def is_in(self, seen: Seen) -> bool:
        """True when the coordinator spoke of this very transaction."""
        return seen.standing.state not in FORGOTTEN_STATES and seen.standing.start_ms >= self.began_ms


def fate_of(attempt: Attempt) -> Fate:
    """How it ended. UNRESOLVED where it is still open, and where a time-out and a fence look the same afterwards.

    Where records may be lost on the way, librdkafka takes a new epoch before it aborts: a fence to the coordinator.
    """
    views = [view for view in (attempt.before, attempt.after) if attempt.is_in(view)]
    seen = next((view for view in views if not view.standing.is_open), None)
    if seen is not None and seen.standing.state in COMMITTED_STATES:
        return Fate.COMMITTED
    if seen is not None and seen.standing.producer_epoch == attempt.epoch:
        return Fate.ABORTED
    opened = next((view.standing for view in views), None)
    if opened is None:
        return Fate.NEVER_BEGUN
    if attempt.after.standing.is_open:
        return Fate.UNRESOLVED
    # Ended with a newer epoch: by its time-out, or for whoever took the id. Before its time is up there is no time-out.
    ended_by_ms = (seen or attempt.after).at_ms
    if ended_by_ms < opened.start_ms + opened.timeout_ms:
        return Fate.FENCED
    return Fate.TIMED_OUT if seen is not None and attempt.is_lost else Fate.UNRESOLVED
