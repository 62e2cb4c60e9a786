"""Who was asked, who responded, what is not shown to us, and which consumer groups wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """What a consumer group has committed on one partition."""

    group: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, kw_only=True)
class Impact:
    """The consumer groups behind the transactions that want a person, as far as we may see groups."""

    offsets: tuple[GroupOffset, ...]
    residents: tuple[tuple[int, str], ...]
    """(partition of `__consumer_offsets`, group): groups that keep their own offsets on a suspect's partition."""
    failures: tuple[str, ...]
    """Brokers whose groups are not known, a sentence each."""

    def on(self, topic: str, partition: int) -> tuple[GroupOffset, ...]:
        """What is committed on one partition."""
        return self._by_partition.get((topic, partition), ())

    @cached_property
    def _by_partition(self) -> Mapping[tuple[str, int], tuple[GroupOffset, ...]]:
        found: dict[tuple[str, int], list[GroupOffset]] = {}
        for it in self.offsets:
            found.setdefault((it.topic, it.partition), []).append(it)
        return {partition: tuple(offsets) for partition, offsets in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCoverage:
    """One broker that had to be asked."""

    broker: int
    host: str
    port: int
    partitions: int
    """Partitions it leads and that were asked of it."""
    failure: str | None
    """None when every request was answered; else what went wrong, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorCoverage:
    """One coordinator (a leader of `__transaction_state` partitions) that was asked for active transactions."""

    broker: int
    failure: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxTimeout:
    """`transaction.max.timeout.ms` as the brokers have it configured."""

    timeout_ms: int | None
    """The largest of all brokers; None when no broker let us read it."""
    timeout_ms_min: int | None
    unread: tuple[tuple[int, str], ...]
    """(broker id, reason) of brokers that did not tell."""


class ClockSource(Enum):
    """Whose clock `Snapshot.cluster_time_ms` goes by."""

    CONTROLLER = "controller"
    """The active controller's, read by DescribeQuorum and carried on by our monotonic clock."""
    EXPORTER = "exporter"
    """Our own wall clock as it was at the start, carried on by our monotonic clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """What of the cluster is not shown to us, beyond partitions that refuse to be read."""

    hidden_topics: tuple[str, ...] = ()
    """Topics that were visible to us and are no more, though no broker says that they are deleted."""
    gaps: tuple[str, ...] = ()
    """A sentence for each thing that cannot be seen, with the grant that is missing."""

    def with_gap(self, gap: str) -> Visibility:
        """The same with one more gap, unless it is there already."""
        return self if gap in self.gaps else replace(self, gaps=(*self.gaps, gap))


NOTHING_HIDDEN = Visibility()
