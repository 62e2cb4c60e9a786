"""How the reading of the log fares, and what was counted: frozen, for publication and for the state file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from exporter.transaction_log.counts import Counted


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """Up to where a cluster's log was counted."""

    cluster_id: str = ""
    """Empty where none was."""
    offsets: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """By partition of the log: of the first record that is not counted yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReport:
    """At one instant."""

    counted: Counted | None = None
    """None until every partition that can be read was read to its end once: before that the counts only catch up."""
    records: int = 0
    malformed: int = 0
    """Records whose bytes are none."""
    unknown_versions: int = 0
    """Records in a version of a later Kafka."""
    lag_records: int | None = None
    """Behind the ends of the partitions whose ends are known; None where none is."""
    partitions_current: int = 0
    partitions_behind: int = 0
    partitions_unread: int = 0
    """Nobody tells their end, so nothing is known of them now."""
    transactional_ids: int = 0
    """Live ones that are kept in memory."""
    position: LogPosition = LogPosition()
    """Up to where `counted` counts."""
    failure: str | None = None
    """Why nothing is read, in one sentence; None while it is."""
