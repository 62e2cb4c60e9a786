"""The daemon of a fleet: runs cycles as Spark jobs over all clusters, and publishes all in one exposition.

A cluster that fails affects only itself; a job that fails costs every cluster that cycle.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from exporter.baseline import NO_BASELINE, Baseline
from exporter.config.settings import ClusterSettings, Settings
from exporter.daemon.baseline_file import BaselineFile
from exporter.daemon.cluster_state import ClusterState
from exporter.daemon.daemon import Recorder
from exporter.daemon.reload import Reloader
from exporter.daemon.scheduler import Orders, Scheduler
from exporter.daemon.wiring import policy_of, process_status, publish_options_of
from exporter.fleet.engine import Known
from exporter.fleet.scan import ClusterCycle
from exporter.publication.exposition import Renderer
from exporter.publication.page.fleet import render_pages
from exporter.publication.publication import Publication
from exporter.status import ApiStatistics, total
from exporter.web.routes import Routes


class Engine(Protocol):
    """Runs cycles: `exporter.fleet.engine.SparkEngine`."""

    def cycle(self, settings: Settings, known: Known) -> tuple[ClusterCycle, ...]: ...

    def close(self) -> None: ...


class FleetDaemon:
    """Runs cycles on the clusters of the settings and publishes them at its `site`."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        *,
        state_path_of: Callable[[ClusterSettings], Path | None],
        history: Recorder | None = None,
        baseline: BaselineFile | None = None,
        reloader: Reloader | None = None,
        orders: Orders | None = None,
        wall_clock: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.scheduler = Scheduler(settings, self, reloader=reloader, orders=orders, wall_clock=wall_clock, clock=clock)
        self.routes = Routes(self.scheduler.liveness, reload=self.scheduler.reload_on_request)
        self._engine = engine
        self._renderer = Renderer()
        self._wall_clock = wall_clock
        self._publishing = threading.Lock()
        self._started_at_ms = self._now_ms()
        self._state_path_of = state_path_of
        self._history = history
        self._baseline = baseline
        self._requests: dict[str, tuple[ApiStatistics, ...]] = {}
        """By cluster: executors continue the counts from cycle to cycle."""
        self._records: dict[str, ClusterState] = {}
        self._know(settings.clusters)
        self._publish()

    def run(self) -> None:
        """Run cycles until the order to stop; a job that is running then is cancelled."""
        if self._history is not None:
            self._history.start()
        self.scheduler.run()
        self._engine.close()
        if self._history is not None:
            self._history.close()

    def cycle(self) -> None:
        """One cycle over all clusters."""
        if self.scheduler.take_settings() is not None:
            self._know(self.scheduler.settings.clusters)
        settings = self.scheduler.settings
        known = Known(
            policy=policy_of(settings),
            memories={name: record.memory for name, record in self._records.items()},
            baseline=self._usual(),
        )
        try:
            cycles = self._engine.cycle(settings, known)
        except (PySparkException, Py4JError) as error:
            self._all_failed(f"the Spark job failed: {str(error).splitlines()[0]}")
            return
        self.scheduler.beat()
        for cycle in cycles:
            self._take(cycle)
        self._publish()
        for record in self._records.values():
            record.keep()

    def missed(self) -> None:
        for record in self._records.values():
            record.missed()
        self._publish()

    def defect(self, error: BaseException) -> None:
        """A defect in the exporter: it is logged, and the loop continues."""
        self._all_failed(f"defect in the exporter: {type(error).__name__}: {error}")

    def settings_were_read(self) -> None:
        self._publish()

    def _know(self, clusters: tuple[ClusterSettings, ...]) -> None:
        """Keep the state of clusters that stay, and drop that of the others."""
        self._records = {
            cluster.name: self._records.get(cluster.name)
            or ClusterState(self._state_path_of(cluster), name=cluster.name)
            for cluster in clusters
        }
        self._requests = {name: self._requests.get(name, ()) for name in self._records}

    def _usual(self) -> Baseline:
        if self._baseline is None:
            return NO_BASELINE
        ids = (record.memory.cluster_id for record in self._records.values())
        return self._baseline.current(*(cluster_id for cluster_id in ids if cluster_id))

    def _take(self, cycle: ClusterCycle) -> None:
        record = self._records[cycle.cluster]
        self._requests[cycle.cluster] = total((*self._requests[cycle.cluster], *cycle.requests))
        if cycle.evaluation is None:
            record.failed(cycle.failure or "no reason was given", seconds=cycle.seconds)
            return
        record.succeeded(cycle.evaluation, seconds=cycle.seconds, now_ms=self._now_ms(), phases=cycle.phases)
        if self._history is not None:
            self._history.record(cycle.evaluation)

    def _all_failed(self, sentence: str) -> None:
        self.scheduler.beat()
        for record in self._records.values():
            record.failed(sentence, seconds=0.0)
        self._publish()

    def _now_ms(self) -> int:
        return int(self._wall_clock() * 1000)

    def _publish(self) -> None:
        """Render the bytes that scrapes get from now on."""
        with self._publishing:
            settings = self.scheduler.settings
            process = process_status(
                self.scheduler.reloader,
                started_at_ms=self._started_at_ms,
                baseline=None if self._baseline is None else self._baseline.status,
                history=None if self._history is None else self._history.status(),
            )
            brokers = {cluster.name: cluster.kafka.bootstrap for cluster in settings.clusters}
            publications = [
                Publication(
                    evaluation=None if status.is_stale else record.evaluation,
                    process=process,
                    status=status,
                    options=publish_options_of(settings),
                    cluster=name,
                    cluster_name=settings.cluster_name,
                    bootstrap=brokers.get(name, ""),
                )
                for name, record in self._records.items()
                for status in (record.status(settings, self._requests[name]),)
            ]
            exposition = self._renderer.render(*publications)
            is_ready = any(publication.status.has_succeeded for publication in publications)
            self.routes.publish(exposition, render_pages(publications), is_ready=is_ready)
