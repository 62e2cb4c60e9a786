"""Situations that a cluster may be in, each with the whole text that `/metrics` must then show in `expected/`.

After an intended change run `make generate`, and read the difference.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from prometheus_client import ProcessCollector

from exporter.evaluation.disk import HeldBytes
from exporter.evaluation.verdicts import InconclusiveReason, OwnerState, Verdict, WaitingGroup
from exporter.publication.exposition import Exposition, Renderer
from exporter.publication.publication import Publication, PublishOptions
from exporter.snapshot import CoordinatorCoverage, DiskSpace, LogDir, MaxTimeout, PartitionResult
from exporter.snapshot.origin import Protection
from exporter.status import AuditStatus
from exporter.transaction_log.counts import Counts
from exporter.transaction_log.events import Event, Happening, Outcome
from exporter.transaction_log.report import LogReport
from tests.publication.builders import (
    TAKEN_AT_MS,
    Partition,
    broker,
    evaluation,
    hanging,
    inconclusive,
    published,
    status,
    transaction,
)

EXPECTED = Path(__file__).parent / "expected"


def healthy() -> Publication:
    """Two partitions, one of them with an ordinary transaction open."""
    partitions = [Partition(partition=0), Partition(partition=1)]
    return published(evaluation(partitions, [transaction(partition=1)]))


def three_hangs() -> Publication:
    """One suspect of each of three kinds, and an ordinary transaction, on one of two partitions."""
    rows = [
        transaction(partition=1, last_stable_offset_lag=None),
        hanging(partition=1, producer_id=4001, last_stable_offset_lag=None),
        hanging(
            topic='we"ird\\topic',
            verdict=Verdict.HANGING_STALE_EPOCH,
            transactional_id="stock-7",
            coordinator=2,
            coordinator_state="Ongoing",
            coordinator_producer_epoch=9,
            groups=(
                WaitingGroup(
                    group='the "read\ners"',
                    committed_offset=1234,
                    waiting_records=42,
                    blocked_since_ms=TAKEN_AT_MS - 90_500,
                ),
                WaitingGroup(group="behind", committed_offset=1000, waiting_records=276),
            ),
            reason="Coordinator 2 is at epoch 9 of stock-7 and ongoing; the records open here are of epoch 3.",
        ),
        inconclusive(topic="__consumer_offsets", inconclusive_reason=InconclusiveReason.IDS_MAY_BE_DENIED),
    ]
    partitions = [Partition(partition=1), Partition(topic='we"ird\\topic'), Partition(topic="__consumer_offsets")]
    exposed = Protection(
        features={"transaction.version": 0},
        broker_configs={
            1: {"transaction.partition.verification.enable": "false", "unclean.leader.election.enable": "true"}
        },
        releases={1: "3.9", 2: "4.3"},
        state_topic_replicas=1,
        state_topic_lagging=2,
    )
    return published(evaluation(partitions, rows), status=status(protection=exposed))


def partial_coverage() -> Publication:
    """One broker of two and one coordinator of two failed, and READ on one topic is missing; nothing else is wrong."""
    partitions = [
        Partition(partition=0),
        Partition(partition=1, unread="timed_out"),
        Partition(topic="payments", unread="TOPIC_AUTHORIZATION_FAILED", answer=PartitionResult.UNAUTHORIZED),
    ]
    return published(
        evaluation(
            partitions,
            [transaction(partition=0)],
            brokers=(broker(1), broker(2, "no answer to DescribeProducers within 10 s")),
            coordinators=(
                CoordinatorCoverage(broker=1, failure=None),
                CoordinatorCoverage(broker=2, failure="connection refused"),
            ),
            max_timeout=MaxTimeout(timeout_ms=None, timeout_ms_min=None, unread=((1, "CLUSTER_AUTHORIZATION_FAILED"),)),
        )
    )


def stale() -> Publication:
    """There was a snapshot, and it is too old to be shown."""
    return published(
        None,
        status=status(
            cycles=11,
            failed_cycles=4,
            missed_cycles=1,
            last_cycle_succeeded=False,
            last_failure="No broker of kafka-1.example:9092 could be reached.",
            is_stale=True,
            api_statistics=(),
            phase_durations=(),
        ),
    )


def before_first_cycle() -> Publication:
    """The process has just begun."""
    return published(
        None,
        status=status(
            cycles=0,
            last_cycle_duration_seconds=None,
            last_cycle_succeeded=None,
            last_success_at_ms=None,
            snapshot_taken_at_ms=None,
            api_statistics=(),
            phase_durations=(),
        ),
    )


def more_suspects_than_series() -> Publication:
    """Three hangs where two may have a series: the youngest is counted as hidden."""
    rows = [hanging(producer_id=id_, duration_ms=id_ * 1000, start_ms=0) for id_ in (11, 13, 12)]
    return published(evaluation([Partition()], rows), options=PublishOptions(suspects_limit=2))


def groups_behind_live_transactions() -> Publication:
    """Two groups wait: behind an owner that is silent, and behind one that no time-out ends, which writes."""
    waiting = WaitingGroup(
        group="order-emails", committed_offset=1234, waiting_records=42, blocked_since_ms=TAKEN_AT_MS - 60_000
    )
    silent = transaction(
        partition=0,
        groups=(waiting,),
        silent_ms=102_000,
        owner=OwnerState.SILENT,
        ends_at_ms=TAKEN_AT_MS + 790_000,
        timeout_ms=900_000,
    )
    prepared = transaction(
        partition=1,
        groups=(replace(waiting, group="invoices"),),
        producer_id=4001,
        silent_ms=2_000,
        owner=OwnerState.WRITING,
        ends_at_ms=None,
        transactional_id="billing-2",
    )
    return published(evaluation([Partition(), Partition(partition=1)], [silent, prepared]))


def bytes_behind_transactions() -> Publication:
    """Three partitions hold bytes where two may have a series; one of two brokers is too old to return free space."""
    rows = [hanging(partition=number, held_bytes=10**number) for number in range(3)]
    held = {
        (row.topic, row.partition): HeldBytes(
            bytes=row.held_bytes or 0, bytes_per_second=50.0, log_dir_full_ms=7_200_000
        )
        for row in rows
    }
    log_dirs = (
        LogDir(broker=1, path="/data/kafka", total_bytes=1_000_000, usable_bytes=360_000),
        LogDir(broker=2, path="/data/kafka", total_bytes=None, usable_bytes=None),
    )
    disk = DiskSpace(at_ms=TAKEN_AT_MS, requested=frozenset(held), sizes={}, log_dirs=log_dirs, failures=())
    full = evaluation([Partition(partition=number) for number in range(3)], rows)
    full = replace(full, held=held, snapshot=replace(full.snapshot, disk=disk))
    return published(full, options=PublishOptions(suspects_limit=2))


def more_partitions_than_series() -> Publication:
    """Three partitions where two may have a series: only the one with an open transaction has one."""
    partitions = [Partition(partition=number) for number in range(3)]
    return published(
        evaluation(partitions, [transaction(partition=2)]), options=PublishOptions(partition_series_limit=2)
    )


def with_transaction_log() -> Publication:
    """The coordinators' log is read: two groups, one partition behind and one unread, an unknown record; and audited."""
    counts = Counts([("orders", re.compile("orders-.*"))])
    for name, outcome, took_ms in (("orders-1", Outcome.COMMITTED, 40), ("x", Outcome.TIMED_OUT, 60_000)):
        for happening, duration_ms in (
            (Happening.INITIALIZED, -1),
            (Happening.PREPARED, took_ms),
            (Happening.COMPLETED, 7),
        ):
            counts.count(
                Event(
                    happening=happening,
                    transactional_id=name,
                    producer_id=7,
                    producer_epoch=0,
                    at_ms=0,
                    outcome=outcome,
                    duration_ms=duration_ms,
                    client_transaction_version=2 if name == "orders-1" else 0,
                )
            )
    report = LogReport(
        counted=counts.counted(),
        records=8,
        unknown_versions=1,
        lag_records=12,
        partitions_current=48,
        partitions_behind=1,
        partitions_unread=1,
        transactional_ids=2,
        failure="partition 4: Broker: Topic authorization failed",
    )
    audit = AuditStatus(TAKEN_AT_MS - 500, transactions={"torn": 1, "as_decided": 10_412}, findings={"torn": 2})
    return published(evaluation([Partition()], []), status=status(transaction_log=report, audit=audit))


SCENARIOS = {
    scenario.__name__: scenario
    for scenario in (
        healthy,
        three_hangs,
        partial_coverage,
        stale,
        before_first_cycle,
        more_suspects_than_series,
        groups_behind_live_transactions,
        bytes_behind_transactions,
        more_partitions_than_series,
        with_transaction_log,
    )
}


def render(publication: Publication) -> Exposition:
    """Without `process_*`: those differ from run to run."""
    return Renderer(process=ProcessCollector(proc="/nonexistent", registry=None)).render(publication)
