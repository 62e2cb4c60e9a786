"""`pipeline`: makes tables, incidents and baselines from the history, with Spark."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from exporter.commands.context import Context
from exporter.commands.offline_options import JOBS_OF_FLAGS, JOBS_WITH_BROKERS
from exporter.commands.option_types import temporary_directory
from exporter.commands.report import complain, wait
from exporter.commands.status import ExitStatus
from exporter.config import values
from exporter.config.loading import flag_name
from exporter.config.settings import Settings
from exporter.history.schema import VERSION
from exporter.patterns import GroupRules
from exporter.storage.places import Place, place_of

_SETTINGS_FILES = {"config_file": "--config.file", "command_config": "--command-config"}
NEEDED = "the pipeline needs Spark and Java 17: pip install 'kafka-transaction-exporter[spark]'"


def run(context: Context, settings: Settings | None) -> int:
    """Runs until the job is done, or with `--every` until Ctrl-C; returns the exit status.

    Only jobs that read from Kafka have settings.
    """
    options = context.options
    try:
        _require_useful(context)
        groups: GroupRules = () if settings is not None else _checked(options)
        audit_logs = tuple(_place("--audit-log", each) for each in options.audit_log)
        folder = _place("--tables", options.tables)
        history = None if settings is not None else _place("--history", options.history)
    except _UsageError as error:
        return complain(str(error), ExitStatus.WRONG_USAGE)
    try:
        if history is not None and not history.is_dir():
            return complain(f"--history {history}: {_why_no_history(history)}")
        if history is not None and not (history / VERSION).is_dir():
            return complain(f"--history {history}: is no history.directory of an exporter: it has no folder {VERSION}")
    except OSError as error:
        return complain(f"--history {error}")
    try:
        from exporter.pipeline import session  # noqa: F401, PLC0415 - Spark is an extra: missed here, not later
        from exporter.pipeline.connectors import JarsError  # noqa: PLC0415
        from exporter.pipeline.delta import TableError  # noqa: PLC0415
        from exporter.pipeline.probe import require_conditional_writes  # noqa: PLC0415
        from exporter.pipeline.tables import Tables  # noqa: PLC0415
    except ModuleNotFoundError as error:
        return complain(f"{NEEDED} ({error})")
    tables = Tables(folder)
    try:
        if (tables.root / "manifest.json").exists():
            return complain(
                f"{tables.root}: has tables with a manifest, which are no Delta tables: use another --tables"
            )
        require_conditional_writes(tables.root)
        if history is None:
            assert settings is not None
            return (_audit if options.job == "audit" else _read_log)(context, settings, tables)
        return _work(context, groups, history, tables, audit_logs)
    except (TableError, JarsError, OSError) as error:
        return complain(str(error))


def _why_no_history(history: Place) -> str:
    late = "an exporter makes it with its first file, history.rotate_interval after its start"
    if not isinstance(history, Path):
        return f"holds nothing, or there is no such bucket; {late}"
    return "is not a directory" if history.exists() else f"does not exist; {late}"


class _UsageError(Exception):
    """A problem of the options."""


def _require_useful(context: Context) -> None:
    """Raises _UsageError for an option that the job would ignore."""
    job, options = context.options.job, vars(context.options)
    jobs_of = {flag: JOBS_OF_FLAGS[flag] for flag in context.given(JOBS_OF_FLAGS)}
    if job in JOBS_WITH_BROKERS:
        if options["history"] is not None:
            raise _UsageError(f"--history does not apply to `pipeline {job}`, which reads from Kafka")
    else:
        settings = [flag_name(name.removeprefix("setting:")) for name in options if name.startswith("setting:")]
        settings += [flag for name, flag in _SETTINGS_FILES.items() if name in options]
        jobs_of |= dict.fromkeys(settings, JOBS_WITH_BROKERS)
    for flag, jobs in jobs_of.items():
        if job not in jobs:
            raise _UsageError(f"{flag} applies to {' and '.join(f'`pipeline {each}`' for each in jobs)} only")


def _checked(options: argparse.Namespace) -> GroupRules:
    """The rules of `--groups`. Raises _UsageError."""
    if options.history is None:
        raise _UsageError("--history is missing: the directory that the daemon writes (history.directory)")
    try:
        return values.groups(options.groups) if options.groups else ()
    except ValueError as error:
        raise _UsageError(f"--groups {error}") from error


def _place(option: str, text: str) -> Place:
    """Raises _UsageError."""
    try:
        return place_of(text)
    except ValueError as error:
        raise _UsageError(f"{option} {error}") from error


@contextmanager
def _spark(
    context: Context,
    places: Collection[Place],
    connectors: Sequence[str] = (),
    is_short: Callable[[], bool] = lambda: False,
) -> Iterator[Callable[[], Any]]:
    """Starts Spark when first called, with its own temporary directory; it ends with the block. Raises JarsError."""
    from exporter.pipeline.connectors import (  # noqa: PLC0415
        DELTA_SETTINGS,
        connectors_of,
        is_in_s3,
        jars_of,
        require_delta,
        spark_settings,
    )
    from exporter.pipeline.log_store import LOG_STORE_SETTINGS, load_log_store  # noqa: PLC0415
    from exporter.pipeline.session import open_session  # noqa: PLC0415

    options = context.options
    folder = None if options.jars is None else Path(options.jars)
    jars = jars_of(folder, (*connectors, *connectors_of(places)))
    more = {**jars, **spark_settings(places), **DELTA_SETTINGS, **LOG_STORE_SETTINGS}
    master = options.master or (None if context.is_submitted else "local[*]")
    with temporary_directory(options.temporary) as temporary, ExitStack() as stack:

        @cache
        def open_spark() -> Any:
            spark = open_session(master, temporary, memory=options.memory, is_short=is_short(), more=more)
            stack.callback(spark.stop)
            require_delta(spark)
            load_log_store(spark, Path(temporary), in_s3=is_in_s3(places))
            return spark

        if context.is_submitted:
            open_spark()  # YARN waits for the session of what was submitted to it
        yield open_spark


def _work(context: Context, groups: GroupRules, history: Place, tables: Any, audit_logs: tuple[Place, ...]) -> int:
    from exporter.pipeline.jobs import Jobs  # noqa: PLC0415

    options = context.options

    def is_short() -> bool:
        """Returns whether few files are expected since the run before; the first run reads everything."""
        takes_files = options.job in {"run", "transactions"} and options.every is None
        return takes_files and not context.is_submitted and bool(tables.current().state.taken)

    has_said = False

    def say(sentence: str) -> None:
        nonlocal has_said
        has_said = True
        print(sentence, flush=True)

    with _spark(context, (history, tables.root), is_short=is_short) as open_spark:
        work = Jobs(
            open_spark=open_spark,
            history=history,
            tables=tables,
            groups=groups,
            retention_ms=options.retention,
            now_ms=lambda: int(time.time() * 1000),
            say=say,
            objective_percent=options.objective,
            audit_logs=audit_logs,
        )
        status = repeat(work, options)
        if status == ExitStatus.ANSWERED and not has_said:
            say(f"{options.job}: nothing new for it; the history comes into the tables by `transactions`")
        return status


def _read_log(context: Context, settings: Settings, tables: Any) -> int:
    from exporter.pipeline import log_job  # noqa: PLC0415
    from exporter.pipeline.connectors import KAFKA  # noqa: PLC0415

    options = context.options
    since_ms = int(time.time() * 1000) - settings.transaction_log.lookback_ms
    try:
        source = log_job.source_of(settings.kafka, since_ms=since_ms)
        with _spark(context, (tables.root,), (KAFKA,)) as open_spark:
            log_job.read_log(open_spark(), source, tables, every_ms=options.every)
    except log_job.LogJobError as error:
        return complain(str(error))
    print(f"transaction-log: {tables.transaction_log.folder}")
    return ExitStatus.ANSWERED


def _audit(context: Context, settings: Settings, tables: Any) -> int:
    from exporter.audit.job import AuditJob  # noqa: PLC0415
    from exporter.audit.sentence import sentence_of  # noqa: PLC0415
    from exporter.kafka.collect.topic_filter import TopicFilter  # noqa: PLC0415

    options = context.options
    with _spark(context, (tables.root,)) as open_spark:
        job = AuditJob(
            open_spark=open_spark,
            kafka=settings.kafka,
            topics=TopicFilter(settings.scan.topics_include, settings.scan.topics_exclude),
            tables=tables,
            say=lambda line: print(line, flush=True),
            bytes_per_second=options.max_rate,
            replicas=options.replicas,
            since_ms=0 if options.since is None else int(time.time() * 1000) - options.since,
        )

        def audit() -> ExitStatus:
            result = job.run()
            for line in sentence_of(result):
                print(line, flush=True)
            if result.findings:
                return ExitStatus.HANGING
            is_part = result.unread or result.copies_unread or (result.log_behind and not result.transactions)
            return ExitStatus.INCOMPLETE if is_part else ExitStatus.ANSWERED

        return repeat(SimpleNamespace(audit=audit), options)


def repeat(work: Any, options: argparse.Namespace) -> int:
    """Runs once, or at each beginning of an interval; after a run that takes longer the next one begins at once.

    A failure is reported, and the next interval retries: the tables do not change. The exit status is that of the last
    completed run; with an interval Ctrl-C is the normal end.
    """
    begun, status = time.monotonic(), int(ExitStatus.ANSWERED)
    try:
        while True:
            status = _once(work, options.job)
            if options.every is None:
                return status
            begun = max(begun + options.every / 1000, time.monotonic())
            wait(begun - time.monotonic())
    except KeyboardInterrupt:
        if options.every is None:
            raise
        return status


def _once(work: Any, job: str) -> int:
    from exporter.audit.reading import LogReadError  # noqa: PLC0415 - with Spark
    from exporter.pipeline.jobs import FAULTS  # noqa: PLC0415
    from exporter.pipeline.spark_output import failure_of  # noqa: PLC0415

    try:
        status = getattr(work, job)()
    except BrokenPipeError:  # nobody reads what is printed
        raise
    except (*FAULTS, LogReadError) as error:
        return complain(f"{job} failed: {failure_of(error)}")
    return status if isinstance(status, ExitStatus) else ExitStatus.ANSWERED
