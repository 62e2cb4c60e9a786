"""The rows of find-hanging: which, in which format, and how often."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from exporter.commands import once
from exporter.commands.clusters import ClusterResult
from exporter.commands.context import Context
from exporter.commands.evaluations import render_evaluations, status_of_evaluations
from exporter.commands.examine import policy
from exporter.commands.find_hanging import _write_plan, run, selected, wrong_usage
from exporter.commands.rows import RED, RESET, YELLOW, as_csv, as_json, as_table, by_verdict, paint_for
from exporter.commands.status import ExitStatus
from exporter.commands.watch import END_LINE, END_SCREEN, HOME, watch
from exporter.config.loading import load
from exporter.daemon.wiring import policy_of
from exporter.evaluation.document import TRANSACTION_KEYS
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, Policy, Verdict
from exporter.kafka.collect.scope import Scope
from exporter.kafka.errors import BrokerFault, ClusterUnavailableError, FaultReason
from exporter.snapshot import MarkerFinding
from tests.commands.scenes import (
    ODD_ID,
    SETTINGS,
    Completing,
    Terminal,
    alone,
    context_of,
    every_kind,
    hang,
    live,
    nothing,
)
from tests.evaluation.builders import MINUTE_MS, NOW_MS, Entry, snapshot
from tests.evaluation.stuck import marker, stuck


def context(*arguments: str) -> Context:
    return context_of(Path("/nowhere"), ["find-hanging", *arguments])


@pytest.mark.parametrize(
    ("written", "ids"),
    [
        (None, ["billing-1", None, "slow-1", "ends-1", "live-1"]),
        ("Ongoing", ["slow-1", "live-1"]),
        ("Ongoing,CompleteCommit", ["billing-1", "slow-1", "live-1"]),
        ("-", [None]),
        (" PrepareCommit , - ", [None, "ends-1"]),
        ("Dead", []),
    ],
)
def test_states_choose_rows_by_what_the_coordinator_has(written: str | None, ids: list[str | None]) -> None:
    """A dash means no coordinator, as in the table."""
    options = context(*([] if written is None else [f"--states={written}"])).options

    rows = selected(every_kind(), show_all=True, states=options.states)

    assert [row.transactional_id for row in rows] == ids


@pytest.mark.parametrize("written", ["ongoing", "Ongoing,Ongoin", "-", ",", ""])
def test_states_that_do_not_exist_are_reported(written: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With those that there are; a dash only where it means something."""
    with pytest.raises(SystemExit, match="2"):
        context_of(Path("/nowhere"), ["list", f"--states={written}"])
    assert "the states are Empty, Ongoing" in capsys.readouterr().err


def test_a_pattern_that_is_no_regular_expression_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """By its option; without one, or with an empty one, every id is meant."""
    with pytest.raises(SystemExit, match="2"):
        context_of(Path("/nowhere"), ["list", "--transactional-id-pattern", "("])
    assert "--transactional-id-pattern: is not a regular expression" in capsys.readouterr().err
    for arguments in ([], ["--transactional-id-pattern", ""]):
        options = context_of(Path("/nowhere"), ["list", *arguments]).options
        assert options.transactional_id_pattern.fullmatch("any\nid")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--partition", "0"],
        ["--watch", "--exit-code"],
        ["--watch", "2s", "--plan-file", "f"],
        ["--watch", "--format", "csv"],
    ],
)
def test_options_that_do_not_go_together(arguments: list[str]) -> None:
    """The usage error comes before any request."""
    assert wrong_usage(context(*arguments).options) is not None


def test_command_and_status_page_go_by_the_same_settings() -> None:
    """Only an option that is given changes them; a time of 0 is never reached."""
    flags = {"kafka.bootstrap.servers": "a:1", "verdicts.stuck_after": "7m", "verdicts.overdue_slack": "8s"}
    settings = load(file=None, environment={}, flags=flags).settings

    assert policy(settings) == policy_of(settings)
    assert policy(settings, stuck_after_ms=1000) == replace(policy_of(settings), stuck_after_ms=1000)
    assert policy(settings, stuck_after_ms=0).stuck_after_ms > 10**15
    assert policy(settings, overdue_slack_ms=0) == replace(policy_of(settings), overdue_slack_ms=0)
    assert (context().options.stuck_after, context().options.overdue_slack) == (None, None)


def test_a_plan_is_never_written_over_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file, link or folder: the error comes before any request."""
    (tmp_path / "plan.json").write_text("mine")

    assert run(context("--plan-file", str(tmp_path / "plan.json")), SETTINGS) == 1
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "plan.json").read_text() == "mine"


def test_a_plan_is_announced_with_the_number_of_its_hangs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And why it could not be written, without the path twice."""
    evaluation, path = hang(), tmp_path / "plan.json"

    assert _write_plan(path, evaluation, evaluation.suspects, ("--bootstrap-server", "a:1"))
    said = capsys.readouterr().err
    assert f"{path} has a plan to abort 1 proved hanging transaction: read it before the next command" in said
    assert f"\nNext: kafka-transaction-exporter abort --plan-file {path} --dry-run --bootstrap-server a:1\n" in said
    assert not _write_plan(path / "in a file", evaluation, evaluation.suspects, ())
    assert f"the plan was not written: {path / 'in a file'}: Not a directory\n" in capsys.readouterr().err


def test_once_has_the_colours_of_find_hanging() -> None:
    assert once._printed(alone(hang()), "table", by_verdict).count(RED) == 1


def test_the_duration_is_at_least_that_since_the_last_write() -> None:
    """A command sees a transaction without a known start for the first time; Kafka's own column counts from its write."""
    entry = Entry(producer_id=4000, last_timestamp_ms=NOW_MS - 61 * MINUTE_MS)
    seen = evaluate(snapshot([entry]), Memory(), Policy())

    heading, row = render_evaluations(alone(seen), partial(selected, show_all=True), "tsv").splitlines()

    assert dict(zip(heading.split("\t"), row.split("\t"), strict=True))["Duration(min)"].strip() == "61"


def test_csv_has_the_same_columns_with_and_without_rows() -> None:
    """A script that reads columns by name also runs on a healthy cluster."""
    full, empty = (
        render_evaluations(alone(found), selected, "csv").splitlines() for found in (every_kind(), nothing())
    )

    assert (full[0], len(full)) == (empty[0], 4)
    assert empty == [",".join(TRANSACTION_KEYS)]


@pytest.mark.parametrize(
    "name",
    [
        ODD_ID,
        "a\rb",
        "a\nb",
        'say "hi", then',
        "a\tb",
        "=1+1",
        "@SUM(1)",
        "-2",
        "\x1b]0;x\x07",
        "\x9bm",
        "é\u202eb",
        "a\x00b",
    ],
)
def test_a_name_breaks_no_format(name: str) -> None:
    """JSON gives it back exactly; table and CSV keep their shape, and hold nothing that a terminal or spreadsheet obeys."""
    row = {"id": name, "state": "Ongoing", "groups": [{"group": "g"}]}

    text = as_csv([row], ["id", "state", "groups"])
    printed_name = "".join(character if character.isprintable() else "\ufffd" for character in name)
    (cell,) = (row["id"] for row in csv.DictReader(io.StringIO(text, newline="")))
    assert cell == (f"'{printed_name}" if name[0] in "=+-@" else printed_name)
    assert all(character.isprintable() or character == "\n" for character in text)
    assert json.loads(as_json([row])) == [row]
    assert as_json([row]).isascii()
    lines = as_table({"id": "Id", "state": "State"}, [row]).split("\n")
    assert [len(line.split("\t")) for line in lines] == [2, 2]
    assert all(character.isprintable() or character == "\t" for line in lines for character in line)


def test_colour_is_for_terminals_that_accept_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red for proved hangs, yellow for other suspects, no colour where it was declined or cannot be seen."""
    lines = {verdict.label: by_verdict({"verdict": verdict.label}, "x") for verdict in Verdict}

    assert {label for label, line in lines.items() if line == f"{RED}x{RESET}"} == {
        verdict.label for verdict in Verdict if verdict.is_hanging
    }
    assert lines["inconclusive"] == lines["stuck_completing"] == f"{YELLOW}x{RESET}"
    assert lines["open_within_timeout"] == lines["completing"] == "x"
    on_terminal = context()
    monkeypatch.setattr("sys.stdout", Terminal())
    assert paint_for(on_terminal) is by_verdict
    assert paint_for(replace(on_terminal, may_colour=False)) is not by_verdict
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert paint_for(on_terminal) is not by_verdict


def test_columns_line_up_in_colour() -> None:
    """The paint is put on after the widths are known."""
    rows: list[dict[str, Any]] = [{"verdict": "hanging_stale_epoch", "id": "a"}, {"verdict": "completing", "id": "b"}]

    table = as_table({"verdict": "Verdict", "id": "Id"}, rows, by_verdict)

    assert table.replace(RED, "").replace(RESET, "") == as_table({"verdict": "Verdict", "id": "Id"}, rows)
    assert table.count(RED) == 1


def watched(arguments: Sequence[str], looks: Sequence[Evaluation | BaseException]) -> tuple[int, list[float]]:
    """Status of a watch over `looks`, left by Ctrl-C after the last, and how long it slept."""
    left = list(looks)
    slept: list[float] = []

    def look() -> Evaluation:
        if not left:
            raise KeyboardInterrupt
        outcome = left.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    options = context(*arguments).options
    clock = iter(range(1000))
    status = watch(
        options,
        look,
        lambda evaluation: render_evaluations(alone(evaluation), selected, options.format),
        clock=lambda: float(next(clock)),
        sleep=slept.append,
    )
    return status, slept


def test_a_watch_prints_each_look_until_ctrl_c(capsys: pytest.CaptureFixture[str]) -> None:
    """One table after the other without a terminal, at the requested interval, and status 0 in the end."""
    status, slept = watched(["--watch"], [hang(), nothing()])

    out = capsys.readouterr().out
    assert (status, slept) == (0, [4.0, 4.0])  # a look took a second of this clock
    assert out.count("2027-01-15T08:00:00+00:00  cluster cluster-1, every 5 s\n") == 2
    assert out.count("hanging_no_transactional_id") == 1
    assert HOME not in out


def test_a_watch_as_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """So that a reader takes it line by line."""
    watched(["--watch", "500ms", "--format", "json"], [hang(), nothing()])

    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (len(first["transactions"]), second["transactions"]) == (1, [])


def test_a_watch_on_a_terminal_takes_the_place_of_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Line by line over the old one, and cleared below: without flicker. A hang that has ended is named, others are not."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)

    watched(["--watch", "--format", "table"], [hang(), live(), nothing(), nothing()])

    frames = terminal.getvalue().split(HOME)[1:]
    assert len(frames) == 4
    assert all(frame.rstrip("\n").endswith(END_SCREEN) for frame in frames)
    assert all(line.endswith(END_LINE) for frame in frames for line in frame.split("\n")[:-2])
    ended = [[line for line in frame.split("\n") if line.startswith("Ended")] for frame in frames]
    sentence = f"Ended: the hang on orders-0 from start offset 100, after 500 ms.{END_LINE}"
    assert ended == [[], [], [sentence], [sentence]]


def test_a_hang_that_is_not_read_has_not_ended(capsys: pytest.CaptureFixture[str]) -> None:
    """An unread partition proves nothing; the hang has ended when its partition is read without it."""
    unread = evaluate(snapshot(unread=[0]), Memory(), Policy())

    watched(["--watch", "--format", "table"], [hang(), unread, hang()])

    assert "Ended" not in capsys.readouterr().out


@pytest.mark.parametrize("failure", [ClusterUnavailableError, partial(BrokerFault, FaultReason.TIMED_OUT)])
def test_a_watch_survives_a_cluster_that_goes_away(
    failure: Callable[[str], Exception], capsys: pytest.CaptureFixture[str]
) -> None:
    """And a broker that restarts between two requests. But a cluster that was never there is status 1 at once."""
    gone = failure("no broker responded")

    assert watched(["--watch"], [nothing(), gone, nothing()])[0] == 0
    assert capsys.readouterr().err == "kafka-transaction-exporter: no broker responded\n"
    assert watched(["--watch"], [gone]) == (1, [])


def test_a_watch_names_what_is_missing_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    """An empty table of a half unread cluster does not mean health."""
    watched(["--watch"], [every_kind(), every_kind()])

    assert capsys.readouterr().err.count("incomplete: broker 1 is slow") == 2


def verdicts(evaluation: Evaluation) -> dict[int, Verdict]:
    """Producer id -> verdict."""
    open_ = evaluation.snapshot.open_transactions
    return {
        int(producer_id): Verdict.ranked(int(v))
        for producer_id, v in zip(open_.producer_id, evaluation.transactions.verdict, strict=True)
    }


def test_a_completion_is_waited_for_once() -> None:
    """It is read until it is stuck; the next judgement finds it stuck at its first look."""
    collector = Completing()
    judge = collector.judge()

    assert verdicts(judge.judge(Scope())) == {7: Verdict.STUCK_COMPLETING}
    assert (collector.looks, collector.now_s) == (5, 4.0)
    assert verdicts(judge.judge(Scope())) == {7: Verdict.STUCK_COMPLETING}
    assert collector.looks == 6


@pytest.mark.parametrize("look_s", [0.0, 0.1, 1.0, 2.5, 10.0])
@pytest.mark.parametrize("newcomers", [0, 1, 400])
def test_a_busy_cluster_is_answered_within_a_bound(newcomers: int, look_s: float) -> None:
    """Others complete without pause: only the transaction of the first look is waited for, and it is found stuck."""
    collector = Completing(newcomers=newcomers, look_s=look_s)

    found = verdicts(collector.judge().judge(Scope()))

    assert found.pop(7) is Verdict.STUCK_COMPLETING
    assert list(found.values()) == [Verdict.COMPLETING] * newcomers
    assert collector.now_s <= look_s + 3.0 + 1.0 + look_s


def test_a_busy_cluster_without_a_suspect_is_answered_at_the_second_look() -> None:
    """A transaction that completes in the first look has ended in the second: nothing is left that could be stuck."""
    collector = Completing(newcomers=4000, is_stuck=False)

    collector.judge(stuck_after_ms=30_000).judge(Scope())

    assert (collector.looks, collector.now_s) == (2, 1.0)


def test_without_a_wait_a_completion_is_never_stuck() -> None:
    """`--stuck-after 0` neither waits nor claims, however often it looks."""
    collector = Completing()
    judge = collector.judge(stuck_after_ms=0)

    assert [int(judge.judge(Scope()).transactions.verdict[0]) for _ in range(3)] == [Verdict.COMPLETING] * 3
    assert collector.looks == 3


def test_a_cluster_of_two_names_is_said_to_be_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Each transaction is printed twice then."""
    results = []
    for name, topic_id in (("east", "6b2c"), ("other", "9f1d"), ("west", "6b2c")):
        taken = snapshot([Entry()])
        taken = replace(taken, partitions=replace(taken.partitions, topic_ids=(topic_id,)))
        cluster = replace(SETTINGS.watched[0], name=name)
        results.append(ClusterResult(cluster, evaluate(taken, Memory(), Policy())))
    status_of_evaluations(results, "table")
    said = capsys.readouterr().err
    assert "west: it is the same cluster as east: what is open there is printed twice" in said
    assert said.count("same cluster") == 1


@pytest.mark.parametrize(("output", "is_said"), [("tsv", True), ("csv", True), ("json", False), ("table", False)])
def test_what_is_stuck_is_said_where_rows_cannot(
    output: str, *, is_said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is open on a partition, so no row has it: a script would print a heading and find nothing."""
    lost = stuck(marker(MarkerFinding.CONTRADICTED))
    found = alone(replace(evaluate(snapshot([]), Memory(), Policy()), stuck=(lost,)))

    assert status_of_evaluations(found, output) is ExitStatus.ANSWERED
    assert (
        "stuck at its coordinator: Coordinator 1 has decided to commit the transaction of 'app-1'"
        in capsys.readouterr().err
    ) is is_said
