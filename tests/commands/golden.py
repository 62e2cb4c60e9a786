"""The output of each command, as text files in tests/commands/golden/, reviewed as a diff.

`make generate` writes them. Everything is built; no broker is asked.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from exporter.commands import describe, describe_producers, force_terminate, list_transactions
from exporter.commands.abort_planned import abort_planned
from exporter.commands.evaluations import render_evaluations
from exporter.commands.find_hanging import selected
from exporter.commands.recover import recover
from exporter.commands.rows import Row, as_table
from exporter.evaluation.verdicts import Evaluation, Verdict
from exporter.recovery.plan import Action
from exporter.recovery.plan_file import render_plan_file
from tests.commands.scenes import ODD_ID, World, alone, committed, context_of, every_kind, hang, live, nothing, stuck
from tests.evaluation.builders import NOW_MS, transaction
from tests.recovery.stand_in import OPEN

FOLDER = Path(__file__).parent / "golden"
ABORT = ("abort", "--topic", "orders", "--partition", "0", "--start-offset", "100", "--yes")
COMPLETE = ("complete", "--topic", "orders", "--partition", "0", "--start-offset", "100", "--yes")


def find_hanging(*, show_all: bool) -> str:
    return render_evaluations(alone(every_kind()), partial(selected, show_all=show_all), "tsv")


def find_hanging_table() -> str:
    return render_evaluations(alone(every_kind()), selected, "table")


def _listed() -> list[Row]:
    ids = [
        transaction(),
        transaction("CompleteCommit", transactional_id="billing-1", producer_id=40),
        transaction("PrepareAbort", transactional_id=ODD_ID, producer_id=41, coordinator=2),
    ]
    return list_transactions.listed(ids)


def list_() -> str:
    return as_table(list_transactions.HEADINGS, _listed())


def list_table() -> str:
    return list_transactions.in_words(_listed(), is_fleet=False)


def describe_table(state: str = "Ongoing") -> str:
    partitions = frozenset({("orders", 1), ("orders", 0), ("bills", 7)} if state == "Ongoing" else ())
    one = transaction(state, transactional_id=ODD_ID, partitions=partitions)
    return describe.in_words(describe.described(one, NOW_MS))


def describe_producers_(form: str) -> str:
    idle = replace(OPEN, producer_id=7, coordinator_epoch=5, last_sequence=99, current_txn_start_offset=-1)
    entries = [replace(OPEN, last_timestamp=NOW_MS), idle]
    return describe_producers.output_rows(entries, form)


def output_of(run: Callable[[Path], int]) -> str:
    """Standard output, standard error and status of a command."""
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(Path(folder))
    return f"{out.getvalue()}--- standard error\n{err.getvalue()}--- status {status}"


def abort(look: Evaluation, *more: str, forced: Verdict | None = None) -> str:
    return output_of(
        lambda folder: recover(context_of(folder, [*ABORT, *more]), World.of(look)[0], Action.ABORT, forced=forced)
    )


def abort_plan_file() -> str:
    """One that hangs, one that lives again, one that is gone."""

    def run(folder: Path) -> int:
        rows = [hang(partition=partition).suspects[0] for partition in range(3)]
        (folder / "plan.json").write_text(render_plan_file("cluster-1", NOW_MS, rows))
        now = {0: hang(partition=0), 1: live(partition=1), 2: live(partition=0)}
        means, _ = World.of(lambda scope: now[scope.partition or 0])
        return abort_planned(context_of(folder, ["abort", "--plan-file", str(folder / "plan.json"), "--yes"]), means)

    return output_of(run)


def complete() -> str:
    return output_of(lambda folder: recover(context_of(folder, COMPLETE), World.of(stuck())[0], Action.COMPLETE))


def force_terminate_() -> str:
    return force_terminate.in_words(transaction(transactional_id=ODD_ID), NOW_MS)


GOLDEN: Mapping[str, Callable[[], str]] = {
    "find-hanging": lambda: find_hanging(show_all=False),
    "find-hanging-all": lambda: find_hanging(show_all=True),
    "find-hanging-table": find_hanging_table,
    "find-hanging-nothing": lambda: render_evaluations(alone(nothing()), selected, "table"),
    "list": list_,
    "list-table": list_table,
    "describe-table": lambda: f"{describe_table()}\n\n{describe_table('Empty')}",
    "describe-producers": lambda: describe_producers_("tsv"),
    "describe-producers-table": lambda: describe_producers_("table"),
    "abort": lambda: abort(hang()),
    "abort-dry-run": lambda: abort(live(), "--dry-run"),
    "abort-refused": lambda: abort(live()),
    "abort-refused-committed": lambda: abort(committed()),
    "abort-forced": lambda: abort(committed(), forced=Verdict.HANGING_NOT_IN_TRANSACTION),
    "abort-plan-file": abort_plan_file,
    "complete": complete,
    "force-terminate": force_terminate_,
}
