"""Reports the status of reading the transaction log, and its counts, for publication and for the state file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from exporter.transaction_log.counts import Counted
from exporter.transaction_log.timeouts import EndedByCoordinator


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """Position up to which a cluster's log is counted."""

    cluster_id: str = ""
    """Empty if nothing is counted."""
    offsets: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """Offset of the first record that is not counted yet, by partition of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReport:
    """The status at one instant."""

    counted: Counted | None = None
    """Counts; None until every readable partition was read to its end once: before that the counts only catch up."""
    records: int = 0
    malformed: int = 0
    """Records whose bytes are invalid."""
    unknown_versions: int = 0
    """Records in a version of a later Kafka."""
    lag_records: int | None = None
    """Records behind the ends of the partitions whose ends are known; None if none is."""
    partitions_current: int = 0
    partitions_behind: int = 0
    partitions_unread: int = 0
    """Partitions whose leader does not respond, so their state is unknown."""
    transactional_ids: int = 0
    """Live ones in memory."""
    timeouts: tuple[EndedByCoordinator, ...] = ()
    """Latest transactions that coordinators timed out or fenced, newest first."""
    position: LogPosition = LogPosition()
    """The position of `counted`."""
    failure: str | None = None
    """Reason why nothing is read, in one sentence; None while it is."""
