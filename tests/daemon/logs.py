"""Stand-ins of the transaction log, which give scripted batches, for the daemon's reader of it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, cast

from exporter.kafka.log_progress import LogRecord
from exporter.kafka.state_log import LogPart, StateLog
from tests.transaction_log.builders import key_of, value


def commits(partition: int, offset: int, number: int) -> list[LogRecord]:
    """So many commits of one id, three records each, from an offset of a partition of the log on."""
    records = []
    for begun in range(number):
        for step, status in enumerate((1, 2, 4)):
            at = offset + 3 * begun + step
            records.append(LogRecord(partition, at, 1000 + at, key_of(f"id-{partition}"), value(status, 1000 + begun)))
    return records


class Log:
    """Gives its scripted batches one by one, then nothing; `ends` are known from the first one on."""

    def __init__(self, batches: Iterable[LogPart | Exception], ends: Mapping[int, int], **opened: Any) -> None:
        self.batches = list(batches)
        self.opened = opened
        self.positions: dict[int, int] = dict(opened.get("positions", {}))
        self.partitions = tuple(ends)
        self.cluster_id = "cluster-1"
        self.failures: dict[int, str] = {}
        self.failure: str | None = None
        self.ends: Mapping[int, int] = {}
        self.closed = threading.Event()
        self._reported = dict(ends)
        self.drained = threading.Event()

    def read(self, _timeout_s: float) -> LogPart:
        if not self.batches:
            self.drained.set()
            self.closed.wait(0.01)
            return LogPart(())
        self.ends = self._reported
        batch = self.batches.pop(0)
        if isinstance(batch, Exception):
            raise batch
        for record in batch.records:
            self.positions[record.partition] = record.offset + 1
        return batch

    def close(self) -> None:
        self.closed.set()


class Logs:
    """One log after another, as the reader opens them."""

    def __init__(self, *logs: Log | Exception) -> None:
        self._logs = list(logs)
        self.opened: list[dict[str, Any]] = []

    def __call__(self, _kafka: object, **opened: Any) -> StateLog:
        self.opened.append({**opened, "positions": dict(opened["positions"])})
        log = self._logs.pop(0)
        if isinstance(log, Exception):
            raise log
        log.positions.update(opened["positions"])
        return cast("StateLog", log)
