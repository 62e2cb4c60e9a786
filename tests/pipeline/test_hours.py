"""What was watched and who waited, by hour: each rule in a small history, and what comes late, twice or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from exporter.pipeline.clocks import with_sure_durations
from exporter.pipeline.compact import compact_history
from exporter.pipeline.delta import Table
from exporter.pipeline.hours import update_hours
from exporter.pipeline.tables import Tables
from tests.pipeline import cases
from tests.pipeline.days import taken, transactions

HOUR_S: Final = 3_600
LONG: Final = {"last_stable_offset_lag": 40, "started": 0}
Cycles = list[dict[str, Any]]


class Pipeline:
    """A history, its tables, and both steps that this file is about."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.history, self.tables = spark, folder / "history", Tables(folder / "tables")

    def write(self, cycles: Cycles, writer: str = "w", cluster_id: str = "c") -> None:
        cases.write_file(self.history, cluster_id, writer, cycles)

    def run(self) -> int:
        taken(self.spark, self.history, self.tables)
        return update_hours(lambda: self.spark, self.history, self.tables)

    def stalls(self, *columns: str) -> list[tuple[Any, ...]]:
        return self._rows(self.tables.stalls, ("hour", "partition", *columns))

    def coverage(self, *columns: str) -> list[tuple[Any, ...]]:
        return self._rows(self.tables.coverage, ("hour", "writer", *columns))

    def _rows(self, table: Table, columns: Iterable[str]) -> list[tuple[Any, ...]]:
        rows = table.read(self.spark).orderBy("cluster_id", "hour").select(*columns).collect()
        return sorted((((cases.seconds(row[0]) or 0) // HOUR_S, *row[1:]) for row in rows), key=str)


@pytest.fixture
def pipeline(spark: SparkSession, tmp_path: Path) -> Pipeline:
    return Pipeline(spark, tmp_path)


def standing(first: int, last: int, *, step: int = 30, **changes: Any) -> Cycles:
    """Cycles in which one transaction is open."""
    return [{"at": at, "open": [{**LONG, **changes}]} for at in range(first, last + 1, step)]


def test_an_offset_stands_still_between_two_cycles_with_one_holder(pipeline: Pipeline) -> None:
    """Of two open transactions the one with the smaller offset holds it; its time is cut at the hour."""
    rows = [{**LONG}, {**LONG, "producer_id": 8, "start_offset": 200, "transactional_id": "app-2"}]
    cycles = [{"at": at, "open": rows} for at in range(3_540, 3_661, 30)]
    pipeline.write([*cycles, {"at": 3_690, "open": rows[1:]}, {"at": 3_720, "open": rows[1:]}, {"at": 3_750}])

    assert pipeline.run() == 2
    assert pipeline.stalls(
        "transactional_id", "waiting_group", "stalled_ms", "records_max", "transactions", "start_offset"
    ) == [
        (0, 0, "app-1", None, 60_000, 40, 1, 100),
        (1, 0, "app-1", None, 60_000, 40, 1, 100),
        (1, 0, "app-2", None, 30_000, 40, 1, 200),
    ]


def test_a_group_has_the_time_in_which_it_was_seen_waiting(pipeline: Pipeline) -> None:
    """The partition's own row has all of it; each verdict has rows of its own; a cause that was found later is of all."""
    hung: dict[str, Any] = {
        "verdict": "hanging_no_transactional_id",
        "groups": ["a", "b"],
        "last_stable_offset_lag": 70,
    }
    explained = {**hung, "cause": "late_write"}
    pipeline.write([*standing(0, 90), *standing(120, 120, **hung), *standing(150, 180, **explained), {"at": 210}])
    pipeline.run()

    assert pipeline.stalls("verdict", "waiting_group", "stalled_ms", "records_max", "cause") == [
        (0, 0, "hanging_no_transactional_id", "a", 60_000, 70, "late_write"),
        (0, 0, "hanging_no_transactional_id", "b", 60_000, 70, "late_write"),
        (0, 0, "hanging_no_transactional_id", None, 60_000, 70, "late_write"),
        (0, 0, "open_within_timeout", None, 120_000, 70, None),
    ]


def test_the_most_records_are_those_of_the_last_cycle_too(pipeline: Pipeline) -> None:
    """A lag grows until the end; what the first cycle of the next hour sees is not of this one."""
    lags = {3_510: 10, 3_570: 20, 3_630: 30, 3_690: 40}
    pipeline.write([{"at": at, "open": [{**LONG, "last_stable_offset_lag": lag}]} for at, lag in lags.items()])
    pipeline.run()

    assert pipeline.stalls("stalled_ms", "records_max") == [(0, 0, 90_000, 20), (1, 0, 90_000, 40)]


def test_what_was_not_watched_or_held_nothing_back_is_no_time(pipeline: Pipeline) -> None:
    """Cycles half an hour apart, no record behind the offset, and a new transaction in each cycle."""
    pipeline.write([*standing(0, 1_800, step=1_800, partition=1), {"at": 1_830}], "far")
    pipeline.write([*standing(3_600, 3_660, partition=2, last_stable_offset_lag=0), {"at": 3_690}], "empty")
    short = [{"at": 7_200 + 30 * number, "open": [{**LONG, "start_offset": number}]} for number in range(5)]
    pipeline.write([*short, {"at": 7_350}], "short")
    pipeline.run()

    assert pipeline.stalls() == []
    assert [row[0] for row in pipeline.coverage()] == [0, 1, 2]


def test_cycles_far_apart_by_their_interval_watch_all_of_it(pipeline: Pipeline) -> None:
    """With an interval of forty minutes one cycle may be missed, and two may not; the next run continues the cycles."""
    pipeline.write([{"at": at, "open": [LONG], "interval_ms": 2_400_000} for at in (0, 2_400)], "before")
    pipeline.run()
    pipeline.write([{"at": at, "open": [LONG], "interval_ms": 2_400_000} for at in (7_200, 14_400)], "slow")
    pipeline.write([{"at": at, "open": [LONG]} for at in (18_000, 22_000)], "fast")
    pipeline.run()

    assert pipeline.stalls("stalled_ms") == [(0, 0, 3_600_000), (1, 0, 3_600_000), (4, 0, 3_600_000)]


def test_coverage_says_what_each_exporter_has_read(pipeline: Pipeline) -> None:
    """An hour without a cycle has no row."""
    pipeline.write([{"at": 0}, {"at": 30, "unread": ["orders-1", "orders-2"]}, {"at": 7_200}], "one")
    pipeline.write([{"at": 10}], "two")
    pipeline.run()

    assert pipeline.coverage("cycles", "interval_ms", "partitions_asked", "partitions_unread_max", "cluster_name") == [
        (0, "one", 2, 30_000, 12, 2, None),
        (0, "two", 1, 30_000, 10, 0, None),
        (2, "one", 1, 30_000, 10, 0, None),
    ]


@pytest.mark.parametrize(
    ("files", "unwatched_ms"),
    [
        ({"one": range(0, 3_600, 30), "two": range(15, 3_600, 30)}, 0),
        ({"one": range(0, 1_800, 30), "two": range(7, 1_800, 30)}, 1_800_000 - 7_000),
        ({"before": range(0, 1_800, 30), "after": range(1_800, 3_600, 30)}, 0),
        ({"before": range(20, 1_800, 30), "after": range(2_000, 3_600, 30)}, (2_000 - 1_790 - 30) * 1_000),
        ({"one": range(600, 3_600, 60)}, (570 + 50 * 30 - 30 + 30) * 1_000),
    ],
    ids=["two", "both stop", "restart", "restart with a pause", "begun late, every second cycle"],
)
def test_coverage_says_how_much_of_an_hour_no_exporter_watched(
    pipeline: Pipeline, files: dict[str, range], unwatched_ms: int
) -> None:
    """Cycles of all exporters count together, and each row of the hour has the same."""
    for writer, instants in files.items():
        pipeline.write([{"at": at} for at in instants], writer)
    pipeline.write([{"at": 3_600}], "next")
    pipeline.run()

    assert {row[2] for row in pipeline.coverage("unwatched_ms") if row[0] == 0} == {unwatched_ms}


def test_the_time_after_the_newest_cycle_is_not_unwatched_yet(pipeline: Pipeline) -> None:
    """The exporter has not written its next file. Once a later one is there, nothing was watched between them."""
    pipeline.write([{"at": at} for at in range(0, 1_800, 30)], "first")
    pipeline.run()
    assert pipeline.coverage("unwatched_ms") == [(0, "first", 0)]
    pipeline.write([{"at": 86_400}], "next")
    pipeline.run()

    assert pipeline.coverage("unwatched_ms") == [(0, "first", 1_800_000), (24, "next", 0)]


def test_an_hour_grows_with_each_file_and_is_counted_once(pipeline: Pipeline) -> None:
    """The next file continues what the one before began; a run without new files has nothing to do."""
    pipeline.write(standing(0, 300), "first")
    assert pipeline.run() == 1
    before = pipeline.tables.coverage.snapshot()
    assert pipeline.run() == 0
    assert pipeline.tables.coverage.snapshot() == before
    pipeline.write([*standing(330, 600), {"at": 630}], "second")
    pipeline.run()

    assert pipeline.stalls("stalled_ms") == [(0, 0, 600_000)]
    assert pipeline.coverage("cycles") == [(0, "first", 11), (0, "second", 11)]


def test_an_hour_whose_files_are_gone_keeps_its_rows(pipeline: Pipeline) -> None:
    """A late file of it has less than the table: the daemon has removed the others."""
    pipeline.write([*standing(0, 600), {"at": 630}], "first")
    pipeline.run()
    for file in pipeline.history.rglob("*.parquet"):
        file.unlink()
    pipeline.write(standing(645, 675, partition=5), "late")
    pipeline.run()

    assert pipeline.stalls("stalled_ms") == [(0, 0, 600_000)]
    assert pipeline.coverage("cycles") == [(0, "first", 22)]


def test_a_run_that_ends_between_both_commits_is_repeated(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stalls are written and their coverage is not: the next run replaces the hour."""
    pipeline.write([*standing(0, 300), {"at": 330}])
    commit = Table.commit

    def broken(table: Table, *arguments: Any, **named: Any) -> None:
        if table.folder.name == "coverage":
            raise RuntimeError("killed")
        commit(table, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Table, "commit", broken)
        with pytest.raises(RuntimeError, match="killed"):
            pipeline.run()
    assert (pipeline.stalls("stalled_ms"), pipeline.coverage()) == ([(0, 0, 300_000)], [])
    pipeline.run()

    assert (pipeline.stalls("stalled_ms"), pipeline.coverage("cycles")) == ([(0, 0, 300_000)], [(0, "w", 12)])


@pytest.mark.parametrize("restored", ["stalls", "coverage"])
def test_hours_that_a_restore_takes_back_are_counted_again(pipeline: Pipeline, restored: str) -> None:
    """RESTORE has taken back one of both tables, and compaction has joined the files since."""
    for number in range(2):
        pipeline.write([*standing(7_200 * number, 7_200 * number + 300), {"at": 7_200 * number + 330}], f"w{number}")
        pipeline.run()
    before = pipeline.stalls("stalled_ms"), pipeline.coverage("cycles")
    pipeline.write([{"at": 86_400 * 9}], "later")
    pipeline.run()
    assert compact_history(pipeline.spark, pipeline.history, pipeline.tables, now_ms=cases.NOW_MS) > 0
    table = getattr(pipeline.tables, restored)
    pipeline.spark.sql(f"RESTORE {table.sql_name} TO VERSION AS OF 1")
    assert (pipeline.stalls("stalled_ms"), pipeline.coverage("cycles")[:2]) != before
    assert pipeline.run() > 0

    assert (pipeline.stalls("stalled_ms"), pipeline.coverage("cycles")[:2]) == before
    assert pipeline.run() == 0


def test_a_history_is_taken_in_batches_of_days(pipeline: Pipeline) -> None:
    """Whatever their size, the rows are the same; a name with a quote is a name."""
    for day in range(3):
        pipeline.write([*standing(86_400 * day, 86_400 * day + 300), {"at": 86_400 * day + 330}], f"d{day}", "it's")
    taken(pipeline.spark, pipeline.history, pipeline.tables)
    update_hours(lambda: pipeline.spark, pipeline.history, pipeline.tables, batch_rows=1)

    assert pipeline.stalls("stalled_ms") == [(24 * day, 0, 300_000) for day in range(3)]
    assert pipeline.tables.coverage.snapshot().run >= 3


def two_writers(pipeline: Pipeline, ahead_s: int, *, shared: int = 16) -> None:
    """Transactions of four minutes, one after the other, that two exporters record; the second clock is ahead."""
    for writer, shift in (("one", 0), ("two", ahead_s)):
        cycles = []
        for at in range(0, 360 * shared, 30):
            number, into = divmod(at, 360)
            is_open = 60 <= into < 300
            row = {**LONG, "start_offset": number, "started": 360 * number + 60, "start_source": "first_seen"}
            cycles.append(
                {"at": at + shift, "open": [{**row, "started": 360 * number + 60 + shift}] if is_open else []}
            )
        pipeline.write(cycles, writer)
    pipeline.run()


def test_clocks_that_contradict_each_other_are_named(pipeline: Pipeline) -> None:
    """One sees everything twenty minutes after the other; durations of that time count as unknown."""
    two_writers(pipeline, 1_207)

    differences = {row[1]: row[2] for row in pipeline.coverage("clock_difference_ms")}
    assert differences == {"one": 1_207_000, "two": 1_207_000}
    every = transactions(pipeline.spark, pipeline.tables)
    coverage = pipeline.tables.coverage.read(pipeline.spark)
    assert every.where("duration_ms IS NOT NULL").count() > 0
    assert with_sure_durations(every, coverage).where("duration_ms IS NOT NULL").count() == 0


def test_only_durations_of_hours_with_wrong_clocks_are_unknown(spark: SparkSession) -> None:
    """Clocks were wrong in one hour, and in two others weeks later; between them they were not."""

    def day(number: float) -> datetime:
        return datetime(2026, 11, 1, tzinfo=timezone.utc) + timedelta(days=number)

    wrong = [("c", day(number), 90_000) for number in (0, 30, 30 + 1 / 24)]
    coverage = spark.createDataFrame(
        [*wrong, ("c", day(15), None), ("d", day(15), 90_000)],
        "cluster_id string, hour timestamp, clock_difference_ms long",
    )
    spans = {
        "first hour": (0, 0.01),
        "between": (15, 15.01),
        "into the second": (29.9, 30),
        "in the third": (30 + 1.5 / 24, 30 + 1.6 / 24),
        "after": (30 + 2 / 24, 30.1),
        "over all": (-1, 40),
    }
    every = spark.createDataFrame(
        [("c", name, day(first), day(last), 5) for name, (first, last) in spans.items()],
        "cluster_id string, name string, first_seen timestamp, last_seen timestamp, duration_ms long",
    )
    sure = with_sure_durations(every, coverage).where("duration_ms IS NOT NULL").collect()

    assert {row["name"] for row in sure} == {"between", "after"}


@pytest.mark.parametrize(("ahead_s", "shared"), [(20, 8), (1_207, 2)], ids=["within a cycle", "too few to know"])
def test_clocks_that_may_agree_are_not_accused(pipeline: Pipeline, ahead_s: int, shared: int) -> None:
    """Two exporters read at different instants; and four beginnings and ends are no evidence."""
    two_writers(pipeline, ahead_s, shared=shared)

    assert {row[2] for row in pipeline.coverage("clock_difference_ms")} == {None}
    every = transactions(pipeline.spark, pipeline.tables)
    sure = with_sure_durations(every, pipeline.tables.coverage.read(pipeline.spark))
    assert sure.orderBy("first_seen").collect() == every.orderBy("first_seen").collect()


def test_an_exporter_that_starts_again_contradicts_nobody(pipeline: Pipeline) -> None:
    """Its first cycle sees what has been open for long, and its last one what stays open."""
    rows = [{**LONG, "start_offset": number, "partition": number} for number in range(9)]
    pipeline.write([{"at": at, "open": rows} for at in range(0, 600, 30)], "before")
    pipeline.write([{"at": at, "open": rows} for at in range(900, 1_500, 30)], "after")
    pipeline.run()

    assert {row[2] for row in pipeline.coverage("clock_difference_ms")} == {None}


@pytest.mark.parametrize("unread", [True, False], ids=["unread", "not collected"])
def test_an_exporter_that_could_not_read_its_last_cycle_contradicts_nobody(pipeline: Pipeline, *, unread: bool) -> None:
    """One process ends, and the next one sees the end of what the first has lost from view in its last cycle."""
    rows = [{**LONG, "start_offset": number, "partition": number} for number in range(9)]
    last = {"at": 600, "unread": [f"orders-{number}" for number in range(9)] if unread else []}
    pipeline.write([*({"at": at, "open": rows} for at in range(0, 600, 30)), last], "before")
    after = [{"at": at, "open": rows if at < 1_200 else []} for at in range(660, 1_500, 30)]
    pipeline.write(after, "after")
    pipeline.run()

    assert {row[2] for row in pipeline.coverage("clock_difference_ms")} == {None}


def test_an_exporter_that_lost_partitions_from_view_contradicts_nobody(pipeline: Pipeline) -> None:
    """Two run at the same time, and one of them cannot read the partitions for a while."""
    rows = [{**LONG, "start_offset": number, "partition": number} for number in range(9)]
    unread = [f"orders-{number}" for number in range(9)]
    one = [{"at": at, "open": rows if at < 1_200 else []} for at in range(0, 1_500, 30)]
    two = [{"at": at, **({"open": rows} if at < 600 else {"unread": unread})} for at in range(5, 1_500, 30)]
    pipeline.write(one, "one")
    pipeline.write(two, "two")
    pipeline.run()

    assert {row[2] for row in pipeline.coverage("clock_difference_ms")} == {None}
