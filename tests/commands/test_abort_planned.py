"""`abort --plan-file`: which transactions it refuses, which it aborts, and the audit log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from exporter.commands import abort
from exporter.commands.abort_planned import abort_planned
from exporter.evaluation.evaluate import all_rows, evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, Policy
from exporter.kafka.collect.scope import Scope
from exporter.recovery.plan import what_changed
from exporter.recovery.plan_file import PlanFileError, load, parse, render_plan_file
from tests.commands.scenes import Terminal, World, committed, context_of, hang, live, nothing
from tests.evaluation.builders import NOW_MS, snapshot
from tests.recovery.stand_in import PartitionStandIn


def plan_of(looks: Sequence[Evaluation], cluster_id: str = "cluster-1") -> str:
    rows = [row for look in looks for row in look.suspects]
    return render_plan_file(cluster_id, NOW_MS, rows)


def run(
    folder: Path, plan: str, now: dict[int, Evaluation], *more: str
) -> tuple[int, list[PartitionStandIn], list[dict[str, Any]]]:
    """(status, partitions that were written to, steps of the log)."""
    path = folder / "plan.json"
    path.write_text(plan)
    means, partitions = World.of(lambda scope: now[scope.partition or 0])
    arguments = ["abort", "--plan-file", str(path), "--audit-log", str(folder / "audit.jsonl"), *more]
    status = abort_planned(context_of(folder, arguments), means)
    log = folder / "audit.jsonl"
    steps = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return status, [partition for partition in partitions if partition.written], steps


def hangs(count: int) -> list[Evaluation]:
    return [hang(partition=number % 3, start_offset=100 + number) for number in range(count)]


def test_each_is_judged_again_and_one_refusal_stops_no_other(tmp_path: Path) -> None:
    """The first lives again, the second hangs, the third is gone: one marker, status 5, all in the log."""
    plan = plan_of([hang(partition=number) for number in range(3)])

    status, written_to, steps = run(tmp_path, plan, {0: live(partition=0), 1: hang(partition=1), 2: nothing()}, "--yes")

    assert (status, len(written_to)) == (5, 1)
    assert written_to[0].written[0].partition == 1
    assert [step["step"] for step in steps] == [
        *("plan_file", "confirmed"),
        *("judged_again", "refused"),
        *("judged_again", "sending", "answered", "ended"),
        "gone",
    ]
    assert (steps[0]["judged"], len(steps[0]["sha256"])) == (3, 64)
    assert [(each["action"], each["partition"]) for each in steps[0]["transactions"]] == [("abort", 1)]
    assert all("partition" in step or "plan" in step for step in steps[2:])


@pytest.mark.parametrize(("count", "markers"), [(1, "1 ABORT marker"), (2, "2 ABORT markers")])
def test_the_question_counts_the_markers_and_says_that_they_stay(
    count: int, markers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal("yes\n"))
    monkeypatch.setattr("sys.stderr", terminal)
    now = {number: hang(partition=number) for number in range(count)}

    status, written_to, _ = run(tmp_path, plan_of(list(now.values())), now)

    assert (status, len(written_to)) == (0, count)
    assert terminal.getvalue().endswith(f"This cannot be undone. Write {markers} on cluster cluster-1? Type yes: ")


def test_a_plan_that_was_carried_out_can_be_used_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An entry that is gone already is neither refused nor a failure, no question is asked, and it is said once."""
    status, written_to, steps = run(tmp_path, plan_of([hang()]), {0: nothing()})

    assert (status, written_to) == (0, [])
    why = "the transaction is not open any more: nothing to write"
    assert capsys.readouterr() == (f"1. orders-0 at start offset 100\n  nothing will be written: {why}\n", "")
    assert [step["step"] for step in steps] == ["plan_file", "gone"]


def test_what_lives_again_while_the_others_are_aborted_is_left_alone(tmp_path: Path) -> None:
    """It hung when it was agreed to; it is judged once more before its own marker."""
    (tmp_path / "plan.json").write_text(plan_of([hang(partition=0), hang(partition=1)]))
    means, partitions = World.of(hang(partition=0), hang(partition=1), hang(partition=0), live(partition=1))
    options = context_of(
        tmp_path, ["abort", "--plan-file", str(tmp_path / "plan.json"), "--yes", "--audit-log", str(tmp_path / "log")]
    )

    assert abort_planned(options, means) == 5
    assert [partition.written[0].partition for partition in partitions] == [0]


@pytest.mark.parametrize(
    ("plan", "now", "more", "status", "message"),
    [
        (
            plan_of([hang()], "another"),
            hang(),
            ["--yes"],
            5,
            "the plan is for cluster another, and this cluster is cluster-1",
        ),
        (
            plan_of([hang(partition=n % 3, start_offset=n) for n in range(11)]),
            hang(),
            ["--yes"],
            5,
            "more than --max-aborts 10",
        ),
        (
            plan_of([hang(), hang(partition=1)]),
            hang(),
            ["--yes", "--max-aborts", "1"],
            5,
            "2 transactions, more than --max-aborts 1",
        ),
        (plan_of([hang()]), hang(), [], 5, "is not a terminal"),
        (plan_of([hang()])[:-20], hang(), ["--yes"], 1, "is not complete JSON"),
        (
            plan_of([hang()]).replace('"coordinator_epoch": -1', '"coordinator_epoch": 3', 1),
            hang(),
            ["--yes"],
            5,
            "its coordinator epoch was 3 and is -1: another client writes to the partition",
        ),
        (plan_of([committed()]), committed(), ["--yes"], 5, "an abort may hide committed records"),
    ],
)
def test_nothing_is_written_and_why(
    plan: str,
    now: Evaluation,
    more: list[str],
    status: int,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Another cluster, too many entries, no terminal, half a file, changed epochs, a commit."""
    got, written_to, _ = run(tmp_path, plan, {0: now, 1: now, 2: now}, *more)

    assert (got, written_to) == (status, [])
    assert message in capsys.readouterr().err


def test_a_dry_run_shows_every_plan_and_logs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 5 when one of them would be refused."""
    plan = plan_of([hang(partition=0), hang(partition=1)])

    status, written_to, steps = run(tmp_path, plan, {0: hang(partition=0), 1: live(partition=1)}, "--dry-run")

    assert (status, written_to, steps) == (5, [], [])
    shown = capsys.readouterr().out
    assert "1 of 2 would be aborted\nNext: kafka-transaction-exporter abort --plan-file " in shown
    assert "--dry-run" not in shown


def test_an_unread_partition_is_a_failure_and_not_a_ghost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A partition that could not be read may still hang: status 1, and the others go on."""
    unread = evaluate(snapshot(unread=[0, 1, 2]), Memory(), Policy())
    absent = evaluate(snapshot(partitions=0), Memory(), Policy())
    plan = plan_of([hang(partition=number) for number in range(3)])

    status, written_to, _ = run(tmp_path, plan, {0: unread, 1: absent, 2: hang(partition=2)}, "--yes")

    assert (status, len(written_to)) == (1, 1)
    errors = capsys.readouterr().err
    assert "timed_out" in errors
    assert "the partition does not exist or is not visible (needs DESCRIBE on the topic)" in errors


@pytest.mark.parametrize(
    "arguments",
    [
        ["--plan-file", "f", "--topic", "t"],
        ["--plan-file", "f", "--force", "hanging_stale_epoch"],
        ["--plan-file", "f", "--start-offset", "0"],
        ["--plan-file", "f", "--accept-data-loss"],
        ["--topic", "t", "--partition", "0", "--start-offset", "0", "--force", "inconclusive"],
        ["--topic", "t", "--partition", "0", "--start-offset", "0", "--accept-data-loss"],
        ["--topic", "t", "--partition", "0", "--start-offset", "0", "--max-aborts", "3"],
        ["--topic", "t", "--start-offset", "0"],
        ["--partition", "0", "--start-offset", "0"],
        ["--topic", "t", "--partition", "0"],
        ["--topic", "t", "--partition", "0", "--producer-id", "1", "--producer-epoch", "0"],
        ["--topic", "t", "--partition", "0", "--start-offset", "0", "--producer-id", "1"],
        [],
    ],
)
def test_options_that_do_not_go_together(arguments: list[str], tmp_path: Path) -> None:
    """The usage error comes before any request."""
    assert abort.wrong_usage(context_of(tmp_path, ["abort", *arguments]).options) is not None


def test_what_find_hanging_wrote_is_read_back() -> None:
    """Every name of the transaction, and none of the evidence."""
    plan = parse(plan_of([hang(partition=2)]))

    (planned,) = plan.transactions
    assert (plan.cluster_id, plan.taken_at_ms, str(planned)) == ("cluster-1", NOW_MS, "orders-2 at start offset 100")
    assert what_changed(planned, hang(partition=2).suspects[0]) is None
    assert not planned.is_same(hang(partition=1).suspects[0])


def changed(path: str, value: Any) -> str:
    """A plan of two with one value changed or, with `...`, taken out."""
    root = json.loads(plan_of([hang(), hang(partition=1)]))
    *keys, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    at: Any = root
    for key in keys:
        at = at[key]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return json.dumps(root)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not complete JSON"),
        ("[]", 'is not a plan: find-hanging --plan-file writes "format"'),
        ("{}", "is not a plan"),
        ("[" * 100_000, "is not complete JSON"),
        ('{"format": 1, "format": 2}', "the same key twice"),
        (changed("version", 1), "version must be 2, it is 1: another release wrote it; make a new plan"),
        (changed("version", True), "version must be 2, it is True"),
        (changed("cluster_id", ...), "cluster_id is missing"),
        (changed("comment", "hello"), "comment is unknown"),
        (changed("transactions", {}), "transactions must be a list, it is {}"),
        (changed("transactions/1", 5), "transactions[1] must be an object"),
        (changed("transactions/1/topic", "a b"), "[1].topic must be the name of a topic, it is 'a b'"),
        (changed("transactions/1/topic", ...), "transactions[1].topic is missing"),
        (
            changed("transactions/0/partition", "0"),
            "partition must be a whole number from 0 to 2147483647, it is '0'",
        ),
        (changed("transactions/0/partition", True), "transactions[0].partition must be a whole number"),
        (changed("transactions/0/start_offset", 1.5), "transactions[0].start_offset must be a whole number"),
        (changed("transactions/0/start_offset", -1), "transactions[0].start_offset must be a whole number"),
        (changed("transactions/0/producer_epoch", 32768), "transactions[0].producer_epoch must be a whole number"),
        (
            changed("transactions/0/verdict", "open_within_timeout"),
            "[0].verdict must be a verdict that is a proof",
        ),
        (changed("transactions/0/transactional_id", 4), "transactions[0].transactional_id must be a string or null"),
        (changed("transactions/0/evidence", None), "transactions[0].evidence must be an object"),
        (changed("transactions/0/topic_id", None), "transactions[0].topic_id must be a string"),
        (changed("transactions/0/last_sequence", -2), "transactions[0].last_sequence must be a whole number from -1"),
        (changed("transactions/1/last_timestamp_ms", ...), "transactions[1].last_timestamp_ms is missing"),
        (changed("transactions/0/forced", 1), "transactions[0].forced is unknown"),
        (changed("transactions/1/partition", 0), "orders-0 at start offset 100 is in the plan twice"),
    ],
)
def test_a_file_that_is_not_a_plan_is_refused_with_the_place(text: str, problem: str) -> None:
    """Cut off, of another release, mistyped, with a key too many or too few."""
    with pytest.raises(PlanFileError) as raised:
        parse(text)

    assert problem in str(raised.value)


def test_every_problem_is_reported_at_once_with_the_file_s_name(tmp_path: Path) -> None:
    """The operator can repair the file in one go."""
    path = tmp_path / "plan.json"
    root = json.loads(plan_of([hang()]))
    root["transactions"][0].update(topic="", partition=-1)
    path.write_text(json.dumps(root))

    with pytest.raises(PlanFileError) as raised:
        load(path)
    assert [problem.split(" must")[0] for problem in raised.value.problems] == [
        f"{path}: transactions[0].topic",
        f"{path}: transactions[0].partition",
    ]
    for unreadable in (tmp_path, tmp_path / "missing"):
        with pytest.raises(PlanFileError, match=r": cannot be read: [^\[]+$"):
            load(unreadable)
    path.write_bytes(b"\xff")
    with pytest.raises(PlanFileError, match="is not UTF-8 text"):
        load(path)


def test_a_plan_holds_only_what_is_proved() -> None:
    """A suspect that is not proved to hang is printed, and not planned."""
    rows = [*all_rows(live()), hang().suspects[0]]

    assert len(parse(render_plan_file("c", 1, rows)).transactions) == 1
    assert parse(render_plan_file("c", 1, ())).transactions == ()


def test_an_empty_plan_is_nothing_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 0, and no question."""
    assert run(tmp_path, render_plan_file("c", 1, ()), {})[:2] == (0, [])
    assert "nothing to do" in capsys.readouterr().out


def test_scopes_are_one_partition_each(tmp_path: Path) -> None:
    """The rest of the cluster is not read for it."""
    scopes: list[Scope] = []

    def look(scope: Scope) -> Evaluation:
        scopes.append(scope)
        return hang()

    (tmp_path / "plan.json").write_text(plan_of([hang()]))
    means, _ = World.of(look)
    abort_planned(context_of(tmp_path, ["abort", "--plan-file", str(tmp_path / "plan.json"), "--dry-run"]), means)

    assert scopes == [Scope(topic="orders", partition=0)]


@pytest.mark.parametrize("becomes", ["another", "nothing"])
def test_the_log_has_the_digest_of_the_plan_that_was_used(tmp_path: Path, becomes: str) -> None:
    """Also where the file is replaced or deleted after it was read."""
    path = tmp_path / "plan.json"
    text = plan_of([hang()])
    path.write_text(text)

    def swap(_: Scope) -> Evaluation:
        if becomes == "another":
            path.write_text('{"innocent": true}')
        else:
            path.unlink(missing_ok=True)
        return hang()

    means, partitions = World.of(swap)
    log = tmp_path / "audit.jsonl"
    arguments = ["abort", "--plan-file", str(path), "--audit-log", str(log), "--yes"]

    assert abort_planned(context_of(tmp_path, arguments), means) == 0
    assert len([partition for partition in partitions if partition.written]) == 1
    assert json.loads(log.read_text().splitlines()[0])["sha256"] == hashlib.sha256(text.encode()).hexdigest()
