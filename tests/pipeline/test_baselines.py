"""Baselines: the rule of the threshold alone, and the file that is made from tables."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from benchmarks.baselines import BUDGET, SHAPES, Shape, lognormal, rule, simulated
from exporter.baseline import BYTES_MAX, parse
from exporter.config import values
from exporter.pipeline import baselines
from exporter.pipeline.baselines import KINDS, baselines_document, document_of
from exporter.pipeline.tables import Tables
from exporter.pipeline.thresholds import threshold_of
from tests.pipeline import cases
from tests.pipeline.days import taken, transactions

DAY_MS = 86_400_000
GROUPS = values.groups('[{"name": "orders", "match": "orders-\\\\d+"}]')


MINUTE_MS = 60_000


def usual(**changes: Any) -> dict[str, Any]:
    """Each of the twenty longest is 5 % longer than the next one, the shortest takes a minute."""
    longest = [(round(MINUTE_MS * 1.05**power), 1) for power in range(20, 0, -1)]
    known: dict[str, Any] = {"samples": 500, "span_ms": 28 * DAY_MS, "longest": [*longest, (MINUTE_MS, 480)]}
    return {**known, **changes}


def steep(times: float) -> list[tuple[int, int]]:
    return [(round(MINUTE_MS * times**power), 1) for power in range(20, -1, -1)]


@pytest.mark.parametrize(
    ("changes", "threshold_ms", "reason"),
    [
        ({}, 95.2 * MINUTE_MS, "exceeded once in 2,000 days, by the 20 longest of 500 samples"),
        ({"span_ms": 56 * DAY_MS}, 61.5 * MINUTE_MS, "exceeded once in 2,000 days, by the 20 longest of 500 samples"),
        ({"samples": 60}, 8.5 * MINUTE_MS, "exceeded once in 2,000 days, by the 6 longest of 60 samples"),
        ({"samples": 20, "longest": [(MINUTE_MS, 20)]}, 1.5 * MINUTE_MS, "1.5 times the longest of 20 samples"),
        ({"longest": [(540_000, 1), (MINUTE_MS, 499)]}, 810_000, "1.5 times the longest of 500 samples"),
        ({"longest": steep(1.5)}, 50 * MINUTE_MS * 1.5**20, "50 times the longest of 500 samples"),
        ({"longest": [(9_000, 500)]}, 10_000, "never below 10 s, of 500 samples"),
        ({"samples": 19}, None, "19 samples are too few, 20 are needed"),
        ({"span_ms": DAY_MS - 1}, None, "500 samples within less than a day may all be of one load"),
    ],
)
def test_a_threshold_has_its_reason(changes: dict[str, Any], threshold_ms: float | None, reason: str) -> None:
    """Each branch of the rule, and both sides of both limits."""
    found, why = threshold_of(**usual(**changes))

    assert found == (None if threshold_ms is None else pytest.approx(threshold_ms, rel=0.02))
    assert why == reason


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_false_alarms_stay_within_their_budget(shape: Shape) -> None:
    """`python -m benchmarks.baselines` in small. An id that runs once a day has a threshold, too."""
    (result,) = simulated(shape, 40, [rule])

    assert result.without == 0
    assert result.false_a_day <= BUDGET


def test_hangs_that_were_taken_for_usual_do_not_hide_longer_ones() -> None:
    """Three of six hours among durations of a minute: not 50 times six hours, as the slope to the rest would have it."""
    history = lognormal("", 500, 30, 0.5).history(np.random.default_rng(1), 28)
    hangs = [6 * 3_600] * 3

    assert rule(history, 28) == pytest.approx(585, abs=1)
    assert rule(np.append(history, hangs), 28) == 1.5 * hangs[0]


@pytest.fixture(scope="module")
def document(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Forty transactions of one id in sixteen days, one of them a suspect; one a day of another id for ten weeks.

    In another cluster five a day for 46 days.
    """
    folder = tmp_path_factory.mktemp("baselines")
    cycles: list[dict[str, Any]] = []
    for number in range(40):
        at = SHIFT_S + number * 36_000
        row = {"start_offset": number, "started": at, "transactional_id": "orders-1"}
        if number == 20:
            row["verdict"] = "inconclusive"
        last = at + (9_000 if number == 20 else 10 + number % 10)
        cycles += [{"at": last, "open": [row]}, {"at": last + 30}]
    cases.write_file(folder / "history", "c", "w", cycles)
    daily = [_daily(day) for day in range(70)]
    cases.write_file(folder / "history", "c", "v", [cycle for both in daily for cycle in both])
    cases.write_file(folder / "history", "d", "w", [cycle for number in range(230) for cycle in _often(number)])
    tables = Tables(folder / "tables")
    taken(spark, folder / "history", tables, now_ms=NOW_MS)
    document: dict[str, Any] = json.loads(_document(spark, tables, GROUPS))
    return document


SHIFT_S = 54 * 86_400
NOW_MS = cases.milliseconds(100 * 86_400)


def _daily(day: int) -> tuple[dict[str, Any], ...]:
    """Twenty minutes each day; in the first two weeks, which are too long ago, three hours."""
    at = day * 86_400
    row = {"producer_id": 8, "transactional_id": "bills-1", "topic": "bills", "started": at, "start_offset": day}
    last = at + (10_800 if day < 13 else 1_200)
    return {"at": last, "open": [row]}, {"at": last + 30}


def _often(number: int) -> tuple[dict[str, Any], ...]:
    """Twenty seconds; in the first seventeen days a hundred."""
    day, hour = divmod(number, 5)
    at = day * 86_400 + hour * 3_600
    row = {"transactional_id": "payments-1", "topic": "payments", "started": at, "start_offset": number}
    last = at + (100 if day < 17 else 20)
    return {"at": last, "open": [row]}, {"at": last + 30}


def _document(spark: SparkSession, tables: Tables, groups: Any) -> str:
    newest_ms = tables.current().state.newest_ms
    return baselines_document(spark, transactions(spark, tables), groups, newest_ms=newest_ms, made_at_ms=17)


def test_the_file_says_what_it_is(document: dict[str, Any]) -> None:
    """Format, version, and what it was made of."""
    assert {key: value for key, value in document.items() if key != "thresholds"} == {
        "format": "kafka-transaction-exporter baselines",
        "version": 1,
        "cluster_ids": ["c", "d"],
        "made_at_ms": 17,
        "window_ms": 28 * DAY_MS,
    }
    assert list(document["thresholds"]) == ["transactional_ids", "groups", "topics"]


def by_id(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["transactional_id"]: entry for entry in document["thresholds"]["transactional_ids"]}


def test_a_suspect_is_not_usual(document: dict[str, Any]) -> None:
    """39 of 40 count; percentiles are within a hundredth of the true ones."""
    orders = by_id(document)["orders-1"]

    assert (orders["cluster_id"], orders["samples"], orders["max_ms"]) == ("c", 39, 19_000)
    assert orders["p50_ms"] == pytest.approx(15_000, rel=0.011)
    assert orders["p99_ms"] == pytest.approx(19_000, rel=0.011)
    assert orders["threshold_ms"] == pytest.approx(1.5 * 19_000, rel=0.011)
    assert orders["reason"] == "1.5 times the longest of 39 samples"


def test_one_a_day_has_a_threshold_of_eight_weeks(document: dict[str, Any]) -> None:
    """Four weeks have 28 samples; what is older than eight weeks does not count."""
    bills = by_id(document)["bills-1"]

    assert (bills["samples"], bills["span_ms"], bills["max_ms"]) == (55, 54 * DAY_MS, 1_200_000)
    assert bills["threshold_ms"] == pytest.approx(1.5 * 1_200_000, rel=0.011)


def test_with_many_samples_four_weeks_count(document: dict[str, Any]) -> None:
    """A hundred in the last four weeks: what took longer before that changes nothing."""
    payments = by_id(document)["payments-1"]

    assert (payments["samples"], payments["max_ms"]) == (28 * 5 + 1, 20_000)


def test_groups_and_topics_have_theirs(document: dict[str, Any]) -> None:
    """A group by the daemon's rule, `other` for the rest; each topic that was written to."""
    thresholds = document["thresholds"]

    groups = {(group["cluster_id"], group["group"]): group["samples"] for group in thresholds["groups"]}
    topics = {(topic["cluster_id"], topic["topic"]): topic["samples"] for topic in thresholds["topics"]}
    assert groups == {("c", "orders"): 39, ("c", "other"): 55, ("d", "other"): 141}
    assert topics == {("c", "orders"): 39, ("c", "bills"): 55, ("d", "payments"): 141}
    assert set(thresholds["topics"][0]) == {
        "cluster_id",
        "topic",
        "samples",
        "unknown",
        "span_ms",
        "p50_ms",
        "p95_ms",
        "p99_ms",
        "max_ms",
        "idle_p99_ms",
        "threshold_ms",
        "reason",
    }


def test_a_fleet_of_any_size_has_baselines_for_each_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon refuses a file that is too large: the most frequent ids of every cluster are in, whatever there are."""
    monkeypatch.setattr(baselines, "FILE_BYTES", 200_000)
    cell = {"grid": 400, "samples": 500}
    known = {"samples": 500, "unknown": 0, "span_ms": 28 * DAY_MS, "grid": [300, 350, 400], "idle_grid": 10.0}
    rows = [
        {"cluster_id": f"c{cluster}", "kind": kind, "name": f"{kind}-{rank}", "rank": rank, **known}
        | {"max_ms": 3_000_000, "longest": [cell]}
        for cluster in range(60)
        for kind in KINDS
        for rank in range(1, 41)
    ]
    text = document_of(rows, made_at_ms=17)
    found = parse(text)

    assert len(text) < 200_000 + 60 * 100, "entries, and the names of the clusters"
    assert found.cluster_ids == {f"c{cluster}" for cluster in range(60)}
    for cluster in found.cluster_ids:
        usual = found.usual(cluster, "transactional_id-1", "topic-1")
        assert usual is not None
        assert (usual.of, usual.samples) == ("transactional id 'transactional_id-1'", 500)
    assert baselines.FILE_BYTES < BYTES_MAX
