"""Runs on an executor of Spark: reads a cluster, over connections that the executor keeps."""

from __future__ import annotations

import copyreg
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pyspark import cloudpickle

from exporter.config.kafka_section import KafkaSettings
from exporter.config.settings import ScanSettings
from exporter.fleet.clients import CLIENTS, Clients
from exporter.kafka.collect.collector import Collector
from exporter.status import ApiStatistics, since


def _proxy(mapping: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


# pickle cannot do this by itself, and the memory of an evaluation holds such mappings.
copyreg.pickle(MappingProxyType, lambda proxy: (_proxy, (dict(proxy),)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What an executor does with one cluster."""

    kafka: KafkaSettings
    scan: ScanSettings
    recalled: tuple[str, tuple[str, ...]]
    """(cluster id, topics) that were visible before, for an executor that does not know the cluster yet."""
    work: Callable[[Collector], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of a task, or the exception that its work has raised."""

    value: Any = None
    error: Exception | None = None
    requests: tuple[ApiStatistics, ...] = ()
    phases: tuple[tuple[str, float], ...] = ()


def packed(content: Task | Done) -> bytes:
    """For the way between processes of one Spark application, pickled as Spark pickles its own functions."""
    data: bytes = cloudpickle.dumps(content)  # type: ignore[no-untyped-call]
    return data


def unpacked(data: bytes) -> Any:
    """Only for bytes of this application: unpickling runs code."""
    return pickle.loads(data)  # noqa: S301


def perform(data: bytes, clients: Clients = CLIENTS) -> bytes:
    """Do the packed `Task`; returns the packed `Done`."""
    task: Task = unpacked(data)
    try:
        collector = clients.of(task.kafka, task.scan, recalled=task.recalled)
    except Exception as error:  # noqa: BLE001 - raised where the result is read
        return packed(Done(error=error))
    before = collector.statistics()
    value, failure = None, None
    try:
        value = task.work(collector)
    except Exception as error:  # noqa: BLE001 - as above
        failure = error
    requests = since(before, collector.statistics())
    return packed(Done(value=value, error=failure, requests=requests, phases=collector.phases))
