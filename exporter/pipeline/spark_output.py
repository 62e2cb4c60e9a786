"""Spark's own messages: errors only, without what its processes print at every start; and the cause of a failure."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LOG4J: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %p %c{1}: %m%n%ex{short.message}
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
"""
_QUIET: Final = (
    # Failures of tasks: Spark retries them, and the job reports the last one.
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.scheduler.TaskSchedulerImpl",
    "org.apache.spark.sql.execution.datasources.FileFormatWriter",
    "org.apache.spark.util.Utils",
)
_MISSING: Final = "ModuleNotFoundError: "
_SEND: Final = (
    "the Python of Spark's workers lacks it: send it with --archives, as docs/pipeline.md says (On a cluster)"
)
_TRACEBACK: Final = "Traceback (most recent call last)"
_AT_EVERY_START: Final = re.compile(
    rb"WARNING: Using incubator modules|NOTE: Picked up JDK_JAVA_OPTIONS|^\s*$"
    # Of jars that Ivy finds; what it does not find is shown.
    rb"|^:: (loading|resolving|resolution|retrieving) |^Ivy Default Cache|^The jars for the packages|added as a dependency$"
    rb"|^\t(found |confs: |:: modules in use:|-+$|\||\d+ artifacts copied|.* from \S+ in \[default\]$)"
    rb"|^downloading |^\t\[SUCCESSFUL"
)


def write_log4j(folder: Path) -> str:
    """The option of Java that has Spark log errors only."""
    quiet = "".join(f"logger.l{n}.name = {name}\nlogger.l{n}.level = off\n" for n, name in enumerate(_QUIET))
    path = folder / "log4j2.properties"
    path.write_text(LOG4J + quiet, encoding="utf-8")
    return f"-Dlog4j2.configurationFile={path.resolve().as_uri()}"


@contextmanager
def without_notices() -> Iterator[None]:
    """A process that is started within it prints to stderr without the notices of every start of Java, and not to stdout.

    Delta's VACUUM would print there what it has removed.
    """
    read, write = os.pipe()
    kept, stdout = os.dup(2), os.dup(1)
    nothing = os.open(os.devnull, os.O_WRONLY)
    threading.Thread(target=_forward, args=(read, os.dup(kept)), name="spark output", daemon=True).start()
    os.dup2(write, 2)
    os.dup2(nothing, 1)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.dup2(stdout, 1)
        for each in (write, kept, stdout, nothing):
            os.close(each)


def _forward(source: int, sink: int) -> None:
    """Forwards until all writers have ended."""
    with open(source, "rb") as lines, open(sink, "wb", buffering=0) as shown:
        for line in lines:
            if _AT_EVERY_START.search(line) is None:
                shown.write(line)


def raised_on_worker(error: BaseException) -> str | None:
    """Returns the line of what Python raised on a worker; None if the error is another one."""
    _, on_worker, trace = str(error).rpartition(_TRACEBACK)
    raised = re.search(r"^(?:\w+\.)*[A-Z]\w*: .+$", trace, re.MULTILINE) if on_worker else None
    return None if raised is None else raised[0]


def failure_of(error: BaseException) -> str:
    """Returns one line: what a worker's Python raised, or what Java says with its innermost cause, which has the reason."""
    raised = raised_on_worker(error)
    if raised is not None:
        return f"{raised} ({_SEND})" if raised.startswith(_MISSING) else raised
    said = next(iter(str(error).splitlines()), type(error).__name__)
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is None:
        return said
    while java.getCause() is not None and java.getCause() != java:
        java = java.getCause()
    message = next(iter(str(java.getMessage() or "").splitlines()), "")
    cause = f"{java.getClass().getSimpleName()}: {message}".rstrip(": ")
    return cause if said.startswith("An error occurred while calling") else f"{said} ({cause})"
