"""Verdicts on ordinary, idle, finished and hanging producers of real brokers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from examples.workload.coordinator import standing_of
from examples.workload.producers import OpenTransaction, run_transaction
from exporter.evaluation.verdicts import InconclusiveReason, StartSource, Verdict
from exporter.snapshot import STATE_TOPIC
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import plant_hang, plant_hang_without_id, plant_producers, write_marker
from hangbench.waiting import until
from tests.conftest import FreshName, MakeTopic, versions
from tests.watching import Watch, rows_on

YEAR_MS = 365 * 86_400_000
CLOCK_ERROR_MS = 1000
"""Between two readings of the cluster's clock, on a busy machine."""
SKEW_MS = 1000
"""Between the clock of this process and that of the controller, as the exporter has read it."""


def test_an_ordinary_open_transaction_is_within_its_timeout(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """A live transaction is never suspect: listed in the cycle that first sees it, described in the next."""
    topic = make_topic(broker, partitions=2)
    name = fresh_name("live")

    with Watch(broker.bootstrap) as watch, OpenTransaction(broker.bootstrap, name, [(topic, 1)]):
        first = rows_on(watch.cycle(), topic)[1]
        second = rows_on(watch.cycle(), topic)[1]

    assert (first.verdict, first.start_source, first.timeout_ms) == (
        Verdict.OPEN_WITHIN_TIMEOUT,
        StartSource.FIRST_SEEN,
        None,
    )
    assert (second.verdict, second.start_source, second.timeout_ms) == (
        Verdict.OPEN_WITHIN_TIMEOUT,
        StartSource.COORDINATOR,
        60_000,
    )
    assert second.transactional_id == name
    assert second.last_stable_offset_lag == 1
    assert second.duration_ms >= first.duration_ms


def test_idle_and_finished_producers_open_nothing(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """An idempotent producer, a committed and an aborted transaction leave entries and nothing open."""
    topic = make_topic(broker)
    plant_producers(broker.bootstrap, topic, [0], [8_000_000_001])
    run_transaction(broker.bootstrap, fresh_name("done"), [(topic, 0)])
    run_transaction(broker.bootstrap, fresh_name("undone"), [(topic, 0)], outcome="abort")

    with Watch(broker.bootstrap) as watch:  # the markers are written after the clients were answered
        evaluation = until(watch.cycle, lambda evaluation: rows_on(evaluation, topic) == {})

    partitions = evaluation.snapshot.partitions
    (row,) = [row for row in range(len(partitions)) if partitions.name(row) == (topic, 0)]
    assert partitions.producers[row] == 3
    assert evaluation.partitions.duration_ms_max[row] == 0


@pytest.mark.parametrize(
    ("shift_ms", "source"),
    [(-60_000, StartSource.LAST_WRITE), (-30 * YEAR_MS, StartSource.LAST_WRITE), (50 * 60_000, StartSource.FIRST_SEEN)],
    ids=["a minute ago", "thirty years ago", "in fifty minutes"],
)
def test_a_planted_hang_is_proved_in_the_first_cycle(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, shift_ms: int, source: StartSource
) -> None:
    """A hang whose id its coordinator has Empty is proved at once, whatever the timestamp of its records."""
    topic = make_topic(broker, partitions=3)
    timestamp_ms = int(time.time() * 1000) + shift_ms
    planted = plant_hang(broker.bootstrap, topic, 2, fresh_name("hang"), timestamp_ms=timestamp_ms)

    with Watch(broker.bootstrap) as watch:
        evaluation = watch.cycle()

    row = rows_on(evaluation, topic)[2]
    assert row.verdict is Verdict.HANGING_NOT_IN_TRANSACTION
    assert (row.producer_id, row.producer_epoch, row.start_offset) == (
        planted.producer_id,
        planted.producer_epoch,
        planted.start_offset,
    )
    assert (row.transactional_id, row.coordinator_state) == (planted.transactional_id, "Empty")
    assert row.last_timestamp_ms == timestamp_ms
    assert row.start_source is source
    assert row.is_late == (shift_ms == -30 * YEAR_MS)
    assert evaluation.max_timeout_ms == 900_000


@pytest.mark.parametrize(
    ("records", "deleted", "fetched"),
    [(1, 0, 1), (1500, 0, 1), (1, 1, 2), (1, 2, 2)],
    ids=["near", "after many records", "the log begins with it", "it is deleted"],
)
def test_a_marker_before_a_hang_with_an_old_timestamp_is_older_than_it(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, records: int, deleted: int, fetched: int
) -> None:
    """A process without memory: the hang is of this minute, and its client's timestamp of ten years ago."""
    topic = make_topic(broker)
    before_ms = int(time.time() * 1000) - SKEW_MS
    committed = fresh_name("committed")
    run_transaction(broker.bootstrap, committed, [(topic, 0)], records=records)
    until(lambda: standing_of(broker.bootstrap, committed, 30).state == "CompleteCommit")  # its marker is written
    plant_hang(broker.bootstrap, topic, 0, fresh_name("hang"), timestamp_ms=before_ms - 10 * YEAR_MS)
    if deleted:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        (deletion,) = admin.delete_records([TopicPartition(topic, 0, deleted)]).values()
        deletion.result(10)
    ended_ms = time.time() * 1000
    until(lambda: time.time() * 1000, lambda now_ms: now_ms > ended_ms + CLOCK_ERROR_MS)  # the cycle is later for sure

    with Watch(broker.bootstrap) as watch:
        first, second = watch.cycle(), watch.cycle()
        fetches = [one.requests for one in watch.collector.statistics() if one.api == "Fetch"]

    for evaluation in (first, second):
        row = rows_on(evaluation, topic)[0]
        assert row.verdict is Verdict.HANGING_NOT_IN_TRANSACTION
        is_known = deleted < 2
        assert row.start_source is (StartSource.NOT_OPEN_BEFORE if is_known else StartSource.LAST_WRITE)
        assert (row.start_ms >= before_ms) is is_known
        assert row.is_late is not is_known
    assert fetches == [fetched], "each log is read once"


def test_a_cycle_that_does_not_show_a_hang_with_an_old_timestamp_is_older_than_it(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """No marker is in the log."""
    topic = make_topic(broker)
    with Watch(broker.bootstrap) as watch:
        before_ms = watch.cycle().snapshot.cluster_time_ms
        plant_hang(broker.bootstrap, topic, 0, fresh_name("hang"), timestamp_ms=before_ms - 10 * YEAR_MS)
        until(lambda: time.time() * 1000, lambda now_ms: now_ms > before_ms + CLOCK_ERROR_MS)
        row = rows_on(watch.cycle(), topic)[0]

    assert row.verdict is Verdict.HANGING_NOT_IN_TRANSACTION
    assert (row.start_ms, row.start_source) == (before_ms, StartSource.NOT_OPEN_BEFORE)
    assert not row.is_late


def test_a_hang_that_no_coordinator_knows_is_proved_in_the_first_cycle(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """Without an authorizer nothing can be hidden: a producer id that no coordinator lists hangs."""
    topic = make_topic(broker)
    run_transaction(broker.bootstrap, fresh_name("makes-state-topic"), [(topic, 0)])
    plant_hang_without_id(broker.bootstrap, topic, 0, producer_id=8_100_000_001)

    with Watch(broker.bootstrap) as watch:
        row = rows_on(watch.cycle(), topic)[0]

    assert row.verdict is Verdict.HANGING_NO_TRANSACTIONAL_ID
    assert row.transactional_id is None


def test_a_hang_alongside_an_ongoing_transaction_of_the_same_id_is_proved(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """An id that is Ongoing elsewhere hides no hang: its live partition is fine, the other hangs in two cycles."""
    topic = make_topic(broker, partitions=2)
    name = fresh_name("both")

    with Watch(broker.bootstrap) as watch, OpenTransaction(broker.bootstrap, name, [(topic, 0)]):
        live = rows_on(watch.cycle(), topic)[0]
        plant_hang_without_id(
            broker.bootstrap, topic, 1, producer_id=live.producer_id, producer_epoch=live.producer_epoch
        )
        watch.cycle()
        rows = rows_on(watch.cycle(), topic)

    assert rows[0].verdict is Verdict.OPEN_WITHIN_TIMEOUT
    assert rows[1].verdict is Verdict.HANGING_NOT_IN_TRANSACTION
    assert f"without {topic}-1 among its partitions" in rows[1].reason


def test_a_hang_is_gone_after_its_marker(broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    """A hang that somebody aborts is out of the next snapshot and out of memory."""
    topic = make_topic(broker)
    planted = plant_hang(broker.bootstrap, topic, 0, fresh_name("healed"))

    with Watch(broker.bootstrap) as watch:
        before = rows_on(watch.cycle(), topic)
        write_marker(broker.bootstrap, topic, 0, planted.producer_id, planted.producer_epoch)
        after = rows_on(watch.cycle(), topic)

        assert len(before) == 1
        assert after == {}
        assert [key for key in watch.memory.transactions if key.topic == topic] == []


@pytest.mark.parametrize("broker", versions("4.3.1"), indirect=True)
def test_a_transaction_just_past_its_timeout_is_left_to_its_coordinator(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """Until its coordinator looks (every 10 s), a transaction past its time-out is neither hanging nor overdue."""
    topic = make_topic(broker)

    with Watch(broker.bootstrap) as watch:
        transaction = OpenTransaction(broker.bootstrap, fresh_name("slow"), [(topic, 0)], timeout_ms=1000)
        transaction.__enter__()
        deadline = time.monotonic() + 30
        verdicts = set()
        while rows := rows_on(watch.cycle(), topic):
            verdicts.add(rows[0].verdict)
            assert time.monotonic() < deadline, "the coordinator should have aborted it"
            time.sleep(0.1)

    assert verdicts <= {Verdict.OPEN_WITHIN_TIMEOUT, Verdict.COMPLETING}
    assert Verdict.OPEN_WITHIN_TIMEOUT in verdicts


@pytest.mark.parametrize("broker", versions("4.3.1"), indirect=True)
@pytest.mark.parametrize("commits", [300, pytest.param(1000, marks=pytest.mark.slow)])
def test_rapid_commits_are_never_called_hanging(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, commits: int
) -> None:
    """Transactions that come and go while the cluster is scanned without pause bring no suspect at all."""
    topic = make_topic(broker, partitions=3)
    done = threading.Event()

    def commit_rapidly() -> None:
        try:
            for turn in range(commits):
                transaction.__enter__()
                transaction.close("abort" if turn % 7 == 0 else "commit")
        finally:
            done.set()

    transaction = OpenTransaction(broker.bootstrap, fresh_name("rapid"), [(topic, p) for p in range(3)])
    writer = threading.Thread(target=commit_rapidly)
    seen = 0
    cycles = 0
    suspects = []
    with Watch(broker.bootstrap) as watch:
        writer.start()
        while not done.is_set():
            evaluation = watch.cycle()
            cycles += 1
            seen += len(rows_on(evaluation, topic))
            suspects += [row for row in evaluation.suspects if row.topic == topic]
    writer.join()

    print(f"{commits} transactions, {cycles} cycles, {seen} open transactions seen")
    assert suspects == []
    assert cycles > commits / 20
    assert seen > commits / 20


@pytest.mark.slow
def test_a_broker_below_the_floor_is_recognized_by_the_api_that_it_lacks(
    make_cluster: Callable[..., KafkaCluster],
) -> None:
    """Kafka 2.8 has DescribeProducers and no ListTransactions: what is open is shown, nothing is proved, and it is said."""
    cluster = make_cluster("2.8.2")
    topic = cluster.topics.create("orders")
    cluster.topics.create(STATE_TOPIC)  # librdkafka has no transactions with this version
    plant_hang_without_id(cluster.bootstrap, topic, 0)

    with Watch(cluster.bootstrap) as watch:
        evaluation = watch.cycle()

    assert rows_on(evaluation, topic)[0].inconclusive_reason is InconclusiveReason.TRANSACTIONS_NOT_OFFERED
    (coordinator,) = evaluation.snapshot.coordinators
    assert coordinator.failure is not None
    assert "does not offer ListTransactions" in coordinator.failure
    assert "3.0 or later" in coordinator.failure
