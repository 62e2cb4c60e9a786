"""`abort` and `complete`: the question, the second judgement, and the audit log after Ctrl-C."""

from __future__ import annotations

import fcntl
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from exporter.commands import abort as abort_command
from exporter.commands.consent import agrees, audit_log, with_audited
from exporter.commands.examine import policy
from exporter.commands.recover import ClusterAccess, recover
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.evaluation.evaluate import all_rows, evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, Policy, TransactionRow
from exporter.kafka.collect.scope import Scope
from exporter.kafka.errors import ClusterUnavailableError
from exporter.recovery.carry_out import MARKERS_NEED_A_RIGHT
from exporter.recovery.plan import Action
from tests.commands.scenes import SETTINGS, Completing, Terminal, World, context_of, hang, live, nothing, stuck
from tests.evaluation.builders import snapshot
from tests.recovery.stand_in import PartitionStandIn

ABORT = ("abort", "--topic", "orders", "--partition", "0", "--start-offset", "100")


class Leaving(Terminal):
    """An operator who types Ctrl-C."""

    def readline(self, *_: object) -> NoReturn:
        raise KeyboardInterrupt


def at_terminal(monkeypatch: pytest.MonkeyPatch, answer: io.StringIO | None) -> Terminal:
    """Standard input answers so; what is written to standard error."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stdin", answer)
    monkeypatch.setattr("sys.stderr", terminal)
    return terminal


def abort(folder: Path, *looks: Evaluation, more: tuple[str, ...] = ()) -> tuple[int, list[PartitionStandIn]]:
    means, partitions = World.of(*looks)
    return recover(context_of(folder, [*ABORT, *more]), means, Action.ABORT), [
        partition for partition in partitions if partition.written
    ]


def steps(folder: Path) -> list[tuple[str, str | None]]:
    log = folder / "audit.jsonl"
    lines = log.read_text().splitlines() if log.exists() else []
    return [(step["step"], step.get("by")) for step in map(json.loads, lines)]


def test_yes_on_a_terminal_is_consent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The question goes to standard error: standard output may be a file."""
    terminal = at_terminal(monkeypatch, Terminal("yes\n"))

    status, written_to = abort(tmp_path, hang())

    assert (status, len(written_to)) == (0, 1)
    assert terminal.getvalue() == "This cannot be undone. Write it on cluster cluster-1? Type yes: "
    assert steps(tmp_path)[:3] == [("planned", None), ("confirmed", "terminal"), ("sending", None)]


@pytest.mark.parametrize("answer", ["no\n", "\n", "y\n", "YES\n", "yes please\n", ""])
def test_anything_else_is_not(answer: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A shorter word, another one, or Ctrl-D: nothing is written, and it is logged."""
    terminal = at_terminal(monkeypatch, Terminal(answer))

    assert abort(tmp_path, hang()) == (5, [])
    assert steps(tmp_path) == [("planned", None), ("declined", "terminal" if answer else "end of input")]
    assert "declined, nothing is written" in terminal.getvalue()


def test_ctrl_c_at_the_question_is_logged_as_declined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And ends the program as Ctrl-C does."""
    at_terminal(monkeypatch, Leaving())
    means, partitions = World.of(hang())

    with pytest.raises(KeyboardInterrupt):
        recover(context_of(tmp_path, ABORT), means, Action.ABORT)

    assert partitions == []
    assert steps(tmp_path) == [("planned", None), ("declined", "Ctrl-C")]


@pytest.mark.parametrize("stdin", [None, io.StringIO("yes\n")])
def test_without_a_terminal_there_is_no_consent(
    stdin: io.StringIO | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A closed standard input, or a `yes` that comes down a pipe."""
    at_terminal(monkeypatch, stdin)

    assert abort(tmp_path, hang()) == (5, [])
    assert steps(tmp_path)[-1] == ("declined", "no terminal")


def test_a_question_is_not_asked_where_standard_error_is_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With standard error in a file the operator would not see the question."""
    at_terminal(monkeypatch, Terminal("yes\n"))
    monkeypatch.setattr("sys.stderr", io.StringIO())

    assert abort(tmp_path, hang()) == (5, [])


@pytest.mark.parametrize("action", list(Action))
def test_a_missing_right_is_said_in_place_of_the_question(
    action: Action, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After the plan, which the operator can hand to somebody who has the right."""
    terminal = at_terminal(monkeypatch, Terminal("yes\n"))
    look = hang() if action is Action.ABORT else stuck()
    asked: list[int] = []
    means, opened = World.of(look)

    def missing_right(row: TransactionRow) -> str:
        asked.append(row.start_offset)
        return MARKERS_NEED_A_RIGHT

    means = replace(means, missing_right=missing_right)
    command = ("--topic", "orders", "--partition", "0", "--start-offset", str(look.suspects[0].start_offset))

    status = recover(context_of(tmp_path, [action.value, *command]), means, action)

    assert (status, opened, asked) == (5, [], [look.suspects[0].start_offset])
    assert f"{action.value} on orders-0: write one" in capsys.readouterr().out
    assert "refused, nothing is written: not authorized to write markers" in terminal.getvalue()
    assert "Type yes" not in terminal.getvalue()
    assert steps(tmp_path) == [("planned", None), ("refused", None)]


def test_what_changed_while_the_operator_decided_is_judged_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The hang became a live transaction at the same offset, or is gone: nothing is written."""
    at_terminal(monkeypatch, Terminal("yes\n"))
    assert abort(tmp_path, hang(), live()) == (5, [])
    assert steps(tmp_path)[-1] == ("refused", None)

    at_terminal(monkeypatch, Terminal("yes\n"))
    assert abort(tmp_path, hang(), nothing()) == (1, [])
    assert steps(tmp_path)[-1] == ("ended", None)


def test_a_decision_that_has_changed_is_asked_about_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A coordinator whose log was cut off decides again: nobody has confirmed the opposite marker."""
    terminal = at_terminal(monkeypatch, Terminal("yes\n"))
    means, opened = World.of(stuck(), stuck("PrepareAbort"))
    command = ("complete", "--topic", "orders", "--partition", "0", "--start-offset", "100")

    status = recover(context_of(tmp_path, command), means, Action.COMPLETE)

    assert (status, opened) == (5, [])
    assert "write one COMMIT marker" in capsys.readouterr().out
    assert "its coordinator had decided PrepareCommit, and has PrepareAbort now: run" in terminal.getvalue()


def test_it_is_judged_once_more_in_the_lock_with_yes_as_well(tmp_path: Path) -> None:
    """There is no question, but the command may have waited for another command with the same log."""
    assert abort(tmp_path, hang(), nothing(), more=("--yes",)) == (1, [])
    assert abort(tmp_path, hang(), live(), more=("--yes",)) == (5, [])
    judged: list[str] = []

    def look(_: Scope) -> Evaluation:
        judged.append("in the lock" if is_locked(tmp_path / "audit.jsonl") else "before")
        return hang()

    means, _ = World.of(look)
    assert recover(context_of(tmp_path, [*ABORT, "--yes"]), means, Action.ABORT) == 0
    assert judged == ["before", "in the lock"]


def is_locked(path: Path) -> bool:
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_a_partition_that_is_not_read_is_no_transaction_that_has_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The runbook says of one that is gone that its alert resolves by itself."""
    unread = evaluate(snapshot([], partitions=1, unread=[0]), Memory(), Policy())
    status, written = abort(tmp_path, unread)

    assert (status, written) == (ExitStatus.INCOMPLETE, [])
    assert "whether a transaction is open on orders-0 is not known: 1 partition is unread" in capsys.readouterr().err


@pytest.mark.parametrize(
    "change",
    [
        {"last_sequence": 1},
        {"last_timestamp_ms": 1},
        {"producer_epoch": 4},
        {"coordinator_epoch": 0},
        {"topic_id": "x"},
    ],
)
def test_what_goes_on_while_the_lock_is_waited_for_is_left_alone(
    change: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It hangs again when it is judged in the lock, and is not what was shown: its producer lives, or the topic is new."""
    (shown,) = all_rows(hang())
    means, partitions = World.of(hang())
    with_change = replace(shown, **change)  # type: ignore[arg-type]  # the tests' own keywords
    rows = iter([(shown,), (with_change,)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("exporter.commands.recover.all_rows", lambda _: next(rows))
        status = recover(context_of(tmp_path, [*ABORT, "--yes"]), means, Action.ABORT)

    assert (status, partitions) == (5, [])
    assert (
        f"since it was shown, its {next(iter(change)).removesuffix('_ms').replace('_', ' ')} was"
        in capsys.readouterr().err
    )


def test_a_cluster_that_goes_away_in_the_lock_is_logged(tmp_path: Path) -> None:
    """Nothing was written, and the log says why."""
    looks = iter([hang()])

    def look(_: Scope) -> Evaluation:
        try:
            return next(looks)
        except StopIteration:
            raise ClusterUnavailableError("no broker responded") from None

    means, _ = World.of(look)
    with pytest.raises(ClusterUnavailableError):
        recover(context_of(tmp_path, [*ABORT, "--yes"]), means, Action.ABORT)

    (last,) = (tmp_path / "audit.jsonl").read_text().splitlines()[-1:]
    assert json.loads(last)["sentence"] == "nothing was written: no broker responded"


def test_a_transaction_that_is_completing_is_watched_as_long_as_find_hanging_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise a stuck transaction would always be completing here, and the advice would be to wait."""
    clock = Completing()

    def with_collector(_: Settings, command: Callable[[ClusterAccess], int], *, stuck_after_ms: int | None = 0) -> int:
        judge = clock.judge(stuck_after_ms=stuck_after_ms)
        return command(replace(World.of(nothing())[0], judge=judge.judge))

    monkeypatch.setattr(abort_command, "with_means", with_collector)
    arguments = ["abort", "--topic", "orders", "--partition", "0", "--start-offset", "7", "--dry-run"]
    status = abort_command.run(context_of(tmp_path, arguments), SETTINGS)

    assert status == ExitStatus.REFUSED
    assert "`complete` writes the marker that its coordinator has decided." in capsys.readouterr().out
    assert clock.now_s > policy(SETTINGS).stuck_after_ms / 1000


def test_the_question_fits_its_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The answer is typed behind its last word."""
    terminal = at_terminal(monkeypatch, Terminal("no\n"))
    monkeypatch.setattr("exporter.commands.lines.terminal_width", lambda _: 40)

    abort(tmp_path, hang())

    question, *_ = terminal.getvalue().partition("kafka-transaction-exporter: ")
    assert " ".join(question.split()).startswith("This cannot be undone. Write it on cluster cluster-1? Type yes:")
    assert max(map(len, question.split("\n"))) <= 40 + len(" ")


def test_a_dry_run_writes_nothing_anywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No marker, no log, no question; the command that writes comes next, but not after a refusal."""
    assert abort(tmp_path, hang(), more=("--dry-run", "--audit-log", "a b")) == (0, [])
    written = "abort --topic orders --partition 0 --start-offset 100 --audit-log 'a b'"
    assert capsys.readouterr().out.endswith(
        f"\ndry run on cluster cluster-1: nothing is written\nNext: kafka-transaction-exporter {written}\n"
    )
    assert abort(tmp_path, live(), more=("--dry-run",)) == (5, [])
    assert "Next: " not in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_without_a_place_for_the_log_nothing_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user without a home names a file."""
    context = context_of(None, [*ABORT, "--yes"])
    means, partitions = World.of(hang())

    assert with_audited(SETTINGS, lambda _: recover(context, means, Action.ABORT)) == 1
    assert partitions == []
    assert "name a file with --audit-log" in capsys.readouterr().err
    at_terminal(monkeypatch, None)
    context.options.audit_log = str(tmp_path / "log")
    assert agrees(context.options, audit_log(context), {})


@pytest.mark.parametrize(
    ("producer", "status"),
    [
        (("4000", "3", "-1"), 0),
        (("4000", "3", "0"), 0),
        (("4000", "3", "7"), 1),
        (("4000", "4", "-1"), 1),
    ],
)
def test_the_old_form_names_all_three(
    producer: tuple[str, str, str], status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A coordinator epoch that the partition does not remember names another transaction; -1 and 0 are none."""
    producer_id, producer_epoch, coordinator_epoch = producer
    names = ("--producer-id", producer_id, "--producer-epoch", producer_epoch, "--coordinator-epoch", coordinator_epoch)
    means, _ = World.of(hang())

    assert recover(context_of(tmp_path, [*ABORT[:5], *names, "--yes"]), means, Action.ABORT) == status
    if status:
        assert f"no transaction of producer 4000 at epoch {producer_epoch}" in capsys.readouterr().err
