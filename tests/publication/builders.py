"""Builders of snapshots and evaluations: a test names only the values that matter to it.

Simplified: columns that evaluation derives (durations, late, counts by partition) are derived here by the plainest loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from exporter.evaluation.evaluate import partition_columns
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import (
    BlockedGroup,
    Evaluation,
    InconclusiveReason,
    StartSource,
    TransactionColumns,
    TransactionRow,
    Verdict,
)
from exporter.publication.page.fleet import render_overview
from exporter.publication.page.page import Page, render_page
from exporter.publication.paths import requested_below
from exporter.publication.publication import Publication, PublishOptions
from exporter.snapshot import (
    NO_LEADER,
    NULL,
    UNKNOWN_OFFSET,
    BrokerCoverage,
    CoordinatorCoverage,
    MaxTimeout,
    PartitionResult,
    Partitions,
)
from exporter.snapshot.origin import Protection
from exporter.status import ApiStatistics, ClusterStatus, ProcessStatus
from tests.evaluation.builders import NOW_MS, Entry, partitions_of, snapshot

TAKEN_AT_MS = NOW_MS


@dataclass(frozen=True, kw_only=True)
class Partition:
    """One partition of the cluster to build."""

    topic: str = "orders"
    partition: int = 0
    unread: str | None = None
    """Why it could not be read; None when it was."""
    answer: PartitionResult = PartitionResult.UNAVAILABLE
    """Used where `unread` is given."""


def transaction(topic: str = "orders", partition: int = 0, **changes: object) -> TransactionRow:
    """An open transaction of 90 s that is fine; `changes` name what is not."""
    row = TransactionRow(
        topic=topic,
        partition=partition,
        producer_id=4000,
        producer_epoch=3,
        coordinator_epoch=1,
        start_offset=1234,
        last_sequence=7,
        last_timestamp_ms=TAKEN_AT_MS - 30_500,
        start_ms=TAKEN_AT_MS - 90_000,
        start_source=StartSource.COORDINATOR,
        duration_ms=90_000,
        idle_ms=30_500,
        is_late=False,
        unusual=None,
        transactional_id="billing-1",
        coordinator_state="Ongoing",
        coordinator=1,
        coordinator_producer_epoch=3,
        timeout_ms=600_000,
        last_stable_offset_lag=42,
        verdict=Verdict.OPEN_WITHIN_TIMEOUT,
        inconclusive_reason=None,
        reason="Coordinator 1 owns it: Ongoing for 90 s of its timeout of 600 s.",
    )
    return replace(row, **changes)  # type: ignore[arg-type]  # the tests' own keywords


def hanging(topic: str = "orders", partition: int = 0, **changes: object) -> TransactionRow:
    """A proved hang of three hours."""
    facts: dict[str, object] = {
        "start_ms": TAKEN_AT_MS - 10_800_250,
        "duration_ms": 10_800_250,
        "idle_ms": 10_800_250,
        "start_source": StartSource.LAST_WRITE,
        "is_late": True,
        "transactional_id": None,
        "coordinator_state": None,
        "coordinator": None,
        "coordinator_producer_epoch": None,
        "timeout_ms": None,
        "verdict": Verdict.HANGING_NO_TRANSACTIONAL_ID,
        "reason": (
            "No coordinator knows producer id 4000; the partition stayed open before and after the coordinators "
            "were queried."
        ),
    }
    return transaction(topic, partition, **(facts | changes))


def inconclusive(topic: str = "orders", partition: int = 0, **changes: object) -> TransactionRow:
    """A transaction whose proof lacks the coordinators."""
    facts: dict[str, object] = {
        "verdict": Verdict.INCONCLUSIVE,
        "inconclusive_reason": InconclusiveReason.LOADING,
        "start_source": StartSource.FIRST_SEEN,
        "transactional_id": None,
        "coordinator_state": None,
        "coordinator": None,
        "coordinator_producer_epoch": None,
        "timeout_ms": None,
        "reason": "Coordinator 2 is still loading its transactions.",
    }
    return transaction(topic, partition, **(facts | changes))


def evaluation(
    partitions: Iterable[Partition] = (Partition(),),
    transactions: Iterable[TransactionRow] = (),
    *,
    brokers: tuple[BrokerCoverage, ...] | None = None,
    coordinators: tuple[CoordinatorCoverage, ...] | None = None,
    max_timeout: MaxTimeout | None = None,
    cluster_id: str = "MkU3OEVBNTcwNTJENDM2Qk",
) -> Evaluation:
    """The evaluation of these partitions and the transactions open on them."""
    partitions, transactions = list(partitions), list(transactions)
    limits = max_timeout or MaxTimeout(timeout_ms=900_000, timeout_ms_min=900_000, unread=())
    taken = replace(
        snapshot([_entry(partitions, row) for row in transactions]),
        cluster_id=cluster_id,
        finished_at_ms=TAKEN_AT_MS + 250,
        partitions=_partitions(partitions),
        brokers=(broker(1),) if brokers is None else brokers,
        coordinators=(CoordinatorCoverage(broker=1, failure=None),) if coordinators is None else coordinators,
        max_timeout=limits,
    )
    columns = TransactionColumns(
        verdict=np.array([row.verdict for row in transactions], np.int8),
        start_ms=np.array([row.start_ms for row in transactions], np.int64),
        start_source=np.array([row.start_source for row in transactions], np.int8),
        duration_ms=np.array([row.duration_ms for row in transactions], np.int64),
        idle_ms=np.array([NULL if row.idle_ms is None else row.idle_ms for row in transactions], np.int64),
        silent_ms=np.array([NULL if row.silent_ms is None else row.silent_ms for row in transactions], np.int64),
        is_late=np.array([row.is_late for row in transactions], np.bool_),
        is_unusually_long=np.array([row.unusual is not None for row in transactions], np.bool_),
    )
    return Evaluation(
        snapshot=taken,
        transactions=columns,
        partitions=partition_columns(taken, columns),
        has_baseline=any(row.unusual is not None for row in transactions),
        usual=tuple(row.unusual for row in transactions),
        evidence=(),
        suspects=tuple(
            sorted(
                (row for row in transactions if row.verdict.is_suspect), key=lambda row: (row.verdict, -row.duration_ms)
            )
        ),
        longest_others=tuple(
            sorted((row for row in transactions if not row.verdict.is_suspect), key=lambda row: -row.duration_ms)[:10]
        ),
        blocking=tuple(
            row
            for row in transactions
            if not row.verdict.is_suspect and any(group.blocked_since_ms is not None for group in row.groups)
        ),
        blocked_groups=tuple(
            BlockedGroup(
                group=group.group,
                topic=row.topic,
                partition=row.partition,
                records=group.waiting_records,
                since_ms=group.blocked_since_ms,
            )
            for row in transactions
            for group in row.groups
            if group.blocked_since_ms is not None and group.waiting_records is not None
        ),
        max_timeout_ms=900_000 if limits.timeout_ms is None else limits.timeout_ms,
        max_timeout_is_fallback=limits.timeout_ms is None,
        memory=Memory(),
    )


PROCESS = ProcessStatus(version="0.1.0", python_version="3.11.7", started_at_ms=TAKEN_AT_MS - 600_000)


def published(
    of: Evaluation | None,
    *,
    status: ClusterStatus | None = None,
    options: PublishOptions | None = None,
    cluster: str | None = None,
    cluster_name: str | None = None,
    bootstrap: str = "",
) -> Publication:
    """Such a daemon's publication of an evaluation."""
    return Publication(
        evaluation=of,
        process=PROCESS,
        status=_usual_status() if status is None else status,
        options=PublishOptions() if options is None else options,
        cluster=cluster,
        cluster_name=cluster_name,
        bootstrap=bootstrap,
    )


PROTECTED = Protection(
    features={"metadata.version": 29, "transaction.version": 2},
    broker_configs={
        broker: {"transaction.partition.verification.enable": "true", "unclean.leader.election.enable": "false"}
        for broker in (1, 2)
    },
    releases={1: "4.3", 2: "4.3"},
    state_topic_replicas=3,
    state_topic_lagging=0,
    state_topic_configs={
        "unclean.leader.election.enable": "false",
        "min.insync.replicas": "2",
        "cleanup.policy": "compact",
    },
)
"""As good as it can be."""


def status(**changes: object) -> ClusterStatus:
    """Of a daemon that has done seven cycles, all of them well."""
    return replace(_usual_status(), **changes)  # type: ignore[arg-type]  # the tests' own keywords


def _usual_status() -> ClusterStatus:
    return ClusterStatus(
        interval_ms=30_000,
        stale_after_cycles=3,
        cycles=7,
        failed_cycles=0,
        missed_cycles=0,
        last_cycle_duration_seconds=0.25,
        last_cycle_succeeded=True,
        last_failure=None,
        last_success_at_ms=TAKEN_AT_MS + 250,
        snapshot_taken_at_ms=TAKEN_AT_MS,
        is_stale=False,
        api_statistics=(
            ApiStatistics(
                api="DescribeProducers",
                requests=14,
                failures=1,
                seconds_total=0.75,
                latency_counts=(0, 0, 3, 9, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0),
            ),
        ),
        phase_durations=(("collect", 0.2), ("evaluate", 0.05)),
        protection=PROTECTED,
    )


def broker(number: int, failure: str | None = None) -> BrokerCoverage:
    """One broker that leads a partition."""
    return BrokerCoverage(broker=number, host=f"kafka-{number}.example", port=9092, partitions=1, failure=failure)


def many_partitions(topics: int, partitions_each: int) -> Partitions:
    """A large, fully read cluster."""
    count = topics * partitions_each
    return Partitions(
        topics=tuple(f"team-{number:05}.some-topic" for number in range(topics)),
        topic=np.repeat(np.arange(topics, dtype=np.int32), partitions_each),
        partition=np.tile(np.arange(partitions_each, dtype=np.int32), topics),
        leader=np.ones(count, np.int32),
        answer=np.zeros(count, np.int8),
        reasons=(),
        reason=np.full(count, -1, np.int16),
        producers=np.zeros(count, np.int32),
    )


def evaluation_of(partitions: Partitions, duration_ms_max: dict[int, int]) -> Evaluation:
    """An evaluation of `partitions` with one open transaction on each row named: {row: duration in ms}."""
    small = evaluation()
    taken = replace(small.snapshot, partitions=partitions)
    columns = partition_columns(taken, small.transactions)
    for row, duration_ms in duration_ms_max.items():
        columns.open_transactions[row] = 1
        columns.duration_ms_max[row] = duration_ms
    return replace(small, snapshot=taken, partitions=columns)


def _partitions(partitions: Sequence[Partition]) -> Partitions:
    return partitions_of(
        [(row.topic, row.partition) for row in partitions],
        {number: (row.answer, row.unread) for number, row in enumerate(partitions) if row.unread is not None},
        leader=np.array([1 if row.unread is None else NO_LEADER for row in partitions], np.int32),
    )


def _entry(partitions: Sequence[Partition], row: TransactionRow) -> Entry:
    lag = row.last_stable_offset_lag
    return Entry(
        partition=[(partition.topic, partition.partition) for partition in partitions].index(
            (row.topic, row.partition)
        ),
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        start_offset=row.start_offset,
        last_sequence=row.last_sequence,
        coordinator_epoch=row.coordinator_epoch,
        last_timestamp_ms=row.last_timestamp_ms,
        high_watermark=2000,
        last_stable_offset=UNKNOWN_OFFSET if lag is None else 2000 - lag,
    )


def render_pages(publications: Sequence[Publication]) -> dict[str, Page]:
    """The overview, and a page for each cluster."""
    pages = {requested_below(publication.cluster): render_page(publication) for publication in publications}
    return {"/": render_overview(publications), **pages}
