"""The report: rows of the tables as people read them, and the page as a browser shows it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from exporter.pipeline import report, schemas
from exporter.pipeline.report import DayOfReport, ReportData, SectionRows, collect
from exporter.pipeline.report_audits import AuditsOfWeek, ClusterAudits
from exporter.pipeline.report_page import render
from exporter.pipeline.report_weeks import weeks_as_csv
from exporter.storage.last_audit import LastAudit
from tests.browser import DESKTOP, NOT_CUT, PHONE, Browser, assert_painted
from tests.contrast import contrast

NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
NOON_MS = int(NOON.timestamp() * 1000)
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
DURATIONS = Row(
    *("cluster_id", "application", "transactions", "p50_ms", "p95_ms", "p99_ms", "max_ms", "hanging", "hang_max_ms"),
    "unknown",
)
OUTCOMES = Row(
    *("cluster_id", "application", "committed", "aborted", "timed_out", "fenced", "unknown", "marker_p99_ms")
)
COVERAGE_GAPS = Row("cluster_id", "hour_ms", "cycles", "cycles_expected", "incomplete", "unread_partitions_max")
UNWATCHED = Row(*COVERAGE_GAPS, "unwatched_ms")
STRANGE = '<script>alert(1)</script> $\\frac{x}$ "quoted" name-\u00e9\u4e2d'


def frame(spark: SparkSession, schema: Any, *rows: dict[str, Any]) -> DataFrame:
    """Rows with nulls for whatever they do not name."""
    return spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in rows], schema)


def transaction(name: str | None, duration_ms: int | None, *verdicts: str, topic: str = "orders") -> dict[str, Any]:
    partition_transaction = tuple(
        {"topic": topic, "partition": 0}.get(field.name)
        for field in schemas.TRANSACTIONS["partitions"].dataType.elementType
    )
    return {
        "cluster_id": "c",
        "transactional_id": name,
        "duration_ms": duration_ms,
        "verdicts": list(verdicts or ("open_within_timeout",)),
        "partitions": [partition_transaction],
    }


def hour(number: int, cycles: int = 2, *, incomplete: int = 0, unread: int = 0, **changes: Any) -> dict[str, Any]:
    """What one exporter has watched in an hour after noon, with a cycle each half an hour."""
    return {
        "cluster_id": "c",
        "hour": NOON + timedelta(hours=number),
        "writer": "w",
        "cycles": cycles,
        "interval_ms": 1_800_000,
        "cycles_incomplete": incomplete,
        "partitions_unread_max": unread,
        **changes,
    }


def stall(days_ago: float, minutes: float, group: str | None = "readers", **changes: Any) -> dict[str, Any]:
    return {
        "cluster_id": "c",
        "hour": NOON - timedelta(days=days_ago),
        "topic": "orders",
        "partition": 0,
        "transactional_id": "app",
        "verdict": "open_within_timeout",
        "waiting_group": group,
        "stalled_ms": round(minutes * 60_000),
        "records_max": 7,
        **changes,
    }


def collected(
    spark: SparkSession,
    transactions: Sequence[dict[str, Any]] = (),
    incidents: Sequence[dict[str, Any]] = (),
    coverage: Sequence[dict[str, Any]] = (),
    stalls: Sequence[dict[str, Any]] = (),
    **named: Any,
) -> ReportData:
    """The report of these rows; the newest cycle of each cluster is in the last hour that was watched."""
    newest = {row["cluster_id"]: NOON_MS for row in coverage}
    for row in coverage:
        newest[row["cluster_id"]] = max(newest[row["cluster_id"]], int(row["hour"].timestamp() * 1000) + HOUR_MS // 2)
    tables = (
        (schemas.TRANSACTIONS, transactions),
        (schemas.INCIDENTS, incidents),
        (schemas.COVERAGE, coverage),
        (schemas.STALLS, stalls),
    )
    frames = (frame(spark, schema, *rows) for schema, rows in tables)
    return collect(*frames, newest_ms=newest, made_at=NOON, **named)


def columns(shown: SectionRows, kind: Row) -> list[tuple[Any, ...]]:
    """The rows, with the columns that the page names."""
    return [tuple(row[name] for name in kind) for row in shown.rows]


def test_what_is_collected_is_what_the_tables_say(spark: SparkSession) -> None:
    """Applications by frequency, hung ones apart; an incident; an hour not wholly seen and one with too few cycles."""
    transactions = [transaction("app", ms) for ms in range(1, 101)]
    transactions += [transaction("app", None), transaction("once", None)]
    transactions += [transaction("app", 10**9, "inconclusive", "hanging_stale_epoch"), transaction(None, 5, topic="t")]
    incident = {
        "cluster_id": "c",
        "incident": "1",
        "blocked_from": NOON - timedelta(minutes=20),
        "is_start_known": True,
        "started_at": NOON,
        "ended_at": NOON + timedelta(hours=1),
        "is_over": True,
        "worst_verdict": "hanging_stale_epoch",
        "transactional_ids": ["app"],
        "partitions": ["orders-0"],
        "groups": ["readers"],
        "records_held_back": 1234,
        "causes": ["late_write"],
        "operators": [],
    }
    watched = [hour(0), hour(1, 1), hour(2, incomplete=1, unread=7), hour(3), hour(3, cluster_id="d")]

    data = collected(
        spark, transactions, [incident, {**incident, "incident": "2", "ended_at": None, "is_over": False}], watched
    )

    assert (data.first_ms, data.newest_ms) == (NOON_MS, dict.fromkeys("cd", NOON_MS + 7 * HOUR_MS // 2))
    first, _, second = data.durations.rows
    assert (first.application, first.transactions, first.hanging) == ("app", 102, 1)
    assert columns(data.durations, DURATIONS)[1] == ("c", "once", 1, None, None, None, None, 0, None, 1)
    assert (first.p50_ms, first.p95_ms, first.p99_ms, first.max_ms, first.hang_max_ms) == (50, 95, 99, 100, 10**9)
    assert first.unknown == 1
    assert (second.application, second.transactions, second.hang_max_ms) == ("t", 1, None)
    assert (data.interval_ms, data.outcomes) == (1_800_000, None)
    over, still_open = data.incidents.rows
    assert over.blocked_from_ms == NOON_MS - HOUR_MS // 3
    assert (over.records_held_back, over.groups) == (1234, ["readers"])
    assert [(incident.is_over, incident.ended_ms) for incident in (over, still_open)] == [
        (True, NOON_MS + HOUR_MS),
        (False, NOON_MS + 7 * HOUR_MS // 2),
    ]
    assert columns(data.coverage_gaps, COVERAGE_GAPS) == [
        ("c", NOON_MS + 2 * HOUR_MS, 2, 2, 1, 7),
        ("c", NOON_MS + HOUR_MS, 1, 2, 0, 0),
    ]


def test_an_hour_without_a_cycle_is_a_gap(spark: SparkSession) -> None:
    """The exporter was away for three hours; two that watch together are one."""
    both = [hour(0, incomplete=1, unread=7), hour(0, writer="other")]
    data = collected(spark, [transaction("app", 1)], coverage=[*both, hour(4)])

    assert columns(data.coverage_gaps, COVERAGE_GAPS) == [
        *(("c", NOON_MS + number * HOUR_MS, 0, 2, 0, 0) for number in (3, 2, 1)),
        ("c", NOON_MS, 4, 2, 1, 7),
    ]


def test_an_exporter_that_began_within_an_hour_did_not_watch_all_of_it(spark: SparkSession) -> None:
    """The first hour has too few cycles, and says so; the last one is not over yet."""
    late = {**hour(0), "cycles": 1}
    data = collected(spark, [transaction("app", 1)], coverage=[late, hour(1), {**hour(2), "cycles": 1}])

    assert columns(data.coverage_gaps, COVERAGE_GAPS) == [("c", NOON_MS, 1, 2, 0, 0)]


def test_who_waited_is_counted_by_week_and_application(spark: SparkSession) -> None:
    """Most of this week first; the group that waited most is held against the objective; the partition is not counted."""
    stalls = [
        *(stall(1, 10), stall(2, 5, "billing"), stall(1, 15, None), stall(8, 2), stall(20, 100)),
        *(stall(3, 30, transactional_id=None, verdict="hanging_stale_epoch"), stall(9, 4, transactional_id="old")),
    ]
    data = collected(spark, coverage=[hour(0), hour(-24)], stalls=stalls)

    minutes = [
        (row.application, *(row[name] / 60_000 for name in ("this_ms", "last_ms", "group_ms")), row["group"])
        for row in data.weeks
    ]
    assert minutes == [("orders", 30, 0, 30, "readers"), ("app", 15, 2, 10, "readers"), ("old", 0, 4, 0, "readers")]
    days = {(NOON_MS - day.day_ms) // DAY_MS: day for day in data.days}
    assert sorted(days) == list(range(28))
    assert (days[3].hung_ms, days[3].other_ms, days[3].hours_watched) == (30 * 60_000, 0, 0)
    assert (days[1].hung_ms, days[1].other_ms, days[1].hours_watched) == (0, 10 * 60_000, 1)
    page = render(data)
    said = "Consumer groups waited for at least 45 min 0 s in the last seven days, added up, and for at least 6 min 0 s"
    assert said in page
    assert page.count('class="unwatched"') == 26
    assert ">298 %<" in page, "30 minutes of the 10 min 5 s that 99.9 % of a week leave"
    page = render(replace(data, objective_percent=99.5))
    assert ">of its budget by 99.5 %<" in page
    assert ">60 %<" in page, "of 50 min 24 s"


def test_waits_of_one_group_on_several_partitions_at_once_count_once(spark: SparkSession) -> None:
    """A transaction hangs on twelve partitions for ten minutes: the group has waited for ten minutes, not for two hours."""
    stalls = [stall(1, 10, partition=number, verdict="hanging_stale_epoch") for number in range(12)]
    stalls += [stall(1, 4), stall(1, 3, transactional_id="other"), stall(1, 2, "billing", topic="bills")]
    data = collected(spark, coverage=[hour(0), hour(-24)], stalls=stalls)

    # On partition 0 the group waited behind one after the other, at different times.
    assert data.waited_ms == ((10 + 4 + 3 + 2) * 60_000, 0)
    assert [(row.application, row.this_ms / 60_000, row.group, row.group_ms / 60_000) for row in data.weeks] == [
        ("app", 14, "readers", 14),
        ("other", 3, "readers", 3),
    ]
    (day,) = (day for day in data.days if day.hung_ms)
    assert (day.hung_ms, day.other_ms) == (10 * 60_000, (4 + 3 + 2) * 60_000)
    assert "Consumer groups waited for at least 19 min 0 s in the last seven days, added up" in render(data)


def test_nobody_waited_is_said_of_what_was_watched_only(spark: SparkSession) -> None:
    """Without a cycle the page does not say that nobody waited."""
    assert "no cycle saw a consumer group wait" in render(collected(spark, coverage=[hour(0)]))
    assert "no cycle saw" not in render(collected(spark))
    uncounted = collect(
        *(
            frame(spark, schema)
            for schema in (schemas.TRANSACTIONS, schemas.INCIDENTS, schemas.COVERAGE, schemas.STALLS)
        ),
        newest_ms={"c": NOON_MS},
        made_at=NOON,
    )
    assert "Unknown: hours were not counted yet" in render(uncounted)


def test_the_weeks_are_also_a_table_of_their_own() -> None:
    """A name that a spreadsheet would take for a formula is text."""
    row = Row(cluster_id="c", application='=cmd("x")', this_ms=5, last_ms=6, group=None, group_ms=0, records_max=7)

    assert weeks_as_csv([row]).splitlines() == [
        "cluster_id,application,waited_this_week_ms,waited_last_week_ms,group_that_waited_most,waited_by_it_this_week_ms,records_max",
        """c,"'=cmd(""x"")",5,6,,0,7""",
    ]


def test_hours_that_were_not_counted_are_unknown(spark: SparkSession) -> None:
    """The job that counts them has not run for one cluster, and is three hours behind for another."""
    tables = [
        *(frame(spark, schema) for schema in (schemas.TRANSACTIONS, schemas.INCIDENTS)),
        frame(spark, schemas.COVERAGE, hour(-4), hour(0, cluster_id="up to date")),
        frame(spark, schemas.STALLS),
    ]
    newest_ms = {"c": NOON_MS, "never": NOON_MS, "up to date": NOON_MS}
    data = collect(*tables, newest_ms=newest_ms, made_at=NOON)

    assert data.uncounted == {"c": NOON_MS - 3 * HOUR_MS, "never": None}
    page = render(data)
    behind = "hours of cluster c after 2026-11-21 09:00 UTC were not counted (pipeline stalls)."
    never = "hours of cluster never were not counted (pipeline stalls)."
    assert f'<p class="summary">No incident. Unknown: {behind} Unknown: {never}</p>' in page
    assert f"<p>Unknown: {behind}</p><p>Unknown: {never}</p>" in page
    assert "Every counted hour has its cycles" in page
    page = render(replace(data, days=(), uncounted={"never": None}))
    assert f"<p>Unknown: {never}</p>" in page
    assert "has its cycles" not in page
    assert collect(*tables, newest_ms={"up to date": NOON_MS + 59 * 60_000}, made_at=NOON).uncounted == {}


def test_an_incident_that_ended_before_the_four_weeks_is_no_part_of_the_report(spark: SparkSession) -> None:
    """The tables have 90 days. One that is not over stays, however old; the weeks are counted from the newest cycle."""
    incident = {"cluster_id": "c", "is_over": True, "worst_verdict": "hanging_stale_epoch", "transactional_ids": []}
    begun = {"blocked_from": NOON - timedelta(days=80), "started_at": NOON - timedelta(days=80)}
    ends = {"old": 29, "recent": 27, "of a cluster that is gone": 27, "old, of a cluster that is gone": 29}
    incidents = [
        {
            **incident,
            **begun,
            "incident": name,
            "cluster_id": "gone" if "gone" in name else "c",
            "ended_at": NOON - timedelta(days=days),
        }
        for name, days in ends.items()
    ]
    incidents.append({**incident, **begun, "incident": "open", "is_over": False})
    data = collected(spark, incidents=incidents, coverage=[hour(0)])

    assert {row.incident for row in data.incidents.rows} == {"recent", "of a cluster that is gone", "open"}
    assert data.incidents.cut == 0


def test_an_hour_that_two_exporters_left_out_in_part_is_a_gap(spark: SparkSession) -> None:
    """Both were down for half an hour: they have as many cycles as one should have. A restart leaves out nothing."""
    half = {"cycles": 1, "unwatched_ms": HOUR_MS // 2}
    down = [hour(0, **half), hour(0, writer="other", **half)]
    restarted = [hour(1, cycles=1, unwatched_ms=0), hour(1, cycles=1, writer="after", unwatched_ms=0)]
    late = [hour(2, unwatched_ms=360_000)]
    data = collected(spark, coverage=[*down, *restarted, *late, hour(3), hour(4), hour(6, unwatched_ms=0)])

    assert columns(data.coverage_gaps, UNWATCHED) == [
        ("c", NOON_MS + 5 * HOUR_MS, 0, 2, 0, 0, HOUR_MS),
        ("c", NOON_MS, 2, 2, 0, 0, HOUR_MS // 2),
    ]


def test_clocks_that_contradict_each_other_are_on_the_page(spark: SparkSession) -> None:
    """With what to do; the durations of that time are unknown."""
    at = {"first_seen": NOON, "last_seen": NOON}
    watched = [hour(0, clock_difference_ms=1_200_000), hour(5)]
    data = collected(spark, [{**transaction("app", 5_000), **at}], coverage=watched)

    assert [(row.max_ms, row.unknown) for row in data.durations.rows] == [(None, 1)]
    assert "Two exporters of cluster c have clocks that differ by 20 min 0 s: correct them." in render(data)


def test_an_incident_whose_cycles_are_removed_lasts_until_now(spark: SparkSession) -> None:
    """The daemon keeps its history for a month, the tables their rows for three; the page is made all the same."""
    begun = NOON - timedelta(hours=2)
    incident = {"cluster_id": "gone", "incident": "1", "started_at": begun, "blocked_from": begun, "is_over": False}
    names = {
        "worst_verdict": "hanging_stale_epoch",
        "detection_delay_ms": 5,
        "transactional_ids": [],
        "partitions": ["orders-0"],
        "groups": [],
    }
    data = collected(spark, incidents=[{**incident, **names}], coverage=[hour(0)])

    assert [row.ended_ms - row.blocked_from_ms for row in data.incidents.rows] == [2 * HOUR_MS]
    assert "orders-0" in render(data)


def test_what_is_cut_is_counted_and_a_hang_is_not_cut(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """One application of three is shown: the one that hung, without percentiles; the newest incident and coverage gap."""
    for name in ("APPLICATIONS_MAX", "INCIDENTS_MAX", "COVERAGE_GAPS_MAX"):
        monkeypatch.setattr(report, name, 1)
    transactions = [transaction(name, 5) for name in ("often", "often", "seldom")]
    transactions += [transaction("hung", 540_000, "hanging_stale_epoch")]
    incident = {
        "cluster_id": "c",
        "blocked_from": NOON,
        "started_at": NOON,
        "is_over": False,
        "transactional_ids": [],
        "partitions": [],
        "groups": [],
    }
    data = collected(spark, transactions, [incident, incident], [hour(number, incomplete=1) for number in (0, 1)])

    assert columns(data.durations, DURATIONS) == [("c", "hung", 1, None, None, None, None, 1, 540_000, 0)]
    assert (data.durations.cut, data.incidents.cut, data.coverage_gaps.cut) == (2, 1, 1)


def test_outcomes_are_counted_by_application(spark: SparkSession) -> None:
    """The one with most time-outs and fences first; what the log does not have is unknown, and not a commit."""
    ends: list[tuple[str | None, str | None]] = [("calm", end) for end in ("commit", "commit", "abort", "commit")]
    ends += [("ill", end) for end in ("timeout", "fenced", None)] + [(None, "commit")]
    joined: list[dict[str, Any]] = [
        {**known, "outcome": outcome, "marker_ms": number, "verdicts": [], "partitions": [{"topic": "t"}]}
        for number, (known, outcome) in enumerate(
            ({"cluster_id": "c", "transactional_id": id_}, end) for id_, end in ends
        )
    ]
    data = collected(spark, joined, has_outcomes=True)

    assert data.outcomes is not None
    assert columns(data.outcomes, OUTCOMES) == [
        ("c", "ill", 0, 0, 1, 1, 1, 6),
        ("c", "calm", 3, 1, 0, 0, 0, 3),
        ("c", "(unknown transactional id)", 1, 0, 0, 0, 0, 7),
    ]


def test_nothing_recorded_is_a_page_as_well(spark: SparkSession) -> None:
    """The page says that nothing is recorded, and nothing that sounds as if all were well."""
    page = render(collected(spark))

    body = page.partition("<body>\n")[2].partition("\n</body>")[0]
    assert re.sub("<[^>]*>", "", body).splitlines() == [
        "Kafka transactions: the report",
        "Nothing was recorded.",
        "Made 2026-11-21 12:00 UTC.",
        "No file of the history is left out.",
    ]


def full() -> ReportData:
    """Names as no application should have them, in every place."""
    return ReportData(
        made_at_ms=NOON_MS,
        first_ms=NOON_MS - 7 * 24 * HOUR_MS,
        newest_ms={STRANGE: NOON_MS, "b": NOON_MS - 2 * HOUR_MS},
        interval_ms=30_000,
        waited_ms=(3 * HOUR_MS, 4 * HOUR_MS),
        weeks=[
            Row(
                cluster_id=cluster,
                application=application,
                this_ms=this_ms,
                last_ms=2 * HOUR_MS,
                group_ms=this_ms // 2,
                group="readers",
                records_max=61_000,
            )
            for cluster, application, this_ms in ((STRANGE, STRANGE, 3 * HOUR_MS), ("b", "billing", 0))
        ],
        days=tuple(
            DayOfReport(
                NOON_MS - NOON_MS % DAY_MS - DAY_MS * (27 - number),
                hung_ms=HOUR_MS if number in {3, 20} else 0,
                other_ms=number * 300_000 if number % 3 else 0,
                hours_watched=0 if 8 < number < 12 else 24,
            )
            for number in range(28)
        ),
        clocks=[Row(cluster_id=STRANGE, clock_difference_ms=1_200_000)],
        durations=SectionRows(
            (
                DURATIONS(STRANGE, STRANGE, 4000, 12.0, 90.0, 300.0, 2500.0, 1, 86_400_000.0, 7),
                DURATIONS("b", "billing", 10, 0.4, 0.4, 0.4, 0.4, 0, None, 0),
                DURATIONS("b", "once", 1, None, None, None, None, 0, None, 1),
                DURATIONS("b", "hung", 1, None, None, None, None, 1, 540_000.0, 0),
            ),
            cut=1_234,
        ),
        incidents=SectionRows(
            tuple(
                Row(
                    cluster_id=cluster,
                    blocked_from_ms=NOON_MS - hours * HOUR_MS - HOUR_MS // 3,
                    is_start_known=True,
                    ended_ms=NOON_MS - (hours - 1) * HOUR_MS,
                    is_over=hours > 5,
                    worst_verdict=verdict,
                    noticed_delay_ms=30_000,
                    proof_delay_ms=None if hours == 5 else 60_000,
                    transactional_ids=[STRANGE],
                    partitions=[f"orders-{number}" for number in range(5)],
                    groups=["readers"] if hours == 5 else [],
                    records_held_back=None,
                    causes=["late_write"] if hours == 5 else [],
                    operators=[STRANGE] if hours == 5 else [],
                    operated_ms=NOON_MS if hours == 5 else None,
                )
                for cluster, hours, verdict in ((STRANGE, 50, "hanging_stale_epoch"), ("b", 5, "stuck_completing"))
            ),
            cut=2,
        ),
        coverage_gaps=SectionRows((UNWATCHED("b", NOON_MS, 100, 120, 3, 42, 600_000),), cut=3),
        outcomes=SectionRows(
            (OUTCOMES(STRANGE, STRANGE, 4000, 3, 2, 1, 5, 42.0), OUTCOMES("b", "billing", 0, 0, 0, 0, 10, None)), cut=7
        ),
        excluded=7,
        left_out=(("cycles/one.parquet", f"no footer {STRANGE}"),),
    )


def audits() -> AuditsOfWeek:
    """Names as no application should have them, and verdicts of every kind."""
    newest = LastAudit(
        cluster_id=STRANGE, audited_at_ms=NOON_MS, transactions={}, findings={}, partitions=58, partitions_unread=3
    )
    unaudited = Row("cluster_id", "topic", "partition", "failure", "first_missing", "last_missing", "unknown")
    return AuditsOfWeek(
        [ClusterAudits(newest, {"torn": 2, "marker_without_decision": 3, "as_decided": 10_412_338, "unknown": 3_112})],
        SectionRows(
            (unaudited(STRANGE, STRANGE, 4, STRANGE, None, None, None), unaudited("b", "o", 3, None, 5, 9, 7)), 2
        ),
    )


def test_the_page_says_what_the_data_says() -> None:
    """Numbers with their units, the first names of many, what is still open; and nothing of it is markup."""
    text = unescape(re.sub(r"\s+", " ", re.sub(r"<style>.*?</style>|<[^>]*>", " ", render(full()), flags=re.DOTALL)))

    for words in (
        "From the hour of 2026-11-14 12:00 to 2026-11-21 12:00 UTC",
        "still open",
        "orders-0, orders-1, orders-2 and 2 more",
        "none known",
        "4,000 7 0.012 0.090 0.300 2.500 1 86,400.000",
        "hung 1 0 – – – – 1 540.000",  # noqa: RUF001
        "hung: hung 9 min 0 s",
        "once: – hung: hung",  # noqa: RUF001
        "4 incidents, the newest 2 of them on 10 partitions: consumer group readers has waited for at most 1 h 20 min.",
        "Coverage is incomplete in 4 hours. 1 file left out.",
        "The section scan of the settings excludes up to 7 partitions.",
        "A sample: a cycle every 30 s sees only transactions that are open then",
        "orders-0 and 4 more: 1 h 20 min",
        "4,000 3 2 1 5 0.042",
        "30 s, 1 min 30 s hanging_stale_epoch",
        "30 s, not proved stuck_completing",
        "b billing 0 0 0 0 10 –",  # noqa: RUF001
        "Not shown: 7 more applications with fewer time-outs and fences, and fewer transactions.",
        "Not shown: 1,234 more applications with fewer hangs and fewer transactions.",
        "Not shown: 2 more older incidents.",
        "Not shown: 3 more older hours.",
        "100 of 120 10 min 0 s 3 42",
        f"cycles/one.parquet no footer {STRANGE}",
        STRANGE,
    ):
        assert words in text
    assert "<script" not in render(full())
    assert not re.findall(r'(?:src|href)="(?!data:)', render(full())), "it fetches nothing"


def one_cluster() -> ReportData:
    """The same of one cluster, whose names are as usual."""
    report = full()
    return replace(
        report,
        newest_ms={"b": NOON_MS},
        durations=SectionRows(report.durations.rows[1:], report.durations.cut),
        incidents=SectionRows(report.incidents.rows[1:]),
        coverage_gaps=SectionRows(),
        weeks=report.weeks[1:],
        excluded=0,
        left_out=(),
        clocks=(),
        outcomes=None,
    )


def test_the_summary_says_no_more_than_is_known() -> None:
    """Without incidents, without groups, with an incident that is over."""
    report = one_cluster()
    over = {**report.incidents.rows[0].asDict(), "is_over": True}
    alone = {**over, "partitions": ["orders-<1>"], "is_over": False}
    unknown = {**over, "is_start_known": False}
    data = [
        report,
        replace(report, incidents=SectionRows([Row(**alone)])),
        replace(report, incidents=SectionRows([Row(**{**alone, "groups": ["a", "b"]})])),
        replace(report, incidents=SectionRows([Row(**over)])),
        replace(report, incidents=SectionRows([Row(**unknown)])),
        replace(report, incidents=SectionRows([Row(**{**over, "groups": []})])),
        replace(report, incidents=SectionRows()),
        replace(report, incidents=SectionRows(), coverage_gaps=SectionRows(full().coverage_gaps.rows)),
        replace(report, incidents=SectionRows(), newest_ms={"<b>": NOON_MS - 24 * HOUR_MS, "c": NOON_MS}),
    ]
    assert [re.search('<p class="summary">(.*?)</p>', render(each))[1] for each in data] == [  # type: ignore[index]
        "1 open incident on 5 partitions: consumer group readers has waited for at most 1 h 20 min.",
        "1 open incident on orders-&lt;1&gt;: consumer group readers has waited for at most 1 h 20 min.",
        "1 open incident on orders-&lt;1&gt;: 2 consumer groups have waited for at most 1 h 20 min.",
        "1 incident on 5 partitions: consumer group readers waited for at most 1 h 20 min.",
        "1 incident on 5 partitions: consumer group readers waited for 1 h 20 min or longer: the start is not known.",
        "1 incident on 5 partitions: no consumer group is known to have waited.",
        "No incident.",
        "No incident. Coverage is incomplete in 1 hour.",
        "No incident. The newest cycle of cluster &lt;b&gt; is of 2026-11-20 12:00 UTC.",
    ]


def test_one_cluster_is_named_once() -> None:
    """Not in each row; several are."""
    assert "<th>cluster</th>" not in render(one_cluster())
    assert render(full()).count("<th>cluster</th>") == 5
    assert "UTC, cluster b. Made" in render(one_cluster())


def test_bars_stay_in_their_track() -> None:
    """The scale has room for the smallest and the largest duration."""
    for page in (render(full()), render(one_cluster())):
        bars = re.findall(r"left:(?:calc\()?([\d.-]+)%(?:[^;]*);width:([\d.]+)(%|px)", page)
        assert bars
        for left, width, unit in bars:
            assert 0 <= float(left) <= float(left) + (float(width) if unit == "%" else 0) <= 100.01


@pytest.mark.parametrize("number", [0, 1], ids=["light", "dark"])
def test_every_text_of_the_report_can_be_read(number: int) -> None:
    """4.5 to 1 or more for text, 3 to 1 for bars (WCAG 2, level AA)."""
    colours = dict(re.findall(r"--(\w+):(#\w+)", re.findall(r":root\{[^}]*", render(full()))[number]))

    assert all(contrast(colours[text], colours["page"]) >= 4.5 for text in ("text", "quiet"))
    assert all(contrast(colours[bar], colours["panel"]) >= 3 for bar in ("bad", "warning", "usual"))


@pytest.mark.parametrize("screen", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize("data", [full, one_cluster], ids=["several", "one"])
def test_nothing_is_wider_than_its_place(
    data: Callable[[], ReportData], screen: tuple[int, int], browser: Browser
) -> None:
    """On a phone each row is a card, without scrolling sideways."""
    assert browser.measured(render(data(), audits()), NOT_CUT, screen) == [0]


def test_a_browser_shows_it_with_its_bars(browser: Browser, tmp_path: Path) -> None:
    """Every bar has a width; the report as a whole is kept to be looked at, light and dark."""
    path = tmp_path / "report.html"
    path.write_text(render(full(), audits()), encoding="utf-8")
    look = "return [...document.querySelectorAll('.track i')].map(it => it.getBoundingClientRect().width)"

    widths = browser.measured(render(full()), look, PHONE)
    pictures = browser.pictures(path.as_uri(), "report")

    assert len(widths) == 6
    assert min(widths) >= 3
    for picture in pictures.values():
        assert_painted(picture)
    assert pictures[""] != pictures["-dark"]
