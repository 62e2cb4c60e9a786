"""`pipeline`: tables, incidents and baselines of the history, by Spark."""

from __future__ import annotations

import argparse
import re
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from exporter.commands.report import complain
from exporter.commands.status import ExitStatus
from exporter.config import values

NEEDED = "the pipeline needs Spark and Java 17: pip install 'kafka-transaction-exporter[spark]'"


def run(options: argparse.Namespace, _settings: object) -> int:
    """Until the job is done, or with `--every` until Ctrl-C; the exit status."""
    try:
        groups: tuple[tuple[str, re.Pattern[str]], ...] = values.groups(options.groups) if options.groups else ()
    except ValueError as error:
        complain(f"--groups {error}")
        return ExitStatus.WRONG_USAGE
    if not Path(options.history).is_dir():
        complain(f"--history {options.history}: is not a directory")
        return ExitStatus.COULD_NOT_RUN
    try:
        from exporter.pipeline import jobs, manifest, session  # noqa: PLC0415 - Spark is an extra
    except ModuleNotFoundError as error:
        complain(f"{NEEDED} ({error})")
        return ExitStatus.COULD_NOT_RUN
    tables = manifest.Tables(Path(options.tables))
    with tempfile.TemporaryDirectory(prefix="kafka-transaction-exporter-", dir=options.temporary) as temporary:
        try:
            with tables.locked():
                master = options.master or (None if options.is_submitted else "local[*]")
                spark = session.open_session(master, temporary, memory=options.memory)
                try:
                    work = jobs.Jobs(
                        spark=spark,
                        history=Path(options.history),
                        tables=tables,
                        groups=groups,
                        retention_ms=options.retention,
                        now_ms=lambda: int(time.time() * 1000),
                        say=lambda sentence: print(sentence, flush=True),
                    )
                    return repeat(work, tables, options)
                finally:
                    spark.stop()
        except (manifest.TablesError, OSError) as error:
            complain(str(error))
            return ExitStatus.COULD_NOT_RUN


def repeat(work: Any, tables: Any, options: argparse.Namespace) -> int:
    """Once, or at each beginning of an interval; a run that takes longer is followed by the next at once.

    What fails is told, and tried again in its time: nothing of it is in the tables. The exit status is that of the last.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415 - with Spark
    from pyspark.errors import PySparkException  # noqa: PLC0415

    begun = time.monotonic()
    while True:
        status = ExitStatus.ANSWERED
        try:
            getattr(work, options.job)()
        except (PySparkException, Py4JError) as error:
            complain(f"{options.job} failed: {str(error).splitlines()[0]}")
            status = ExitStatus.COULD_NOT_RUN
        if options.every is None:
            return status
        begun = max(begun + options.every / 1000, time.monotonic())
        threading.Event().wait(begun - time.monotonic())
        tables.sweep(tables.load())
