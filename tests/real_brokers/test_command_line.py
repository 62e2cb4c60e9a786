"""The command line that replaces kafka-transactions.sh, as processes against real brokers."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from examples.workload.producers import OpenTransaction, run_transaction
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.groups import commit
from hangbench.kafka.planting import plant_hang, write_marker
from hangbench.kafka.ports import free_ports
from hangbench.situations.steps import prepared_client
from hangbench.waiting import until
from tests import forked
from tests.brokers.messages import committed_records
from tests.commands.json_schema import problems
from tests.conftest import FreshName, MakeTopic, SessionCluster, versions
from tests.real_brokers.conftest import Tool
from tests.real_brokers.exporting import command
from tests.real_brokers.proxy import LosingProxy

PATIENCE_S = 60
WRITE_TXN_MARKERS = 27


@pytest.fixture(params=versions("4.3.1"))
def newest_broker(request: pytest.FixtureRequest, session_cluster: SessionCluster) -> KafkaCluster:
    """The other versions are slow. Tests of what is written to brokers use `broker`."""
    return session_cluster(request.param)


def audit(tmp_path: Path) -> list[dict[str, object]]:
    path = tmp_path / ".local" / "state" / "kafka-transaction-exporter" / "audit.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_options_of_the_java_tool_are_accepted_in_its_order(
    newest_broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tool: Tool
) -> None:
    """A runbook changes one word: the options come before the command, the first eight columns are the same."""
    topic = make_topic(newest_broker, partitions=2)
    hang = plant_hang(newest_broker.bootstrap, topic, 1, fresh_name("hang"))

    run = tool(newest_broker, "find-hanging", "--topic", topic, "--partition", "1", "--max-transaction-timeout", "15")

    heading, row = (line.split("\t") for line in run.stdout.splitlines())
    assert run.returncode == 0
    assert [cell.strip() for cell in heading[:8]] == [
        "Topic",
        "Partition",
        "ProducerId",
        "ProducerEpoch",
        "CoordinatorEpoch",
        "StartOffset",
        "LastTimestamp",
        "Duration(min)",
    ]
    assert [cell.strip() for cell in row[:6]] == [topic, "1", str(hang.producer_id), "0", "-1", str(hang.start_offset)]
    assert row[9].strip() == "hanging_not_in_transaction"


@pytest.mark.parametrize("scope", [["--broker-id", "1"], ["--broker", "1"], []])
def test_find_hanging_covers_the_named_scope_or_everything(
    kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tool: Tool, scope: list[str]
) -> None:
    """By broker under both its names, or over the whole cluster; JSON holds suspects only, or all with `--all`."""
    topic = make_topic(kafka_4_3_1, partitions=2)
    plant_hang(kafka_4_3_1.bootstrap, topic, 1, fresh_name("hang"))

    with OpenTransaction(kafka_4_3_1.bootstrap, fresh_name("live"), [(topic, 0)]):
        suspects = tool(kafka_4_3_1, "find-hanging", *scope, "--format", "json", "--exit-code")
        everything = tool(kafka_4_3_1, "find-hanging", *scope, "--format", "json", "--all")

    def on_topic(run: subprocess.CompletedProcess[str]) -> list[str]:
        return [row["verdict"] for row in json.loads(run.stdout)["transactions"] if row["topic"] == topic]

    assert (suspects.returncode, everything.returncode) == (3, 0)
    assert on_topic(suspects) == ["hanging_not_in_transaction"]
    assert on_topic(everything) == ["hanging_not_in_transaction", "open_within_timeout"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("find-hanging",),
        ("describe-producers", "--partition", "0"),
        ("abort", "--partition", "0", "--start-offset", "0"),
    ],
    ids=lambda case: case[0],
)
def test_a_topic_that_does_not_exist_gets_the_name_that_was_meant(
    kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, tool: Tool, arguments: tuple[str, ...]
) -> None:
    topic = make_topic(kafka_4_3_1)
    run = tool(kafka_4_3_1, *arguments, "--topic", topic + "x")
    assert run.returncode == 1
    assert f": did you mean {topic}?" in run.stderr
    unknown = tool(kafka_4_3_1, "describe-producers", "--topic", topic, "--partition", "0", "--broker-id", "9")
    assert "broker 9 is not in the cluster's metadata, whose brokers are 1" in unknown.stderr
    there = tool(kafka_4_3_1, "describe-producers", "--topic", topic, "--partition", "77")
    assert "did you mean" not in there.stderr


def test_csv_has_the_keys_of_json(
    kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tool: Tool
) -> None:
    """The same facts under the same names, quoted where a sentence needs it."""
    topic = make_topic(kafka_4_3_1)
    plant_hang(kafka_4_3_1.bootstrap, topic, 0, fresh_name("hang"))

    as_json = json.loads(tool(kafka_4_3_1, "find-hanging", "--topic", topic, "--format", "json").stdout)
    rows = list(
        csv.DictReader(io.StringIO(tool(kafka_4_3_1, "find-hanging", "--topic", topic, "--format", "csv").stdout))
    )

    (transaction,) = as_json["transactions"]
    assert list(rows[0]) == list(transaction)
    assert (rows[0]["reason"], rows[0]["inconclusive_reason"]) == (transaction["reason"], "")


def test_list_and_describe_show_what_the_coordinator_has(
    newest_broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tool: Tool
) -> None:
    """Ids by pattern, state and true duration; one id whole; an id that is not there is status 1."""
    topic = make_topic(newest_broker)
    live, done = fresh_name("live"), fresh_name("done")
    run_transaction(newest_broker.bootstrap, done, [(topic, 0)])

    with OpenTransaction(newest_broker.bootstrap, live, [(topic, 0)]):
        listed = json.loads(
            tool(newest_broker, "list", "--transactional-id-pattern", f"{live}|{done}", "--format", "json").stdout
        )
        ongoing = tool(newest_broker, "list", "--states", "Ongoing", "--format", "json").stdout
        longer = json.loads(tool(newest_broker, "list", "--duration-filter", "0", "--format", "json").stdout)
        described = json.loads(tool(newest_broker, "describe", "--transactional-id", live, "--format", "json").stdout)
        missing = tool(newest_broker, "describe", "--transactional-id", fresh_name("never"))

    assert {row["transactional_id"]: row["state"] for row in listed} == {live: "Ongoing", done: "CompleteCommit"}
    assert live in ongoing
    assert done not in ongoing
    # The protocol's own duration filter would let the finished one through: it ignores the state.
    assert [row["transactional_id"] for row in longer if row["transactional_id"] in {live, done}] == [live]
    assert (described["state"], described["partitions"], described["timeout_ms"]) == ("Ongoing", [f"{topic}-0"], 60_000)
    assert missing.returncode == 1
    assert "does not know transactional id" in missing.stderr


def test_describe_producers_equals_the_java_tool_s_table(
    kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tool: Tool
) -> None:
    """Cell for cell, once the padding is gone."""
    topic = make_topic(kafka_4_3_1)
    run_transaction(kafka_4_3_1.bootstrap, fresh_name("done"), [(topic, 0)])
    plant_hang(kafka_4_3_1.bootstrap, topic, 0, fresh_name("hang"))

    ours = tool(kafka_4_3_1, "describe-producers", "--topic", topic, "--partition", "0").stdout
    java = kafka_4_3_1.tool(
        "org.apache.kafka.tools.TransactionsCommand",
        *("--bootstrap-server", kafka_4_3_1.bootstrap),
        *("describe-producers", "--topic", topic, "--partition", "0"),
    )

    def cells(printed: str) -> list[list[str]]:
        heading, *rows = [line.split() for line in printed.splitlines() if line.strip()]
        return [heading, *sorted(rows)]

    assert cells(ours) == cells(java)
    assert len(cells(ours)) == 3


def test_an_abort_clears_a_hang_and_the_records_behind_it_are_seen(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tool: Tool, tmp_path: Path
) -> None:
    """The hang is ended, a read_committed consumer sees the held-back records, the coordinator continues normally."""
    topic, name = make_topic(broker), fresh_name("behind")
    hang = plant_hang(broker.bootstrap, topic, 0, fresh_name("hang"))
    run_transaction(broker.bootstrap, name, [(topic, 0)], records=2)
    assert committed_records(broker, topic, 2) == []

    run = tool(broker, "abort", "--topic", topic, "--partition", "0", "--start-offset", str(hang.start_offset), "--yes")

    assert run.returncode == 0, run.stderr
    assert "the transaction is closed; the last stable offset went from 0 to" in run.stdout
    assert committed_records(broker, topic, 2) == [1, 2]
    run_transaction(broker.bootstrap, name, [(topic, 0)])
    assert committed_records(broker, topic, 5)[-1] == 5
    steps = audit(tmp_path)
    assert [step["step"] for step in steps] == ["planned", "confirmed", "sending", "answered", "ended"]
    assert steps[-1]["done"] is True
    assert all(step["who"] and step["at"] for step in steps)


def test_a_hang_can_be_named_by_its_producer(
    newest_broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tool: Tool
) -> None:
    """The old form, with producer id and both epochs, finds the same transaction."""
    topic = make_topic(newest_broker)
    hang = plant_hang(newest_broker.bootstrap, topic, 0, fresh_name("hang"))
    producer = ["--producer-id", str(hang.producer_id), "--producer-epoch", "0", "--coordinator-epoch", "-1"]

    assert tool(newest_broker, "abort", "--topic", topic, "--partition", "0", *producer, "--yes").returncode == 0
    assert tool(newest_broker, "abort", "--topic", topic, "--partition", "0").returncode == 2


def test_a_live_transaction_is_not_aborted_without_its_verdict_typed_out(
    newest_broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tool: Tool, tmp_path: Path
) -> None:
    """Refused with status 5 and nothing written; a wrong verdict is refused as well; the right one goes through."""
    topic = make_topic(newest_broker)
    arguments = ["abort", "--topic", topic, "--partition", "0", "--start-offset", "0", "--yes"]

    with OpenTransaction(newest_broker.bootstrap, fresh_name("live"), [(topic, 0)]) as live:
        refused = tool(newest_broker, *arguments)
        mistyped = tool(newest_broker, *arguments, "--force", "overdue_at_coordinator", "--accept-data-loss")
        dry = tool(newest_broker, *arguments, "--dry-run")
        still_open = tool(newest_broker, "describe-producers", "--topic", topic, "--partition", "0", "--format", "json")
        forced = tool(newest_broker, *arguments, "--force", "open_within_timeout", "--accept-data-loss")
        live.close("abort")

    assert (refused.returncode, mistyped.returncode, dry.returncode) == (5, 5, 5)
    assert "the verdict is open_within_timeout, which is not a proof of a hang" in refused.stderr
    assert "run find-hanging again" in mistyped.stderr
    assert json.loads(still_open.stdout)[0]["start_offset"] == 0
    assert forced.returncode == 0
    assert [step["step"] for step in audit(tmp_path)][:4] == ["planned", "refused", "planned", "refused"]


def test_nothing_is_written_without_consent_or_without_a_log(
    kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tool: Tool, tmp_path: Path
) -> None:
    """Without a terminal and without --yes it stops; an audit log that cannot be written stops it as well."""
    topic = make_topic(kafka_4_3_1)
    plant_hang(kafka_4_3_1.bootstrap, topic, 0, fresh_name("hang"))
    arguments = ["abort", "--topic", topic, "--partition", "0", "--start-offset", "0"]
    (tmp_path / "file").write_text("")

    unasked = tool(kafka_4_3_1, *arguments)
    unlogged = tool(kafka_4_3_1, *arguments, "--yes", "--audit-log", str(tmp_path / "file" / "audit.jsonl"))
    left = tool(kafka_4_3_1, "find-hanging", "--topic", topic, "--format", "json", "--exit-code")

    assert (unasked.returncode, unlogged.returncode, left.returncode) == (5, 1, 3)
    assert "run it again with --yes" in unasked.stderr
    assert "so nothing was done: Not a directory; --audit-log names another one" in unlogged.stderr


def test_the_outcome_of_a_commit_prevents_an_abort(
    newest_broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tool: Tool
) -> None:
    """An id whose coordinator committed at this epoch is not aborted unless the verdict is typed out."""
    topic, name = make_topic(newest_broker, partitions=2), fresh_name("torn")
    planted = plant_hang(newest_broker.bootstrap, topic, 0, name)
    write_marker(newest_broker.bootstrap, topic, 0, planted.producer_id, planted.producer_epoch)
    # The same id, now with a producer of its own that commits; then a late write of that very epoch.
    run_transaction(newest_broker.bootstrap, name, [(topic, 1)])
    described = until(
        lambda: json.loads(tool(newest_broker, "describe", "--transactional-id", name, "--format", "json").stdout),
        lambda described: described["state"] == "CompleteCommit",
    )
    late = plant_late_write(newest_broker, topic, described["producer_id"], described["producer_epoch"])

    refused = tool(newest_broker, "abort", "--topic", topic, "--partition", "0", "--start-offset", str(late), "--yes")
    forced = tool(
        newest_broker,
        *("abort", "--topic", topic, "--partition", "0", "--start-offset", str(late), "--yes"),
        *("--force", "hanging_not_in_transaction", "--accept-data-loss"),
    )

    assert refused.returncode == 5
    assert "an abort may hide committed records" in refused.stderr
    assert forced.returncode == 0


def plant_late_write(cluster: KafkaCluster, topic: str, producer_id: int, producer_epoch: int) -> int:
    """A zombie's record on partition 0 of a producer that its coordinator knows; the start offset."""
    from hangbench.kafka.planting import plant_hang_without_id  # noqa: PLC0415

    return plant_hang_without_id(
        cluster.bootstrap, topic, 0, producer_id=producer_id, producer_epoch=producer_epoch
    ).start_offset


def test_a_stuck_completion_is_completed_with_the_coordinator_s_own_decision(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tool: Tool
) -> None:
    """A coordinator whose COMMIT marker was refused shows PrepareCommit for ever; `complete` writes it, and only then."""
    topic, name = make_topic(broker), fresh_name("stuck")
    live = OpenTransaction(broker.bootstrap, name, [(topic, 0)])
    live.__enter__()
    (entry,) = json.loads(
        tool(broker, "describe-producers", "--topic", topic, "--partition", "0", "--format", "json").stdout
    )
    # The partition gets a coordinator epoch above the coordinator's own, as after a restored disk.
    write_marker(broker.bootstrap, topic, 0, entry["producer_id"], entry["producer_epoch"], coordinator_epoch=1000)
    live.write()
    live.close("commit")  # the coordinator answers as soon as it has decided
    start = json.loads(
        tool(broker, "describe-producers", "--topic", topic, "--partition", "0", "--format", "json").stdout
    )
    (start_offset,) = [row["start_offset"] for row in start if row["start_offset"] is not None]

    aborted = tool(broker, "abort", "--topic", topic, "--partition", "0", "--start-offset", str(start_offset), "--yes")
    completed = tool(
        broker,
        *("complete", "--topic", topic, "--partition", "0", "--start-offset", str(start_offset), "--yes"),
        *("--stuck-after", "2s"),
    )

    assert aborted.returncode == 5
    assert completed.returncode == 0, completed.stderr
    assert "write one COMMIT marker" in completed.stdout
    assert "continues to show PrepareCommit, and the producer cannot start" in completed.stdout
    assert start_offset in committed_records(broker, topic, start_offset)


def test_force_terminate_aborts_an_ongoing_id_and_creates_none(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tool: Tool, tmp_path: Path
) -> None:
    """A mistyped id is refused, where Kafka's own tool creates it; an idle one is refused; an ongoing one is aborted."""
    topic, name, never = make_topic(broker), fresh_name("ongoing"), fresh_name("never")
    group = fresh_name("readers")
    live = OpenTransaction(broker.bootstrap, name, [(topic, 0)])
    live.__enter__()

    run_transaction(broker.bootstrap, fresh_name("behind"), [(topic, 0)], records=8)
    commit(broker, group, topic, 0)

    plan = tool(broker, "force-terminate", "--transactional-id", name, "--dry-run")
    mistyped = tool(broker, "force-terminate", "--transactional-id", never, "--yes")
    done = tool(broker, "forceTerminateTransaction", "--transactionalId", name, "--yes")
    again = tool(broker, "force-terminate", "--transactional-id", name, "--yes")
    listed = tool(broker, "list", "--transactional-id-pattern", f"{name}|{never}", "--format", "json")
    open_now = tool(broker, "find-hanging", "--topic", topic, "--all", "--format", "json")

    assert plan.returncode == 0
    assert f"{topic}-0: records that are dropped: 1; records of others that wait: 8" in " ".join(plan.stdout.split())
    assert f"consumer groups (their lag counts end markers too): {group} (blocked, lag 10 offsets)" in " ".join(
        plan.stdout.split()
    )
    assert (mistyped.returncode, done.returncode, again.returncode) == (1, 0, 5)
    of_cluster = json.loads(open_now.stdout)["cluster_id"]
    assert {step["cluster_id"] for step in audit(tmp_path)} == {of_cluster}, "one log may be of several clusters"
    assert [row["transactional_id"] for row in json.loads(listed.stdout)] == [name]
    assert json.loads(open_now.stdout)["transactions"] == []


TWO_PHASE_COMMIT = {"transaction.two.phase.commit.enable": "true", "unstable.api.versions.enable": "true"}


def test_force_terminate_does_not_depend_on_the_limit_and_refuses_what_is_prepared(
    make_cluster: Callable[..., KafkaCluster], fresh_name: FreshName, tool: Tool
) -> None:
    """transaction.max.timeout.ms was lowered under an open transaction; and one of two-phase commit has no time-out."""
    cluster = make_cluster("4.3.1", properties=TWO_PHASE_COMMIT)
    broker, name, prepared = cluster.broker(1), fresh_name("ongoing"), fresh_name("prepared")
    topic = cluster.topics.create(fresh_name("topic"), partitions=2)
    live = OpenTransaction(cluster.bootstrap, name, [(topic, 0)], timeout_ms=60_000)
    live.__enter__()
    prepared_client(cluster.bootstrap, prepared).open(topic, 1)
    broker.stop()
    broker.properties_path.write_text(broker.properties_path.read_text() + "\ntransaction.max.timeout.ms=5000\n")
    broker.start()
    until(lambda: tool(cluster, "describe", "--transactional-id", name).returncode == 0)

    refused = tool(cluster, "force-terminate", "--transactional-id", prepared, "--yes")
    done = tool(cluster, "force-terminate", "--transactional-id", name, "--yes")
    left = tool(cluster, "find-hanging", "--topic", topic, "--all", "--format", "json")

    assert (refused.returncode, done.returncode) == (5, 0), refused.stderr + done.stderr
    assert f"'{prepared}' is prepared for two-phase commit" in refused.stderr
    assert [row["transactional_id"] for row in json.loads(left.stdout)["transactions"]] == [prepared]


def test_a_lost_response_is_followed_by_a_read_and_never_by_a_second_marker(
    make_cluster: Callable[..., KafkaCluster], fresh_name: FreshName, tool: Tool, tmp_path: Path
) -> None:
    """The broker wrote the marker and its response was lost: the partition is read, and one marker is all there is."""
    (front,) = free_ports(1)
    cluster = make_cluster("4.3.1")
    cluster.broker(1).stop()
    properties = cluster.broker(1).properties_path
    port = cluster.broker(1).port
    text = properties.read_text().replace(
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}", f"advertised.listeners=PLAINTEXT://127.0.0.1:{front}"
    )
    assert str(front) in text
    properties.write_text(text)
    with LosingProxy(front, port) as proxy:
        cluster.broker(1).start()
        topic = cluster.topics.create(fresh_name("topic"))
        plant_hang(cluster.bootstrap, topic, 0, fresh_name("hang"))
        proxy.losing = WRITE_TXN_MARKERS
        run = tool(cluster, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0", "--yes")

        assert proxy.lost == 1
        assert run.returncode == 0, run.stderr
        assert "the transaction is closed" in run.stdout
        assert [step.get("outcome") for step in audit(tmp_path) if step["step"] == "answered"] == ["unclear"]


def test_many_hangs_are_planned_in_a_file_and_aborted_from_it(
    newest_broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tool: Tool, tmp_path: Path
) -> None:
    """Written by find-hanging, used by abort, and once more: three markers in all, and a live transaction unharmed."""
    topic, plan = make_topic(newest_broker, partitions=4), tmp_path / "plan.json"
    for partition in range(3):
        plant_hang(newest_broker.bootstrap, topic, partition, fresh_name("hang"))

    with OpenTransaction(newest_broker.bootstrap, fresh_name("live"), [(topic, 3)]) as live:
        found = tool(newest_broker, "find-hanging", "--topic", topic, "--plan-file", str(plan))
        again = tool(newest_broker, "find-hanging", "--topic", topic, "--plan-file", str(plan))
        too_many = tool(newest_broker, "abort", "--plan-file", str(plan), "--max-aborts", "2", "--yes")
        dry = tool(newest_broker, "abort", "--plan-file", str(plan), "--dry-run")
        done = tool(newest_broker, "abort", "--plan-file", str(plan), "--yes")
        repeated = tool(newest_broker, "abort", "--plan-file", str(plan), "--yes")
        left = tool(newest_broker, "find-hanging", "--topic", topic, "--all", "--format", "json")
        live.close("commit")

    assert (found.returncode, again.returncode) == (0, 1)
    assert "3 proved hanging transactions" in found.stderr
    assert (too_many.returncode, dry.returncode, done.returncode, repeated.returncode) == (5, 0, 0, 0), done.stderr
    assert done.stdout.count("the transaction is closed") == 3
    assert repeated.stdout.count("the transaction is not open any more: nothing to write") == 3
    assert [row["verdict"] for row in json.loads(left.stdout)["transactions"]] == ["open_within_timeout"]
    assert [step["step"] for step in audit(tmp_path)].count("sending") == 3


def test_a_plan_for_another_cluster_is_refused(
    kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tool: Tool, tmp_path: Path
) -> None:
    """The same topic may hang at the same offset there: the cluster id differs."""
    topic, plan = make_topic(kafka_4_3_1), tmp_path / "plan.json"
    plant_hang(kafka_4_3_1.bootstrap, topic, 0, fresh_name("hang"))
    tool(kafka_4_3_1, "find-hanging", "--topic", topic, "--plan-file", str(plan))
    plan.write_text(json.dumps({**json.loads(plan.read_text()), "cluster_id": "another"}))

    run = tool(kafka_4_3_1, "abort", "--plan-file", str(plan), "--yes")
    left = tool(kafka_4_3_1, "find-hanging", "--topic", topic, "--exit-code")

    assert (run.returncode, left.returncode) == (5, 3)
    assert "the plan is for cluster another, and this cluster is" in run.stderr


def test_two_aborts_at_once_write_one_marker(
    newest_broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path
) -> None:
    """Five operators follow the same runbook: one aborts it, the others see that it has ended."""
    topic = make_topic(newest_broker)
    plant_hang(newest_broker.bootstrap, topic, 0, fresh_name("hang"))
    arguments = ["abort", "--topic", topic, "--partition", "0", "--start-offset", "0", "--yes"]

    operators = [
        forked.Process(
            command("--bootstrap-server", newest_broker.bootstrap, *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        )
        for _ in range(5)
    ]
    results = [(*operator.communicate(timeout=120), operator.returncode) for operator in operators]

    assert sorted(status for _, _, status in results) == [0, 1, 1, 1, 1]
    for _, errors, status in results:
        assert (
            status == 0
            or "the transaction has ended since it was judged" in errors
            or "no transaction at start offset 0 is open" in errors
        )
    assert [step["step"] for step in audit(tmp_path)].count("sending") == 1


def test_ctrl_c_at_the_question_writes_nothing(
    kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tool: Tool, tmp_path: Path
) -> None:
    """On a real terminal: status 130, logged as declined, the hang still there."""
    topic = make_topic(kafka_4_3_1)
    plant_hang(kafka_4_3_1.bootstrap, topic, 0, fresh_name("hang"))
    operator = Operator(kafka_4_3_1, tmp_path, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")

    shown = operator.until("? Type yes: ")
    operator.types("\x03")

    assert operator.leaves() == 130
    assert "write one ABORT marker" in shown
    assert [(step["step"], step.get("by")) for step in audit(tmp_path)] == [("planned", None), ("declined", "Ctrl-C")]
    assert tool(kafka_4_3_1, "find-hanging", "--topic", topic, "--exit-code").returncode == 3


def test_an_operator_who_types_yes_is_obeyed(
    kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path
) -> None:
    """Judged once more after the answer, then written."""
    topic = make_topic(kafka_4_3_1)
    plant_hang(kafka_4_3_1.bootstrap, topic, 0, fresh_name("hang"))
    operator = Operator(kafka_4_3_1, tmp_path, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")

    operator.until("? Type yes: ")
    operator.types("yes\n")
    operator.until("the transaction is closed")

    assert operator.leaves() == 0


def test_a_watch_follows_a_hang_until_it_is_gone(
    kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tool: Tool, tmp_path: Path
) -> None:
    """In colour on a terminal, each table in the place of the last; Ctrl-C is its end, with status 0."""
    topic = make_topic(kafka_4_3_1)
    plant_hang(kafka_4_3_1.bootstrap, topic, 0, fresh_name("hang"))
    operator = Operator(kafka_4_3_1, tmp_path, "find-hanging", "--topic", topic, "--watch", "200ms")

    red = operator.until("\x1b[0m")
    tool(kafka_4_3_1, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0", "--yes")
    operator.until("Ended: the hang on ")
    operator.types("\x03")

    assert operator.leaves() == 0
    assert "\x1b[H" in red
    assert f"\x1b[31m{topic}" in red


def test_a_watch_down_a_pipe_is_a_line_each(
    kafka_4_3_1: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path
) -> None:
    """First seen stays first seen; who stops reading ends it without an error."""
    topic = make_topic(kafka_4_3_1)
    name = fresh_name("live")
    arguments = ["find-hanging", "--topic", topic, "--all", "--format", "json", "--watch", "100ms"]
    with OpenTransaction(kafka_4_3_1.bootstrap, name, [(topic, 0)]):
        process = forked.Process(
            command("--bootstrap-server", kafka_4_3_1.bootstrap, *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        )
        assert process.stdout is not None
        first, second = (json.loads(process.stdout.readline())["transactions"] for _ in range(2))
        process.stdout.close()
        assert process.stderr is not None
        with process.stderr:
            assert (process.stderr.read(), process.wait(60)) == (b"", 0)

    assert first[0]["transactional_id"] == name
    assert first[0]["start_timestamp_ms"] == second[0]["start_timestamp_ms"]
    assert first[0]["duration_ms"] < second[0]["duration_ms"]


def test_real_output_keeps_the_schema(
    newest_broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tool: Tool
) -> None:
    """find-hanging with and without rows, and once, of a real cluster: no key more, no key less."""
    topic = make_topic(newest_broker, partitions=2)
    plant_hang(newest_broker.bootstrap, topic, 1, fresh_name("hang"))

    with OpenTransaction(newest_broker.bootstrap, fresh_name("live"), [(topic, 0)]):
        for arguments in (["find-hanging", "--all"], ["find-hanging", "--states", "Dead"], ["once"]):
            hurry = ["--stuck-after", "1s"] if arguments[0] == "find-hanging" else []  # other tests leave such ids
            document = json.loads(tool(newest_broker, *arguments, *hurry, "--format", "json").stdout)
            assert problems(document) == []


def test_an_odd_transactional_id_breaks_nothing(
    newest_broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tool: Tool
) -> None:
    """Commas, quotes, line ends, escapes of a terminal: exact in JSON, harmless in CSV, a table and a plan."""
    topic = make_topic(newest_broker)
    name = fresh_name('a,"b"\r\n\x1b[31m\t') + "\u202e,"

    with OpenTransaction(newest_broker.bootstrap, name, [(topic, 0)]):
        pattern = ["--transactional-id-pattern", re.escape(name)]
        for arguments in (["list", *pattern], ["describe", "--transactional-id", name]):
            as_json = json.loads(tool(newest_broker, *arguments, "--format", "json").stdout)
            row = as_json[0] if isinstance(as_json, list) else as_json
            as_csv = tool(newest_broker, *arguments, "--format", "csv").stdout
            table = tool(newest_broker, *arguments).stdout
            assert row["transactional_id"] == name
            harmless = "".join(character if character.isprintable() else "\ufffd" for character in name)
            assert next(csv.DictReader(io.StringIO(as_csv)))["transactional_id"] == harmless
            assert len(table.splitlines()) == 2
            assert "\x1b" not in table
        shown = tool(newest_broker, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0", "--dry-run")

    assert shown.returncode == 5
    assert all(character.isprintable() or character == "\n" for character in shown.stdout + shown.stderr)


class Operator:
    """One command on its own terminal, and an operator who reads and types there."""

    def __init__(self, cluster: KafkaCluster, folder: Path, *arguments: str) -> None:
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "TERM": "xterm"}
            line = command("--bootstrap-server", cluster.bootstrap, *arguments)
            os.execve(line[0], line, environment)  # noqa: S606 - a fixed list, no shell is involved
        self._shown = ""

    def until(self, text: str) -> str:
        """The output since the last call, up to `text`."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self._shown:
            more = self._read(deadline)
            assert more, f"{text!r} was never shown: {self._shown!r}"
            self._shown += more.decode()
        before, self._shown = self._shown.split(text, 1)
        return before + text

    def _read(self, deadline: float) -> bytes:
        """What is shown next; nothing where that is too late, also of a command that never stops showing."""
        ready, _, _ = select.select([self._terminal], [], [], max(deadline - time.monotonic(), 0))
        return os.read(self._terminal, 65536) if ready and time.monotonic() < deadline else b""

    def types(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def leaves(self) -> int:
        """The status of the command, which ends by itself; -9 where it goes on."""
        deadline = time.monotonic() + PATIENCE_S
        with suppress(OSError):  # a terminal without its program cannot be read
            while self._read(deadline):
                pass
            os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(status)
