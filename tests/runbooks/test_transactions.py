"""Follows the runbooks of alerts about transactions, command by command, on a broker in the state of the alert."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.workload.producers import run_transaction
from exporter.commands.context import CONFIG_FILE
from hangbench.kafka.groups import commit
from hangbench.kafka.planting import PlantedTransaction, plant_hang, plant_hang_without_id, write_marker
from hangbench.kafka.second_door import GuardedCluster
from hangbench.situations.ground import described, open_entries, wait_past_clocks
from hangbench.situations.stages.careless import decide
from hangbench.situations.steps import HIGHER_COORDINATOR_EPOCH, Client
from tests.brokers.messages import committed_records
from tests.conftest import FreshName, MakeTopic
from tests.real_brokers.exporting import serving
from tests.runbooks.desk import LISTENS, Desk, Operator

pytestmark = pytest.mark.broker

HOUR_MS = 3_600_000
OVERDUE_AFTER_S = 10.5  # its own time-out and the slack of find-hanging


def about(desk: Desk, planted: PlantedTransaction) -> None:
    """Set the variables from the labels of the alert, and the id as find-hanging shows it."""
    desk.variables |= {
        "TOPIC": planted.topic,
        "PARTITION": str(planted.partition),
        "START_OFFSET": str(planted.start_offset),
        "TRANSACTIONAL_ID": planted.transactional_id or "",
    }


def is_open(cluster: GuardedCluster, planted: PlantedTransaction) -> bool:
    return planted.producer_id in open_entries(cluster.bootstrap, planted.topic, planted.partition)


def test_hanging(guarded: GuardedCluster, desk: Desk, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    """A hang with records behind it: it is aborted after a question, and consumers see what it held back."""
    hang = plant_hang(guarded.bootstrap, make_topic(guarded), 0, fresh_name("hang"))
    run_transaction(guarded.bootstrap, fresh_name("behind"), [(hang.topic, 0)], records=2)
    about(desk, hang)
    assert committed_records(guarded, hang.topic, 2) == []

    with desk.reading("KafkaTransactionHanging") as operator:
        operator.pastes("abort", "--dry-run", shows="records that are dropped: 1; records of others that wait: 2\n")
        operator.pastes("find-hanging", "json", shows='"outcome_evidence": "none"')
        operator.pastes("kafka-console-consumer.sh", shows=f"CreateTime:{hang.timestamp_ms}\tNO_HEADERS\tnull\tplanted")
        assert is_open(guarded, hang)
        operator.pastes("abort", shows="the transaction is closed")
        operator.pastes("find-hanging", "--exit-code", hides="hanging_")

    assert not is_open(guarded, hang)
    assert committed_records(guarded, hang.topic, 2) == [1, 2]


def test_a_hang_that_was_committed_elsewhere_is_not_aborted(
    guarded: GuardedCluster, desk: Desk, make_topic: MakeTopic
) -> None:
    """The same page in the case that it warns of: the plan says committed, abort refuses, nothing is written."""
    topic = make_topic(guarded, partitions=2)
    hang, other = (
        plant_hang_without_id(guarded.bootstrap, topic, partition, producer_id=8_800_000_001) for partition in range(2)
    )
    write_marker(guarded.bootstrap, topic, 1, other.producer_id, other.producer_epoch, commit=True)
    about(desk, hang)

    with desk.reading("KafkaTransactionHanging", "Mitigation") as operator:
        operator.pastes("abort", status=5, shows="an abort may hide committed records")
        operator.pastes("--exit-code", status=3)

    assert is_open(guarded, hang)


def test_hanging_cluster_wide(
    guarded: GuardedCluster, desk: Desk, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """Twelve hangs of one application are found, planned in a file and closed from it, after one question."""
    topic = make_topic(guarded, partitions=12)
    hangs = [plant_hang(guarded.bootstrap, topic, partition, fresh_name("app")) for partition in range(12)]
    with desk.reading("KafkaTransactionHangingClusterWide") as operator:
        operator.pastes("find-hanging", "--plan-file hanging.json", shows="12 proved hanging transactions")
        operator.pastes("list", "--states Ongoing", shows="TransactionalId")
        assert operator.pastes("grep -c").output.strip() == "0"
        refused = desk.run(operator.next_line)
        assert (refused.status, "12 transactions, more than --max-aborts 10" in refused.errors) == (5, True)
        desk.hurry = {**desk.hurry, "abort": "--max-aborts 12"}
        operator.pastes("abort", "--dry-run", shows=": nothing is written")
        assert all(is_open(guarded, hang) for hang in hangs)
        assert operator.pastes("abort", "--plan-file").output.count("the transaction is closed") == 12
        operator.pastes("find-hanging", "--exit-code", hides="hanging_")

    assert not any(is_open(guarded, hang) for hang in hangs)


def test_a_plan_shows_what_was_committed_elsewhere(guarded: GuardedCluster, desk: Desk, make_topic: MakeTopic) -> None:
    """The count that is to be zero before anything is aborted is not zero where it must not be."""
    topic = make_topic(guarded, partitions=2)
    for partition in range(2):
        plant_hang_without_id(guarded.bootstrap, topic, partition, producer_id=8_800_000_002)
    write_marker(guarded.bootstrap, topic, 1, 8_800_000_002, 0, commit=True)

    with desk.reading("KafkaTransactionHangingClusterWide", "Diagnosis") as operator:
        operator.pastes("--plan-file")
        operator.pastes("list")
        assert operator.pastes("grep -c").output.strip() == "1"


def test_late(guarded: GuardedCluster, desk: Desk, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    """A transaction of an hour ago is late; its verdict leads to the page of a hang, whose mitigation ends it."""
    an_hour_ago = int(time.time() * 1000) - HOUR_MS
    hang = plant_hang(guarded.bootstrap, make_topic(guarded), 0, fresh_name("late"), timestamp_ms=an_hour_ago)
    about(desk, hang)

    with desk.reading("KafkaTransactionLate") as operator:
        operator.pastes("find-hanging", "--all", shows="\t60 ")
        operator.pastes("describe", "--transactional-id", shows="Empty")
        follow_the_hang(desk)
        operator.pastes("find-hanging", hides=hang.topic)


def follow_the_hang(desk: Desk) -> None:
    """The mitigation of the page that others lead to."""
    with desk.reading("KafkaTransactionHanging", "Mitigation") as operator:
        operator.pastes("abort", shows="the transaction is closed")
        operator.pastes("find-hanging", "--exit-code")


@pytest.mark.parametrize(
    ("commit", "as_written"),
    [
        pytest.param(True, False, id="commit"),
        pytest.param(False, False, id="abort", marks=pytest.mark.slow),
        pytest.param(True, True, id="commit, as written", marks=pytest.mark.slow),
    ],
)
def test_stuck_completing(
    guarded: GuardedCluster,
    desk: Desk,
    make_topic: MakeTopic,
    fresh_name: FreshName,
    *,
    commit: bool,
    as_written: bool,
) -> None:
    """The marker that the coordinator decided is written after a question; an abort would have been refused."""
    topic = make_topic(guarded)
    client = Client.begin(guarded.bootstrap, fresh_name("stuck"))
    client.make_its_marker_unwelcome(topic, 0)
    stuck = client.open(topic, 0)
    decide(client, topic, commit=commit, version_cap=4)
    about(desk, stuck)
    if not as_written:  # a minute for each command, otherwise
        desk.hurry = {"find-hanging": "--stuck-after 300ms", "complete": "--stuck-after 300ms"}

    with desk.reading("KafkaTransactionStuckCompleting") as operator:
        operator.pastes("find-hanging", shows="stuck_completing")
        operator.pastes("kafka-topics.sh", shows="Isr: 1")
        operator.pastes(
            "complete", "--dry-run", shows=f"write one {'COMMIT' if commit else 'ABORT'} marker", hides="is closed"
        )
        assert is_open(guarded, stuck)
        operator.pastes("complete", shows="the transaction is closed")
        operator.pastes("find-hanging", hides=topic)
        operator.pastes("why", shows="CONCURRENT_TRANSACTIONS")

    assert not is_open(guarded, stuck)
    assert committed_records(guarded, topic, stuck.start_offset) == ([stuck.start_offset] if commit else [])


def stuck_at_its_coordinator(
    guarded: GuardedCluster, desk: Desk, topic: str, name: str, *, marker_is_commit: bool
) -> None:
    """A commit that its coordinator cannot complete, because a marker by hand has ended it on its only partition."""
    client = Client.begin(guarded.bootstrap, name)
    stuck = client.open(topic, 0)
    began = described(guarded.bootstrap, name)
    assert began is not None
    wait_past_clocks(began)  # a marker at once may be of an earlier one
    write_marker(
        guarded.bootstrap,
        topic,
        0,
        client.producer_id,
        client.producer_epoch,
        coordinator_epoch=HIGHER_COORDINATOR_EPOCH,
        commit=marker_is_commit,
    )
    decide(client, topic, commit=True, version_cap=4)
    assert not is_open(guarded, stuck)
    desk.variables["PRODUCER_ID"] = str(client.producer_id)


def test_a_producer_that_cannot_start(
    guarded: GuardedCluster, desk: Desk, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """Nothing is open, and the command says what its coordinator waits for."""
    stuck_at_its_coordinator(guarded, desk, make_topic(guarded), fresh_name("cannot"), marker_is_commit=True)

    with desk.reading("KafkaTransactionProducerCannotStart") as operator:
        operator.pastes("why", shows="has the COMMIT marker, as decided. The coordinator sends its markers again only")
        operator.pastes("why", shows="gets CONCURRENT_TRANSACTIONS and cannot start")


def test_an_outcome_that_is_contradicted(
    guarded: GuardedCluster, desk: Desk, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """The client's commit is decided, and its records are dropped: the command has the offset of the wrong marker."""
    stuck_at_its_coordinator(guarded, desk, make_topic(guarded), fresh_name("lost"), marker_is_commit=False)

    with desk.reading("KafkaTransactionOutcomeContradicted") as operator:
        (stuck,) = json.loads(operator.pastes("why", "json").output)["stuck"]
    assert [(each["marker"], each["offset"]) for each in stuck["partitions"]] == [("contradicted", 1)]


def test_blocks_consumers(guarded: GuardedCluster, desk: Desk, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    """A hang blocks a group; the verdict leads to the page that frees it."""
    hang = blocking(guarded, desk, make_topic, fresh_name)
    with desk.reading("KafkaTransactionBlocksConsumers") as operator:
        until_it_is_free(operator, hang)
    assert committed_records(guarded, hang.topic, 5) == [1, 2, 3, 4, 5]


def test_blocks_group(guarded: GuardedCluster, desk: Desk, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    """The same, seen by the group's owner."""
    hang = blocking(guarded, desk, make_topic, fresh_name)
    group = desk.variables["GROUP"]
    with desk.reading("KafkaTransactionBlocksGroup") as operator:
        operator.pastes("why", shows="hanging_not_in_transaction")
        operator.pastes("kafka-consumer-groups.sh", shows=group)
        follow_the_hang(desk)
        operator.pastes("why", shows=f"No open transaction holds group {group}")
    assert committed_records(guarded, hang.topic, 5) == [1, 2, 3, 4, 5]


def blocking(guarded: GuardedCluster, desk: Desk, make_topic: MakeTopic, fresh_name: FreshName) -> PlantedTransaction:
    """A hang before a consumer group and five records; the desk has the alert's values."""
    hang = plant_hang(guarded.bootstrap, make_topic(guarded), 0, fresh_name("hang"))
    run_transaction(guarded.bootstrap, fresh_name("behind"), [(hang.topic, 0)], records=5)
    group = fresh_name("readers")
    commit(guarded, group, hang.topic, 0)
    about(desk, hang)
    desk.variables["GROUP"] = group
    return hang


def until_it_is_free(operator: Operator, hang: PlantedTransaction) -> None:
    """The commands of both pages about blocked groups, and between them the mitigation of the hang."""
    group = operator.desk.variables["GROUP"]
    (row,) = json.loads(operator.pastes("find-hanging", "json").output)["transactions"]
    assert [(waiting["group"], waiting["waiting_records"]) for waiting in row["groups"]] == [(group, 7)]
    operator.pastes("kafka-consumer-groups.sh", shows=group)
    follow_the_hang(operator.desk)
    operator.pastes("find-hanging", hides=hang.topic)


def test_suspects_hidden(
    guarded: GuardedCluster,
    desk: Desk,
    settings_file: Callable[..., Path],
    make_topic: MakeTopic,
    fresh_name: FreshName,
    tmp_path: Path,
) -> None:
    """Three hangs and a limit of one: all are found by hand, and none is hidden once the limit is raised."""
    topic = make_topic(guarded, partitions=3)
    for partition in range(3):
        plant_hang(guarded.bootstrap, topic, partition, fresh_name("hang"))
    path = settings_file("watcher", "publish.suspects_limit: 1\n")

    with serving(None, tmp_path, config_file=path) as exporter:
        proved = ("hanging_not_in_transaction",)
        desk.hurry = {"find-hanging": "--stuck-after 300ms"}  # other tests leave what completes
        exporter.until(lambda metrics: metrics.get("kafka_open_transactions", {}).get(proved, 0) == 3)
        desk.variables |= {LISTENS: exporter.url.removeprefix("http://"), CONFIG_FILE: str(path)}
        with desk.reading("KafkaTransactionSuspectsHidden") as operator:
            operator.pastes("get", shows='kafka_open_transactions{verdict="hanging_not_in_transaction"} 3')
            assert operator.pastes("find-hanging").output.count(topic) >= 3
            settings_file("watcher", "publish.suspects_limit: 50\n")
            operator.pastes("config check")
            exporter.until(lambda metrics: metrics.get("kafka_suspect_transactions_hidden", {}).get((), 1) == 0)
            operator.pastes("get", shows="kafka_suspect_transactions_hidden 0")


def test_owner_silent(guarded: GuardedCluster, desk: Desk, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    """A producer that has stopped within its time-out: it is fenced, and those behind it read on."""
    client = Client.begin(guarded.bootstrap, fresh_name("gone"), timeout_ms=15 * 60 * 1000)
    planted = client.open(make_topic(guarded), 0)
    run_transaction(guarded.bootstrap, fresh_name("behind"), [(planted.topic, 0)], records=2)
    about(desk, planted)
    assert committed_records(guarded, planted.topic, 2) == []

    with desk.reading("KafkaTransactionOwnerSilent") as operator:
        operator.pastes("find-hanging", "--all", shows="open_within_timeout")
        operator.pastes("find-hanging", "json", shows='"ends_at_ms": 1')
        operator.pastes("force-terminate", "--dry-run", shows=": nothing is written")
        assert is_open(guarded, planted)
        operator.pastes("force-terminate", shows="is aborted, and its producer fenced")
        operator.pastes("find-hanging", "--all", hides="open_within_timeout")

    assert len(committed_records(guarded, planted.topic, 2)) == 2


def test_fills_disk(guarded: GuardedCluster, desk: Desk, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    """The transactions of the broker show their bytes; the one that holds most is aborted, as its own runbook says."""
    hang = plant_hang(guarded.bootstrap, make_topic(guarded), 0, fresh_name("hang"))
    run_transaction(guarded.bootstrap, fresh_name("behind"), [(hang.topic, 0)], records=200)
    desk.variables |= {"BROKER": "1"}

    with desk.reading("KafkaTransactionFillsDisk") as operator:
        operator.pastes("find-hanging", shows="Bytes held on disk: about ")
        write_marker(guarded.bootstrap, hang.topic, 0, hang.producer_id, hang.producer_epoch)
        operator.pastes("find-hanging", hides=hang.topic)

    assert not is_open(guarded, hang)


def test_overdue(guarded: GuardedCluster, desk: Desk, overdue: tuple[PlantedTransaction, float]) -> None:
    """A coordinator that does not look for time-outs is made to abort; the records are gone, the producer is fenced."""
    planted, began = overdue
    about(desk, planted)
    desk.hurry = {"find-hanging": "--overdue-slack 10s"}
    time.sleep(max(began + OVERDUE_AFTER_S - time.monotonic(), 0))

    with desk.reading("KafkaTransactionOverdueAtCoordinator") as operator:
        operator.pastes("find-hanging", shows="overdue_at_coordinator")
        operator.pastes("describe", "--transactional-id", shows="Ongoing")
        operator.pastes("kafka-configs.sh", shows="cleanup.interval.ms=86400000")
        operator.pastes("force-terminate", "--dry-run", shows=": nothing is written")
        assert is_open(guarded, planted)
        operator.pastes("force-terminate", shows="is aborted, and its producer fenced")
        operator.pastes("find-hanging", hides=planted.topic)

    assert not is_open(guarded, planted)
    assert committed_records(guarded, planted.topic, 0) == []
