"""The jobs on a folder: compaction changes nothing, a failure loses and doubles nothing, two runs exclude each other."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from exporter.cli import main
from exporter.commands.pipeline import repeat
from exporter.history.schema import VERSION
from exporter.pipeline import compact as compact_module
from exporter.pipeline.compact import buckets_since, compact_history, compact_tables, newest_closings_ms
from exporter.pipeline.jobs import Jobs
from exporter.pipeline.manifest import SUPERSEDED_MS, Bucket, Manifest, Tables, TablesError
from tests.pipeline import cases
from tests.pipeline.test_transactions import rows, taken

DAY_S: Final = 86_400
DAY_MS: Final = DAY_S * 1000
DAYS: Final = 5
FILES_COMPACTED: Final = 4 * DAYS - 4
"""The first two days are complete: two files of each table become one."""


def write_days(history: Path, days: int = DAYS) -> None:
    """Two files a day, with a transaction each; one hangs."""
    for number in range(2 * days):
        at = DAY_S // 2 * number
        row: dict[str, Any] = {"start_offset": number, "started": at}
        if number == 1:
            row["verdict"] = "hanging_not_in_transaction"
        cases.write_file(history, "c", f"w{number}", [{"at": at + 30, "open": [row]}, {"at": at + 60}])


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of some days, and its tables."""
    folder = tmp_path_factory.mktemp("made")
    write_days(folder / "history")
    taken(spark, folder / "history", Tables(folder / "tables"))
    return folder


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    """To be changed."""
    return Path(shutil.copytree(made, tmp_path / "copy"))


def history_files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "history" / VERSION).rglob("*.parquet"))


def compacted(folder: Path) -> None:
    tables = Tables(folder / "tables")
    with tables.locked():
        compact_history(folder / "history", tables, now_ms=cases.NOW_MS)
        compact_tables(tables, now_ms=cases.NOW_MS, retention_ms=365 * DAY_MS)


def test_compacting_changes_no_row(spark: SparkSession, made: Path, copy: Path) -> None:
    """Days that are over have one file and one bucket; they give the same transactions, also when made again."""
    expected = rows(spark, Tables(made / "tables"))
    tables = Tables(copy / "tables")
    compacted(copy)

    assert len(history_files(made)) == 4 * DAYS
    assert len(history_files(copy)) == FILES_COMPACTED
    assert len(tables.load().buckets) < len(Tables(made / "tables").load().buckets)
    assert rows(spark, tables) == expected
    anew = Tables(copy / "anew")
    taken(spark, copy / "history", anew)
    assert rows(spark, anew) == expected
    with tables.locked():
        assert compact_history(copy / "history", tables, now_ms=cases.NOW_MS) == 0


@pytest.mark.parametrize("steps", range(7))
def test_a_compaction_that_breaks_loses_nothing(
    spark: SparkSession, made: Path, copy: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """At every commit and every file that is joined: what is there gives the same rows, and the next one ends the work."""
    left = [steps]

    def breaking(work: Any) -> Any:
        def step(*arguments: Any) -> Any:
            if left[0] == 0:
                raise RuntimeError
            left[0] -= 1
            return work(*arguments)

        return step

    with monkeypatch.context() as patch:
        patch.setattr(Tables, "commit", breaking(Tables.commit))
        patch.setattr(compact_module, "join", breaking(compact_module.join))
        with pytest.raises(RuntimeError):
            compacted(copy)
    expected = rows(spark, Tables(made / "tables"))

    assert rows(spark, Tables(copy / "tables")) == expected
    compacted(copy)
    assert len(history_files(copy)) == FILES_COMPACTED
    assert rows(spark, Tables(copy / "tables")) == expected
    with Tables(copy / "tables").locked():
        assert not list((copy / "tables").rglob("_writing-*"))


def test_old_buckets_go(copy: Path) -> None:
    """Counted from the newest; their files stay for an hour, for readers of the previous manifest."""
    tables = Tables(copy / "tables")
    before = tables.load()
    with tables.locked():
        compact_tables(tables, now_ms=cases.NOW_MS, retention_ms=DAY_MS)
        after = tables.load()
    gone = {bucket.folder for bucket in before.buckets} - {bucket.folder for bucket in after.buckets}

    assert {bucket.closed_to_ms >= cases.milliseconds(DAY_S * (DAYS - 1.5) + 60) for bucket in after.buckets} == {True}
    assert gone
    assert all((tables.root / folder).exists() for folder in gone)
    tables.commit(after.succeeded_by(cases.NOW_MS + SUPERSEDED_MS))
    tables.sweep(tables.load())
    assert not any((tables.root / folder).exists() for folder in gone)


def test_what_no_manifest_names_is_removed(spark: SparkSession, made: Path, copy: Path) -> None:
    """As a killed run leaves it; what is named stays."""
    left = copy / "tables" / VERSION / "transactions" / "run-00000009-killed" / "part=open"
    left.mkdir(parents=True)
    (left / "half.parquet").write_text("half")
    with Tables(copy / "tables").locked():
        pass

    assert not left.parent.exists()
    assert rows(spark, Tables(copy / "tables")) == rows(spark, Tables(made / "tables"))


def test_two_pipelines_do_not_meet(copy: Path) -> None:
    """The second is refused with that reason."""
    with Tables(copy / "tables").locked(), pytest.raises(TablesError, match="another pipeline is at work"):
        Tables(copy / "tables").locked().__enter__()


@pytest.mark.parametrize("text", ["{", "[]", '{"format": "x", "version": 1}'])
def test_a_foreign_manifest_is_refused(tmp_path: Path, text: str) -> None:
    """With its path, and not overwritten."""
    tables = Tables(tmp_path)
    tables.root.mkdir()
    (tables.root / "manifest.json").write_text(text)

    with pytest.raises(TablesError, match=r"manifest\.json"):
        tables.load()


def test_a_run_makes_everything_and_learns_once_a_day(compiling_spark: SparkSession, tmp_path: Path) -> None:
    """Transactions, incidents, baselines, in the folder that was asked for; baselines again after a day."""
    write_days(tmp_path / "history", 1)
    now_ms, lines = [cases.NOW_MS], list[str]()
    tables = Tables(tmp_path / "tables")
    jobs = Jobs(compiling_spark, tmp_path / "history", tables, (), 90 * DAY_MS, lambda: now_ms[0], lines.append)
    with tables.locked():
        jobs.run()
        jobs.run()
        now_ms[0] += DAY_MS
        jobs.run()
    manifest = tables.load()

    assert [line.split(":")[0] for line in lines] == [
        *("transactions", "incidents", "baselines", "report", "compact"),
        *("incidents", "compact"),
        *("incidents", "baselines", "report", "compact"),
    ]
    assert manifest.incidents is not None
    (incident,) = compiling_spark.read.parquet(str(tables.root / manifest.incidents)).collect()
    assert incident["worst_verdict"] == "hanging_not_in_transaction"
    document = json.loads(tables.baselines.read_text())
    assert (document["made_at_ms"], document["thresholds"]["topics"][0]["samples"]) == (cases.NOW_MS + DAY_MS, 1)


def test_a_clock_that_is_wrong_costs_its_own_files_only(spark: SparkSession, tmp_path: Path) -> None:
    """One cycle of 2099 in another cluster: named and counted; tables and baselines stay; once corrected it is taken."""
    write_days(tmp_path / "history", 1)
    lines, tables = list[str](), Tables(tmp_path / "tables")
    jobs = Jobs(spark, tmp_path / "history", tables, (), 90 * DAY_MS, lambda: cases.NOW_MS, lines.append)
    cycles: list[dict[str, Any]] = [{"at": 30, "open": [{}]}, {"at": 60}]
    with tables.locked():
        jobs.transactions()
        before = rows(spark, tables)
        cases.write_file(
            tmp_path / "history", "other", "w", [{**each, "at": each["at"] + 2_277_417_600} for each in cycles]
        )
        jobs.run()
        assert rows(spark, tables) == before
        document = json.loads(tables.baselines.read_text())
        page = tables.report.read_text()
        for path in (tmp_path / "history").rglob("cluster_id=other/*/*.parquet"):
            path.unlink()
        cases.write_file(tmp_path / "history", "other", "w", cycles)
        jobs.run()
    named = [line for line in lines if "is left out: has a cycle of 2099-01-01T00:01:00Z" in line]

    assert document["cluster_ids"] == ["c"]
    assert [line.split("/")[0] for line in named] == ["transactions: cycles", "transactions: observations"]
    assert "transactions: 2 files are left out" in lines
    assert "has a cycle of 2099-01-01T00:01:00Z" in page
    after = rows(spark, tables)
    assert after["c"] == before["c"]
    assert [transaction["closed_at"] for transaction in after["other"]] == [cases.instant(60)]


def test_the_newest_row_of_one_cluster_removes_nothing_of_another() -> None:
    """Nor does an end of the future, which an earlier version took, remove anything of its own cluster."""
    old, new, ahead = (
        Bucket(str(end_ms), cluster_id, False, "2026-11-01", 0, end_ms, 1)
        for cluster_id, end_ms in (("old", DAY_MS), ("new", cases.NOW_MS), ("new", 10 * cases.NOW_MS))
    )
    manifest = Manifest(buckets=(old, new, ahead))
    newest_ms = newest_closings_ms(manifest, cases.NOW_MS)

    assert newest_ms == {"old": DAY_MS, "new": cases.NOW_MS}
    assert buckets_since(manifest, newest_ms, 1) == manifest.buckets


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["--groups", "{"], 2, "--groups must be a list such as"),
        (["--history", "/nowhere"], 1, "--history /nowhere: is not a directory"),
    ],
)
def test_wrong_arguments_are_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, sentence: str
) -> None:
    """Before Spark is started."""
    given = ["pipeline", "run", "--history", str(tmp_path), "--tables", str(tmp_path / "tables"), *arguments]

    assert main(given) == status
    assert sentence in capsys.readouterr().err


def test_without_spark_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra by its name, and status 1."""
    for name in [module for module in sys.modules if module.startswith(("pyspark", "exporter.pipeline"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)

    assert main(["pipeline", "run", "--history", str(tmp_path), "--tables", str(tmp_path / "tables")]) == 1
    assert "pip install 'kafka-transaction-exporter[spark]'" in capsys.readouterr().err


def test_what_fails_is_a_sentence_and_is_tried_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With --every until it is interrupted; without, the status says so."""
    calls: list[int] = []

    class Failing:
        def run(self) -> None:
            calls.append(len(calls))
            if len(calls) == 3:
                raise KeyboardInterrupt
            raise PySparkException(f"no file\nat {len(calls)}")

    tables = Tables(tmp_path)
    assert repeat(Failing(), tables, argparse.Namespace(job="run", every=1)) == 1
    assert capsys.readouterr().err == "kafka-transaction-exporter: run failed: no file\n" * 2
    calls.clear()
    assert repeat(Failing(), tables, argparse.Namespace(job="run", every=None)) == 1
