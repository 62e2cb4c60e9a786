"""`serve`: the daemon and its web server, until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import time

from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.daemon import Daemon, Order, Orders
from exporter.kafka.collect import open_collector
from exporter.publication.web import WebServer, WebServerError
from exporter.reloading import Reloader

log = logging.getLogger("exporter")


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Serve until told to stop; the exit status."""
    orders = Orders()
    for number, order in ((signal.SIGTERM, Order.STOP), (signal.SIGINT, Order.STOP), (signal.SIGHUP, Order.RELOAD)):
        signal.signal(number, lambda *_, order=order: orders.put(order))
    collector = open_collector(settings.kafka, settings.scan)
    reloader = Reloader(options.load, options.loaded, options.sources, wall_clock=time.time)
    daemon = Daemon(settings, collector, state_path=options.state_path, reloader=reloader, orders=orders)
    server = WebServer(settings.publish.listen_address, daemon.site)
    try:
        server.start()
    except WebServerError as error:
        print(f"kafka-transaction-exporter: {error}", file=sys.stderr)
        collector.close()
        return ExitStatus.COULD_NOT_RUN
    log.info("serving %s/metrics", server.url)
    try:
        daemon.run()
    finally:
        server.close()
    log.info("ended")
    return ExitStatus.ANSWERED
