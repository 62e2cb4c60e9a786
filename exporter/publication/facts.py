"""What publication needs besides an evaluation: how to publish, and how the exporter itself fares.

Law of this file: frozen records that the daemon fills; instants in milliseconds since 1970 UTC, durations in seconds
unless the name says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from exporter.evaluation.verdicts import Evaluation, TransactionRow
from exporter.status import ApiStatistics, BaselineStatus, HistoryStatus
from exporter.transaction_log.report import LogReport


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOptions:
    """How much is published: every label set has a stated maximum."""

    partition_series: Literal["all", "open"] = "all"
    """Whether partitions without an open transaction get a duration of 0, or no series."""
    partition_series_limit: int = 100_000
    """Above this many read partitions `all` falls back to `open`, and a gauge says so."""
    suspects_limit: int = 100
    """Series of suspects, worst first; a gauge counts those left out."""
    transactional_ids: bool = True
    """Whether transactional ids are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterFacts:
    """The exporter's own state at the instant of publication."""

    version: str
    python_version: str
    started_at_ms: int
    interval_ms: int
    """From the start of one cycle to the start of the next."""
    stale_after_cycles: int
    """Missed or failed cycles after which the rows of the cluster are dropped."""
    cycles: int = 0
    """Cycles that ended, failed ones included."""
    failed_cycles: int = 0
    missed_cycles: int = 0
    """Cycles that could not begin because the one before was still running."""
    last_cycle_duration_seconds: float | None = None
    """None before the first cycle has ended, as the next three."""
    last_cycle_succeeded: bool | None = None
    last_failure: str | None = None
    """Why the last cycle failed, in one sentence; None when it did not."""
    last_success_at_ms: int | None = None
    snapshot_taken_at_ms: int | None = None
    """Of the newest snapshot, also when it has become stale; None before the first."""
    is_stale: bool = False
    """True when a snapshot existed and is too old to be shown."""
    api_statistics: tuple[ApiStatistics, ...] = ()
    settings_reloaded: bool = True
    """False when the latest attempt to read the settings failed, and older ones are in use."""
    settings_loaded_at_ms: int | None = None
    """When the settings in use were read."""
    phase_durations: tuple[tuple[str, float], ...] = ()
    """(phase, seconds) of the last cycle, in order."""
    transaction_log: LogReport | None = None
    """None where it is not read by choice."""
    baseline: BaselineStatus | None = None
    """None where nothing is known to be usual by choice."""
    history: HistoryStatus | None = None
    """None where nothing is recorded by choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """Everything that one publication is made of."""

    evaluation: Evaluation | None
    """None before the first snapshot and when it has become stale: all rows of the cluster vanish."""
    facts: ExporterFacts
    options: PublishOptions
    cluster: str | None = None
    """The value of the label `cluster`, by which a fleet's publications are told apart; None for no such label."""

    @property
    def suspects(self) -> tuple[TransactionRow, ...]:
        """Those of the evaluation as they may be shown, worst first."""
        if self.evaluation is None:
            return ()
        rows = self.evaluation.suspects
        return rows if self.options.transactional_ids else tuple(map(without_transactional_id, rows))


def without_transactional_id(row: TransactionRow) -> TransactionRow:
    """The row with nothing in it that tells the transactional id."""
    if row.transactional_id is None:
        return row
    name = repr(row.transactional_id)
    return replace(
        row,
        transactional_id=None,
        reason=row.reason.replace(name, "(hidden)"),
        unusual=row.unusual and replace(row.unusual, of=row.unusual.of.replace(name, "(hidden)")),
    )
