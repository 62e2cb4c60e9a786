"""Declares for how long the owners of transactional ids are usually silent, as their earlier transactions show it.

A silence is usual if the owner ended it: with another write, or with the end of the transaction. A silence that was ended
by a time-out or a fence says nothing, since its owner may have been dead. Only the transaction log shows a fence; without
it one such silence is tolerated, because the longest of all is left out.

Flink's sinks take a new id for each transaction, `sink-0-17` after `sink-0-16`: the silences of ids with one prefix count
for an id that has too few of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Final, TypeVar

from exporter.patterns import prefix_of
from exporter.snapshot import TopicPartition

TRANSACTIONS_MIN: Final = 3
"""Transactions that must have ended before a silence is usual."""
TRANSACTIONS_MAX: Final = 8
"""Remembered transactions of an id, or of a prefix, the newest: what an application does may change."""
NAMES_MAX: Final = 10_000
"""Remembered ids, and prefixes, those that were seen last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerSilences:
    """The silences of one transactional id's owner that this process has seen. Durations and instants in milliseconds."""

    producer_id: int
    place: TopicPartition
    """A partition on which its latest transaction is open."""
    is_open: bool = True
    start_ms: int | None = None
    """Start of the latest transaction by its coordinator; None in the first cycle that sees it, where it is only listed."""
    timeout_ms: int = 0
    silent_ms: int = 0
    """The silence in the latest cycle that saw it."""
    longest_ms: int = 0
    """The longest silence in it that a write has ended."""
    ended: tuple[int, ...] = ()
    """The longest silence in each earlier transaction, oldest first."""

    def is_of(self, start_ms: int | None) -> bool:
        """True if this is the start of the latest transaction. One that is only listed is seen for the first time."""
        return self.is_open and start_ms is not None and self.start_ms in {None, start_ms}

    def ended_silence(self, at_ms: int, *, was_aborted: bool) -> tuple[int, ...]:
        """The longest silence in the latest transaction, which ended before `at_ms`; empty if another may have ended it.

        `was_aborted`: the transaction log shows that it was not committed.
        """
        may_be_timed_out = self.start_ms is not None and at_ms >= self.start_ms + self.timeout_ms
        if not self.is_open or may_be_timed_out or was_aborted:
            return ()
        return (max(self.longest_ms, self.silent_ms),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Silences:
    """The silences of all owners, those that were seen last at the end."""

    of_ids: Mapping[str, OwnerSilences] = field(default_factory=lambda: MappingProxyType({}))
    of_prefixes: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """The longest silence in each ended transaction of the ids with this prefix, oldest first."""

    def usual_ms(self, transactional_id: str | None) -> int | None:
        """The longest usual silence of this id; None if too few transactions have ended."""
        if transactional_id is None:
            return None
        own = self.of_ids.get(transactional_id)
        ended = () if own is None else own.ended
        if len(ended) < TRANSACTIONS_MIN:
            ended = self.of_prefixes.get(prefix_of(transactional_id), ())
        return sorted(ended)[-2] if len(ended) >= TRANSACTIONS_MIN else None

    def ended_by_write_ms(self, transactional_id: str | None) -> int:
        """The longest silence in the present transaction of this id that a write has ended; 0 without one."""
        own = self.of_ids.get(transactional_id or "")
        return 0 if own is None else own.longest_ms


NO_SILENCES: Final = Silences()


class SilencesBuilder:
    """Takes the transactions of one cycle, one by one, on top of the silences before it."""

    def __init__(self, before: Silences) -> None:
        self._of_ids, self._of_prefixes = dict(before.of_ids), dict(before.of_prefixes)

    def latest(self, name: str) -> OwnerSilences | None:
        """The latest transaction of an id."""
        return self._of_ids.get(name)

    def still_open(self) -> tuple[tuple[str, OwnerSilences], ...]:
        """The ids whose latest transaction is open, as far as is known by now."""
        return tuple((name, each) for name, each in self._of_ids.items() if each.is_open)

    def end(self, name: str, at_ms: int, *, was_aborted: bool) -> None:
        """Ends the latest transaction of an id; see `OwnerSilences.ended_silence`."""
        latest = self._of_ids[name]
        ended = latest.ended_silence(at_ms, was_aborted=was_aborted)
        self._of_ids[name] = OwnerSilences(
            producer_id=latest.producer_id,
            place=latest.place,
            is_open=False,
            ended=(*latest.ended, *ended)[-TRANSACTIONS_MAX:],
        )
        if ended:
            prefix = prefix_of(name)
            self._of_prefixes[prefix] = (*self._of_prefixes.pop(prefix, ()), *ended)[-TRANSACTIONS_MAX:]

    def leave(self, name: str, at_ms: int, *, was_aborted: bool) -> None:
        """Ends the latest transaction of an id that has no other one. One that was used once only its prefix remembers."""
        self.end(name, at_ms, was_aborted=was_aborted)
        if len(self._of_ids[name].ended) == 1:
            self.forget(name)

    def forget(self, name: str) -> None:
        """Forgets an id and learns nothing from it."""
        del self._of_ids[name]

    def see(self, name: str, now: OwnerSilences) -> None:
        """Takes the latest transaction of an id as this cycle sees it; another one before it has ended."""
        before = self._of_ids.pop(name, None)
        longest_ms = 0
        if before is not None and before.is_open:
            longest_ms = max(before.longest_ms, before.silent_ms if now.silent_ms < before.silent_ms else 0)
        self._of_ids[name] = replace(now, longest_ms=longest_ms, ended=() if before is None else before.ended)

    def silences(self) -> Silences:
        """The silences after the cycle, without the oldest beyond NAMES_MAX."""
        return Silences(of_ids=_newest(self._of_ids), of_prefixes=_newest(self._of_prefixes))


_T = TypeVar("_T")


def _newest(of: Mapping[str, _T]) -> Mapping[str, _T]:
    return MappingProxyType(dict(islice(of.items(), max(len(of) - NAMES_MAX, 0), None)))
