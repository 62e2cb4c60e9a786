"""Counts events: transactions by group and outcome, their durations, and the time until their markers were written.

A group is a name for transactional ids, so that the number of series does not depend on the number of ids. Without
configured groups it is the id's prefix, for the first PREFIXES_MAX prefixes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

from exporter.patterns import OTHER_GROUP, PREFIXES_MAX, GroupRules, group_of, prefix_of
from exporter.transaction_log.events import Event, Happening, Outcome

DURATION_BUCKETS_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600)
MARKER_BUCKETS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

VERSION_MAX = 9
"""Maximum version in the counts: the number of series does not depend on the contents of the log."""


_COUNTED = frozenset({Happening.PREPARED, Happening.COMPLETED, Happening.INITIALIZED})


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts are not cumulative, one more than there are bounds; the last is +Inf. `total` in seconds."""

    counts: tuple[int, ...]
    total: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """All counts so far, with every combination."""

    completed: tuple[tuple[str, Outcome, int], ...] = ()
    initialized: tuple[tuple[str, int], ...] = ()
    durations: tuple[tuple[str, Outcome, Histogram], ...] = ()
    """Durations from the beginning to the decision, if the log has both."""
    markers: tuple[tuple[str, Histogram], ...] = ()
    """Durations from the decision to the last marker, if the log has both."""
    clients: tuple[tuple[str, int, int], ...] = ()
    """(group, transaction version, ids whose last transaction was written by it); combinations that occur."""
    ids_without_group: int = 0
    """Ids whose prefix is beyond PREFIXES_MAX, which count as `other`; live ones only."""


@dataclass(slots=True)
class _Buckets:
    bounds: tuple[float, ...]
    counts: list[int]
    total: float = 0.0

    def add(self, milliseconds: int) -> None:
        seconds = milliseconds / 1000
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    def frozen(self) -> Histogram:
        return Histogram(tuple(self.counts), self.total)


def _buckets(bounds: tuple[float, ...]) -> _Buckets:
    return _Buckets(bounds, [0] * (len(bounds) + 1))


@dataclass(slots=True)
class _GroupCounts:
    completed: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
    initialized: int = 0
    durations: dict[Outcome, _Buckets] = field(
        default_factory=lambda: {outcome: _buckets(DURATION_BUCKETS_SECONDS) for outcome in Outcome}
    )
    markers: _Buckets = field(default_factory=lambda: _buckets(MARKER_BUCKETS_SECONDS))


class Counts:
    """Counts events by group of transactional ids."""

    def __init__(self, rules: GroupRules, *, shows_ids: bool = True) -> None:
        """`shows_ids`: an id without a separator may be the name of a group."""
        self._rules = tuple(rules)
        self._shows_ids = shows_ids
        self._groups = {name: _GroupCounts() for name in (*(name for name, _ in rules), OTHER_GROUP)}
        self._group_of: dict[str, _GroupCounts] = {}
        self._hidden: set[str] = set()
        self._shown: frozenset[str] = frozenset()
        self._client_of: dict[str, tuple[str, int]] = {}
        """Transactional id -> its group, and the version of its last transaction."""
        self._clients: Counter[tuple[str, int]] = Counter()

    def count(self, event: Event, *, was_counted: bool = False) -> None:
        """`was_counted`: by an earlier run; then only the present state is taken from it, of ids and their clients."""
        happening = event.happening
        if happening is Happening.EXPIRED:
            self._group_of.pop(event.transactional_id, None)
            self._hidden.discard(event.transactional_id)
            self._note_client(event.transactional_id, None)
            return
        if happening is Happening.PREPARED and event.client_transaction_version >= 0:
            self._note_client(event.transactional_id, min(event.client_transaction_version, VERSION_MAX))
        if was_counted:
            if happening in _COUNTED:
                self._group(event.transactional_id)
        elif happening is Happening.COMPLETED and event.outcome is not None:
            group = self._group(event.transactional_id)
            group.completed[event.outcome] += 1
            if event.duration_ms >= 0:
                group.markers.add(event.duration_ms)
        elif happening is Happening.PREPARED and event.outcome is not None:
            if event.duration_ms >= 0:
                self._group(event.transactional_id).durations[event.outcome].add(event.duration_ms)
        elif happening is Happening.INITIALIZED:
            self._group(event.transactional_id).initialized += 1

    def counted(self) -> Counted:
        """All counts so far. A prefix that is new since the call before is all zeros this time.

        Prometheus sees no increase in a counter whose first value is above 0: the first transactions of an application
        that all time out would raise no alert.
        """
        is_first = not self._shown
        groups = [
            (name, of if is_first or name in self._shown else _GroupCounts()) for name, of in self._groups.items()
        ]
        self._shown = frozenset(self._groups)
        return Counted(
            completed=tuple((name, o, group.completed[o]) for name, group in groups for o in Outcome),
            initialized=tuple((name, group.initialized) for name, group in groups),
            durations=tuple((name, o, group.durations[o].frozen()) for name, group in groups for o in Outcome),
            markers=tuple((name, group.markers.frozen()) for name, group in groups),
            clients=tuple((name, version, count) for (name, version), count in sorted(self._clients.items())),
            ids_without_group=len(self._hidden),
        )

    def _note_client(self, transactional_id: str, version: int | None) -> None:
        """The version of the id's last transaction; None if the id is gone."""
        before = self._client_of.get(transactional_id)
        now = None if version is None else (self._name_of(transactional_id), version)
        if now == before:
            return
        if before is not None:
            del self._client_of[transactional_id]
            self._clients[before] -= 1
            if not self._clients[before]:
                del self._clients[before]
        if now is not None:
            self._client_of[transactional_id] = now
            self._clients[now] += 1

    def _group(self, transactional_id: str) -> _GroupCounts:
        group = self._group_of.get(transactional_id)
        if group is None:
            group = self._group_of[transactional_id] = self._groups[self._name_of(transactional_id)]
        return group

    def _name_of(self, transactional_id: str) -> str:
        if self._rules:
            return group_of(self._rules, transactional_id)
        prefix = prefix_of(transactional_id)
        if prefix == transactional_id and not self._shows_ids:
            return OTHER_GROUP
        if prefix not in self._groups:
            if len(self._groups) > PREFIXES_MAX:  # one of them is `other`
                self._hidden.add(transactional_id)
                return OTHER_GROUP
            self._groups[prefix] = _GroupCounts()
        return prefix
