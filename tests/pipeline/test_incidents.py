"""Incidents from suspects: which are joined, their extent, and the time until they were seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest
from pyspark.sql import Row, SparkSession

from exporter.incidents.incident import JOINED_SECONDS
from exporter.pipeline.incidents import incidents_of_transactions
from exporter.pipeline.tables import Tables
from tests.pipeline import cases
from tests.pipeline.days import taken, transactions

HANG: Final = {"verdict": "hanging_no_transactional_id", "transactional_id": None}


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
    }
    for name, files in clusters.items():
        for number, file in enumerate(files):
            cases.write_file(folder / "history", name, f"w{number}", file)
    tables = Tables(folder / "tables")
    taken(spark, folder / "history", tables)
    found: dict[str, list[Row]] = {name: [] for name in clusters}
    every = transactions(spark, tables)
    for row in incidents_of_transactions(every).orderBy("cluster_id", "started_at").collect():
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


def test_what_begins_soon_after_is_the_same_incident(incidents: dict[str, list[Row]]) -> None:
    """Up to ten minutes; a second more makes two."""
    (near,) = incidents["near"]

    assert (near["partitions"], near["transactions"], near["records_held_back"]) == (["orders-0", "orders-1"], 2, 80)
    assert [incident["partitions"] for incident in incidents["far"]] == [["orders-0"], ["orders-1"]]


def test_an_incident_lasts_until_its_last_transaction_is_closed(incidents: dict[str, list[Row]]) -> None:
    """Until then it has no end."""
    (still,) = incidents["open"]

    assert (still["is_over"], still["ended_at"]) == (False, None)


def test_an_unverified_suspect_is_an_incident_without_a_proof(incidents: dict[str, list[Row]]) -> None:
    """Its worst verdict says so."""
    (doubt,) = incidents["doubt"]

    assert (doubt["worst_verdict"], doubt["proof_delay_ms"], doubt["is_over"]) == ("inconclusive", None, True)
