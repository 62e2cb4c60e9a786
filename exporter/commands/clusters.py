"""Runs a command on all clusters at the same time; one that does not respond costs only its own part of the result."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from exporter.commands.report import NO_RESPONSE, complain, opened_collector
from exporter.commands.status import ExitStatus
from exporter.config.settings import ClusterSettings, Settings
from exporter.kafka.client.credentials import CredentialsError
from exporter.kafka.collect.collector import Collector

T = TypeVar("T")
CLUSTERS_MAX: Final = 32
"""Read at the same time."""


@dataclass(frozen=True, slots=True)
class ClusterResult(Generic[T]):
    """Result of one cluster, or the reason why there is none."""

    cluster: ClusterSettings
    value: T | None = None
    failure: str = ""


def on_each(settings: Settings, read: Callable[[ClusterSettings, Collector], T]) -> tuple[ClusterResult[T], ...]:
    """The results of `read`, in the order of the clusters. A failure is printed, with the name of its cluster."""
    results = at_the_same_time(lambda cluster: _result(cluster, read), settings.watched)
    for result in results:
        if result.failure:
            complain(f"{cluster_prefix(result.cluster)}{result.failure}")
    return results


def at_the_same_time(do: Callable[[ClusterSettings], T], clusters: Sequence[ClusterSettings]) -> tuple[T, ...]:
    """The results of `do`, in the order of `clusters`. One cluster alone runs in this thread, which Ctrl-C interrupts.

    Ctrl-C leaves the others behind: a pool would be joined, also by the interpreter at its end.
    """
    if len(clusters) == 1:
        return (do(clusters[0]),)
    results = [(cluster, Future[T]()) for cluster in clusters]
    waiting = iter(results)  # next() of it is one step: two threads never get the same

    def work() -> None:
        for cluster, result in waiting:
            try:
                result.set_result(do(cluster))
            except BaseException as error:  # noqa: BLE001 - raised where the result is used
                result.set_exception(error)

    for _ in range(min(len(clusters), CLUSTERS_MAX)):
        threading.Thread(target=work, name="cluster", daemon=True).start()
    return tuple(result.result() for _, result in results)


def cluster_prefix(cluster: ClusterSettings) -> str:
    """Returns the words before a sentence about one cluster of several."""
    return "" if cluster.name is None else f"{cluster.name}: "


def status_of(results: Sequence[ClusterResult[T]], *, is_incomplete: bool) -> ExitStatus:
    """Returns the exit status of a command that has printed its results."""
    if all(result.failure for result in results):
        return ExitStatus.COULD_NOT_RUN
    return ExitStatus.INCOMPLETE if is_incomplete or any(result.failure for result in results) else ExitStatus.ANSWERED


def _result(cluster: ClusterSettings, read: Callable[[ClusterSettings, Collector], T]) -> ClusterResult[T]:
    try:
        with opened_collector(cluster.settings) as collector:
            return ClusterResult(cluster, read(cluster, collector))
    except (*NO_RESPONSE, CredentialsError) as error:
        return ClusterResult(cluster, failure=str(error))
