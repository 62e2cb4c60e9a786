"""A history of many rows, as the daemon writes one: for the benchmark of the pipeline.

Producers run one transaction after the other, each of 1 to 5 cycles on two partitions, with a cycle of rest now and then; a
few ids are slow. Made by numpy from a fixed seed, so that every contestant and every run reads the same rows.
"""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from exporter.history.schema import CYCLE_COLUMNS, CYCLES, OBSERVATION_COLUMNS, OBSERVATIONS, VERSION
from exporter.history.writer import arrow_schema
from tests.pipeline.cases import EMPTY

BEGIN_MS: Final = 1_788_220_800_000  # 2026-09-01, midnight: what 100 million rows end with is in the past
CYCLE_MS: Final = 30_000
CYCLES_A_FILE: Final = 30
PARTITIONS_OF_A_TRANSACTION: Final = 2
"""Partitions that each transaction writes to."""
PRODUCERS: Final = 580
CLUSTER_ID: Final = "benchmark"
FLEET_CLUSTERS: Final = 220
FLEET_PRODUCERS: Final = 5
FLEET_ROWS: Final = 530
"""Of each of its clusters."""
TOPICS: Final = pa.array([f"orders-{number:02d}" for number in range(20)])

Numbers = npt.NDArray[np.int64]


class Workload:
    """What is open, cycle by cycle."""

    def __init__(self, producers: int = PRODUCERS, *, seed: int = 7) -> None:
        self._random = np.random.default_rng(seed)
        self._producers = producers
        self._left: Numbers = np.zeros(producers, dtype=np.int64)
        self._started_ms: Numbers = np.zeros(producers, dtype=np.int64)
        self._offset: Numbers = np.zeros(producers, dtype=np.int64)
        self._cycles = 0

    def cycle(self, at_ms: int) -> dict[str, Numbers]:
        """The rows of one cycle, by column; a negative rest is a producer that has nothing open."""
        begins = self._left == 0
        count = int(begins.sum())
        self._left[begins] = self._random.integers(1, 6, count) * np.where(self._random.random(count) < 0.2, -1, 1)
        self._left[begins & (self._left < 0)] = -1
        fresh = begins & (self._left > 0)
        self._started_ms[fresh] = at_ms - self._random.integers(0, CYCLE_MS, int(fresh.sum()))
        # As in Kafka they grow on each partition; else the pipeline searches for older transactions.
        self._offset[fresh] = self._cycles * self._producers + np.nonzero(fresh)[0]
        self._cycles += 1
        (open_,) = np.nonzero(self._left > 0)
        self._left -= np.sign(self._left)
        producer = np.repeat(open_, PARTITIONS_OF_A_TRANSACTION)
        number = np.tile(np.arange(PARTITIONS_OF_A_TRANSACTION), len(open_))
        return {
            "taken_at": np.full(len(producer), at_ms),
            "which": producer,
            "topic": (producer + number) % len(TOPICS),
            "partition": producer // len(TOPICS) % 12,
            "start_offset": self._offset[producer],
            "started_at": self._started_ms[producer],
            "duration_ms": at_ms - self._started_ms[producer],
            "idle_ms": self._random.integers(0, 5_000, len(producer)),
        }


def write_fleet(directory: Path) -> int:
    """Small clusters with a file for every few cycles; returns the number of observations."""
    written = 0
    for number in range(FLEET_CLUSTERS):
        workload = Workload(FLEET_PRODUCERS, seed=number)
        written += write(directory, FLEET_ROWS, workload=workload, cluster_id=f"cluster-{number:03d}", cycles=5)[0]
    return written


def write(
    directory: Path,
    rows: int,
    *,
    first_cycle: int = 0,
    workload: Workload | None = None,
    cluster_id: str = CLUSTER_ID,
    cycles: int = CYCLES_A_FILE,
) -> tuple[int, int]:
    """Files with at least `rows` observations; how many there are, and the number of the next cycle."""
    workload = workload or Workload()
    written, cycle = 0, first_cycle
    while written < rows:
        instants = [BEGIN_MS + CYCLE_MS * (cycle + number) for number in range(cycles)]
        parts = [workload.cycle(at_ms) for at_ms in instants]
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        observations, covered = _observations(columns), _cycles(instants, [len(part["which"]) for part in parts])
        for table, content in ((OBSERVATIONS, observations), (CYCLES, covered)):
            _write(directory / VERSION / table / f"cluster_id={cluster_id}", instants, content)
        written += len(observations)
        cycle += cycles
    return written, cycle


def _write(directory: Path, instants: list[int], content: pa.Table) -> None:
    day = datetime.fromtimestamp(instants[0] / 1000, timezone.utc).strftime("%Y-%m-%d")
    folder = directory / f"date={day}"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(content, folder / f"{instants[0]}-{instants[-1]}-benchmark.parquet", compression="zstd")


def _observations(columns: dict[str, Numbers]) -> pa.Table:
    count = len(columns["which"])
    ids = pa.array([f"application-{number:05d}" for number in range(int(columns["which"].max()) + 1)])
    given: dict[str, Any] = {
        **{name: columns[name] for name in ("taken_at", "partition", "start_offset", "started_at")},
        **{name: columns[name] for name in ("duration_ms", "idle_ms")},
        "topic": TOPICS.take(pa.array(columns["topic"])),
        "producer_id": columns["which"] + 1_000,
        "start_source": pa.repeat("coordinator", count),
        "verdict": pa.repeat("open_within_timeout", count),
        "transactional_id": ids.take(pa.array(columns["which"])),
        "coordinator_state": pa.repeat("Ongoing", count),
        "timeout_ms": np.full(count, 60_000),
        "last_stable_offset_lag": np.full(count, 10),
        "groups": pa.ListArray.from_arrays(np.zeros(count + 1, dtype=np.int32), pa.array([], pa.string())),
    }
    return _table(OBSERVATION_COLUMNS, given, count)


def _cycles(instants: list[int], open_transactions: list[int]) -> pa.Table:
    given: dict[str, Any] = {
        "taken_at": instants,
        "finished_at": [instant + 1_000 for instant in instants],
        "writer": ["benchmark"] * len(instants),
        "exporter_version": ["0"] * len(instants),
        "is_complete": [True] * len(instants),
        "open_transactions": open_transactions,
        "interval_ms": [CYCLE_MS] * len(instants),
        "partitions_read": [240] * len(instants),
        "max_timeout_ms": [900_000] * len(instants),
    }
    return _table(CYCLE_COLUMNS, given, len(instants))


def _table(columns: Any, given: dict[str, Any], count: int) -> pa.Table:
    schema = arrow_schema(columns)
    arrays = [
        given[field.name].cast(field.type)
        if isinstance(given.get(field.name), pa.Array)
        else pa.array(
            given[column.name] if column.name in given else [None if column.nullable else EMPTY[column.kind]] * count,
            field.type,
        )
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
