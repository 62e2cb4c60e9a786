"""Time lines of what exporters have served: each scrape is the exporter's own text of its own evaluation of a snapshot.

Simplified: a cycle every 30 seconds and a scrape a second after it; clusters of three topics; two brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from prometheus_client import Metric, ProcessCollector
from prometheus_client.core import GaugeMetricFamily

from exporter.baseline import NO_BASELINE, Baseline, UsualDuration
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Policy
from exporter.publication.exposition import Renderer
from exporter.publication.publication import Publication, PublishOptions
from exporter.snapshot import (
    BrokerCoverage,
    CompletingTransaction,
    Completions,
    CoordinatorCoverage,
    CoordinatorTransaction,
    DiskSpace,
    GroupOffset,
    Impact,
    LogDir,
    MarkerFinding,
    MaxTimeout,
    PartitionResult,
    Partitions,
    PendingMarker,
    ReplicaSize,
    SecondRead,
    Snapshot,
    StatePartitionProof,
)
from exporter.status import ApiStatistics, AuditStatus, BaselineStatus, ClusterStatus, HistoryStatus, ProcessStatus
from exporter.transaction_log.counts import DURATION_BUCKETS_SECONDS, MARKER_BUCKETS_SECONDS, Counted, Histogram
from exporter.transaction_log.events import Outcome
from exporter.transaction_log.report import LogReport
from tests.evaluation.builders import Entry, partitions_of, proof, snapshot, transaction
from tests.publication.builders import PROTECTED

CYCLE_MS: Final = 30_000
MINUTE_MS: Final = 60_000
LASTS_MS: Final = 90 * MINUTE_MS
SHOWN_S: Final = 3600
"""The chosen range of the dashboards: the last hour of a time line."""
BREAKS_MS: Final = 60 * MINUTE_MS
"""When what goes wrong with an exporter goes wrong; a hang begins at half of it."""

TOPICS: Final = (("orders", 3), ("payments", 2), ("__consumer_offsets", 2))
ROWS: Final = [(topic, number) for topic, count in TOPICS for number in range(count)]
"""(topic, partition) of each row of the partitions below."""
ORDERS_0, ORDERS_1, ORDERS_2, PAYMENTS_0, PAYMENTS_1, OFFSETS_0, _ = range(len(ROWS))
HANGING_SINCE_MS: Final = BREAKS_MS // 2

LogReader = Callable[[int], LogReport]
"""From the milliseconds since the beginning to the report of the transaction log until then."""
Keeping = Callable[[int], HistoryStatus]
"""The same for the history."""
Taking = Callable[[int, int], Snapshot | None]
"""From the instant and the milliseconds since the beginning to what the cycle read; None where it read nothing."""


@dataclass(frozen=True)
class Scraped:
    """One target of a scenario."""

    taking: Taking
    labels: Mapping[str, str] = field(
        default_factory=lambda: {"job": "kafka-transactions", "instance": "exporter-1:9814"}
    )
    log: LogReader | None = None
    """None where the transaction log is not read."""
    keeping: Keeping | None = None
    """None where no history is recorded."""
    usual: Baseline = NO_BASELINE
    audited: Mapping[str, int] | None = None
    """Verdicts of transactions, and of findings; None where there is no audit."""
    starts_ms: int = 0
    """When its process starts: no scrape is answered before."""
    answers_until_ms: int = LASTS_MS
    """From then on no scrape is answered."""
    frozen_from_ms: int = LASTS_MS
    """From then on no cycle ends, and the old text is served."""
    external_url: str | None = None
    """Where people reach its page."""
    also: Mapping[str, Taking] = field(default_factory=dict)
    """Of one process that reads many clusters: the others, by name; `taking` is then of `FIRST`."""


@dataclass(frozen=True)
class Scrape:
    """The result of one scrape; None without a response."""

    at_ms: int
    target: Scraped
    text: str | None


def healthy(at_ms: int, since_ms: int) -> Snapshot:
    """Two ordinary transactions, new in every cycle."""
    return _snapshot(at_ms, [_ordinary(at_ms, since_ms)], transactions=_owned(at_ms))


def idle(at_ms: int, _since_ms: int) -> Snapshot:
    """Nothing is open."""
    return _snapshot(at_ms, [])


def hanging(at_ms: int, since_ms: int) -> Snapshot:
    """After half an hour one transaction is lost by every coordinator; others are stuck, overdue or without a verdict."""
    if since_ms < HANGING_SINCE_MS:
        return healthy(at_ms, since_ms)
    begun_ms = at_ms - since_ms + HANGING_SINCE_MS
    behind = (since_ms - HANGING_SINCE_MS) // 1000
    unchanged = {"second_read": SecondRead.UNCHANGED, "last_timestamp_ms": begun_ms}
    stuck = transaction(
        "PrepareCommit",
        producer_id=4002,
        transactional_id="payments-7",
        start_ms=begun_ms,
        timeout_ms=MINUTE_MS,
        partitions=frozenset({("payments", 0)}),
    )
    overdue = transaction(
        producer_id=4003,
        transactional_id="nightly-report",
        start_ms=begun_ms,
        timeout_ms=MINUTE_MS,
        partitions=frozenset({("payments", 1)}),
    )
    entries = [
        _ordinary(at_ms, since_ms),
        _entry(ORDERS_1, 4001, 20_154, behind=5 * behind, **unchanged),
        _entry(PAYMENTS_0, 4002, 777, behind=behind, last_timestamp_ms=begun_ms),
        _entry(PAYMENTS_1, 4003, 901, behind=2 * behind, last_timestamp_ms=at_ms - 2000),
        _entry(OFFSETS_0, 4004, 55, behind=behind // 9, **{**unchanged, "second_read": SecondRead.CHANGED}),
    ]
    return _snapshot(
        at_ms,
        entries,
        transactions=(*_owned(at_ms), stuck, overdue),
        completing=completing_since(stuck),
        proof=proof(),
        impact=Impact(
            offsets=(
                GroupOffset(group="invoices", topic="orders", partition=1, offset=20_154),
                GroupOffset(group="mirror", topic="orders", partition=1, offset=20_000),
                GroupOffset(group="ledger", topic="payments", partition=0, offset=776),
            ),
            residents=(),
            failures=(),
        ),
    )


def completing_since(stuck: CoordinatorTransaction) -> Completions:
    """The coordinator's side of a transaction whose only marker is missing."""
    marker = PendingMarker(topic="payments", partition=0, finding=MarkerFinding.MISSING, offset=777)
    lasting = CompletingTransaction(transaction=stuck, state_partition=3, coordinator_epoch=5, markers=(marker,))
    return Completions(listed=frozenset({lasting.identity}), lasting=(lasting,))


def owner_silent(at_ms: int, since_ms: int) -> Snapshot:
    """After half an hour a producer with a time-out of two hours is killed, and two groups stand behind its transaction."""
    if since_ms < HANGING_SINCE_MS:
        return healthy(at_ms, since_ms)
    begun_ms = at_ms - since_ms + HANGING_SINCE_MS
    left = transaction(
        producer_id=4005,
        transactional_id="billing-3",
        start_ms=begun_ms,
        timeout_ms=120 * MINUTE_MS,
        partitions=frozenset({("orders", 1)}),
    )
    behind = (since_ms - HANGING_SINCE_MS) // 1000
    return _snapshot(
        at_ms,
        [_ordinary(at_ms, since_ms), _entry(ORDERS_1, 4005, 20_154, behind=5 * behind, last_timestamp_ms=begun_ms)],
        transactions=(*_owned(at_ms), left),
        max_timeout=MaxTimeout(timeout_ms=120 * MINUTE_MS, timeout_ms_min=120 * MINUTE_MS, unread=()),
        disk=_filling(at_ms, behind),
        impact=Impact(
            offsets=(
                GroupOffset(group="invoices", topic="orders", partition=1, offset=20_154),
                GroupOffset(group="ledger", topic="orders", partition=1, offset=20_154),
            ),
            residents=(),
            failures=(),
        ),
    )


def _filling(at_ms: int, behind: int) -> DiskSpace:
    """The log directory of orders-1 grows by 5 MB a second, and its volume of a terabyte is nearly full."""
    grown = 5_000_000 * behind
    log_dir = LogDir(broker=2, path="/var/lib/kafka", total_bytes=10**12, usable_bytes=10**11 - grown)
    replica = ReplicaSize(log_dir=log_dir, size_bytes=8 * 10**10 + grown, log_start_offset=0)
    return DiskSpace(
        at_ms=at_ms,
        requested=frozenset({("orders", 1)}),
        sizes={("orders", 1): replica},
        log_dirs=(log_dir,),
        failures=(),
    )


def partly_read(at_ms: int, since_ms: int) -> Snapshot:
    """After an hour READ on one topic is gone, and one broker of two answers no more; nothing else is wrong."""
    if since_ms < BREAKS_MS:
        return healthy(at_ms, since_ms)
    refused, silent = (
        (PartitionResult.UNAUTHORIZED, "TOPIC_AUTHORIZATION_FAILED"),
        (PartitionResult.UNAVAILABLE, "timed_out"),
    )
    partial = _partitions({PAYMENTS_0: refused, PAYMENTS_1: refused, ORDERS_2: silent})
    return _snapshot(
        at_ms,
        [_ordinary(at_ms, since_ms)],
        transactions=_owned(at_ms),
        partitions=partial,
        brokers=(_broker(1), _broker(2, "no answer to DescribeProducers within 10 s")),
        coordinators=(
            CoordinatorCoverage(broker=1, failure=None),
            CoordinatorCoverage(broker=2, failure="connection refused"),
        ),
        max_timeout=MaxTimeout(timeout_ms=None, timeout_ms_min=None, unread=((1, "CLUSTER_AUTHORIZATION_FAILED"),)),
    )


def unproved(at_ms: int, since_ms: int) -> Snapshot:
    """The hangs of `hanging` where a coordinator does not respond: nothing is proved, and nothing is well."""
    failed = (StatePartitionProof(partition=0, leader=2, failure="coordinator_unanswered"),)
    seen = hanging(at_ms, since_ms)
    coordinators = (CoordinatorCoverage(broker=2, failure="connection refused"),)
    return replace(
        seen, proof=None if seen.proof is None else proof(state_partitions=failed), coordinators=coordinators
    )


def unreachable(at_ms: int, since_ms: int) -> Snapshot | None:
    """After an hour no broker can be reached."""
    return hanging(at_ms, since_ms) if since_ms < BREAKS_MS else None


def failed_once(at_ms: int, since_ms: int) -> Snapshot | None:
    """The last cycle failed, and the snapshot of the one before is still fresh."""
    return healthy(at_ms, since_ms) if since_ms < LASTS_MS - CYCLE_MS else None


def never_read(_at_ms: int, _since_ms: int) -> None:
    """No broker was ever reached."""
    return


def no_application(_since_ms: int) -> LogReport:
    """All of the transaction log is read, and no transaction is in it."""
    counted = Counted(completed=(), initialized=(), clients=(), durations=(), markers=())
    return LogReport(counted=counted, lag_records=0, partitions_current=50)


def troubled_applications(since_ms: int) -> LogReport:
    """After half an hour billing's transactions take long, and one in four times out; two of its producers fight for an id;
    markers are slow. After an hour the reader falls behind, loses sight of a partition and meets an unknown record.
    """
    minutes = since_ms / MINUTE_MS
    troubled = max(since_ms - HANGING_SINCE_MS, 0) / MINUTE_MS
    behind = max(since_ms - BREAKS_MS, 0) // 1000
    well = minutes - troubled
    outcomes = {
        ("orders", Outcome.COMMITTED): 120 * minutes,
        ("orders", Outcome.ABORTED): 2 * minutes,
        ("orders", Outcome.TIMED_OUT): 0,
        ("orders", Outcome.FENCED): 0,
        ("billing", Outcome.COMMITTED): 40 * well + 24 * troubled,
        ("billing", Outcome.ABORTED): 0,
        ("billing", Outcome.TIMED_OUT): 10 * troubled,
        ("billing", Outcome.FENCED): 6 * troubled,
    }
    taken = {"orders": 3 + minutes // 60, "billing": 3 + 12 * troubled}
    slow = {"orders": 0.0, "billing": troubled}
    ended = {"orders": 122 * minutes, "billing": 40 * minutes}
    return LogReport(
        counted=Counted(
            completed=tuple((group, outcome, int(count)) for (group, outcome), count in outcomes.items()),
            initialized=tuple((group, int(count)) for group, count in taken.items()),
            clients=(("billing", 0, 3), ("orders", 2, 40)),
            durations=tuple(
                (
                    group,
                    outcome,
                    _histogram(DURATION_BUCKETS_SECONDS, int(count), 60 if outcome is Outcome.TIMED_OUT else 0.25),
                )
                for (group, outcome), count in outcomes.items()
            ),
            markers=tuple(
                (group, _histogram(MARKER_BUCKETS_SECONDS, int(count), 0.01, slow=int(4 * slow[group])))
                for group, count in ended.items()
            ),
        ),
        records=int(162 * 4 * minutes),
        unknown_versions=behind // 60,
        lag_records=int(30 * behind),
        partitions_current=48 if behind else 50,
        partitions_behind=int(behind > 0),
        partitions_unread=int(behind > 0),
        transactional_ids=6,
        failure="partition 7: Broker: Leader not available" if behind else None,
    )


def full_disk(since_ms: int) -> HistoryStatus:
    """After an hour the disk of the history is full, and after another quarter too many observations wait."""
    full = max(since_ms - BREAKS_MS, 0) // CYCLE_MS
    written = min(since_ms, BREAKS_MS) // CYCLE_MS
    return HistoryStatus(
        rows=2 * written,
        rows_waiting=min(2 * full, 60),
        rows_lost=max(2 * full - 60, 0),
        size_bytes=4096 * written,
        failure="No space left on device" if full else None,
    )


def _histogram(bounds: Sequence[float], count: int, seconds: float, *, slow: int = 0) -> Histogram:
    """`count` of that duration, but for `slow` of them that took 2 s."""
    counts = [0] * (len(bounds) + 1)
    counts[bounds.index(seconds)] += count - slow
    counts[bounds.index(2.5)] += slow
    return Histogram(tuple(counts), seconds * (count - slow) + 2 * slow)


def of_cluster(cluster: str) -> Mapping[str, str]:
    """Labels of an exporter in a fleet."""
    return {"job": "kafka-transactions", "instance": f"exporter.{cluster}:9814", "cluster": cluster}


HASTY: Final = Baseline(
    cluster_ids=frozenset({"cluster-1"}),
    topics={
        ("cluster-1", topic): UsualDuration(of=f"topic {topic}", threshold_ms=1, p99_ms=1, samples=30)
        for topic, _ in TOPICS
    },
)
"""Every open transaction is longer than that."""

ADDRESS: Final = "https://ktx.example.org"

POD: Final = {"job": "kafka-transactions", "instance": "10.0.0.1:9814"}
FIRST: Final = "berlin"
SCENARIOS: Final[Mapping[str, Sequence[Scraped]]] = {
    "healthy": [Scraped(healthy)],
    "hanging": [Scraped(hanging, external_url=ADDRESS)],
    "owner_silent": [Scraped(owner_silent, external_url=ADDRESS)],
    "partly_read": [Scraped(partly_read)],
    "unproved": [Scraped(unproved)],
    "unreachable": [Scraped(unreachable)],
    "failed_once": [Scraped(failed_once)],
    "never_read": [Scraped(never_read)],
    "down": [Scraped(hanging, answers_until_ms=BREAKS_MS)],
    "frozen": [Scraped(hanging, frozen_from_ms=BREAKS_MS)],
    "transaction_log": [
        Scraped(healthy, log=troubled_applications, keeping=full_disk, usual=HASTY, audited={"torn": 2})
    ],
    "fleet": [
        Scraped(healthy, of_cluster("berlin")),
        Scraped(hanging, of_cluster("oslo")),
        Scraped(partly_read, of_cluster("paris")),
        Scraped(healthy, of_cluster("rome"), answers_until_ms=BREAKS_MS),
    ],
    "replaced": [
        Scraped(healthy, POD, answers_until_ms=BREAKS_MS),
        Scraped(healthy, {**POD, "instance": "10.0.0.2:9814"}, starts_ms=BREAKS_MS - CYCLE_MS),
    ],
    "one_of_two": [
        Scraped(healthy, {**POD, "instance": "10.0.0.2:9814"}),
        Scraped(healthy, POD, answers_until_ms=BREAKS_MS),
    ],
    "one_process": [Scraped(healthy, keeping=full_disk, external_url=ADDRESS, also={"oslo": hanging})],
    "idle": [Scraped(idle, log=no_application, usual=HASTY, audited={"torn": 0})],
}


class StartedProcess(ProcessCollector):
    """The process of a time line: this one, which has started at another time."""

    def __init__(self, started_s: float) -> None:
        super().__init__(registry=None)
        self._started_s = started_s

    def collect(self) -> Iterable[Metric]:
        for metric in super().collect():
            is_start = metric.name == "process_start_time_seconds"
            yield GaugeMetricFamily(metric.name, metric.documentation, self._started_s) if is_start else metric


def played(target: Scraped, begins_ms: int) -> Iterator[Scrape]:
    """Every scrape of one target."""
    renderer, text = Renderer(process=StartedProcess((begins_ms + target.starts_ms) / 1000)), None
    clusters = [_publications(target, begins_ms, FIRST if target.also else None, target.taking)]
    clusters += [_publications(target, begins_ms, name, taking) for name, taking in target.also.items()]
    for since_ms in range(0, LASTS_MS, CYCLE_MS):
        if since_ms < target.frozen_from_ms:
            text = renderer.render(*map(next, clusters)).openmetrics.body.decode()
        answers = target.starts_ms <= since_ms < target.answers_until_ms
        yield Scrape(begins_ms + since_ms + 1000, target, text if answers else None)


def _publications(target: Scraped, begins_ms: int, cluster: str | None, taking: Taking) -> Iterator[Publication]:
    """After each cycle of one cluster; `cluster` is its name in a fleet."""
    memory, newest = Memory(), None
    failed, taken_at_ms = 0, None
    for number, since_ms in enumerate(range(0, LASTS_MS, CYCLE_MS)):
        at_ms = begins_ms + since_ms
        taken = taking(at_ms, since_ms)
        if taken is None:
            failed += 1
            is_old = taken_at_ms is None or at_ms - taken_at_ms > 3 * CYCLE_MS
            newest = None if is_old else newest
        else:
            newest = evaluate(taken, memory, Policy(), baseline=target.usual)
            memory, taken_at_ms = newest.memory, at_ms
        status = _status(number + 1, failed, taken_at_ms, succeeded=taken is not None)
        status = replace(
            status,
            is_stale=newest is None and taken_at_ms is not None,
            transaction_log=None if target.log is None else target.log(since_ms),
            audit=None
            if target.audited is None
            else AuditStatus(begins_ms, transactions=target.audited, findings=target.audited),
        )
        process = ProcessStatus(
            version="0.1.0",
            python_version="3.11.7",
            started_at_ms=begins_ms,
            history=None if target.keeping is None else target.keeping(since_ms),
            baseline=None if target.usual is NO_BASELINE else BaselineStatus(begins_ms, None),
            pipeline_succeeded_at_ms=None if target.usual is NO_BASELINE else begins_ms,
        )
        options = PublishOptions(external_url=target.external_url)
        yield Publication(evaluation=newest, process=process, status=status, options=options, cluster=cluster)


def _status(cycles: int, failed: int, taken_at_ms: int | None, *, succeeded: bool) -> ClusterStatus:
    lost = failed or cycles // 40
    statistics = (
        ApiStatistics(
            api="DescribeProducers",
            requests=2 * cycles,
            failures=lost,
            seconds_total=0.004 * cycles,
            latency_counts=(0, cycles, cycles - lost, *[0] * 11),
        ),
        ApiStatistics(
            api="ListTransactions",
            requests=cycles,
            failures=0,
            seconds_total=0.02 * cycles,
            latency_counts=(0, 0, 0, 0, cycles, *[0] * 9),
        ),
    )
    return ClusterStatus(
        interval_ms=CYCLE_MS,
        stale_after_cycles=3,
        cycles=cycles,
        failed_cycles=failed,
        last_cycle_duration_seconds=0.31,
        last_cycle_succeeded=succeeded,
        last_failure=None if succeeded else "No broker could be reached.",
        last_success_at_ms=None if taken_at_ms is None else taken_at_ms + 310,
        snapshot_taken_at_ms=taken_at_ms,
        api_statistics=statistics,
        phase_durations=(("leaders", 0.21), ("coordinators", 0.08), ("evaluate", 0.02)),
        protection=None if taken_at_ms is None else PROTECTED,
    )


def _ordinary(at_ms: int, since_ms: int) -> Entry:
    return _entry(ORDERS_0, 7, 1000 + since_ms // 100, behind=12, last_timestamp_ms=at_ms - 400)


def _owned(at_ms: int) -> tuple[Any, ...]:
    return (transaction(start_ms=at_ms - 4000),)


def _entry(row: int, producer_id: int, start_offset: int, *, behind: int, **fields: Any) -> Entry:
    return Entry(
        partition=row,
        producer_id=producer_id,
        start_offset=start_offset,
        last_stable_offset=start_offset,
        high_watermark=start_offset + behind,
        **fields,
    )


def _snapshot(at_ms: int, entries: Sequence[Entry], **fields: Any) -> Snapshot:
    known = {"partitions": _partitions(), "brokers": (_broker(1), _broker(2))}
    taken = snapshot(entries, partitions=len(ROWS), taken_at_ms=at_ms)
    return replace(taken, **{**known, **fields})


def _partitions(unread: Mapping[int, tuple[PartitionResult, str]] = MappingProxyType({})) -> Partitions:
    return partitions_of(ROWS, unread, leader=np.array([1 + row % 2 for row in range(len(ROWS))], np.int32))


def _broker(number: int, failure: str | None = None) -> BrokerCoverage:
    return BrokerCoverage(broker=number, host=f"kafka-{number}", port=9092, partitions=4, failure=failure)
