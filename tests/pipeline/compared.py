"""The tables of a pipeline as the oracle has them, and where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable

from exporter.pipeline.delta import Table
from exporter.pipeline.tables import Tables
from tests.pipeline import oracle
from tests.pipeline.worlds import write_world

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
OUTCOME: Final = ("outcome", "exact_duration_ms", "marker_ms", "log_read_to")


def whole_history(seeds: Iterable[int], folder: Path) -> Path:
    """All in one history, so that a run of Spark serves many."""
    for seed in seeds:
        write_world(seed, folder)
    return folder


def rows_of(table: Table) -> list[dict[str, Any]]:
    """Reads the rows without Spark, with instants in milliseconds."""
    found: list[dict[str, Any]] = in_milliseconds(pa.table(DeltaTable(str(table.folder)).scan().read_all()).to_pylist())
    return found


def in_milliseconds(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: in_milliseconds(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return list(map(in_milliseconds, value))
    return oracle.milliseconds(value) if isinstance(value, datetime) else value


def transactions(made: Tables) -> Rows:
    """Returns the transactions of each cluster, as the oracle has them."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows_of(made.transactions):
        was_suspect, _, _ = (row.pop(name) for name in made.transactions.parts)
        assert was_suspect == any(map(oracle.is_suspect, row["verdicts"]))
        assert [row.pop(name) for name in OUTCOME] == [None] * len(OUTCOME)
        found.setdefault(row["cluster_id"], []).append(row)
    for rows in found.values():
        rows.sort(key=lambda row: (row["producer_id"], row["started_at"], oracle.order(row["partitions"][0])))
    return found


def differing(found: Rows, expected: Rows) -> list[str]:
    """Clusters, and their first rows that differ."""
    return [
        f"{name}: {len(found.get(name, ()))} rows, {len(expected.get(name, ()))} expected\n  "
        + "\n  ".join(map(str, next(_pairs(found.get(name, ()), expected.get(name, ())), ())))
        for name in sorted({*found, *expected})
        if found.get(name) != expected.get(name)
    ]


def _pairs(found: Sequence[Any], expected: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Yields the producer id and the columns that differ, for each pair of rows that differ."""
    for one, other in zip(found, expected, strict=False):
        if one != other:
            yield one["producer_id"], *((key, one[key], other[key]) for key in other if one.get(key) != other[key])


def hours(made: Tables) -> tuple[Any, Any]:
    """Returns coverage and stalls, as the oracle has them."""
    known = ("cluster_id", "hour", "writer", "cycles", "interval_ms", "cycles_incomplete")
    names = (*known, "partitions_read_min", "partitions_unread_max", "unwatched_ms")
    coverage = [{name: row[name] for name in names} for row in rows_of(made.coverage)]
    stalls = [{name: value for name, value in row.items() if name != "date"} for row in rows_of(made.stalls)]
    return sorted(coverage, key=lambda row: (row["cluster_id"], row["hour"], row["writer"])), sorted(
        stalls, key=oracle.order_of_stall
    )


def incidents(made: Tables) -> list[dict[str, Any]]:
    found = [{key: value for key, value in row.items() if key != "incident"} for row in rows_of(made.incidents)]
    return sorted(found, key=lambda row: (row["cluster_id"], row["started_at"]))
