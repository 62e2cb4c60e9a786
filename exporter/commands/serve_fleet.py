"""`serve --engine spark`: runs the daemon of a fleet and its web server until SIGTERM or SIGINT."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from exporter.commands.context import Context
from exporter.commands.pipeline import NEEDED
from exporter.commands.report import complain
from exporter.commands.serve import (
    baseline_of,
    checked_server,
    follow_signals,
    history_of,
    reloader_of,
    serve_until_told,
)
from exporter.commands.status import ExitStatus
from exporter.config.settings import ClusterSettings, Settings
from exporter.daemon.scheduler import Orders
from exporter.doctor.local import lacking_package

MASTER = "local[8]"
"""Tasks wait for brokers more than they compute, so there are more tasks than cores."""


def run(context: Context, settings: Settings) -> int:
    """Serve until stopped; returns the exit status."""
    options = context.options
    server_of = checked_server(settings, _impossible(settings))
    if server_of is None:
        return ExitStatus.COULD_NOT_RUN
    try:
        from exporter.daemon.fleet import FleetDaemon  # noqa: PLC0415 - Spark is an extra
        from exporter.fleet.engine import SparkEngine  # noqa: PLC0415
        from exporter.pipeline.session import open_session  # noqa: PLC0415
    except ModuleNotFoundError as error:
        complain(f"{NEEDED} ({error})")
        return ExitStatus.COULD_NOT_RUN
    master = options.master or (None if context.is_submitted else MASTER)
    with tempfile.TemporaryDirectory(prefix="kafka-transaction-exporter-", dir=options.temporary) as temporary:
        engine = SparkEngine(open_session(master, temporary, memory=options.memory))
        orders = Orders()
        follow_signals(orders)  # after Spark, which installs its own handler for Ctrl-C
        daemon = FleetDaemon(
            settings,
            engine,
            state_path_of=partial(_state_path, context, settings),
            history=history_of(settings),
            baseline=baseline_of(settings),
            reloader=reloader_of(context.settings_source),
            orders=orders,
        )
        return serve_until_told(daemon, server_of, give_up=engine.close)


def _impossible(settings: Settings) -> str | None:
    if settings.transaction_log.enabled:
        return (
            "transaction_log.enabled is not supported with --engine=spark: read the transaction log with `pipeline "
            "transaction-log`"
        )
    if len(settings.clusters) > 1 and settings.state_file not in ("auto", "none"):
        return "state.file must be `auto` or `none` for several clusters: each cluster has its own file"
    return lacking_package(settings)


def _state_path(context: Context, settings: Settings, cluster: ClusterSettings) -> Path | None:
    path: Path | None = context.state_path(settings, cluster.kafka)
    return path
