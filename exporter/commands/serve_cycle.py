"""Serves the status page, the runbooks and `/metrics` of one cycle that has ended."""

from __future__ import annotations

from typing import Final, TextIO

from exporter.artifacts import runbooks
from exporter.commands.one_cycle import publication_of
from exporter.commands.report import wait
from exporter.config.loading import load
from exporter.config.settings import ClusterSettings
from exporter.evaluation.verdicts import Evaluation
from exporter.incidents.incident import NO_INCIDENTS
from exporter.publication.exposition import Renderer
from exporter.publication.page.incidents import render_list
from exporter.publication.page.page import render_page
from exporter.publication.page.runbooks import render_runbooks
from exporter.publication.paths import INCIDENTS
from exporter.web.routes import Routes
from exporter.web.server import WebServer

UNREACHED: Final = "127.0.0.1:9092"
"""Settings need a broker; nothing here connects to it."""


def serve_cycle(evaluation: Evaluation, listen_address: str, output: TextIO) -> None:
    """Serves it until Ctrl-C. Raises WebServerError."""
    settings = load(file=None, environment={}, flags={"kafka.bootstrap.servers": UNREACHED}).settings
    publication = publication_of(ClusterSettings(name=None, settings=settings), evaluation)
    incidents = render_list([(None, NO_INCIDENTS)], publication.status.interval_ms)
    pages = {**render_runbooks(runbooks()), INCIDENTS: incidents, "/": render_page(publication)}
    routes = Routes(lambda: None)
    routes.publish(Renderer().render(publication), pages, is_ready=True)
    server = WebServer(listen_address, routes, option="--serve")
    server.start()
    try:
        print(
            f"{server.url}/ has the status page, {server.url}/metrics the metrics. Ctrl-C ends it.",
            file=output,
            flush=True,
        )
        wait(float("inf"))
    except KeyboardInterrupt:
        pass
    finally:
        server.close()
