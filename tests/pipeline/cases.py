"""Histories written as YAML, and the expected tables: one folder of tests/pipeline/cases for each case.

Instants are seconds after midnight of 2026-11-01, UTC. `history.yaml` is a list of files, each with its cycles; a cycle has
`at`, what is `open` and what is `unread`; an open row is completed from ROW. Each case is a cluster of its own, named after
its folder, so that all of them are one history.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from exporter.evaluation.field_types import ColumnType
from exporter.history.schema import (
    CYCLE_COLUMNS,
    CYCLES,
    OBSERVATION_COLUMNS,
    OBSERVATIONS,
    VERSION,
    folder_of_cluster,
)
from exporter.history.writer import arrow_schema

FOLDER: Final = Path(__file__).parent / "cases"
BEGIN_MS: Final = 1_793_491_200_000
NOW_MS: Final = BEGIN_MS + 30 * 86_400_000
"""The pipeline's clock: after all cases."""
EMPTY: Final = {
    ColumnType.TEXT: "",
    ColumnType.INTEGER: 0,
    ColumnType.LONG: 0,
    ColumnType.FLAG: False,
    ColumnType.INSTANT: 0,
    ColumnType.TEXTS: [],
}
ROW: Final = {
    **{column.name: EMPTY[column.kind] for column in OBSERVATION_COLUMNS if not column.nullable},
    "topic": "orders",
    "producer_id": 7,
    "start_offset": 100,
    "start_source": "coordinator",
    "verdict": "open_within_timeout",
    "transactional_id": "app-1",
}
CYCLE: Final = {
    **{column.name: EMPTY[column.kind] for column in CYCLE_COLUMNS if not column.nullable},
    "interval_ms": 30_000,
    "exporter_version": "0",
    "is_complete": True,
    "partitions_read": 10,
    "max_timeout_ms": 900_000,
}


@functools.cache
def case(name: str) -> Mapping[str, Any]:
    """The content of its files, `history` and `expected`."""
    return {path.stem: yaml.safe_load(path.read_text()) for path in (FOLDER / name).glob("*.yaml")}


def names() -> tuple[str, ...]:
    """Of every case."""
    return tuple(sorted(path.name for path in FOLDER.iterdir() if path.is_dir()))


def write_case(name: str, directory: Path, *, late: bool = False) -> None:
    """Its files; those marked `late: true` only when `late` is asked for, and then they alone."""
    for number, file in enumerate(case(name)["history"]):
        if file.get("late", False) is late:
            write_file(directory, name, f"writer{number}", file["cycles"], copies=file.get("copies", 1))


def write_file(
    directory: Path, cluster_id: str, writer: str, cycles: Iterable[Mapping[str, Any]], *, copies: int = 1
) -> None:
    """One file of each table, as the daemon writes them."""
    cycles = [{"open": [], "unread": [], **cycle} for cycle in cycles]
    instants = [milliseconds(cycle["at"]) for cycle in cycles]
    observations = [_observation(row, milliseconds(cycle["at"])) for cycle in cycles for row in cycle["open"]]
    covered = [
        {
            **CYCLE,
            "taken_at": milliseconds(cycle["at"]),
            "finished_at": milliseconds(cycle["at"]) + 1_000,
            "writer": writer,
            "open_transactions": len(cycle["open"]),
            "interval_ms": cycle.get("interval_ms", CYCLE["interval_ms"]),
            "unread": cycle["unread"],
            "partitions_unread": len(cycle["unread"]),
        }
        for cycle in cycles
    ]
    day = datetime.fromtimestamp(instants[0] / 1000, timezone.utc).strftime("%Y-%m-%d")
    for table, columns, rows in ((OBSERVATIONS, OBSERVATION_COLUMNS, observations), (CYCLES, CYCLE_COLUMNS, covered)):
        folder = directory / VERSION / table / folder_of_cluster(cluster_id) / f"date={day}"
        folder.mkdir(parents=True, exist_ok=True)
        for copy in range(copies):
            end = f"copy{copy}" if copy else ""
            path = folder / f"{min(instants)}-{max(instants)}-{writer}{end}.parquet"
            pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema(columns)), path)


def milliseconds(seconds: float) -> int:
    """Since the epoch, of an instant as the cases have it."""
    return BEGIN_MS + round(seconds * 1000)


def instant(at: float) -> datetime:
    """As Spark hands it out: local time without a zone."""
    return datetime.fromtimestamp(milliseconds(at) / 1000)  # noqa: DTZ006


def seconds(instant: datetime | None) -> int | None:
    """The way back. Spark hands out local time without a zone."""
    return None if instant is None else round(instant.astimezone(timezone.utc).timestamp() - BEGIN_MS / 1000)


def _observation(row: Mapping[str, Any], taken_at_ms: int) -> dict[str, Any]:
    completed = {**ROW, **row}
    started_at_ms = milliseconds(completed.pop("started", 0))
    return {
        **completed,
        "taken_at": taken_at_ms,
        "started_at": started_at_ms,
        "duration_ms": taken_at_ms - started_at_ms,
    }
