"""What people read, worked out again by a foreign engine in SQL from the files of the history alone.

Healthy transactions have a lag, hangs begin before the suspicion and before the first cycle that saw them, and most
transactions of one application were seen by a single cycle.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from exporter.pipeline.baselines import baselines_document
from exporter.pipeline.buckets import without_places
from exporter.pipeline.tables import Tables
from tests.pipeline import cases, sample
from tests.pipeline.days import transactions

CLUSTER: Final = "west"
DAY_S: Final = 86_400
LEGS: Final = """
    CREATE VIEW legs AS SELECT topic, partition, producer_id, start_offset, max(transactional_id) AS id,
        min(taken_at) AS first_seen, max(taken_at) AS last_seen, min(started_at) AS started_at,
        nullif(max(duration_ms), CASE WHEN bool_and(start_source = 'first_seen') THEN 0 END) AS duration_ms,
        bool_or(verdict LIKE 'hanging%') AS hung,
        bool_or(verdict NOT IN ('open_within_timeout', 'completing', 'prepared_two_phase_commit')) AS suspected
    FROM read_parquet('{history}/v1/observations/*/*/*.parquet', union_by_name = true)
    GROUP BY topic, partition, producer_id, start_offset
"""


def write_world(history: Path) -> None:
    """The hour of each of 60 transactions a day for a fortnight: of `billing` most are seen once, of `import` none."""
    for day in range(14):
        cycles: list[dict[str, Any]] = []
        for number in range(60):
            at = DAY_S * day + 1_200 * number
            seen = 4 if number % 20 == 0 else 1
            row = {
                "start_offset": 100 * day + number,
                "transactional_id": "import" if number % 3 == 0 else "billing",
                "producer_id": 5 + (number % 3 == 0),
                "partition": number % 3,
                "last_stable_offset_lag": 40 + number,
            }
            source = "coordinator" if row["transactional_id"] == "import" else "first_seen"
            for cycle in range(seen):
                started = at - 7 if source == "coordinator" else at
                cycles.append({"at": at + 30 * cycle, "open": [{**row, "start_source": source, "started": started}]})
            cycles.append({"at": at + 30 * seen})
        cases.write_file(history, CLUSTER, f"d{day}", cycles)
    begun = DAY_S * 3
    hang = {"start_offset": 9_999, "producer_id": 9, "partition": 7, "started": begun - 3_600, "groups": ["payroll"]}
    verdicts = ["open_within_timeout"] * 20 + ["overdue_at_coordinator"] * 2 + ["hanging_no_transactional_id"] * 5
    rows = [{**hang, "verdict": verdict} for verdict in verdicts]
    cycles = [{"at": begun + 11 + 60 * number, "open": [row]} for number, row in enumerate(rows)]
    cases.write_file(history, CLUSTER, "hang", [*cycles, {"at": begun + 11 + 60 * len(rows)}])


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tables, Any]:
    """The tables, and the other engine on the history."""
    import duckdb  # noqa: PLC0415 - prints at the end of a process that has only imported it

    folder = tmp_path_factory.mktemp("world")
    write_world(folder / "history")
    jobs = sample.jobs_in(spark, folder)
    for job in (jobs.transactions, jobs.stalls, jobs.incidents, jobs.report):
        job()
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(LEGS.format(history=folder / "history"))
    return jobs.tables, connection


def test_a_healthy_transaction_is_not_a_hang(spark: SparkSession, world: tuple[Tables, Any]) -> None:
    """841 transactions held back records, and one of them hung."""
    tables, connection = world
    found = without_places(tables.transactions.read(spark)).selectExpr("inline(partitions)")
    hung = found.where("exists(verdicts, seen -> seen.verdict LIKE 'hanging%')").groupBy("topic", "partition").count()

    assert [tuple(row) for row in hung.collect()] == connection.sql(
        "SELECT topic, partition, count(*) FROM legs WHERE hung GROUP BY ALL"
    ).fetchall()
    assert found.count() == connection.sql("SELECT count(*) FROM legs").fetchall()[0][0] == 841


def test_an_incident_reaches_back_to_the_start(spark: SparkSession, world: tuple[Tables, Any]) -> None:
    """The page says how long the group waited at most: from the start on, which is 80 minutes before the suspicion."""
    tables, connection = world
    ((begun, ended),) = connection.sql(
        "SELECT started_at, last_seen + INTERVAL 60 SECOND FROM legs WHERE suspected"
    ).fetchall()
    (incident,) = tables.incidents.read(spark).collect()

    assert cases.seconds(incident["blocked_from"]) == cases.seconds(begun) == DAY_S * 3 - 3_600
    assert incident["is_start_known"]
    assert cases.seconds(incident["ended_at"]) == cases.seconds(ended)
    minutes = (ended - begun).total_seconds() / 60
    assert cases.seconds(incident["started_at"]) == DAY_S * 3 + 11 + 1_200
    page = tables.report.read_text(encoding="utf-8")
    assert minutes == pytest.approx(87.2, abs=0.1)
    assert "consumer group payroll waited for at most 1 h 27 min." in page


def test_an_unknown_duration_teaches_nothing(spark: SparkSession, world: tuple[Tables, Any]) -> None:
    """Percentiles are those of known durations; the others are counted apart."""
    tables, connection = world
    newest_ms = tables.current().state.newest_ms
    document = json.loads(
        baselines_document(spark, transactions(spark, tables), (), newest_ms=newest_ms, made_at_ms=17)
    )
    found = {entry["transactional_id"]: entry for entry in document["thresholds"]["transactional_ids"]}
    rows = connection.sql(
        "SELECT id, count(duration_ms), count(*) - count(duration_ms), max(duration_ms), "
        "quantile_disc(duration_ms, 0.5), quantile_disc(duration_ms, 0.99) FROM legs WHERE NOT suspected GROUP BY id"
    ).fetchall()

    assert {row[0] for row in rows} == set(found) == {"billing", "import"}
    for name, samples, unknown, longest, median, p99 in rows:
        entry = found[name]
        assert (entry["samples"], entry["unknown"], entry["max_ms"]) == (samples, unknown, longest)
        assert entry["p50_ms"] == pytest.approx(median, rel=0.011)
        assert entry["p99_ms"] == pytest.approx(p99, rel=0.011)
        assert entry["p50_ms"] <= entry["p99_ms"] <= entry["max_ms"]
    assert found["billing"]["unknown"] > found["billing"]["samples"] > 20
