"""Which outcome of the transaction log is that of a transaction: by its exact start, or as the only one that fits."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from exporter.pipeline import schemas
from exporter.pipeline.matching import with_outcomes
from exporter.pipeline.transaction_log import OUTCOMES


class Decision(NamedTuple):
    """Of producer 7, in seconds."""

    start: float | None
    decided: float
    outcome: str
    epoch: int = 0
    partitions: tuple[str, ...] = ()


class Seen(NamedTuple):
    """Of producer 7 on orders-0, in seconds; its exact start is `start`."""

    first: float
    last: float
    closed: float | None
    start: float | None = None
    epoch: int = 0


def at(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)


def decided(decision: Decision) -> dict[str, Any]:
    start_ms = None if decision.start is None else round(decision.start * 1000)
    decided_ms = round(decision.decided * 1000)
    return {
        "cluster_id": "c",
        "producer_id": 7,
        "producer_epoch": decision.epoch,
        "outcome": decision.outcome,
        "start_ms": start_ms,
        "decided_ms": decided_ms,
        "duration_ms": None if start_ms is None else decided_ms - start_ms,
        "partitions": list(decision.partitions),
    }


def seen(number: int, row: Seen) -> dict[str, Any]:
    place = {"topic": "orders", "partition": 0, "start_offset": number, "verdicts": [], "groups": []}
    return {
        "cluster_id": "c",
        "producer_id": 7,
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


@pytest.mark.parametrize(
    ("decisions", "rows", "outcomes"),
    [
        pytest.param(
            [Decision(100, 140, "commit"), Decision(141, 180, "abort")],
            [Seen(130, 130, 160, start=100), Seen(160, 160, 190, start=141), Seen(160, 160, 190, start=142)],
            ["commit", "abort", None],
            id="exact starts, and one that the log does not have",
        ),
        pytest.param([Decision(100, 170, "timeout")], [Seen(130, 160, 190)], ["timeout"], id="the only one"),
        pytest.param(
            [Decision(100, 101, "commit", 1), Decision(130, 131, "abort", 2), Decision(131, 132, "commit", 3)],
            [Seen(130, 130, 160, epoch=2), Seen(131, 131, 160, epoch=3), Seen(131, 131, 160, epoch=4)],
            ["abort", "commit", None],
            id="an epoch for each transaction, as with transaction.version 2",
        ),
        pytest.param(QUICK, [Seen(130, 130, 160)], [None], id="many in a cycle at one epoch"),
        pytest.param(
            [*QUICK[:3], Decision(110, 401, "abort"), Decision(401, 402, "commit")],
            [Seen(160, 340, 370)],
            [None],
            id="decided long after it was gone",
        ),
        pytest.param(
            [*QUICK[:3], Decision(110, 350, "abort"), Decision(401, 402, "commit")],
            [Seen(160, 340, 370)],
            ["abort"],
            id="one that lasted, after quick ones and before others",
        ),
        pytest.param(
            [
                Decision(100, 170, "commit", partitions=("orders-1",)),
                Decision(100, 175, "abort", partitions=("orders-0",)),
            ],
            [Seen(130, 160, 190)],
            [None],
            id="the first has other partitions",
        ),
        pytest.param(
            [
                Decision(100, 170, "commit", partitions=("orders-0",)),
                Decision(171, 175, "abort", partitions=("orders-1",)),
            ],
            [Seen(130, 160, 190)],
            ["commit"],
            id="the next has other partitions",
        ),
        pytest.param(
            [Decision(None, 170, "commit")], [Seen(130, 160, 190)], ["commit"], id="its start is before the log"
        ),
        pytest.param([Decision(100, 170, "abort")], [Seen(130, 160, None)], ["abort"], id="open to the end"),
        pytest.param([Decision(100, 159.5, "abort")], [Seen(130, 160, 190)], ["abort"], id="clocks differ a little"),
        pytest.param([Decision(100, 158.5, "abort")], [Seen(130, 160, 190)], [None], id="decided before it was seen"),
        pytest.param([], [Seen(130, 160, 190)], [None], id="nothing in the log"),
    ],
)
def test_an_outcome_is_that_of_a_transaction_if_no_other_can_be(
    spark: SparkSession, decisions: list[Decision], rows: list[Seen], outcomes: list[str | None]
) -> None:
    """Null otherwise: a wrong outcome is worse than none."""
    transactions = frame(spark, schemas.TRANSACTIONS, [seen(number, row) for number, row in enumerate(rows)])
    joined = with_outcomes(transactions, frame(spark, OUTCOMES, [decided(decision) for decision in decisions]))

    ordered = joined.orderBy(joined["partitions"][0]["start_offset"]).collect()
    assert [row["outcome"] for row in ordered] == outcomes
    assert schemas.shaped(joined, schemas.TRANSACTIONS).count() == len(rows)
    assert all((row["outcome"] is None) >= (row["exact_duration_ms"] is None) or row["started_at"] for row in ordered)
