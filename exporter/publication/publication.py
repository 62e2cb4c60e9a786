"""The input of metrics and pages: an evaluation, the status of process and cluster, and limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from exporter.evaluation.humanize import without_ids
from exporter.evaluation.stuck_transaction import StuckTransaction
from exporter.evaluation.verdicts import Evaluation, TransactionRow
from exporter.status import ClusterStatus, ProcessStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOptions:
    """Limits of the published series: every label set has a maximum."""

    partition_series: Literal["all", "open"] = "all"
    """Series of partitions without an open transaction: a duration of 0, or none."""
    partition_series_limit: int = 100_000
    """Above this many read partitions `all` falls back to `open`, and a gauge shows it."""
    suspects_limit: int = 100
    """Series of suspects, worst first; a gauge counts the others."""
    blocked_groups_limit: int = 100
    """Series of blocked consumer groups, most waiting records first; a gauge counts the others."""
    transactional_ids: bool = True
    """True if transactional ids are shown."""
    external_url: str | None = None
    """Address at which operators reach the status page; None if that is unknown."""
    runbook_url: str | None = None
    """Address of the runbooks; None: the project's."""
    report: str | None = None
    """Place of the pipeline's report; None: there is no page of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """The input of one publication."""

    evaluation: Evaluation | None
    """Evaluation; None before the first snapshot and when it is stale: then the cluster has no series."""
    process: ProcessStatus
    status: ClusterStatus
    options: PublishOptions
    cluster: str | None = None
    """The value of the label `cluster` in a fleet; None without this label."""
    cluster_name: str | None = None
    """The setting `cluster.name`."""
    bootstrap: str = ""
    """The brokers for commands on the page; empty where an operator has to know them."""

    @property
    def cluster_id(self) -> str:
        """Empty while there is no snapshot."""
        return "" if self.evaluation is None else self.evaluation.snapshot.cluster_id

    @property
    def suspects(self) -> tuple[TransactionRow, ...]:
        """The suspects, worst first, without transactional ids where these are not shown."""
        return () if self.evaluation is None else self._shown(self.evaluation.suspects)

    @property
    def longest_others(self) -> tuple[TransactionRow, ...]:
        """The longest transactions that are not suspects, likewise."""
        return () if self.evaluation is None else self._shown(self.evaluation.longest_others)

    @property
    def blocking(self) -> tuple[TransactionRow, ...]:
        """The live transactions that block a group, likewise."""
        return () if self.evaluation is None else self._shown(self.evaluation.blocking)

    @property
    def stuck(self) -> tuple[StuckTransaction, ...]:
        """The transactions that are stuck at their coordinators, likewise."""
        stuck = () if self.evaluation is None else self.evaluation.stuck
        return stuck if self.options.transactional_ids else tuple(replace(each, transactional_id="") for each in stuck)

    def _shown(self, rows: tuple[TransactionRow, ...]) -> tuple[TransactionRow, ...]:
        return rows if self.options.transactional_ids else tuple(map(without_transactional_id, rows))


def without_transactional_id(row: TransactionRow) -> TransactionRow:
    """The row without its transactional id, which its sentences may have as well."""
    return replace(
        row,
        transactional_id=None,
        reason=without_ids(row.reason),
        outcome_seen=tuple(map(without_ids, row.outcome_seen)),
        outcome_unsearched=tuple(map(without_ids, row.outcome_unsearched)),
        unusual=row.unusual and replace(row.unusual, of=without_ids(row.unusual.of)),
    )
