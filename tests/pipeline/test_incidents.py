"""Incidents from suspects: which are joined, their extent, and the time until they were seen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest
from pyspark.sql import Row, SparkSession

from exporter.incidents.incident import JOINED_SECONDS
from exporter.pipeline import schemas
from exporter.pipeline.hours import update_hours
from exporter.pipeline.incidents import incidents_of_transactions
from exporter.pipeline.operator_steps import steps_in
from exporter.pipeline.tables import Tables
from tests.pipeline import cases
from tests.pipeline.days import taken, transactions

HANG: Final = {"verdict": "hanging_no_transactional_id", "transactional_id": None}
EXPLAINED: Final = {**HANG, "cause": "late_write", "last_stable_offset_lag": 40}
STEP: Final = {
    "at": "2026-11-01T00:02:00+00:00",
    "who": "ada@host",
    "step": "confirmed",
    "cluster_id": "explained",
    "topic": "orders",
    "partition": 0,
    "start_offset": 100,
    "producer_id": 7,
}
WITHOUT_IDS: Final = {name: value for name, value in STEP.items() if name not in ("cluster_id", "producer_id")}
FENCE: Final = {
    "at": "2026-11-01T00:02:10+00:00",
    "who": "fay@host",
    "step": "confirmed",
    "cluster_id": "explained",
    "transactional_id": "app-1",
}
"""`force-terminate` names no topic."""
LOG: Final = [
    json.dumps({**step, **changes})
    for step, changes in (
        (STEP, {}),
        (STEP, {"at": "2026-11-01T00:01:40+00:00", "step": "declined", "who": "bob@host"}),
        (WITHOUT_IDS, {"at": "2026-11-01T00:03:00+00:00", "who": "old@host", "topic": "explained"}),
        (STEP, {"who": "eve@host", "cluster_id": "elsewhere"}),
        (STEP, {"who": "eve@host", "producer_id": 8}),
        (STEP, {"who": "eve@host", "start_offset": 101}),
        (FENCE, {}),
        (FENCE, {"at": "2026-11-02T00:00:00+00:00", "cluster_id": "open"}),
        (FENCE, {"who": "eve@host", "at": "2026-11-01T00:00:20+00:00"}),
        (FENCE, {"who": "eve@host", "at": "2026-11-01T00:03:00+00:00"}),
        (FENCE, {"who": "eve@host", "cluster_id": "elsewhere"}),
        (FENCE, {"who": "eve@host", "transactional_id": "app-2"}),
    )
]
"""An audit log of several clusters."""


def hang(at: int, **changes: Any) -> list[Mapping[str, Any]]:
    """Cycles of a transaction that is in doubt at `at`, proved half a minute later, and then gone."""
    row = {"started": at, **changes}
    return [
        {"at": at, "open": [row]},
        {"at": at + 30, "open": [{**row, "verdict": "inconclusive"}]},
        {"at": at + 60, "open": [{**row, **HANG, "groups": ["b", "a"], "last_stable_offset_lag": 40}]},
    ]


@pytest.fixture(scope="module")
def incidents(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Row]]:
    """Of several clusters, by name."""
    folder = tmp_path_factory.mktemp("incidents")
    far, near = JOINED_SECONDS + 1, JOINED_SECONDS
    clusters: dict[str, list[list[Mapping[str, Any]]]] = {
        "healthy": [[{"at": 0, "open": [{}]}, {"at": 30}]],
        "one": [[*hang(0), {"at": 90}]],
        "near": [hang(0), hang(near, producer_id=8, partition=1), [{"at": 2 * far}]],
        "far": [hang(0), hang(far, producer_id=8, partition=1), [{"at": 2 * far}]],
        "open": [hang(0)],
        "doubt": [[*hang(0)[:2], {"at": 60}]],
        "explained": [
            [
                *hang(0),
                *({"at": at, "open": [EXPLAINED, {**EXPLAINED, "topic": "explained"}]} for at in (90, 120)),
                {"at": 150},
            ]
        ],
    }
    for name, files in clusters.items():
        for number, file in enumerate(files):
            cases.write_file(folder / "history", name, f"w{number}", file)
    tables = Tables(folder / "tables")
    taken(spark, folder / "history", tables)
    found: dict[str, list[Row]] = {name: [] for name in clusters}
    update_hours(lambda: spark, folder / "history", tables)
    every, stalls = transactions(spark, tables), tables.stalls.read(spark)
    steps = spark.createDataFrame(list(steps_in(LOG, since_ms=0, until_ms=cases.NOW_MS)), schemas.OPERATOR_STEPS)
    for row in incidents_of_transactions(every, stalls, steps).orderBy("cluster_id", "started_at").collect():
        found[row["cluster_id"]].append(row)
    return found


def test_what_was_never_a_suspect_is_not_an_incident(incidents: dict[str, list[Row]]) -> None:
    """A healthy cluster has none."""
    assert incidents["healthy"] == []


def test_an_incident_has_its_reach_and_its_delays(incidents: dict[str, list[Row]]) -> None:
    """First seen at 0, suspect at 30, proved at 60, gone at 90."""
    (one,) = incidents["one"]

    assert (cases.seconds(one["started_at"]), cases.seconds(one["ended_at"]), one["is_over"]) == (30, 90, True)
    assert one["incident"] == "20261101T000030000Z"
    assert (one["detection_delay_ms"], one["proof_delay_ms"]) == (30_000, 30_000)
    assert (one["worst_verdict"], one["transactions"]) == ("hanging_no_transactional_id", 1)
    assert (one["partitions"], one["groups"], one["records_held_back"]) == (["orders-0"], ["a", "b"], 40)
    assert one["transactional_ids"] == ["app-1"]


def test_an_incident_has_its_causes_and_who_acted(incidents: dict[str, list[Row]]) -> None:
    """Only confirmed commands on its own transactions; a log of an older version names no cluster and no producer."""
    (one,) = incidents["explained"]

    assert (one["causes"], one["operators"]) == (["late_write"], ["ada@host", "fay@host", "old@host"])
    assert cases.seconds(one["operated_at"]) == 120
    assert [(row["causes"], row["operators"], row["operated_at"]) for row in incidents["one"]] == [([], [], None)]


def test_what_begins_soon_after_is_the_same_incident(incidents: dict[str, list[Row]]) -> None:
    """Up to ten minutes; a second more makes two."""
    (near,) = incidents["near"]

    assert (near["partitions"], near["transactions"], near["records_held_back"]) == (["orders-0", "orders-1"], 2, 80)
    assert [incident["partitions"] for incident in incidents["far"]] == [["orders-0"], ["orders-1"]]


def test_an_incident_lasts_until_its_last_transaction_is_closed(incidents: dict[str, list[Row]]) -> None:
    """Until then it has no end, also for what operators do about it."""
    (still,) = incidents["open"]

    assert (still["is_over"], still["ended_at"], still["operators"]) == (False, None, ["fay@host"])


def test_an_unverified_suspect_is_an_incident_without_a_proof(incidents: dict[str, list[Row]]) -> None:
    """Its worst verdict says so."""
    (doubt,) = incidents["doubt"]

    assert (doubt["worst_verdict"], doubt["proof_delay_ms"], doubt["is_over"]) == ("inconclusive", None, True)
