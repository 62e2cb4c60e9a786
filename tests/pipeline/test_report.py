"""The report: rows of the tables as people read them, and the page as a browser shows it."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from exporter.pipeline import report, schemas
from exporter.pipeline.report import CoverageGap, Durations, Incident, ReportData, collect
from exporter.pipeline.report_page import render
from tests.browser import Browser, assert_painted, open_browser
from tests.marks import starts

NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
STRANGE = '<script>alert(1)</script> $\\frac{x}$ "quoted" name-\u00e9\u4e2d'


def frame(spark: SparkSession, schema: Any, *rows: dict[str, Any]) -> DataFrame:
    """Rows with nulls for whatever they do not name."""
    return spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in rows], schema)


def transaction(name: str | None, duration_ms: int, *verdicts: str, topic: str = "orders") -> dict[str, Any]:
    partition_transaction = tuple(
        {"topic": topic, "partition": 0}.get(it.name) for it in schemas.TRANSACTIONS["partitions"].dataType.elementType
    )
    return {
        "cluster_id": "c",
        "transactional_id": name,
        "duration_ms": duration_ms,
        "verdicts": list(verdicts or ("open_within_timeout",)),
        "partitions": [partition_transaction],
    }


def cycle(minutes: float, *, is_complete: bool = True, unread: int = 0) -> dict[str, Any]:
    return {
        "cluster_id": "c",
        "taken_at": NOON + timedelta(minutes=minutes),
        "interval_ms": 1_800_000,
        "is_complete": is_complete,
        "partitions_unread": unread,
    }


def test_what_is_collected_is_what_the_tables_say(spark: SparkSession) -> None:
    """Applications by frequency, hung ones apart; an incident; an hour not wholly seen and one with too few cycles."""
    transactions = [transaction("app", ms) for ms in range(1, 101)]
    transactions += [transaction("app", 10**9, "inconclusive", "hanging_stale_epoch"), transaction(None, 5, topic="t")]
    incident = {
        "cluster_id": "c",
        "incident": "1",
        "started_at": NOON,
        "ended_at": NOON + timedelta(hours=1),
        "is_over": True,
        "worst_verdict": "hanging_stale_epoch",
        "transactional_ids": ["app"],
        "partitions": ["orders-0"],
        "groups": ["readers"],
        "records_held_back": 1234,
    }
    cycles = [cycle(0), cycle(30), cycle(60), cycle(120), cycle(150, is_complete=False, unread=7), cycle(180)]

    data = collect(
        frame(spark, schemas.TRANSACTIONS, *transactions),
        frame(spark, schemas.INCIDENTS, incident, {**incident, "incident": "2", "ended_at": None, "is_over": False}),
        frame(spark, schemas.CYCLES, *cycles),
        made_at=NOON,
    )

    assert (data.first, data.last, data.clusters) == (NOON, NOON + timedelta(hours=3), ("c",))
    first, second = data.durations
    assert (first.application, first.transactions, first.hanging) == ("app", 101, 1)
    assert (first.p50_ms, first.p95_ms, first.p99_ms, first.max_ms) == (50, 95, 99, 10**9)
    assert (second.application, second.transactions) == ("t", 1)
    over, still_open = data.incidents
    assert (over.started_at, over.records_held_back, over.groups) == (NOON, 1234, ("readers",))
    assert [(it.is_over, it.ended_at) for it in (over, still_open)] == [
        (True, NOON + timedelta(hours=1)),
        (False, NOON + timedelta(hours=3)),
    ]
    assert data.coverage_gaps == (
        CoverageGap("c", NOON + timedelta(hours=2), 2, 2, 1, 7),
        CoverageGap("c", NOON + timedelta(hours=1), 1, 2, 0, 0),
    )


def test_what_is_cut_is_counted_and_a_hang_is_not_cut(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """One application of three is shown: the one that hung, without percentiles; the newest incident and coverage gap."""
    for name in ("APPLICATIONS_MAX", "INCIDENTS_MAX", "COVERAGE_GAPS_MAX"):
        monkeypatch.setattr(report, name, 1)
    transactions = [transaction(name, 5) for name in ("often", "often", "seldom")]
    transactions += [transaction("hung", 540_000, "hanging_stale_epoch")]
    incident = {
        "cluster_id": "c",
        "started_at": NOON,
        "is_over": False,
        "transactional_ids": [],
        "partitions": [],
        "groups": [],
    }
    data = collect(
        frame(spark, schemas.TRANSACTIONS, *transactions),
        frame(spark, schemas.INCIDENTS, incident, incident),
        frame(spark, schemas.CYCLES, *(cycle(minutes, is_complete=False) for minutes in (0, 60))),
        made_at=NOON,
    )

    assert data.durations == (Durations("c", "hung", 1, None, None, None, 540_000, 1),)
    assert (data.durations_cut, data.incidents_cut, data.coverage_gaps_cut) == (2, 1, 1)


def test_nothing_recorded_is_a_page_as_well(spark: SparkSession) -> None:
    """It says that there is nothing, not that all is well."""
    empty = [frame(spark, schema) for schema in (schemas.TRANSACTIONS, schemas.INCIDENTS, schemas.CYCLES)]

    page = render(collect(*empty, made_at=NOON))

    assert "Nothing was recorded. Made 2026-11-21 12:00 UTC." in page
    assert "No transaction was recorded." in page


def full() -> ReportData:
    """Names as no application should have them, in every place."""
    return ReportData(
        made_at=NOON,
        first=NOON - timedelta(days=7),
        last=NOON,
        clusters=(STRANGE, "b"),
        durations=(
            Durations(STRANGE, STRANGE, 4000, 12.0, 90.0, 300.0, 2500.0, 1),
            Durations("b", "billing", 10, 0.0, 0.0, 0.0, 0.0, 0),
            Durations("b", "hung", 1, None, None, None, 540_000.0, 1),
        ),
        incidents=tuple(
            Incident(
                cluster_id=cluster,
                started_at=NOON - timedelta(hours=hours),
                ended_at=NOON - timedelta(hours=hours - 1),
                is_over=hours > 5,
                worst_verdict=verdict,
                transactional_ids=(STRANGE,),
                partitions=tuple(f"orders-{number}" for number in range(5)),
                groups=(),
                records_held_back=None,
            )
            for cluster, hours, verdict in ((STRANGE, 50, "hanging_stale_epoch"), ("b", 5, "stuck_completing"))
        ),
        coverage_gaps=(CoverageGap("b", NOON, 100, 120, 3, 42),),
        durations_cut=1_234,
        incidents_cut=2,
        coverage_gaps_cut=3,
        left_out=(("cycles/one.parquet", f"no footer {STRANGE}"),),
    )


def test_the_page_says_what_the_data_says() -> None:
    """Numbers with their units, the first names of many, what is still open; and nothing of it is markup."""
    text = unescape(re.sub(r"\s+", " ", re.sub(r"<style>.*?</style>|<[^>]*>", " ", render(full()), flags=re.DOTALL)))

    for words in (
        "From 2026-11-14 12:00 to 2026-11-21 12:00 UTC",
        "still open",
        "orders-0, orders-1, orders-2 and 2 more",
        "nobody known",
        "4,000 0.012 0.090 0.300 2.500 1",
        "hung 1 – – – 540.000 1",  # noqa: RUF001
        "Not shown: 1,234 more applications, which hung less and ran less often.",
        "Not shown: 2 more older incidents.",
        "Not shown: 3 more older hours.",
        "100 of 120",
        f"cycles/one.parquet no footer {STRANGE}",
        STRANGE,
    ):
        assert words in text
    assert "<script>" not in render(full())
    assert not re.findall(r'(?:src|href)="(?!data:)', render(full())), "it fetches nothing"


@pytest.fixture(scope="module")
@starts("browser")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    return open_browser(tmp_path_factory.mktemp("chromium"))


def test_a_browser_shows_it_with_its_plots(browser: Browser, tmp_path: Path) -> None:
    """Both plots are pictures that it can draw; the report as a whole is kept to be looked at."""
    path = tmp_path / "report.html"
    look = "document.body.dataset.plots = [...document.images].filter(it => it.naturalWidth > 300).length"
    path.write_text(render(full()).replace("</body>", f"<script>{look}</script></body>"), encoding="utf-8")

    elements = browser.elements(path.as_uri())
    assert_painted(browser.picture(path.as_uri(), "report", "--window-size=1280,1600"))

    assert 'data-plots="2"' in elements
