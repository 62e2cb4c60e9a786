"""Makes metrics and pages of one cycle, as `serve` would publish it."""

from __future__ import annotations

import platform
import time
from typing import Final, TextIO

from exporter import __version__
from exporter.config.loading import load
from exporter.config.settings import ClusterSettings
from exporter.daemon.wiring import publish_options_of
from exporter.evaluation.verdicts import Evaluation
from exporter.incidents.incident import NO_INCIDENTS
from exporter.publication.paths import INCIDENTS
from exporter.publication.publication import Publication
from exporter.status import ClusterStatus, ProcessStatus

UNREACHED: Final = "127.0.0.1:9092"
"""Settings need a broker; nothing here connects to it."""


def publication_of(cluster: ClusterSettings, evaluation: Evaluation | None) -> Publication:
    """Returns the publication of one cycle; the cycle has failed if there is no evaluation."""
    settings = cluster.settings
    snapshot = None if evaluation is None else evaluation.snapshot
    status = ClusterStatus(
        cycles=1,
        failed_cycles=0 if snapshot is not None else 1,
        last_cycle_duration_seconds=None
        if snapshot is None
        else (snapshot.finished_at_ms - snapshot.taken_at_ms) / 1000,
        last_cycle_succeeded=snapshot is not None,
        last_success_at_ms=None if snapshot is None else snapshot.finished_at_ms,
        snapshot_taken_at_ms=None if snapshot is None else snapshot.taken_at_ms,
        interval_ms=settings.scan.interval_ms,
        stale_after_cycles=settings.publish.stale_after_cycles,
    )
    started_at_ms = int(time.time() * 1000) if snapshot is None else snapshot.taken_at_ms
    process = ProcessStatus(version=__version__, python_version=platform.python_version(), started_at_ms=started_at_ms)
    options = publish_options_of(settings)
    return Publication(evaluation=evaluation, process=process, status=status, options=options, cluster=cluster.name)


def serve_evaluation(evaluation: Evaluation, listen_address: str, output: TextIO) -> None:
    """Serves the status page, the runbooks and `/metrics` of this evaluation until Ctrl-C. Raises WebServerError."""
    from exporter.artifacts import runbooks  # noqa: PLC0415 - as below
    from exporter.publication.exposition import Renderer  # noqa: PLC0415 - other commands do without the web server
    from exporter.publication.page.incidents import render_list  # noqa: PLC0415 - likewise
    from exporter.publication.page.page import render_page  # noqa: PLC0415 - likewise
    from exporter.publication.page.runbooks import render_runbooks  # noqa: PLC0415 - likewise
    from exporter.web.routes import Routes  # noqa: PLC0415 - likewise
    from exporter.web.server import WebServer  # noqa: PLC0415 - likewise

    settings = load(file=None, environment={}, flags={"kafka.bootstrap.servers": UNREACHED}).settings
    publication = publication_of(ClusterSettings(name=None, settings=settings), evaluation)
    routes = Routes(lambda: None)
    incidents = render_list([(None, NO_INCIDENTS)], publication.status.interval_ms)
    pages = {**render_runbooks(runbooks()), INCIDENTS: incidents, "/": render_page(publication)}
    routes.publish(Renderer().render(publication), pages, is_ready=True)
    server = WebServer(listen_address, routes)
    server.start()
    try:
        print(
            f"{server.url}/ has the status page, {server.url}/metrics the metrics. Ctrl-C ends it.",
            file=output,
            flush=True,
        )
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        pass
    finally:
        server.close()
