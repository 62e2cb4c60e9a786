"""Holds the status of the exporter itself: of the process, of one cluster, and of each part.

Plain records that the daemon fills and publication shows. Instants in milliseconds since 1970 UTC, durations in seconds
unless the name says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from exporter.snapshot.origin import Protection
from exporter.snapshot.preconditions import ProofLevel, Provable
from exporter.transaction_log.report import LogReport

LATENCY_BUCKETS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the latency histograms; the last bucket, +Inf, is implied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiStatistics:
    """Requests of one Kafka API since the process started."""

    api: str
    """Kafka's name: `DescribeProducers`."""
    requests: int = 0
    failures: int = 0
    """Requests without a usable response: refused, lost, timed out, not understood."""
    seconds_total: float = 0.0
    """Sum of the latencies of requests with a response."""
    latency_counts: tuple[int, ...] = (0,) * (len(LATENCY_BUCKETS_SECONDS) + 1)
    """Requests by latency: one more than LATENCY_BUCKETS_SECONDS, not cumulative, the last is +Inf."""


def total(parts: Iterable[ApiStatistics]) -> tuple[ApiStatistics, ...]:
    """The sum of several clients' counts, by API."""
    sums: dict[str, ApiStatistics] = {}
    for part in parts:
        sums[part.api] = _plus(sums.get(part.api, ApiStatistics(api=part.api)), part, 1)
    return tuple(sums[api] for api in sorted(sums))


def since(before: Iterable[ApiStatistics], after: Iterable[ApiStatistics]) -> tuple[ApiStatistics, ...]:
    """Returns one client's counts between two readings."""
    earlier = {statistics.api: statistics for statistics in before}
    return tuple(
        _plus(statistics, earlier.get(statistics.api, ApiStatistics(api=statistics.api)), -1) for statistics in after
    )


def _plus(first: ApiStatistics, second: ApiStatistics, sign: int) -> ApiStatistics:
    return ApiStatistics(
        api=first.api,
        requests=first.requests + sign * second.requests,
        failures=first.failures + sign * second.failures,
        seconds_total=first.seconds_total + sign * second.seconds_total,
        latency_counts=tuple(a + sign * b for a, b in zip(first.latency_counts, second.latency_counts, strict=True)),
    )


@dataclass(frozen=True, slots=True)
class ReloadStatus:
    """Status of the latest reload; reading the settings at the start counts as the first."""

    succeeded: bool
    last_success_at_ms: int


@dataclass(frozen=True, slots=True)
class BaselineStatus:
    made_at_ms: int | None
    """Time at which the baseline was made; None if the file could not be read."""
    failure: str | None
    """Reason why the baseline is not used, in one sentence; None while it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStatus:
    """Status of the history at one instant."""

    rows: int = 0
    """Observations written since the start."""
    rows_waiting: int = 0
    """Rows in memory, to be written with the next file: a kill would lose them."""
    rows_lost: int = 0
    """Dropped because too many waited; a cycle without observations counts as one."""
    size_bytes: int = 0
    """Size of all files in the directory, written by all processes."""
    newest_ms: int | None = None
    """The newest cycle that is on disk; None before the first file."""
    failure: str | None = None
    """Reason why nothing is written, in one sentence; None while it is."""


@dataclass(frozen=True, slots=True)
class AuditStatus:
    """Result of the audits of one cluster."""

    audited_at_ms: int
    """Instant at which the newest one asked for the ends of the logs."""
    transactions: Mapping[str, int] | None = None
    """Decided transactions of the last day by verdict; None if the newest audit is older, as the next one."""
    findings: Mapping[str, int] | None = None
    """Findings on single partitions by verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatus:
    """Status of the process, for all clusters."""

    version: str
    python_version: str
    started_at_ms: int
    settings_reloaded: bool = True
    """False when the latest attempt to read the settings failed, and older ones are in use."""
    settings_loaded_at_ms: int | None = None
    """Time at which the settings in use were read."""
    baseline: BaselineStatus | None = None
    """Status of the baseline; None if no baseline file is configured."""
    history: HistoryStatus | None = None
    """Status of the history; None if no history is recorded."""
    pipeline_succeeded_at_ms: int | None = None
    """End of the pipeline's newest run without a failure; None without `publish.report`, and where none is known."""


@dataclass(frozen=True, slots=True)
class ProofStatus:
    """Result of the last check whether hangs could be proved."""

    provable: Provable
    level: ProofLevel
    sentence: str
    """Sentence, with its full stop, about the topics on which hangs can be proved."""
    checked_at_ms: int
    """Time of the last requests for this: they are not sent in every cycle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """Status of the cycles of one cluster, up to the publication."""

    interval_ms: int
    """Time from the start of one cycle to the start of the next."""
    stale_after_cycles: int
    """Missed or failed cycles after which the rows of the cluster are dropped."""
    cycles: int = 0
    """Cycles that ended, failed ones included."""
    failed_cycles: int = 0
    missed_cycles: int = 0
    """Cycles that could not begin because the previous one was still running."""
    missed_in_a_row: int = 0
    """Cycles since the newest snapshot that were missed, or failed."""
    last_cycle_duration_seconds: float | None = None
    """Duration of the last cycle; None before the first has ended, as the next three."""
    last_cycle_succeeded: bool | None = None
    last_failure: str | None = None
    """Reason why the last cycle failed, in one sentence; None if it did not."""
    last_success_at_ms: int | None = None
    snapshot_taken_at_ms: int | None = None
    """Time of the newest snapshot, also if it is stale; None before the first."""
    is_stale: bool = False
    """True if a snapshot existed and is too old to be shown."""
    api_statistics: tuple[ApiStatistics, ...] = ()
    phase_durations: tuple[tuple[str, float], ...] = ()
    """(phase, seconds) of the last cycle, in order; none if it failed."""
    transaction_log: LogReport | None = None
    """Report of the transaction log; None if it is not read."""
    proof: ProofStatus | None = None
    """Status of proofs; None before the first check."""
    protection: Protection | None = None
    """Settings that prevent hangs; None until they were read."""
    audit: AuditStatus | None = None
    """Result of `pipeline audit`; None without `publish.report`, and where there is none."""

    @property
    def has_succeeded(self) -> bool:
        """True from the first cycle on that succeeded."""
        return self.cycles > self.failed_cycles
