"""`serve`: runs the daemon and its web server until SIGTERM or SIGINT.

With `--engine=spark` the executors of a Spark session read the clusters; only then Spark is imported.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from exporter.capsules.recording import RecordingReader
from exporter.commands.cautions import cautions, lacking_descriptors
from exporter.commands.context import Configuration, Context
from exporter.commands.option_types import temporary_directory
from exporter.commands.options import SPARK_FLAGS
from exporter.commands.pipeline import NEEDED
from exporter.commands.report import complain
from exporter.commands.status import ExitStatus
from exporter.config.loading import ConfigurationError, SettingsWithSources
from exporter.config.settings import ClusterSettings, Settings
from exporter.cycle import EmbeddedReader, Reader
from exporter.daemon.baseline_file import BaselineFile
from exporter.daemon.daemon import Daemon, OpenReader
from exporter.daemon.ending import END_SECONDS, end_after
from exporter.daemon.log_follower import LogFollower
from exporter.daemon.malloc import limit_arenas
from exporter.daemon.reload import Reloader
from exporter.daemon.report_file import ReportFile
from exporter.daemon.scheduler import Order, Orders
from exporter.daemon.watched_cluster import Recorder
from exporter.doctor.local import lacking_package
from exporter.storage.places import place_of
from exporter.web.auth import Authenticator
from exporter.web.config_file import WebFile
from exporter.web.listener import WebServerError
from exporter.web.routes import Routes
from exporter.web.server import WebServer
from exporter.web.tls import RenewingContext, ServerTlsError

log = logging.getLogger("exporter")

MASTER = "local[8]"
"""Tasks wait for brokers more than they compute, so there are more tasks than cores."""

ROWS_SECONDS = 5.0
"""A history has this much longer to write the waiting rows."""


def run(context: Context, settings: Settings) -> int:
    """Serves until stopped; returns the exit status."""
    limit_arenas()
    if context.options.engine != "spark" and (ignored := context.given(SPARK_FLAGS)):
        return complain(f"{ignored[0]} needs --engine=spark", ExitStatus.WRONG_USAGE)
    try:
        require_startable(settings)
        server_of = web_server(settings)
    except ConfigurationError as error:
        for sentence in error.problems:
            complain(sentence)
        return ExitStatus.COULD_NOT_RUN
    for warning in (*cautions(settings), lacking_descriptors(settings)):
        if warning is not None:
            log.warning("%s", warning)
    if context.options.engine == "spark":
        return _serve_by_spark(context, settings, server_of)
    orders = Orders()
    rows_seconds = 0 if settings.history.directory is None else ROWS_SECONDS
    follow_signals(orders, END_SECONDS + rows_seconds)
    return serve(daemon_of(context, settings, embedded_reader, orders), server_of)


def _serve_by_spark(context: Context, settings: Settings, server_of: Callable[[Routes], WebServer]) -> int:
    """Serves until stopped; returns the exit status."""
    options = context.options
    try:
        from exporter.fleet.engine import ExecutorsError, SparkEngine  # noqa: PLC0415 - Spark is an extra
        from exporter.pipeline.session import open_session  # noqa: PLC0415
    except ModuleNotFoundError as error:
        return complain(f"{NEEDED} ({error})")
    master = options.master or (None if context.is_submitted else MASTER)
    try:
        directory = temporary_directory(options.temporary)
    except OSError as error:
        return complain(str(error))
    with directory as temporary:
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


def embedded_reader(cluster: ClusterSettings) -> Reader:
    """The reader of a cluster in this process. Raises CredentialsError."""
    settings = cluster.settings
    records = settings.capsules_enabled and settings.state_file != "none"
    return (RecordingReader if records else EmbeddedReader).opened(settings.kafka, settings.scan)


def daemon_of(context: Context, settings: Settings, open_reader: OpenReader, orders: Orders) -> Daemon:
    source = context.settings_source
    return Daemon(
        settings,
        open_reader,
        state_path_of=lambda cluster: context.state_path(settings, cluster.settings),
        audit_path=context.audit_path,
        follow=lambda own, before: LogFollower(
            own.kafka, own.transaction_log, counted_before=before, shows_ids=own.publish.transactional_ids
        ),
        history=history_of(settings),
        baseline=baseline_of(settings),
        report=None if settings.publish.report is None else ReportFile(place_of(settings.publish.report)),
        reloader=reloader_of(settings, source),
        orders=orders,
    )


def follow_signals(orders: Orders, end_seconds: float | None = None) -> None:
    """SIGTERM and SIGINT stop the daemon, and end the process at the latest after `end_seconds`; SIGHUP reloads.

    Handlers of Python run in the main thread, which a signal just before it waits does not wake. So they do nothing:
    their C function writes the signal's number into a pipe, and a thread reads it.
    """
    numbers, written = os.pipe()
    os.set_blocking(written, False)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)

    def follow() -> None:
        while True:
            number = os.read(numbers, 1)[0]
            if number == signal.SIGHUP:
                orders.put(Order.RELOAD)
            elif number in (signal.SIGTERM, signal.SIGINT):
                orders.put(Order.STOP)
                if end_seconds is not None:
                    end_after(end_seconds)

    threading.Thread(target=follow, name="signals", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)


def serve(daemon: Daemon, server_of: Callable[[Routes], WebServer]) -> int:
    """Listen, and run the daemon to its end."""
    server = server_of(daemon.routes)
    try:
        server.start()
    except WebServerError as error:
        complain(str(error))
        daemon.close()
        return ExitStatus.COULD_NOT_RUN
    log.info("serving %s/metrics", server.url)
    try:
        daemon.run()
    finally:
        server.close()
    log.info("ended")
    return ExitStatus.ANSWERED


def reloader_of(settings: Settings, source: Configuration) -> Reloader:
    """Reads the settings again, and watches the web configuration too: with an error in it no start would succeed."""
    web = settings.publish.web_config_file
    files = source.files if web is None else (*source.files, Path(web))
    return Reloader(partial(_startable, source.load), source.loaded, files, wall_clock=time.time)


def require_startable(settings: Settings) -> None:
    """Raises ConfigurationError for valid settings with which `serve` does not start, and which no reload takes."""
    problem = _state_file_problem(settings) or lacking_package(settings)
    if problem is not None:
        raise ConfigurationError([problem])


def _startable(load: Callable[[], SettingsWithSources]) -> SettingsWithSources:
    """Loads settings with which the exporter could start again. Raises ConfigurationError.

    Certificates of the web server are not read: a reload may fall between the writes of a new certificate and its key.
    """
    loaded = load()
    try:
        _web_file(loaded.settings)
        require_startable(loaded.settings)
    except ConfigurationError as error:
        raise ConfigurationError(error.problems, files=(*loaded.files, *error.files)) from error
    return loaded


def _state_file_problem(settings: Settings) -> str | None:
    """Returns why the state file cannot be used: one file cannot have the state of several clusters."""
    if len(settings.watched) > 1 and settings.state_file not in ("auto", "none"):
        return "state.file must be `auto` or `none` for several clusters: each cluster has its own file"
    return None


def baseline_of(settings: Settings) -> BaselineFile | None:
    """The baseline file; None if none is configured."""
    if settings.baseline.file is None:
        return None
    return BaselineFile(
        place_of(settings.baseline.file),
        settings.transaction_log.groups,
        age_ms_max=settings.baseline.age_ms_max,
        wall_clock=time.time,
    )


def why_baseline_unusable(settings: Settings) -> str | None:
    """Returns why `serve` would go on without the baseline file that is on this disk; None without a reason."""
    baseline = baseline_of(settings)
    return baseline.why_unusable() if baseline is not None and isinstance(baseline.place, Path) else None


def history_of(settings: Settings) -> Recorder | None:
    """The writer of the history; None if none is configured."""
    if settings.history.directory is None:
        return None
    from exporter.history.writer import History  # noqa: PLC0415 - loads Arrow, which is large and an extra

    return History(settings.history)


def web_server(settings: Settings) -> Callable[[Routes], WebServer]:
    """The web server that the settings configure, without its content. Raises ConfigurationError."""
    path, file = settings.publish.web_config_file, _web_file(settings)
    tls = file.current().tls
    try:
        context = None if tls is None else RenewingContext(tls)
    except ServerTlsError as error:
        raise ConfigurationError([f"{path}: {error}"]) from error
    sans = frozenset[str]() if tls is None else tls.client_allowed_sans
    return lambda routes: WebServer(
        settings.publish.listen_address, routes, tls=context, allowed_sans=sans, guard=Authenticator(file.current)
    )


def _web_file(settings: Settings) -> WebFile:
    path = settings.publish.web_config_file
    return WebFile(None if path is None else Path(path))
