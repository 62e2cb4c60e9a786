"""Asks the operator for confirmation before a write, and records question and response in the audit log."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from exporter.commands.context import Context
from exporter.commands.lines import fit_terminal
from exporter.commands.report import complain, with_collector
from exporter.config.settings import Settings
from exporter.kafka.collect.collector import Collector
from exporter.recovery.audit import AuditError, AuditLog

QUESTION: Final = "This cannot be undone. Write {}{}? Type yes: "


def on_cluster(cluster_id: str | None) -> str:
    """Names the cluster of a write, or of its dry run: a client's file may name another than the operator thinks of."""
    return f" on cluster {cluster_id}" if cluster_id else ""


def audit_log(context: Context, cluster_id: str | None = None) -> AuditLog:
    """The log of `--audit-log`, or of the state directory. Raises AuditError if neither is known."""
    path = context.options.audit_log or context.audit_path
    if path is None:
        raise AuditError("there is no state directory for the audit log: name a file with --audit-log")
    return AuditLog(Path(path), wall_clock=time.time, cluster_id=cluster_id)


def with_audited(settings: Settings, command: Callable[[Collector], int]) -> int:
    """Runs `command` on its own collector; if the audit log cannot be written, prints one sentence and returns status 1."""

    def guarded(collector: Collector) -> int:
        try:
            return command(collector)
        except AuditError as error:
            return complain(str(error))

    return with_collector(settings, guarded)


def agrees(options: argparse.Namespace, audit: AuditLog, about: Mapping[str, Any], what: str = "it") -> bool:
    """True if the operator confirms: by `--yes`, or by typing yes on a terminal. Raises AuditError.

    `about` is what the audit log says of what was asked. Ctrl-C is logged as declined too, and raised again as
    KeyboardInterrupt.
    """
    if options.yes:
        audit.step("confirmed", by="--yes", **about)
        return True
    if not _is_terminal():
        audit.step("declined", by="no terminal", **about)
        complain(
            "no confirmation is possible: standard input or standard error is not a terminal; nothing is written, "
            "run it again with --yes"
        )
        return False
    try:
        answer = _asked(QUESTION.format(what, on_cluster(audit.cluster_id)))
    except KeyboardInterrupt:
        sys.stderr.write("\n")  # after the terminal's ^C
        audit.step("declined", by="Ctrl-C", **about)
        complain("declined, nothing is written")
        raise
    is_agreed = answer.strip() == "yes"
    by = "terminal" if answer else "end of input"
    audit.step("confirmed" if is_agreed else "declined", by=by, **about)
    if not is_agreed:
        complain("declined, nothing is written")
    return is_agreed


def _is_terminal() -> bool:
    """True if an operator can see the question and type a response. A stream that was closed before the start is None."""
    streams = (sys.stdin, sys.stderr)
    return all(stream is not None and not stream.closed and stream.isatty() for stream in streams)


def _asked(question: str) -> str:
    """Asks on standard error: standard output may go to a file. Empty at the end of input."""
    sys.stdout.flush()
    sys.stderr.write(f"{fit_terminal(question.rstrip(), stream=sys.stderr)} ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        sys.stderr.write("\n")
    return answer
