"""Baselines: the rule of the threshold alone, and the file that is made from tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from exporter.config import values
from exporter.pipeline.baselines import baselines_document
from exporter.pipeline.ingest import read_transactions
from exporter.pipeline.tables import Tables
from exporter.pipeline.thresholds import UsualDurations, threshold_of
from tests.pipeline import cases
from tests.pipeline.test_transactions import taken

DAY_MS = 86_400_000
GROUPS = values.groups('[{"name": "orders", "match": "orders-\\\\d+"}]')


def usual(**changes: int) -> UsualDurations:
    return UsualDurations(
        **{"samples": 100, "span_ms": DAY_MS, "p25_ms": 9_000, "p75_ms": 11_000, "p99_ms": 20_000, **changes}
    )


@pytest.mark.parametrize(
    ("changes", "threshold_ms", "reason"),
    [
        ({}, 60_000, "3 times the 99th percentile, of 100 samples"),
        (
            {"p25_ms": 1_000},
            80_000,
            "the 99th percentile and 6 times the range between the quartiles, of 100 samples",
        ),
        ({"p25_ms": 50, "p75_ms": 60, "p99_ms": 100}, 10_000, "never below 10 s, of 100 samples"),
        ({"samples": 30}, 60_000, "3 times the 99th percentile, of 30 samples"),
        ({"samples": 29}, None, "29 samples are too few, 30 are needed"),
        ({"span_ms": DAY_MS - 1}, None, "100 samples within less than a day may all be of one load"),
    ],
)
def test_a_threshold_has_its_reason(changes: dict[str, int], threshold_ms: int | None, reason: str) -> None:
    """Each branch of the rule, and both sides of both limits."""
    assert threshold_of(usual(**changes)) == (threshold_ms, reason)


@pytest.fixture(scope="module")
def document(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Forty transactions of one id in sixteen days, one of which hung; three of another id."""
    folder = tmp_path_factory.mktemp("baselines")
    cycles: list[dict[str, Any]] = []
    for number in range(40):
        at = number * 36_000
        row = {"start_offset": number, "started": at, "transactional_id": "orders-1"}
        if number == 20:
            row["verdict"] = "hanging_not_in_transaction"
        other = {
            "producer_id": 8,
            "transactional_id": "bills-1",
            "topic": "bills",
            "started": at,
            "start_offset": number,
        }
        last = at + (9_000 if number == 20 else 10 + number % 10)
        both = [row, other] if number < 3 else [row]
        cycles += [{"at": last, "open": both}, {"at": last + 30}]
    # by day, as the daemon writes them
    cases.write_file(folder / "history", "c", "w", cycles)
    tables = Tables(folder / "tables")
    taken(spark, folder / "history", tables)
    every = read_transactions(spark, tables, tables.current().files)
    document: dict[str, Any] = json.loads(
        baselines_document(spark, every, GROUPS, made_at_ms=17, window_ms=28 * DAY_MS)
    )
    return document


def test_the_file_says_what_it_is(document: dict[str, Any]) -> None:
    """Format, version, and what it was made of."""
    assert {key: value for key, value in document.items() if key != "thresholds"} == {
        "format": "kafka-transaction-exporter baselines",
        "version": 1,
        "cluster_ids": ["c"],
        "made_at_ms": 17,
        "window_ms": 28 * DAY_MS,
    }
    assert list(document["thresholds"]) == ["transactional_ids", "groups", "topics"]


def test_a_hang_is_not_usual(document: dict[str, Any]) -> None:
    """39 of 40 count; percentiles are within a hundredth of the true ones."""
    few, many = sorted(document["thresholds"]["transactional_ids"], key=lambda threshold: int(threshold["samples"]))

    assert (many["cluster_id"], many["transactional_id"]) == ("c", "orders-1")
    assert (many["samples"], many["max_ms"]) == (39, 19_000)
    assert many["p50_ms"] == pytest.approx(15_000, rel=0.011)
    assert many["p99_ms"] == pytest.approx(19_000, rel=0.011)
    assert many["threshold_ms"] == 3 * many["p99_ms"]
    assert many["reason"] == "3 times the 99th percentile, of 39 samples"
    assert (few["transactional_id"], few["samples"], few["threshold_ms"]) == ("bills-1", 3, None)


def test_groups_and_topics_have_theirs(document: dict[str, Any]) -> None:
    """A group by the daemon's rule, `other` for the rest; each topic that was written to."""
    thresholds = document["thresholds"]

    assert {group["group"]: group["samples"] for group in thresholds["groups"]} == {"orders": 39, "other": 3}
    assert {topic["topic"]: topic["samples"] for topic in thresholds["topics"]} == {"orders": 39, "bills": 3}
    assert set(thresholds["topics"][0]) == {
        "cluster_id",
        "topic",
        "samples",
        "p50_ms",
        "p95_ms",
        "p99_ms",
        "max_ms",
        "idle_p99_ms",
        "threshold_ms",
        "reason",
    }


def test_an_hour_of_the_week_needs_two_weeks(spark: SparkSession, tmp_path: Path) -> None:
    """Thirty on a Sunday's first hour and one two weeks later make a pattern of it, and of no other hour."""
    at = [*range(0, 3_000, 100), 14 * 86_400, 14 * 86_400 + 7_200]
    rows = [{"start_offset": number, "started": second - 10} for number, second in enumerate(at)]
    cycles = [
        part
        for moment, row in zip(at, rows, strict=True)
        for part in ({"at": moment, "open": [row]}, {"at": moment + 30})
    ]
    cases.write_file(tmp_path / "history", "c", "w", cycles)
    tables = Tables(tmp_path / "tables")
    taken(spark, tmp_path / "history", tables)
    every = read_transactions(spark, tables, tables.current().files)
    (topic,) = json.loads(baselines_document(spark, every, (), made_at_ms=0, window_ms=1))["thresholds"]["topics"]

    assert [(hour["hour"], hour["samples"]) for hour in topic["hours_of_week"]] == [(6 * 24, 31)]
