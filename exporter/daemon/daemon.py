"""Runs the cycles of all clusters, each at its own interval, and publishes them together. One cluster is a fleet of one.

A scrape never gets here: the web server sends the bytes that the last publication left at the `Routes`.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path

from exporter import __version__
from exporter.baseline import NO_BASELINE, Baseline
from exporter.config.settings import ClusterSettings, Settings
from exporter.cycle import Reader
from exporter.daemon.baseline_file import BaselineFile
from exporter.daemon.incidents_file import AuditReader
from exporter.daemon.publisher import Publisher
from exporter.daemon.reload import Reloaded, Reloader
from exporter.daemon.report_file import ReportFile
from exporter.daemon.scheduler import Orders, Scheduler
from exporter.daemon.watched_cluster import DaemonServices, Follow, Recorder, WatchedCluster
from exporter.snapshot import Snapshot
from exporter.status import HistoryStatus, ProcessStatus
from exporter.web.routes import Routes

OpenReader = Callable[[ClusterSettings], Reader]
"""Makes the reader of a cluster, without a connection."""
CYCLES_END_SECONDS = 0.2
"""The wait for cycles whose connections are closed; one that hangs elsewhere is left behind."""
CLOSERS_MAX = 64
"""Clusters that are closed at the same time: each may take half a second."""


class Daemon:
    """Watches the clusters of the settings, and publishes them at its `routes`."""

    def __init__(
        self,
        settings: Settings,
        open_reader: OpenReader,
        *,
        state_path_of: Callable[[ClusterSettings], Path | None] = lambda _: None,
        audit_path: Path | None = None,
        follow: Follow | None = None,
        history: Recorder | None = None,
        baseline: BaselineFile | None = None,
        report: ReportFile | None = None,
        reloader: Reloader | None = None,
        orders: Orders | None = None,
        wall_clock: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.scheduler = Scheduler(settings, self, reloader=reloader, orders=orders, clock=clock)
        self.routes = Routes(
            self.scheduler.liveness,
            reload=self.scheduler.reload_on_request,
            external_url=settings.publish.external_url or "",
        )
        self._open_reader = open_reader
        self._state_path_of = state_path_of
        self._history = history
        self._baseline = baseline
        self._report = report
        self._started_at_ms = int(wall_clock() * 1000)
        self._clusters: dict[str | None, WatchedCluster] = {}
        self._is_running = False
        self._publisher = Publisher(self.routes, self._process_status, clock, report)
        self._shared = DaemonServices(
            wall_clock=wall_clock,
            clock=clock,
            publish=self._publish,
            audit=AuditReader(audit_path),
            follow=follow,
            history=history,
            baseline=self._usual,
            last_audits=None if report is None else report.folder,
            namesake_of=self._namesake_of,
            same_as=partial(self._earlier, is_like=Snapshot.shares_topics_with),
        )
        self._watch(settings.watched)

    @property
    def jobs(self) -> Mapping[str | None, WatchedCluster]:
        """The clusters by name; the only one has none."""
        return self._clusters

    def run(self) -> None:
        """Runs cycles until the order to stop, then ends within a second, even in the middle of cycles."""
        self._is_running = True
        if self._history is not None:
            self._history.start()
        for cluster in self._clusters.values():
            cluster.start()
        self._publisher.start()
        self.scheduler.run()
        self._publisher.close()
        self.close()
        self.scheduler.timetable.wait(CYCLES_END_SECONDS)
        if self._history is not None:
            self._history.close()

    def close(self) -> None:
        """Ends the connections."""
        _close(tuple(self._clusters.values()))

    def use(self, reloaded: Reloaded) -> None:
        """Uses these settings: each cluster from its next cycle on."""
        self._watch(reloaded.settings.watched, reloaded.changed)

    def settings_were_read(self) -> None:
        """The status of the settings has changed."""
        for cluster in self._clusters.values():
            self._publish(cluster)

    def _watch(self, clusters: tuple[ClusterSettings, ...], changed: frozenset[Path] = frozenset()) -> None:
        """Watches exactly these: keeps those that stay, closes those that are gone, and opens new ones."""
        before, now = self._clusters, dict[str | None, WatchedCluster]()
        for cluster in clusters:
            watched = before.get(cluster.name)
            if watched is not None:
                watched.use(cluster, changed)
            now[cluster.name] = self._opened(cluster) if watched is None else watched
        self._clusters = now
        self._publisher.keep_only(tuple(now))
        for name, watched in now.items():
            if name not in before:  # a scrape before the end of its first cycle gets a response too
                self._publish(watched)
        _close(tuple(cluster for name, cluster in before.items() if name not in now))

    def _opened(self, cluster: ClusterSettings) -> WatchedCluster:
        reader, state_path = self._open_reader(cluster), self._state_path_of(cluster)
        watched = WatchedCluster(cluster, reader, self._shared, state_path=state_path)
        if self._is_running:
            watched.start()
        return watched

    def _publish(self, cluster: WatchedCluster) -> None:
        """Renders the bytes that scrapes get from now on."""
        others = (other for other in self._clusters.values() if other is not cluster)
        elsewhere = sum(other.snapshot.partitions.covered_count for other in others if other.snapshot is not None)
        self._publisher.put(cluster.name, cluster.render(self._process_status(), partitions_elsewhere=elsewhere))

    def _namesake_of(self, cluster: WatchedCluster, snapshot: Snapshot) -> str | None:
        """Returns the earlier cluster in the settings with the same id: the first of several keeps the id."""
        if self._history is None and self._baseline is None and self._report is None:  # nothing is kept by id
            return None
        return self._earlier(cluster, snapshot, is_like=Snapshot.has_the_id_of_another)

    def _earlier(
        self, cluster: WatchedCluster, snapshot: Snapshot, *, is_like: Callable[[Snapshot, Snapshot], bool]
    ) -> str | None:
        """Returns the name of the first cluster before this one in the settings whose snapshot is like this one."""
        for other in takewhile(lambda other: other is not cluster, self._clusters.values()):
            if other.snapshot is not None and is_like(snapshot, other.snapshot):
                return other.name
        return None

    def _history_status(self) -> HistoryStatus | None:
        if self._history is None:
            return None
        status = self._history.status()
        unrecorded = [str(cluster.name) for cluster in self._clusters.values() if cluster.namesake is not None]
        failure = f"clusters with the id of another are not recorded: {', '.join(unrecorded)}" if unrecorded else None
        return replace(status, failure=status.failure or failure)

    def _usual(self) -> Baseline:
        """The usual durations on the clusters that are known by now."""
        if self._baseline is None:
            return NO_BASELINE
        known = (cluster.cluster_id for cluster in self._clusters.values())
        return self._baseline.current(*(cluster_id for cluster_id in known if cluster_id))

    def _process_status(self) -> ProcessStatus:
        self._usual()
        reloader = self.scheduler.reloader
        return ProcessStatus(
            version=__version__,
            python_version=platform.python_version(),
            started_at_ms=self._started_at_ms,
            baseline=None if self._baseline is None else self._baseline.status,
            history=self._history_status(),
            pipeline_succeeded_at_ms=None if self._report is None else self._report.succeeded_at_ms(),
            settings_reloaded=True if reloader is None else reloader.status.succeeded,
            settings_loaded_at_ms=self._started_at_ms if reloader is None else reloader.status.last_success_at_ms,
        )


def _close(clusters: tuple[WatchedCluster, ...]) -> None:
    """All at the same time: a cluster whose thread is blocked takes a while."""
    if clusters:
        with ThreadPoolExecutor(min(len(clusters), CLOSERS_MAX)) as closers:
            tuple(closers.map(WatchedCluster.close, clusters))
