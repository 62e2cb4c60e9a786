"""Runs on an executor of Spark: reads a cluster, over connections that the executor keeps.

Spark reuses its Python processes, and each of them runs one task at a time.
"""

from __future__ import annotations

import copyreg
import pickle
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyspark import cloudpickle

from exporter.config.kafka_section import KafkaSettings
from exporter.config.settings import ScanSettings
from exporter.files import signature
from exporter.kafka.collect.collector import Collector
from exporter.snapshot import UNKNOWN_CLUSTER, ClusterIdentity
from exporter.status import ApiStatistics, since

IDLE_SECONDS_MAX = 600.0

# pickle cannot do this by itself, and the memory of an evaluation holds such mappings.
copyreg.pickle(MappingProxyType, lambda proxy: (MappingProxyType, (dict(proxy),)))


def _boot_id() -> str:
    """Returns the id of the machine's running system: processes with the same one have one monotonic clock."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:  # not Linux
        return uuid.uuid4().hex


BOOT_ID = _boot_id()


class Clients:
    """The clients of one process, by the settings that they were made from, and by the state of the files of these."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._clients: dict[object, tuple[Collector, float]] = {}

    def of(
        self,
        kafka: KafkaSettings,
        scan: ScanSettings,
        *,
        recalled: tuple[ClusterIdentity, bool] = (UNKNOWN_CLUSTER, True),
    ) -> Collector:
        """The client of that cluster, with these limits; a new one gets `recalled`. Raises CredentialsError."""
        now_s = self._clock()
        for key in [key for key, (_, used_s) in self._clients.items() if used_s < now_s - IDLE_SECONDS_MAX]:
            self._clients.pop(key)[0].close()
        named = {} if kafka.tls is None else asdict(kafka.tls)
        files = [
            signature(Path(path)) for name, path in named.items() if name.endswith("_location") and path is not None
        ]
        key = pickle.dumps((kafka, scan, files))
        if key not in self._clients:
            self._clients[key] = Collector.opened(kafka, scan), now_s
            cluster, is_required = recalled
            self._clients[key][0].recall(cluster, is_required=is_required)
        self._clients[key] = self._clients[key][0], now_s
        return self._clients[key][0]

    def close(self) -> None:
        for client, _ in self._clients.values():
            client.close()


CLIENTS = Clients()


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Work of an executor for one cluster."""

    kafka: KafkaSettings
    scan: ScanSettings
    recalled: tuple[ClusterIdentity, bool]
    """The arguments of `Collector.recall`, for an executor that does not know the cluster yet."""
    work: Callable[[Collector], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """The result of a task, or the exception that its work has raised."""

    value: Any = None
    error: Exception | None = None
    requests: tuple[ApiStatistics, ...] = ()
    phases: tuple[tuple[str, float], ...] = ()
    boot_id: str = ""


def pack(content: Task | TaskResult) -> bytes:
    """Pickles content between processes of one Spark application, as Spark pickles its own functions."""
    data: bytes = cloudpickle.dumps(content)  # type: ignore[no-untyped-call]
    return data


def unpack(data: bytes) -> Any:
    """Unpickles bytes of this application, and no others: unpickling runs code."""
    return pickle.loads(data)  # noqa: S301


def perform(data: bytes) -> bytes:
    """Does the packed `Task`; returns the packed `TaskResult`."""
    task: Task = unpack(data)
    try:
        collector = CLIENTS.of(task.kafka, task.scan, recalled=task.recalled)
        before = collector.statistics()
        value, error = None, None
        try:
            value = task.work(collector)
        except Exception as failure:  # noqa: BLE001 - raised where the result is read
            error = failure
        requests = since(before, collector.statistics())
        return pack(TaskResult(value=value, error=error, requests=requests, phases=collector.phases, boot_id=BOOT_ID))
    except Exception as failure:  # noqa: BLE001 - as above
        return pack(TaskResult(error=failure))
