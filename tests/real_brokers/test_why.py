"""`why` on real brokers: the question that people have, with the answer yes and with the answer no."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer

from examples.workload.producers import OpenTransaction, run_transaction
from exporter.snapshot import CLUSTER_ID_VARIABLE
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.groups import commit, read_to_the_end
from hangbench.kafka.planting import plant_hang
from hangbench.waiting import until
from tests.conftest import FreshName, MakeTopic
from tests.real_brokers.exporting import AT_ONCE, ask_why, called

IN_LAG: Final = (
    "where it has an offset; its lag of {} offsets, in which markers and aborted records count, is its own: it has "
    "records to read. See whether its members run and move: kafka-consumer-groups.sh --bootstrap-server {} --describe "
    "--group {}"
)


def test_a_group_behind_a_live_transaction(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path
) -> None:
    """Asked for by group, topic, id or producer, it is the same transaction; when it has ended, nothing holds anybody."""
    topic, group, owner = make_topic(broker), fresh_name("waits"), fresh_name("owner")
    with OpenTransaction(broker.bootstrap, owner, [(topic, 0)]):
        run_transaction(broker.bootstrap, fresh_name("behind"), [(topic, 0)], records=8)
        commit(broker, group, topic, 0)
        of_group = ask_why(broker, tmp_path, "--group", group)
        (hold,) = of_group["holds"]
        transaction = hold["transaction"]
        others = [
            ask_why(broker, tmp_path, *question)["holds"][0]["transaction"]["start_offset"]
            for question in (
                ("--topic", topic),
                ("--topic", topic, "--partition", "0"),
                ("--transactional-id", owner),
                ("--producer-id", str(transaction["producer_id"])),
            )
        ]
        status = called(
            tmp_path, "why", "--bootstrap-server", broker.bootstrap, "--group", group, "--exit-code", **AT_ONCE
        )
    after = ask_why(broker, tmp_path, "--group", group)
    commit(broker, group, topic, 9)
    done = ask_why(broker, tmp_path, "--group", group)
    of_id = ask_why(broker, tmp_path, "--transactional-id", owner)
    of_producer = ask_why(broker, tmp_path, "--producer-id", str(transaction["producer_id"]))

    assert (hold["committed_offset"], hold["waiting_offsets"], of_group["lag"]) == (0, 10, 10)
    assert (transaction["transactional_id"], transaction["verdict"]) == (owner, "open_within_timeout")
    assert others == [0, 0, 0, 0]
    assert status.returncode == 3
    assert "unless its producer ends it before" in of_group["text"]
    assert (
        after["text"]
        == f"No open transaction holds group {group} on the partition {IN_LAG.format(11, broker.bootstrap, group)}"
    )
    assert done["text"].endswith(
        ", and nothing is left for it to read: the 2 offsets of its lag are end markers and aborted records."
    )
    assert of_id["text"].startswith(
        f"No transaction of transactional id '{owner}' is open on any partition that was read. "
    )
    assert "has it CompleteCommit at epoch" in of_id["text"]
    assert f"Its transactional id is '{owner}'. Its coordinator, broker 1, has it CompleteCommit" in of_producer["text"]


def test_a_group_behind_a_hang_and_one_that_is_slow_for_its_own_reasons(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path
) -> None:
    topic, elsewhere = make_topic(broker), make_topic(broker)
    held, slow = fresh_name("held"), fresh_name("slow")
    run_transaction(broker.bootstrap, fresh_name("before"), [(topic, 0), (elsewhere, 0)], records=3)
    plant_hang(broker.bootstrap, topic, 0, fresh_name("hang"))
    run_transaction(broker.bootstrap, fresh_name("behind"), [(topic, 0)], records=2)
    read_to_the_end(broker, held, topic, "read_committed")
    commit(broker, slow, topic, 1)
    commit(broker, slow, elsewhere, 0)

    yes, no = (ask_why(broker, tmp_path, "--group", group) for group in (held, slow))

    assert [hold["transaction"]["verdict"] for hold in yes["holds"]] == ["hanging_not_in_transaction"]
    assert "waiting does not help" in yes["text"]
    assert not no["is_held"]
    assert no["text"].startswith(
        f"No open transaction holds group {slow} on any of the 2 partitions where it has an offset; of its lag of 11 "
        "offsets, 4 are behind what is below, and 7, in which markers and aborted records count, have another cause. See "
    )
    assert [(hold["stands"], hold["committed_offset"]) for hold in no["later"]] == [("before", 1)]


def test_a_group_before_a_large_aborted_transaction(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path
) -> None:
    """Its consumer reads on and gets nothing, up to the open transaction behind: it is that which holds it.

    Of the partition on which it has no offset nothing is known: librdkafka commits none where it has read no record.
    """
    topic, group = make_topic(broker, partitions=2), fresh_name("held")
    run_transaction(broker.bootstrap, fresh_name("large"), [(topic, 0)], records=12_000, outcome="abort")
    with (
        OpenTransaction(broker.bootstrap, fresh_name("behind"), [(topic, 0)]),
        OpenTransaction(broker.bootstrap, fresh_name("elsewhere"), [(topic, 1)]),
    ):
        commit(broker, group, topic, 0)
        words = ("why", "--bootstrap-server", broker.bootstrap, "--group", group, "--format", "json")
        asked = called(tmp_path, *words, **AT_ONCE)

    assert asked.returncode == 4
    answer = json.loads(asked.stdout)
    (hold,) = answer["holds"]
    assert (hold["committed_offset"], hold["transaction"]["start_offset"]) == (0, 12_001)
    (sentence,) = answer["unknown"]
    assert sentence.startswith(f"on {topic}-1 it has no committed offset, and a transaction is open there: whether")


def test_a_group_that_does_not_exist_is_no_group_that_nothing_holds(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path
) -> None:
    """A mistyped name and one that an alert has altered are refused; of a group without offsets nothing is known."""
    group, idle = fresh_name("mails"), fresh_name("idle")
    commit(broker, group, make_topic(broker), 0)
    asked = ("why", "--bootstrap-server", broker.bootstrap, "--group")
    member = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": idle})
    member.subscribe([make_topic(broker)])
    until(lambda: bool(member.poll(0.2) or member.assignment()))

    mistyped, altered, idle_one = (called(tmp_path, *asked, name) for name in (f"{group}x", f"{group}?", idle))
    member.close()

    assert (mistyped.returncode, altered.returncode, idle_one.returncode) == (1, 1, 4)
    assert f"there is no group '{group}x': its coordinator, broker 1, has none of this name" in mistyped.stderr
    assert group in mistyped.stderr.replace(f"{group}x", "")
    assert "an alert writes ? for all but ASCII letters" in altered.stderr
    assert "it has committed no offset to Kafka, so where it stands cannot be seen" in idle_one.stdout


def test_a_name_that_nobody_has_is_an_error(broker: KafkaCluster, tmp_path: Path) -> None:
    """An answer about nothing would look like a good one."""
    for question in (("--topic", "no-such-topic"), ("--transactional-id", "no-such-id")):
        done = called(tmp_path, "why", "--bootstrap-server", broker.bootstrap, *question)
        assert (done.returncode, done.stdout) == (1, ""), question


def test_doctor_does_not_call_another_cluster_silent(broker: KafkaCluster, tmp_path: Path) -> None:
    """Its brokers have responded; the way on is the same as that of every other command."""
    run = called(tmp_path, "doctor", "--bootstrap-server", broker.bootstrap, **{CLUSTER_ID_VARIABLE: "another"})

    assert run.returncode == 1
    assert "No hang can be proved: the brokers are of another cluster." in run.stdout
    assert f"{CLUSTER_ID_VARIABLE} in this shell is of the cluster of an alert" in run.stdout


@pytest.mark.parametrize(
    "command", [("why", "--topic"), ("abort", "--dry-run", "--partition=0", "--start-offset=0", "--topic")]
)
def test_a_shell_of_another_cluster_s_alert_reads_nothing(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """The operator's own file may name another cluster, on which nothing is open: `it is gone` would close the page."""
    topic = make_topic(broker)
    plant_hang(broker.bootstrap, topic, 0, fresh_name("hang"))
    cluster_id = ask_why(broker, tmp_path, "--topic", topic)["cluster_id"]
    words = (command[0], "--bootstrap-server", broker.bootstrap, *command[1:], topic)

    same, other = (called(tmp_path, *words, **{CLUSTER_ID_VARIABLE: which}) for which in (cluster_id, "another"))
    assert (same.returncode, other.returncode) == (0, 1)
    assert (topic in same.stdout, other.stdout) == (True, "")
    assert f"its cluster id is {cluster_id}, not another" in other.stderr
    assert f"{CLUSTER_ID_VARIABLE} in this shell is of the cluster of an alert" in other.stderr
