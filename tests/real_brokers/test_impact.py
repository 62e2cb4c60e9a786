"""Finds the groups that a hang blocks on real brokers, by their committed offsets and by their own partition."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from examples.workload.producers import OpenTransaction, run_transaction
from exporter.evaluation.verdicts import Evaluation, OwnerState, Policy, TransactionRow, Verdict, WaitingGroup
from exporter.kafka.state_partitions import java_hash_partition
from exporter.snapshot import OFFSETS_TOPIC
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.groups import commit, read_to_the_end
from hangbench.kafka.planting import plant_hang, write_marker
from hangbench.situations.ground import until_closed
from hangbench.situations.steps import Client
from hangbench.waiting import until
from tests.conftest import FreshName, MakeCluster, MakeTopic, versions
from tests.real_brokers.exporting import ask_why, called, serving
from tests.watching import Watch, rows_on

OFFSETS_PARTITIONS = 5  # as the clusters of the tests have it


@pytest.mark.parametrize("broker", versions("4.3.1"), indirect=True)
def test_groups_wait_as_long_as_their_queue(broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    """A suspect names the groups that commit on its partition, the longest queue first; other groups are left out."""
    topic, other = make_topic(broker), make_topic(broker)
    far, near, elsewhere = fresh_name("far"), fresh_name("near"), fresh_name("elsewhere")
    plant_hang(broker.bootstrap, topic, 0, fresh_name("hang"))
    run_transaction(broker.bootstrap, fresh_name("behind"), [(topic, 0)], records=8)
    commit(broker, near, topic, 5)
    commit(broker, far, topic, 0)
    commit(broker, elsewhere, other, 0)

    with Watch(broker.bootstrap) as watch:
        evaluation = watch.cycle()
        row = rows_on(evaluation, topic)[0]

    assert row.groups == (
        WaitingGroup(
            group=far,
            committed_offset=0,
            waiting_records=10,
            blocked_since_ms=evaluation.snapshot.cluster_time_ms,
        ),
        WaitingGroup(group=near, committed_offset=5, waiting_records=5),
    )
    assert evaluation.snapshot.impact is not None
    assert evaluation.snapshot.impact.failures == ()


def test_a_reader_of_committed_records_is_blocked_and_others_are_not(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """The group is at the last stable offset from the first cycle on, for as long as the hang is open."""
    topic = make_topic(broker)
    committed, uncommitted, slow = fresh_name("committed"), fresh_name("uncommitted"), fresh_name("slow")
    run_transaction(broker.bootstrap, fresh_name("before"), [(topic, 0)], records=3)
    until_closed(broker.bootstrap, topic, 0)  # its client hears of the end before the partition has the marker
    hang = plant_hang(broker.bootstrap, topic, 0, fresh_name("hang"))
    run_transaction(broker.bootstrap, fresh_name("behind"), [(topic, 0)], records=8)
    read_to_the_end(broker, committed, topic, "read_committed")
    read_to_the_end(broker, uncommitted, topic, "read_uncommitted")
    commit(broker, slow, topic, 1)

    with Watch(broker.bootstrap) as watch:
        first = [group for group in watch.cycle().blocked_groups if group.topic == topic]
        second = [group for group in watch.cycle().blocked_groups if group.topic == topic]
        write_marker(broker.bootstrap, topic, 0, hang.producer_id, hang.producer_epoch)
        last = [group for group in watch.cycle().blocked_groups if group.topic == topic]

    assert [group.group for group in first] == [committed]
    assert first[0].records == 10  # the hang's own record, eight behind it, and their marker
    assert second == first
    assert last == []


@pytest.mark.parametrize("broker", versions("4.3.1", "3.9.1"), indirect=True)
def test_a_group_before_aborted_records_is_blocked_by_the_transaction_behind_them(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """Its consumer reads through them, gets none, and commits nothing; one committed record among them is to be read."""
    topic, other = make_topic(broker), make_topic(broker)
    held, reads = fresh_name("held"), fresh_name("reads")
    for name in (topic, other):
        run_transaction(broker.bootstrap, fresh_name("large"), [(name, 0)], records=3000, outcome="abort")
    run_transaction(broker.bootstrap, fresh_name("between"), [(other, 0)])
    for name in (topic, other):
        until_closed(broker.bootstrap, name, 0)
        plant_hang(broker.bootstrap, name, 0, fresh_name("hang"))
    commit(broker, held, topic, 0)
    commit(broker, reads, other, 0)

    with Watch(broker.bootstrap) as watch:
        groups = {group.group for group in watch.cycle().blocked_groups if group.topic in {topic, other}}

    assert groups == {held}


SOON = Policy(blocked_after_ms=1000, owner_silent_after_ms=1000)
TIMEOUT_MS = 20_000


def test_a_group_behind_a_live_transaction_is_blocked_and_its_owner_is_named(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """The commonest outage: nothing is wrong at the coordinator, its owner writes no more, and everybody waits."""
    topic, group, owner = make_topic(broker), fresh_name("committed"), fresh_name("owner")
    run_transaction(broker.bootstrap, fresh_name("before"), [(topic, 0)], records=3)
    with (
        Watch(broker.bootstrap, policy=SOON) as watch,
        OpenTransaction(broker.bootstrap, owner, [(topic, 0)], timeout_ms=TIMEOUT_MS) as transaction,
    ):
        run_transaction(broker.bootstrap, fresh_name("behind"), [(topic, 0)], records=8)
        read_to_the_end(broker, group, topic, "read_committed")

        def behind(evaluation: Evaluation) -> TransactionRow | None:
            return next((row for row in evaluation.blocking if row.topic == topic), None)

        first = until(watch.cycle, lambda evaluation: behind(evaluation) is not None)
        silent = until(
            watch.cycle, lambda evaluation: (row := behind(evaluation)) is not None and row.owner is OwnerState.SILENT
        )
        transaction.write()
        writing = watch.cycle()
        transaction.close("commit")
        last = watch.cycle()

    row = behind(first)
    assert row is not None
    assert [waiting.group for waiting in row.groups] == [group]
    assert (row.verdict, row.transactional_id) == (Verdict.OPEN_WITHIN_TIMEOUT, owner)
    assert row.ends_at_ms == row.start_ms + TIMEOUT_MS + 10_000
    assert not [suspect for suspect in silent.suspects if suspect.topic == topic]
    row = behind(silent)
    assert row is not None
    assert (row.silent_ms or 0) >= TIMEOUT_MS // 4
    row = behind(writing)
    assert row is not None
    assert (row.owner, row.silent_ms) == (OwnerState.WRITING, 0)
    assert behind(last) is None
    assert not [blocked for blocked in last.blocked_groups if blocked.topic == topic]


def test_the_page_says_who_waits_behind_whom_and_until_when(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path
) -> None:
    """It is not green, and the metrics have what the alert needs."""
    topic, group, owner = make_topic(broker), fresh_name("committed"), fresh_name("owner")
    with OpenTransaction(broker.bootstrap, owner, [(topic, 0)], timeout_ms=TIMEOUT_MS):
        run_transaction(broker.bootstrap, fresh_name("behind"), [(topic, 0)], records=8)
        commit(broker, group, topic, 0)
        with serving(
            broker.bootstrap,
            tmp_path,
            scan__topics__include=topic,
            blocked__after="1s",
            blocked__owner_silent_after="1s",
        ) as exporter:
            page = until(lambda: exporter.get("/")[1], lambda text: "owner silent" in text)
            metrics = exporter.metrics()

    assert f"Consumer group {group} is blocked behind a live transaction whose owner is silent" in page
    assert 'class="banner warning"' in page
    assert "its coordinator aborts it, unless its owner ends it before" in page
    (silent,) = metrics["kafka_blocking_transaction_owner_silent_seconds"].items()
    (ends,) = metrics["kafka_blocking_transaction_ends_timestamp_seconds"].items()
    assert silent[0] == ends[0]
    assert silent[0][0] == topic
    assert silent[0][-2:] == (owner, "open_within_timeout")
    assert silent[1] >= TIMEOUT_MS / 4000
    assert 0 < ends[1] - time.time() < TIMEOUT_MS / 1000 + 10


def neighbour_of(group: str, fresh_name: FreshName) -> str:
    """The name of another group whose offsets are on the same partition of `__consumer_offsets`."""
    names = (fresh_name("neighbour") for _ in range(100))
    home = java_hash_partition(group, OFFSETS_PARTITIONS)
    return next(name for name in names if java_hash_partition(name, OFFSETS_PARTITIONS) == home)


def test_a_hang_on_the_offsets_topic_names_the_group_whose_offset_is_pending(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path
) -> None:
    """A group that only keeps its offsets on the same partition reads them as before: it is not named."""
    topic, group = make_topic(broker), fresh_name("pending")
    neighbour = neighbour_of(group, fresh_name)
    for name in (group, neighbour):
        commit(broker, name, topic, 0)
    hang = Client.begin(broker.bootstrap, fresh_name("hang")).commit_offset_unheard(group, topic)
    try:
        with Watch(broker.bootstrap) as watch:
            evaluation = watch.cycle()
        yes, no = (ask_why(broker, tmp_path, "--group", name) for name in (group, neighbour))
    finally:
        write_marker(broker.bootstrap, OFFSETS_TOPIC, hang.partition, hang.producer_id, hang.producer_epoch)
    after = ask_why(broker, tmp_path, "--group", group)

    row = rows_on(evaluation, OFFSETS_TOPIC)[hang.partition]
    assert row.verdict is Verdict.HANGING_NOT_IN_TRANSACTION
    assert [waiting.group for waiting in row.groups] == [group]
    assert evaluation.snapshot.impact is not None
    assert evaluation.snapshot.impact.failures == ()
    assert [hold["transaction"]["partition"] for hold in yes["holds"]] == [hang.partition]
    assert f"Group {group} has an offset pending on {OFFSETS_TOPIC}-{hang.partition}" in yes["text"]
    assert (no["holds"], no["unknown"], after["holds"]) == ([], [], [])


@pytest.mark.parametrize("version", versions("4.3.1"))
def test_an_offset_stays_pending_when_its_coordinator_starts_again(
    make_cluster: MakeCluster, fresh_name: FreshName, tmp_path: Path, version: str
) -> None:
    """The coordinator reads it from the log. A first commit is pending, too, but only `why` can name its partition."""
    cluster = make_cluster(version)
    (node,) = cluster.brokers
    topic, group, first = cluster.topics.create(fresh_name("topic")), fresh_name("pending"), fresh_name("first")
    while java_hash_partition(first, OFFSETS_PARTITIONS) == java_hash_partition(group, OFFSETS_PARTITIONS):
        first = fresh_name("first")
    commit(cluster, group, topic, 0)
    hangs = [
        Client.begin(cluster.bootstrap, f"hang-{name}").commit_offset_unheard(name, topic) for name in (group, first)
    ]
    node.stop()
    node.start()

    def named(evaluation: Evaluation) -> dict[int, list[str]]:
        rows = rows_on(evaluation, OFFSETS_TOPIC)
        return {partition: [waiting.group for waiting in row.groups] for partition, row in rows.items()}

    expected = {hang.partition: names for hang, names in zip(hangs, ([group], []), strict=True)}
    with Watch(cluster.bootstrap) as watch:
        evaluation = until(watch.cycle, lambda cycle: named(cycle) == expected)
    of_group, of_first = (ask_why(cluster, tmp_path, "--group", name)["holds"] for name in (group, first))

    impact = evaluation.snapshot.impact
    assert impact is not None
    assert (impact.failures, impact.unseen) == ((), (hangs[1].partition,))
    assert [hold["transaction"]["partition"] for hold in (*of_group, *of_first)] == [hang.partition for hang in hangs]


@pytest.mark.parametrize("broker", versions("4.3.1"), indirect=True)
def test_no_group_is_requested_where_nothing_is_open_for_long(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """Transactions that have just begun cost no request for groups."""
    topic = make_topic(broker)

    with Watch(broker.bootstrap) as watch, OpenTransaction(broker.bootstrap, fresh_name("live"), [(topic, 0)]):
        evaluation = watch.cycle()
        apis = {api.api for api in watch.collector.statistics()}

    assert evaluation.suspects == ()
    assert evaluation.snapshot.impact is None
    assert not apis & {"ListGroups", "OffsetFetch"}


def test_a_plan_names_the_groups_behind_a_live_transaction(
    kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path
) -> None:
    """Its owner may have died: whoever waits is named all the same, and nothing is said that was not asked."""
    topic, group = make_topic(kafka_4_3_1), fresh_name("waits")
    where = ("--topic", topic, "--partition", "0", "--start-offset", "0")
    with OpenTransaction(kafka_4_3_1.bootstrap, fresh_name("live"), [(topic, 0)]):
        before = called(tmp_path, "abort", "--bootstrap-server", kafka_4_3_1.bootstrap, *where, "--dry-run")
        commit(kafka_4_3_1, group, topic, 0)
        after = called(tmp_path, "abort", "--bootstrap-server", kafka_4_3_1.bootstrap, *where, "--dry-run")

    assert "consumer groups: none that this login sees has committed offsets here" in before.stdout
    assert f": {group} (" in after.stdout
    assert "Whether that producer still runs is not known" in after.stdout
