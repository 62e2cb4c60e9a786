"""Records every cycle as Parquet, on a disk or in an object store: rotated, removed by age and size.

Errors and delays of the storage do not affect cycles: rows wait in memory, up to a limit, and a separate thread writes
them. A reader sees only complete files, and a kill loses at most the waiting rows.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from exporter import __version__
from exporter.config.settings import HistorySettings
from exporter.evaluation.field_types import ColumnType, Output
from exporter.evaluation.fields import fields_of
from exporter.evaluation.remembering import partition_rows
from exporter.evaluation.table import column
from exporter.evaluation.verdicts import Evaluation
from exporter.history.schema import (
    CYCLES,
    OBSERVATIONS,
    PARTITIONS_BY_ANSWER,
    TABLES,
    TEMPORARY,
    VERSION,
    Column,
    day_of,
    file_name,
    folder_of_cluster,
    instants_of,
)
from exporter.history.trusted_clock import TrustedClock
from exporter.log_format import LatestState
from exporter.snapshot import ClockSource, PartitionResult, TransactionKey
from exporter.status import HistoryStatus
from exporter.storage.faults import StoreError
from exporter.storage.places import Place, atomic_write, place_of

log = logging.getLogger("exporter")

WAITING_BYTES_MAX = 256_000_000
"""Maximum in memory. Beyond that the oldest cycles are dropped, and counted."""
CYCLE_BYTES = 25_000
"""Bytes of two tables without rows."""
ROTATE_ROWS = 100_000
"""A file is written before its time when this many observations wait, or half of the bytes."""
WRITE_AGAIN_SECONDS = 60.0
WRITE_ENDS_SECONDS = 300.0
"""A write that takes longer is a failure: a disk or mount that does not respond gives no error."""
END_SECONDS = 5.0
_STALE_TEMPORARY_SECONDS = 24 * 60 * 60
_DAY_MS = 24 * 60 * 60 * 1000
_TYPES = {
    ColumnType.TEXT: pa.string(),
    ColumnType.INTEGER: pa.int32(),
    ColumnType.LONG: pa.int64(),
    ColumnType.FLAG: pa.bool_(),
    ColumnType.INSTANT: pa.timestamp("ms", tz="UTC"),
    ColumnType.TEXTS: pa.list_(pa.field("element", pa.string(), nullable=False)),
}


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    return pa.schema([pa.field(column.name, _TYPES[column.kind], nullable=column.nullable) for column in columns])


_SCHEMAS = {table: arrow_schema(columns) for table, columns in TABLES.items()}


@dataclass(frozen=True, slots=True)
class _Cycle:
    cluster_id: str
    taken_at_ms: int
    observations: pa.Table
    cycle: pa.Table
    size_bytes: int

    @property
    def rows(self) -> int:
        """Observations; a cycle without any is counted as one."""
        return max(len(self.observations), 1)


class History:
    """Writes the history. `record` and `status` may be called from any thread, and never wait for the storage."""

    def __init__(
        self,
        settings: HistorySettings,
        *,
        wall_clock: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        writer: str | None = None,
    ) -> None:
        """`writer` distinguishes the files of several processes in one directory."""
        self._settings = settings
        self._root = place_of(settings.directory or ".") / VERSION
        self._unsure: list[_Cycle] = []
        """Cycles of files that may exist although writing them has failed: they are written again under their name."""
        self._wall_clock = wall_clock
        self._clock = clock
        self._writer = writer or uuid.uuid4().hex[:12]
        self._condition = threading.Condition()
        self._waiting: deque[_Cycle] = deque()
        self._waiting_rows = self._waiting_bytes = 0
        self._due_at = clock() + settings.rotate_interval_ms / 1000
        self._is_ending = False
        self._rows = self._rows_lost = self._bytes = 0
        self._newest_ms: int | None = None
        self._failure: str | None = None
        self._said = LatestState()
        self._writes_since: float | None = None
        self._trusted: TrustedClock | None = None
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)

    def start(self) -> None:
        """Starts the writing thread."""
        self._thread.start()

    def record(
        self,
        evaluation: Evaluation,
        interval_ms: int,
        cluster_name: str | None = None,
        causes: Mapping[TransactionKey, str] = MappingProxyType({}),
    ) -> None:
        """Adds one cycle of a cluster with this interval to the next file, and the known causes of its hangs."""
        cycle = _cycle(evaluation, interval_ms, self._writer, cluster_name, causes)
        with self._condition:
            self._waiting.append(cycle)
            self._waiting_rows += cycle.rows
            self._waiting_bytes += cycle.size_bytes
            while self._waiting_bytes > WAITING_BYTES_MAX:
                lost = self._waiting.popleft()
                self._waiting_rows -= lost.rows
                self._waiting_bytes -= lost.size_bytes
                self._rows_lost += lost.rows
            is_much = self._waiting_rows >= ROTATE_ROWS or self._waiting_bytes >= WAITING_BYTES_MAX // 2
            if is_much and self._failure is None:
                self._due_at = self._clock()
            self._condition.notify()

    def status(self) -> HistoryStatus:
        with self._condition:
            failure = self._failure
            if self._writes_since is not None and self._clock() - self._writes_since > WRITE_ENDS_SECONDS:
                failure = f"{self._settings.directory}: does not respond"
            return HistoryStatus(
                rows=self._rows,
                rows_waiting=self._waiting_rows,
                rows_lost=self._rows_lost,
                size_bytes=self._bytes,
                newest_ms=self._newest_ms,
                failure=failure,
            )

    def close(self) -> None:
        """Writes the waiting rows, within a few seconds, and stops."""
        with self._condition:
            self._is_ending = True
            self._condition.notify()
        if self._thread.is_alive():
            self._thread.join(END_SECONDS)

    def rotate(self) -> None:
        """Writes the waiting rows now, and applies the limits. `status` has an error, and the write is retried later."""
        with self._condition:
            cycles = tuple(self._waiting)
            self._writes_since = self._clock()
        try:
            self._tidy_up()
            for part in self._parts(cycles):
                self._unsure = part
                self._write(part)
                self._forget(part)
            self._unsure = []
            undeleted = self._tidy_up()
        except Exception as error:  # noqa: BLE001 - the thread lives, and the rows wait
            why = getattr(error, "strerror", None) or error
            self._failed(str(error) if isinstance(error, StoreError) else f"{self._settings.directory}: {why}")
        else:
            self._failed(undeleted)

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._is_ending and self._clock() < self._due_at:
                    self._condition.wait(max(self._due_at - self._clock(), 0.001))
                is_ending = self._is_ending
            self.rotate()
            if is_ending:
                return
            wait_s = self._settings.rotate_interval_ms / 1000
            with self._condition:
                self._due_at = self._clock() + (wait_s if self._failure is None else min(wait_s, WRITE_AGAIN_SECONDS))

    def _forget(self, cycles: Iterable[_Cycle]) -> None:
        """Forgets rows that are on disk."""
        written = {id(cycle) for cycle in cycles}
        with self._condition:
            gone = [cycle for cycle in self._waiting if id(cycle) in written]
            self._waiting = deque(cycle for cycle in self._waiting if id(cycle) not in written)
            self._waiting_rows -= sum(cycle.rows for cycle in gone)
            self._waiting_bytes -= sum(cycle.size_bytes for cycle in gone)
            self._rows += sum(len(cycle.observations) for cycle in gone)
            instants = (self._newest_ms, *(cycle.taken_at_ms for cycle in gone))
            self._newest_ms = max(filter(None, instants), default=None)
            self._writes_since = self._clock()

    def _parts(self, cycles: Iterable[_Cycle]) -> Iterable[list[_Cycle]]:
        """Returns the cycles of each file."""
        unsure = {id(cycle) for cycle in self._unsure}
        parts: dict[tuple[bool, str, str], list[_Cycle]] = defaultdict(list)
        for cycle in cycles:
            parts[id(cycle) not in unsure, cycle.cluster_id, day_of(cycle.taken_at_ms)].append(cycle)
        return parts.values()

    def _write(self, cycles: list[_Cycle]) -> None:
        cluster_id, day = cycles[0].cluster_id, day_of(cycles[0].taken_at_ms)
        first, last = min(cycle.taken_at_ms for cycle in cycles), max(cycle.taken_at_ms for cycle in cycles)
        name = file_name(first, last, self._writer)
        # The order matters: a cycle without its observations would close all transactions.
        for table, parts in (
            (OBSERVATIONS, [cycle.observations for cycle in cycles]),
            (CYCLES, [cycle.cycle for cycle in cycles]),
        ):
            folder = self._root / table / folder_of_cluster(cluster_id) / f"date={day}"
            with atomic_write(folder / name, beside=f"{TEMPORARY}{name}") as file:
                pq.write_table(pa.concat_tables(parts), file, compression="zstd")

    def _tidy_up(self) -> str | None:
        """Removes old files, and the oldest ones beyond the size limit; counts the rest.

        Returns why one could not be removed.
        """
        files = sorted(self._files_with_their_end(), key=lambda file: file[1])
        now_ms, monotonic_ms = self._wall_clock() * 1000, self._clock() * 1000
        if self._trusted is None:
            newest_ms = files[-1][1] if files else None
            self._trusted = TrustedClock(newest_ms=newest_ms, wall_ms=now_ms, monotonic_ms=monotonic_ms)
        trusted_ms = self._trusted.read(wall_ms=now_ms, monotonic_ms=monotonic_ms)
        undeleted = None
        total = sum(size for _, _, size in files)
        for path, last_ms, size in files:
            if last_ms >= trusted_ms - self._settings.retention_age_ms and total <= self._settings.retention_bytes:
                break
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                undeleted = f"{path} cannot be removed: {error.strerror or error}"
                continue
            if path.parent.name < f"date={day_of(int(trusted_ms) - _DAY_MS)}":  # nobody writes there any more
                with suppress(OSError):  # it may hold other files
                    path.parent.rmdir()
            total -= size
        with self._condition:
            self._bytes = total
        if not isinstance(self._root, Path):
            return undeleted  # an object has no name of its own while it is written
        for path in self._root.glob(f"*/*/*/{TEMPORARY}*"):
            with suppress(OSError):
                if now_ms / 1000 - path.stat().st_mtime > _STALE_TEMPORARY_SECONDS:
                    path.unlink()
        return undeleted

    def _files_with_their_end(self) -> Iterable[tuple[Place, int, int]]:
        """(file, instant of its last cycle in ms, bytes) of files with names of the history."""
        for path in self._root.glob("*/cluster_id=*/date=*/*.parquet"):
            instants = instants_of(path.name)
            with suppress(OSError):
                if instants is not None:
                    yield path, instants[1], path.stat().st_size

    def _failed(self, sentence: str | None) -> None:
        with self._condition:
            self._failure = sentence
            self._writes_since = None
        if not self._said.is_new(sentence):
            return
        if sentence is not None:
            log.error("history cannot be written: %s", sentence, extra={"subject": "history"})
        else:
            log.info("history is written again", extra={"subject": "history"})


def _cycle(
    evaluation: Evaluation,
    interval_ms: int,
    writer: str,
    cluster_name: str | None,
    causes: Mapping[TransactionKey, str],
) -> _Cycle:
    snapshot = evaluation.snapshot
    observations = _table(OBSERVATIONS, _observations(evaluation, causes))
    cycle = _table(CYCLES, _coverage(evaluation, interval_ms, writer, cluster_name))
    size_bytes = observations.nbytes + cycle.nbytes + CYCLE_BYTES
    return _Cycle(snapshot.cluster_id, snapshot.taken_at_ms, observations, cycle, size_bytes)


def _table(name: str, columns: dict[str, Any]) -> pa.Table:
    schema = _SCHEMAS[name]
    return pa.table([pa.array(columns[field.name], type=field.type) for field in schema], schema=schema)


def _observations(evaluation: Evaluation, causes: Mapping[TransactionKey, str]) -> dict[str, Any]:
    suspects = {row.key: row for row in evaluation.suspects}
    with_blocking = suspects | {row.key: row for row in evaluation.blocking}
    columns: dict[str, Any] = {
        "taken_at": np.full(len(evaluation.evidence), evaluation.snapshot.taken_at_ms, dtype=np.int64),
        "cause": [causes.get(evidence.key) for evidence in evaluation.evidence],
    }
    for field in fields_of(Output.HISTORY):
        if field.of_suspects_only:
            those = with_blocking if field.has_blocking else suspects
            rows = [those.get(evidence.key) for evidence in evaluation.evidence]
            values: Any = [None if row is None else getattr(row, field.name) for row in rows]
        else:
            values = column(evaluation, field.name)
        convert = field.conversion(Output.HISTORY)
        columns[field.name_in(Output.HISTORY)] = values if convert is None else list(map(convert, values))
    return columns


def _coverage(evaluation: Evaluation, interval_ms: int, writer: str, cluster_name: str | None) -> dict[str, Any]:
    snapshot = evaluation.snapshot
    count = int(np.count_nonzero(snapshot.partitions.is_unread))
    is_unread = ~snapshot.partitions.is_covered
    # Excluded partitions, and those with transactions that were not examined, have no observations: without this their
    # transactions would look closed.
    open_ = snapshot.open_transactions
    is_unread[open_.partition_row[open_.examined_count :]] = True
    rows = np.flatnonzero(is_unread).tolist()
    # So would those of partitions that are not visible any more, and may be open there.
    remembered = evaluation.memory.transactions.identity
    is_hidden = partition_rows(snapshot.partitions, remembered) < 0
    hidden = {key[:2] for key in remembered.those(is_hidden).rows()}
    unread = [f"{topic}-{partition}" for topic, partition in (*map(snapshot.partitions.name, rows), *sorted(hidden))]
    return {
        "taken_at": [snapshot.taken_at_ms],
        "finished_at": [snapshot.finished_at_ms],
        "interval_ms": [interval_ms],
        "writer": [writer],
        "exporter_version": [__version__],
        "open_transactions": [evaluation.open_count],
        "partitions_read": [snapshot.partitions.covered_count],
        "partitions_unread": [count],
        "unread": [unread],
        "brokers_failed": [sum(broker.failure is not None for broker in snapshot.brokers)],
        "coordinators_failed": [sum(coordinator.failure is not None for coordinator in snapshot.coordinators)],
        "is_complete": [bool(snapshot.is_complete)],
        "max_timeout_ms": [evaluation.max_timeout_ms],
        "cluster_name": [cluster_name],
        "clock_offset_ms": [snapshot.clock_offset_ms if snapshot.clock_source is ClockSource.CONTROLLER else None],
        **{
            f"partitions_{answer}": [snapshot.partitions.count_of(PartitionResult[answer.upper()])]
            for answer in PARTITIONS_BY_ANSWER
        },
    }
