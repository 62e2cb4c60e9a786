"""`serve`: the daemon and its web server, until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading

from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.daemon import Daemon
from exporter.kafka.collect import open_collector
from exporter.publication.web import WebServer, WebServerError

log = logging.getLogger("exporter")


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Serve until told to stop; the exit status."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    collector = open_collector(settings.kafka, settings.scan)
    daemon = Daemon(settings, collector, state_path=options.state_path)
    server = WebServer(settings.publish.listen_address, daemon.site)
    try:
        server.start()
    except WebServerError as error:
        print(f"kafka-transaction-exporter: {error}", file=sys.stderr)
        collector.close()
        return ExitStatus.COULD_NOT_RUN
    log.info("serving %s/metrics", server.url)
    try:
        daemon.run(stop)
    finally:
        server.close()
    log.info("ended")
    return ExitStatus.ANSWERED
