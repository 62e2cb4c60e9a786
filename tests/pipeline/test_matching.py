"""Which outcome of the transaction log is that of a transaction: by its exact start, or as the only one that fits."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from exporter.pipeline import schemas
from exporter.pipeline.outcomes import with_outcomes


class Decision(NamedTuple):
    """In seconds."""

    start: float | None
    decided: float
    outcome: str
    epoch: int = 0
    partitions: tuple[str, ...] = ()


class Seen(NamedTuple):
    """On orders-0, in seconds; its exact start is `start`."""

    first: float
    last: float
    closed: float | None
    start: float | None = None
    epoch: int = 0


def at(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)


def decided(producer_id: int, decision: Decision) -> dict[str, Any]:
    start_ms = None if decision.start is None else round(decision.start * 1000)
    decided_ms = round(decision.decided * 1000)
    return {
        "cluster_id": "c",
        "producer_id": producer_id,
        "producer_epoch": decision.epoch,
        "outcome": decision.outcome,
        "start_ms": start_ms,
        "decided_ms": decided_ms,
        "duration_ms": None if start_ms is None else decided_ms - start_ms,
        "partitions": list(decision.partitions),
    }


def seen(producer_id: int, number: int, row: Seen) -> dict[str, Any]:
    place = {"topic": "orders", "partition": 0, "start_offset": number, "verdicts": [], "groups": []}
    return {
        "cluster_id": "c",
        "producer_id": producer_id,
        "producer_epoch": row.epoch,
        "first_seen": at(row.first),
        "last_seen": at(row.last),
        "closed_at": at(row.closed),
        "started_at": at(row.first if row.start is None else row.start),
        "start_source": "first_seen" if row.start is None else "coordinator",
        "verdicts": [],
        "partitions": [
            tuple(place.get(name) for name in schemas.TRANSACTIONS["partitions"].dataType.elementType.names)
        ],
    }


def frame(spark: SparkSession, schema: Any, rows: list[dict[str, Any]]) -> Any:
    return spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in rows], schema)


QUICK = [Decision(100 + 2 * number, 101.9 + 2 * number, "commit") for number in range(60)]
"""One every two seconds, all at the same epoch."""


CASES: Final[dict[str, tuple[list[Decision], list[Seen], list[str | None]]]] = {
    "exact starts, and one that the log does not have": (
        [Decision(100, 140, "commit"), Decision(141, 180, "abort")],
        [Seen(130, 130, 160, start=100), Seen(160, 160, 190, start=141), Seen(160, 160, 190, start=142)],
        ["commit", "abort", None],
    ),
    "the only one": ([Decision(100, 170, "timeout")], [Seen(130, 160, 190)], ["timeout"]),
    "an epoch for each transaction, as with transaction.version 2": (
        [Decision(100, 101, "commit", 1), Decision(130, 131, "abort", 2), Decision(131, 132, "commit", 3)],
        [Seen(130, 130, 160, epoch=2), Seen(131, 131, 160, epoch=3), Seen(131, 131, 160, epoch=4)],
        ["abort", "commit", None],
    ),
    "many in a cycle at one epoch": (QUICK, [Seen(130, 130, 160)], [None]),
    "decided long after it was gone": (
        [*QUICK[:3], Decision(110, 401, "abort"), Decision(401, 402, "commit")],
        [Seen(160, 340, 370)],
        [None],
    ),
    "one that lasted, after quick ones and before others": (
        [*QUICK[:3], Decision(110, 350, "abort"), Decision(401, 402, "commit")],
        [Seen(160, 340, 370)],
        ["abort"],
    ),
    "the first has other partitions": (
        [
            Decision(100, 170, "commit", partitions=("orders-1",)),
            Decision(100, 175, "abort", partitions=("orders-0",)),
        ],
        [Seen(130, 160, 190)],
        [None],
    ),
    "the next has other partitions": (
        [
            Decision(100, 170, "commit", partitions=("orders-0",)),
            Decision(171, 175, "abort", partitions=("orders-1",)),
        ],
        [Seen(130, 160, 190)],
        ["commit"],
    ),
    "its start is before the log": ([Decision(None, 170, "commit")], [Seen(130, 160, 190)], ["commit"]),
    "open to the end": ([Decision(100, 170, "abort")], [Seen(130, 160, None)], ["abort"]),
    "clocks differ a little": ([Decision(100, 159.5, "abort")], [Seen(130, 160, 190)], ["abort"]),
    "decided before it was seen": ([Decision(100, 158.5, "abort")], [Seen(130, 160, 190)], [None]),
    "nothing in the log": ([], [Seen(130, 160, 190)], [None]),
}
"""Decisions of a producer, its transactions, and their outcomes."""


def test_an_outcome_is_that_of_a_transaction_if_no_other_can_be(spark: SparkSession) -> None:
    """Null otherwise: a wrong outcome is worse than none. Each case is a producer of its own, for one job of Spark."""
    numbered = list(enumerate(CASES.values()))
    rows = [seen(producer_id, at, row) for producer_id, case in numbered for at, row in enumerate(case[1])]
    decisions = [decided(producer_id, decision) for producer_id, case in numbered for decision in case[0]]
    joined = with_outcomes(
        frame(spark, schemas.TRANSACTIONS, rows), frame(spark, schemas.OUTCOMES, decisions)
    ).persist()

    ordered = joined.orderBy("producer_id", joined["partitions"][0]["start_offset"]).collect()
    found: dict[str, list[str | None]] = {name: [] for name in CASES}
    for row in ordered:
        found[list(CASES)[row["producer_id"]]].append(row["outcome"])
    assert found == {name: outcomes for name, (_, _, outcomes) in CASES.items()}
    assert schemas.with_schema(joined, schemas.TRANSACTIONS).count() == len(rows)
    assert all((row["outcome"] is None) >= (row["exact_duration_ms"] is None) or row["started_at"] for row in ordered)
