"""Records which brokers were queried, which responded, what is not visible, and which consumer groups are blocked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Final

from exporter.snapshot.partitions import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """The position of a group on one partition: its committed offset, or up to where a share group has delivered."""

    group: str
    topic: str
    partition: int
    offset: int
    next_offset: int | None = None
    """Offset of the next record that a reader of committed records gets; the last stable offset if none is before that.
    None if it was not looked for, or not found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionRead:
    """A group's position, and the offset to which its log was read: no committed record lies between."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    read_to: int
    has_record: bool
    """True if a committed record is at `read_to`."""


@dataclass(frozen=True, kw_only=True)
class Impact:
    """The blocked consumer groups of suspects, as far as groups are visible."""

    offsets: tuple[GroupOffset, ...]
    residents: tuple[tuple[int, str], ...]
    """(partition of `__consumer_offsets`, group): groups with offsets that are pending in a transaction there."""
    failures: tuple[str, ...]
    """Groups that are unknown, one sentence for each broker and reason."""
    unread: tuple[str, ...] = ()
    """The subset of `failures` that no right mends: a broker did not respond as it should."""
    unseen: tuple[int, ...] = ()
    """Partitions of `__consumer_offsets` with a transaction on which no visible group has an offset pending."""
    positions_read: tuple[PositionRead, ...] = ()
    """Positions before a last stable offset from which logs were read, the longest ago first."""

    def on(self, topic: str, partition: int) -> tuple[GroupOffset, ...]:
        return self._by_partition.get((topic, partition), ())

    @cached_property
    def _by_partition(self) -> Mapping[TopicPartition, tuple[GroupOffset, ...]]:
        found: dict[TopicPartition, list[GroupOffset]] = {}
        for offset in self.offsets:
            found.setdefault((offset.topic, offset.partition), []).append(offset)
        return {partition: tuple(offsets) for partition, offsets in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCoverage:
    """Broker that was queried, with the failure of its requests."""

    broker: int
    host: str
    port: int
    partitions: int
    """Partitions that it leads and that were requested from it."""
    failure: str | None
    """Failure of a request, a sentence; None if every request got a response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorCoverage:
    """One coordinator (a leader of `__transaction_state` partitions) that was queried for active transactions."""

    broker: int
    failure: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxTimeout:
    """`transaction.max.timeout.ms` as the brokers have it configured."""

    timeout_ms: int | None
    """The largest of all brokers; None if no broker returned it."""
    timeout_ms_min: int | None
    unread: tuple[tuple[int, str], ...]
    """(broker id, reason) of brokers that did not return it."""


LATEST_MS: Final = 253_402_300_799_999
"""The end of the year 9999: no clock shows more."""
CLOCKS_AGREE_WITHIN_MS: Final = 10_000
"""Differences of the brokers' clocks up to this change no verdict, and accuse nobody (docs/proof.md)."""


class ClockSource(Enum):
    """Clock that `Snapshot.cluster_time_ms` uses."""

    CONTROLLER = "controller"
    """The active controller's, read by DescribeQuorum and advanced by the exporter's monotonic clock."""
    EXPORTER = "exporter"
    """The exporter's own wall clock as it was at the start, advanced by its monotonic clock."""


ADDRESS_CAUSES = "a port-forward, a proxy or a wrong name"
_STRANGERS_NAMED_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """Visibility of the cluster, in addition to unread partitions."""

    hidden_topics: tuple[str, ...] = ()
    """Topics that were visible and are not any more, though no broker reports them as deleted."""
    may_hide: str = ""
    """Reason why this login may not see every topic; empty if it does, or where only a cycle was made, without asking."""
    gaps: tuple[str, ...] = ()
    """A sentence for each thing that is not visible, with the missing grant."""
    strangers: tuple[int, ...] = ()
    """Brokers that are not reached at an address of their own: another broker responds for them."""

    def with_strangers(self, brokers: Collection[int]) -> Visibility:
        """Adds these brokers, and the gap that they leave."""
        if not brokers:
            return self
        strangers = tuple(sorted(brokers))
        named = ", ".join(map(str, strangers[:_STRANGERS_NAMED_MAX]))
        gap = (
            f"broker {named} is not reached at an address of its own ({ADDRESS_CAUSES}): another broker responds for it"
        )
        return replace(self, strangers=strangers).with_gap(gap)

    def with_gap(self, gap: str) -> Visibility:
        """Adds one more gap, unless it is already there."""
        return self if gap in self.gaps else replace(self, gaps=(*self.gaps, gap))


NOTHING_HIDDEN = Visibility()
