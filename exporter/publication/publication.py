"""What is published: an evaluation, how process and cluster are doing, and how much of it may be shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from exporter.evaluation.verdicts import Evaluation, TransactionRow
from exporter.status import ClusterStatus, ProcessStatus


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
class Publication:
    """Everything that one publication is made of."""

    evaluation: Evaluation | None
    """None before the first snapshot and when it has become stale: all rows of the cluster vanish."""
    process: ProcessStatus
    status: ClusterStatus
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
