"""`serve --engine spark`: the daemon of a fleet and its web server, until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import logging
import signal
import tempfile
import time
from functools import partial
from pathlib import Path

from exporter.commands.pipeline import NEEDED
from exporter.commands.report import complain
from exporter.commands.serve import baseline_of, history_of, lacks_arrow, web_server
from exporter.commands.status import ExitStatus
from exporter.config.loading import ConfigurationError
from exporter.config.settings import ClusterSettings, Settings
from exporter.loop import Order, Orders
from exporter.publication.web import WebServerError
from exporter.reloading import Reloader

log = logging.getLogger("exporter")

MASTER = "local[8]"
"""Tasks wait for brokers more than they compute: more of them than cores."""


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Serve until told to stop; the exit status."""
    problem = _impossible(settings)
    if problem is not None:
        complain(problem)
        return ExitStatus.COULD_NOT_RUN
    try:
        server_of = web_server(settings)
    except ConfigurationError as error:
        for sentence in error.problems:
            complain(sentence)
        return ExitStatus.COULD_NOT_RUN
    try:
        from exporter.fleet_daemon import FleetDaemon  # noqa: PLC0415 - Spark is an extra
        from exporter.pipeline.fleet import SparkEngine  # noqa: PLC0415
        from exporter.pipeline.session import open_session  # noqa: PLC0415
    except ModuleNotFoundError as error:
        complain(f"{NEEDED} ({error})")
        return ExitStatus.COULD_NOT_RUN
    master = options.master or (None if options.is_submitted else MASTER)
    with tempfile.TemporaryDirectory(prefix="kafka-transaction-exporter-", dir=options.temporary) as temporary:
        engine = SparkEngine(open_session(master, temporary, memory=options.memory))
        # After Spark, which takes Ctrl-C for itself.
        orders = Orders()
        for number, order in ((signal.SIGTERM, Order.STOP), (signal.SIGINT, Order.STOP), (signal.SIGHUP, Order.RELOAD)):
            signal.signal(number, lambda *_, order=order: orders.put(order))
        daemon = FleetDaemon(
            settings,
            engine,
            state_path_of=partial(_state_path, options, settings),
            history=history_of(settings),
            baseline=baseline_of(settings),
            reloader=Reloader(options.load, options.loaded, options.sources, wall_clock=time.time),
            orders=orders,
        )
        server = server_of(daemon.site)
        try:
            server.start()
        except WebServerError as error:
            complain(str(error))
            engine.close()
            return ExitStatus.COULD_NOT_RUN
        log.info("serving %s/metrics for %d clusters", server.url, len(settings.clusters))
        try:
            daemon.run()
        finally:
            server.close()
    log.info("ended")
    return ExitStatus.ANSWERED


def _impossible(settings: Settings) -> str | None:
    if settings.transaction_log.enabled:
        return "transaction_log.enabled is of no use with --engine=spark: read it with `pipeline transaction-log`"
    if len(settings.clusters) > 1 and settings.state_file not in ("auto", "none"):
        return "state.file must be `auto` or `none` for several clusters: each has a file of its own"
    return lacks_arrow(settings)


def _state_path(options: argparse.Namespace, settings: Settings, cluster: ClusterSettings) -> Path | None:
    path: Path | None = options.state_path_of(settings, cluster.kafka)
    return path
