"""The job of the audit on Spark: the same rows as without it, in runs of its own, killed and repeated."""

from __future__ import annotations

import csv
import random
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from exporter.audit.job import OF_DECISIONS, AuditResult
from exporter.audit.tables import AuditTables
from exporter.audit.verdicts import ACCUSATIONS, AuditVerdict
from exporter.pipeline.delta import ConflictError
from exporter.pipeline.report_audits import audits_of_week
from exporter.storage.last_audit import DAY_MS, LastAudit, file_name, parse
from tests.audit.on_spark import CLUSTER, JobOfWorld, Row, instants, of_table
from tests.audit.runs import Audit, audit
from tests.audit.world import World
from tests.audit.worlds import played


def of_findings(result: Audit) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    for finding in result.findings:
        if finding.verdict is AuditVerdict.AS_DECIDED:
            continue
        decision, in_log = finding.decision, finding.in_log
        known = decision or in_log
        assert known is not None
        rows[
            finding.verdict.value,
            None if finding.reason is None else finding.reason.value,
            known.producer_id,
            finding.topic,
            finding.partition,
            None if decision is None else decision.start_ms,
            None if in_log is None else in_log.first_offset,
            None if in_log is None else in_log.marker_offset,
        ] += 1
    return rows


def test_a_partition_that_cannot_be_read_for_hours_is_compared_later(spark: SparkSession, tmp_path: Path) -> None:
    """Decisions about it wait: a run every two hours is longer than what is read again anyway."""
    world = World(1, partitions=2, producers=2, faults=0.0, skew_ms=0, is_steady=True)
    producer, (lost, other) = world.producers[1], world.partitions

    def commit(*, by_hand: bool = False) -> None:
        def aborted_by_hand(_start: int, _written: Any) -> None:
            world.write(producer, lost)
            world.pass_time(3_000)
            world.mark(producer, lost, producer.epoch, commit=False)
            world.pass_time(3_000)

        before: dict[str, Any] = {"before_decision": aborted_by_hand} if by_hand else {}
        world.pass_time(1_000)
        for _ in world._transaction(producer, added=[lost, other], commit=True, **before):
            pass

    def settled_ms() -> int:
        """A minute after the decisions, with a newer record in the log."""
        world.pass_time(120_000)
        world.initialize(world.producers[0])
        return world.now_ms

    for each in world.producers:
        world.initialize(each)
    commit()
    work = JobOfWorld(spark, world, tmp_path)
    work.run(settled_ms())
    commit(by_hand=True)
    for _ in range(2):
        commit()
        result = work.run(settled_ms(), unread=[lost])
        assert result.unread == {lost: "it has no leader"}
        assert not result.findings
        world.pass_time(2 * 3_600_000)
    commit()
    result = work.run(settled_ms())

    assert result.findings == {AuditVerdict.CONTRADICTED: 1}
    assert [(row.verdict, row.topic, row.partition) for row in work.rows("audit_transactions")] == [
        ("contradicted", *lost)
    ]


@pytest.mark.parametrize("seed", [2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 25))])
def test_its_rows_are_those_of_the_judge_alone(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    world, chance = played(seed, faults=0.2), random.Random(seed)
    runs = instants(world, chance, 2 + seed % 3)
    work = JobOfWorld(spark, world, tmp_path)

    results = [work.run(now_ms) for now_ms in runs]

    expected = audit(world, runs, random.Random(seed))
    rows = work.rows("audit_transactions")
    assert of_table(rows) == of_findings(expected)
    assert sum((result.transactions for result in results), Counter()) == expected.transactions
    coverage = work.rows("audit_coverage")
    assert sum(row.as_decided for row in coverage) == sum(
        finding.verdict is AuditVerdict.AS_DECIDED for finding in expected.findings
    )
    assert {row.run for row in coverage} <= set(range(1, len(runs) + 1))
    missing = {
        (row.topic, row.partition) for row in coverage if row.last_missing is not None or row.failure is not None
    }
    assert coverage_gaps(work) == sorted(missing)
    last = last_audit(work)
    assert (last.audited_at_ms, last.partitions) == (runs[-1], results[-1].partitions)
    assert runs[-1] - runs[0] < DAY_MS, "all runs are of the last day"
    assert last.transactions == {verdict.value: expected.transactions[verdict] for verdict in OF_DECISIONS}
    assert of_runbook(work, tmp_path) == sorted(row.producer_id for row in rows if row.verdict in OF_RUNBOOK)
    audits = audits_of_week(spark, work.tables, made_at_ms=runs[-1])
    assert audits is not None
    (of_cluster,) = audits.clusters
    assert of_cluster.newest == last
    lacks = {(row.topic, row.partition) for row in coverage if row.unknown} | missing
    assert {(row.topic, row.partition) for row in audits.unaudited.rows} == lacks
    by_verdict = Counter(each.verdict.value for each in expected.findings)
    assert {name: count for name, count in of_cluster.verdicts.items() if name != "open"} == by_verdict
    accused = Counter(row.verdict for row in rows)
    assert last.findings == {verdict.value: accused[verdict.value] for verdict in ACCUSATIONS}


OF_RUNBOOK = {"torn", "contradicted", "closed_by_another", "marker_missing"}
"""Verdicts that the alert is about."""


def of_runbook(work: JobOfWorld, folder: Path) -> list[int]:
    """Producers in the file that the runbook's query writes, which runs as it is pasted but for the tables' folder."""
    page = Path(__file__).parents[2] / "alerts" / "runbooks" / "KafkaTransactionAuditFinding.md"
    (query,) = re.findall(r"```text\n(tables = .*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    _, rest = query.split("\n", 1)
    script = f'tables = "{work.tables.root}"\n{rest}'
    run = subprocess.run([sys.executable], input=script, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    with (folder / "findings.csv").open(encoding="utf-8", newline="") as file:
        return sorted(int(row["producer_id"]) for row in csv.DictReader(file))


def coverage_gaps(work: JobOfWorld) -> list[tuple[str, int]]:
    """Partitions that the query of docs/audit.md names; the world's days are long ago."""
    page = Path(__file__).parents[2] / "docs" / "audit.md"
    (query,) = re.findall(r"```sql\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    tables = duckdb.connect()
    tables.register("audit_coverage", DeltaTable(str(work.tables.root / "audit_coverage")).scan().read_all())
    long_ago = query.replace("now()", "(SELECT max(audited_at) FROM audit_coverage)")
    assert tables.sql(query).fetchall() == []
    return [(topic, partition) for _cluster_id, topic, partition, *_ in tables.sql(long_ago).fetchall()]


def last_audit(work: JobOfWorld) -> LastAudit:
    return parse((work.tables.root / file_name(CLUSTER)).read_text(encoding="utf-8"))


def test_a_first_run_may_begin_later(spark: SparkSession, tmp_path: Path) -> None:
    """Transactions that began later have the same verdicts, older ones do not count, and the next run goes on."""
    world = played(11, faults=0.3)
    since_ms = world.state[len(world.state) // 3].at_ms
    middle_ms = world.state[2 * len(world.state) // 3].at_ms
    whole, late = JobOfWorld(spark, world, tmp_path / "whole"), JobOfWorld(spark, world, tmp_path / "late")

    both = [(whole.run(now_ms), late.run(now_ms, since_ms=since_ms)) for now_ms in (middle_ms, world.now_ms)]

    for all_of_it, part in both:
        assert part.log_behind == all_of_it.log_behind
        assert 0 < part.transactions.total() <= all_of_it.transactions.total()
    assert both[0][1].transactions.total() < both[0][0].transactions.total()
    rows = [[row for row in work.rows("audit_transactions") if row.start_ms is not None] for work in (whole, late)]
    began = [of_table([row for row in each if row.start_ms >= since_ms]) for each in rows]
    assert began[0]
    assert began[0] == began[1]


class KilledError(Exception):
    """Stands for `kill -9`."""


def test_a_killed_run_and_a_second_one_change_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before the commit, killed before its rows of coverage, and a run that ends while another one reads."""
    world = played(5, faults=0.3)
    first_ms, last_ms = world.state[len(world.state) // 2].at_ms, world.now_ms
    undisturbed = JobOfWorld(spark, world, tmp_path / "undisturbed")
    expected = [undisturbed.run(first_ms), undisturbed.run(last_ms)]
    work = JobOfWorld(spark, world, tmp_path / "disturbed")
    with monkeypatch.context() as patch:
        patch.setattr(AuditTables, "commit", _killed)
        with pytest.raises(KilledError):
            work.run(first_ms)
    assert work.rows("audit_transactions") == []
    results: list[AuditResult] = []
    beaten = replace(work.job(first_ms), say=lambda _: results.append(work.job(first_ms).run()))

    with pytest.raises(ConflictError):
        beaten.run()

    add_coverage = AuditTables.add_coverage
    with monkeypatch.context() as patch:
        patch.setattr(
            AuditTables, "add_coverage", lambda *given: add_coverage(*given) if given[2].run == 1 else _killed()
        )
        with pytest.raises(KilledError):
            work.run(last_ms)
    last = work.job(last_ms).run()
    assert results == expected[:1]
    assert last.transactions == Counter()  # the killed run had committed them
    assert last_audit(work) == last_audit(undisturbed)  # and left them to the next file
    for name in ("audit_transactions", "audit_coverage"):
        assert _of_runs(work.rows(name)) == _of_runs(undisturbed.rows(name))


def _killed(*_: object) -> None:
    raise KilledError


def _of_runs(rows: list[Any]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in rows if row.run <= 2)
