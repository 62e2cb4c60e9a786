"""`serve --engine=spark`: the same daemon, whose clusters are read by the executors of a Spark session."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial

from exporter.commands.context import Context
from exporter.commands.pipeline import NEEDED
from exporter.commands.report import complain
from exporter.commands.serve import daemon_of, follow_signals, serve
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.daemon.scheduler import Orders
from exporter.web.routes import Routes
from exporter.web.server import WebServer

MASTER = "local[8]"
"""Tasks wait for brokers more than they compute, so there are more tasks than cores."""


def serve_by_spark(context: Context, settings: Settings, server_of: Callable[[Routes], WebServer]) -> int:
    """Serve until stopped; returns the exit status."""
    options = context.options
    try:
        from exporter.fleet.engine import ExecutorsError, SparkEngine  # noqa: PLC0415 - Spark is an extra
        from exporter.pipeline.session import open_session  # noqa: PLC0415
    except ModuleNotFoundError as error:
        return complain(f"{NEEDED} ({error})")
    master = options.master or (None if context.is_submitted else MASTER)
    with tempfile.TemporaryDirectory(prefix="kafka-transaction-exporter-", dir=options.temporary) as temporary:
        engine = SparkEngine(partial(open_session, master, temporary, memory=options.memory))
        try:
            engine.check()
        except ExecutorsError as error:
            complain(str(error))
            engine.close()
            return ExitStatus.COULD_NOT_RUN
        orders = Orders()
        follow_signals(orders)  # after Spark, which installs its own handler for Ctrl-C
        try:
            return serve(daemon_of(context, settings, engine.reader, orders), server_of)
        finally:
            engine.close()
