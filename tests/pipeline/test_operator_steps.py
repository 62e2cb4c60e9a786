"""Steps of operators' commands in their table: each once, whoever takes them, and nothing that a foreign line may hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from exporter.pipeline.delta import ConflictError, Table
from exporter.pipeline.jobs import Jobs
from exporter.pipeline.operator_steps import TEXT_MAX, steps_in
from exporter.pipeline.tables import Tables
from exporter.primitives import INT64_MAX
from exporter.recovery.audit import AuditLog
from tests.pipeline import cases
from tests.pipeline.days import DAY_MS

STEP: Final = {"at": "2026-11-01T00:00:10+00:00", "who": "ada@host", "step": "confirmed"}
FACTS: Final = {"action": "abort", "topic": "orders", "partition": 0, "start_offset": 100, "producer_id": 7}


def rows(*steps: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(steps_in((json.dumps(step) for step in steps), since_ms=0, until_ms=cases.NOW_MS))


def jobs(folder: Path, lines: list[str]) -> Jobs:
    def no_spark() -> SparkSession:
        raise AssertionError("needs no Spark")

    tables, log = Tables(folder / "tables"), folder / "audit.jsonl"
    now_ms = cases.BEGIN_MS + DAY_MS
    return Jobs(no_spark, folder, tables, (), 90 * DAY_MS, lambda: now_ms, lines.append, audit_logs=(log,))


def steps_of(table: Table) -> list[tuple[Any, ...]]:
    found = pa.table(
        DeltaTable(str(table.folder)).scan(columns=["written_at", "step", "topic", "start_offset"]).read_all()
    )
    return sorted((row["step"], row["topic"], row["start_offset"]) for row in found.to_pylist())


def test_a_log_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    """The job fails all the same, with its reason."""
    said = list[str]()
    work, log = jobs(tmp_path, said), tmp_path / "audit.jsonl"
    AuditLog(log, wall_clock=lambda: cases.BEGIN_MS / 1000, cluster_id="c").step("confirmed", transactions=[FACTS])
    unread = tmp_path / "folder"
    unread.mkdir()
    with pytest.raises(IsADirectoryError):
        replace(work, audit_logs=(unread, log)).operators()

    assert steps_of(work.tables.operator_steps) == [("confirmed", "orders", 100)]


def test_what_commands_log_is_taken_once(tmp_path: Path) -> None:
    """The log grows between two runs; one that was not written yet is no failure."""
    said = list[str]()
    work, log = jobs(tmp_path, said), tmp_path / "audit.jsonl"
    work.operators()
    clock = iter([cases.BEGIN_MS / 1000 + second for second in range(9)])
    audit = AuditLog(log, wall_clock=lambda: next(clock), cluster_id="c")
    audit.step("planned", plan={**FACTS, "transactional_id": "app"}, forced=None)
    audit.step("confirmed", by="terminal", transactions=[FACTS, {**FACTS, "start_offset": 7}])
    work.operators()
    audit.step("ended", **FACTS, done=True, sentence="the transaction is closed")
    work.operators()
    version = work.tables.operator_steps.snapshot().number
    work.operators()

    assert steps_of(work.tables.operator_steps) == [
        *(("confirmed", "orders", 7), ("confirmed", "orders", 100)),
        *(("ended", "orders", 100), ("planned", "orders", 100)),
    ]
    assert said == [
        f"operators: {log} does not exist: no command has written to it yet, or its name is another one",
        *(f"operators: {count} in {log}" for count in ("3 new steps", "1 new step", "0 new steps")),
    ]
    assert work.tables.operator_steps.snapshot().number == version, "nothing new makes no version"


def test_each_fact_has_its_column() -> None:
    (planned, ended) = rows(
        {**STEP, "step": "planned", "cluster_id": "c", "plan": {**FACTS, "topic_id": "t", "transactional_id": "app"}},
        {**STEP, "step": "ended", **FACTS, "outcome": "done", "sentence": "the transaction is closed"},
    )
    assert {name: planned[name] for name in FACTS} == FACTS
    assert (planned["cluster_id"], planned["topic_id"], planned["transactional_id"]) == ("c", "t", "app")
    assert (planned["result"], ended["result"], ended["cluster_id"]) == (None, "the transaction is closed", None)
    (fence,) = rows({**STEP, "step": "planned", "action": "force-terminate", "transaction": {"transactional_id": "x"}})
    assert (fence["action"], fence["transactional_id"], fence["topic"]) == ("force-terminate", "x", None)


def test_a_foreign_line_is_left_out_or_cut() -> None:
    """Nothing that a file may hold stops the job or becomes a false number."""
    assert rows({**STEP, "step": "gone"}, {**STEP, "at": "yesterday"}, {**STEP, "step": None}) == []
    lines = ["", "{", "[]", "\ud800", json.dumps({**STEP, **FACTS})]
    assert list(steps_in(lines, since_ms=cases.NOW_MS, until_ms=cases.NOW_MS)) == []
    assert rows({**STEP, **FACTS, "at": "9999-12-31T23:59:59-23:59"}, {**STEP, "at": "0001-01-01T00:00:00+00:00"}) == []
    wrong = {
        "partition": True,
        "producer_id": -1,
        "start_offset": INT64_MAX + 1,
        "topic": ["orders"],
        "who": "x" * 2000,
    }
    (row,) = rows({**STEP, **wrong, "topic_id": "\ud800"})
    assert [row[name] for name in ("partition", "producer_id", "start_offset", "topic")] == [None] * 4
    assert (len(row["who"]), row["topic_id"]) == (TEXT_MAX, "?")


def test_of_two_runs_at_once_one_adds_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other fails, and finds nothing to add when it is repeated."""
    table, step = Tables(tmp_path).operator_steps, {**STEP, **FACTS}
    table.add_missing(rows(step), "step_id")
    newer = rows(step, {**step, "step": "ended"})
    behind, add = Table._log(table), Table.add_missing
    assert add(table, newer, "step_id") == 1
    with monkeypatch.context() as patch:
        patch.setattr(Table, "_log", lambda _: behind)
        with pytest.raises(ConflictError):
            add(table, newer, "step_id")
    assert add(table, newer, "step_id") == 0
    assert steps_of(table) == [("confirmed", "orders", 100), ("ended", "orders", 100)]
