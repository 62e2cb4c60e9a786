"""Joins what the clusters have rendered and publishes it: at once for one cluster, and not all the time for many.

Every cluster publishes after its cycle; joining two hundred takes longer than the cycle of a small one. So the bytes of a
fleet are joined again when ten times as long has passed as the joining took.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

from exporter.artifacts import runbooks
from exporter.daemon.report_file import ReportFile
from exporter.daemon.watched_cluster import ClusterPublication
from exporter.publication.exposition import Renderer
from exporter.publication.page.fleet import render_overview
from exporter.publication.page.incidents import render_list
from exporter.publication.page.page import Page
from exporter.publication.page.runbooks import render_runbooks
from exporter.publication.paths import INCIDENTS, REPORT, requested_below
from exporter.status import ProcessStatus
from exporter.web.routes import Routes

log = logging.getLogger("exporter")

PAUSE: Final = 10
"""Times the duration of a publication."""


# cycle of a ──put──▶ _parts[a] ─┐
# cycle of b ──put──▶ _parts[b] ─┤
#                                ├─ one cluster: _publish at once, in the thread that has put the part
#                                └─ several: _is_due ──▶ the publisher's thread: _publish, a pause of PAUSE times as long
#
# _publish: lines of all parts, lines of the process ──▶ Exposition ─┐
#           pages of all parts, overview, runbooks   ──▶ by path    ─┴▶ Routes.publish ──▶ web's thread reads them
# A part is None until the cluster's first one: nothing is published while one is None.


class Publisher:
    """Holds the newest part of each cluster. All methods may be called from any thread."""

    def __init__(
        self,
        routes: Routes,
        process_status: Callable[[], ProcessStatus],
        clock: Callable[[], float],
        report: ReportFile | None = None,
    ) -> None:
        self._routes = routes
        self._process_status = process_status
        self._clock = clock
        self._renderer = Renderer()
        self._runbooks = render_runbooks(runbooks())
        self._report = report
        self._condition = threading.Condition()
        self._publishing = threading.Lock()
        self._parts: dict[str | None, ClusterPublication | None] = {}
        self._is_due = self._is_ending = False
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    def start(self) -> None:
        """Publishes from a thread of its own if there are several clusters."""
        self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        with self._condition:
            self._is_ending = True
            self._condition.notify()
        self._thread.join()

    def keep_only(self, names: tuple[str | None, ...]) -> None:
        """Publishes exactly these clusters, in this order."""
        with self._condition:
            self._parts = {name: self._parts.get(name) for name in names}

    def put(self, name: str | None, part: ClusterPublication) -> None:
        """Publishes this part of a cluster with the newest ones of the others."""
        with self._condition:
            if name not in self._parts:  # it is not watched any more
                return
            before = self._parts[name]
            if before is not None and before.number > part.number:
                return
            self._parts[name] = part
            self._is_due = True
            waits = len(self._parts) > 1 and self._thread.is_alive()
            self._condition.notify()
        if not waits:
            self._publish()

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._is_ending or (self._is_due and len(self._parts) > 1))
                if self._is_ending:
                    return
            began = self._clock()
            try:
                self._publish()
            except Exception:
                log.exception("what was read could not be published; it is tried again after the next cycle")
            with self._condition:
                self._condition.wait_for(lambda: self._is_ending, timeout=PAUSE * (self._clock() - began))

    def _publish(self) -> None:
        with self._publishing:
            with self._condition:
                self._is_due = False
                parts = {name: part for name, part in self._parts.items() if part is not None}
                is_whole = len(parts) == len(self._parts)
            if not is_whole:  # the other clusters are about to put their first part
                return
            exposition = self._renderer.joined([part.families for part in parts.values()], self._process_status())
            publications = [part.families.publication for part in parts.values()]
            is_ready = any(publication.status.has_succeeded for publication in publications)
            report = {} if self._report is None else {REPORT: self._report.page()}
            self._routes.publish(exposition, {**self._runbooks, **report, **_pages(parts)}, is_ready=is_ready)


def _pages(parts: Mapping[str | None, ClusterPublication]) -> dict[str, Page]:
    """Renders the pages of all clusters by path; those of a fleet include the overview and the incidents of all."""
    pages = {
        (requested_below(name) + path) or "/": page for name, part in parts.items() for path, page in part.pages.items()
    }
    if None in parts:
        return pages
    publications = [part.families.publication for part in parts.values()]
    interval_ms = max(publication.status.interval_ms for publication in publications)
    incidents = [(name, part.incidents) for name, part in parts.items()]
    runbook_url = publications[0].options.runbook_url
    overview = render_overview(publications, runbooks=runbook_url)
    return {**pages, "/": overview, INCIDENTS: render_list(incidents, interval_ms, runbooks=runbook_url)}
