"""Asking a person before anything is written, and writing down what was asked and answered."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from exporter.commands.context import Context
from exporter.commands.report import complain
from exporter.recovery.audit import AuditLog

AUDIT_FILE = "audit.jsonl"


def audit_log(context: Context) -> AuditLog | None:
    """The log of `--audit-log`, or of the state directory; None, with a complaint, where neither is known."""
    path = context.options.audit_log
    if path is None and context.state_folder is not None:
        path = context.state_folder / AUDIT_FILE
    if path is None:
        complain("there is no state directory for the audit log: name a file with --audit-log")
        return None
    return AuditLog(Path(path), wall_clock=time.time)


def agrees(options: argparse.Namespace, audit: AuditLog, question: str = "Write it? Type yes: ") -> bool:
    """True when the operator wants it: by `--yes`, or by typing yes on a terminal. Raises AuditError.

    Leaving by Ctrl-C is logged as declined too, and goes on as KeyboardInterrupt.
    """
    if options.yes:
        audit.step("confirmed", by="--yes")
        return True
    if not _is_terminal():
        audit.step("declined", by="no terminal")
        complain(
            "no confirmation is possible: standard input or standard error is not a terminal; nothing is written, "
            "run it again with --yes"
        )
        return False
    try:
        answer = _asked(question)
    except KeyboardInterrupt:
        audit.step("declined", by="Ctrl-C")
        raise
    is_agreed = answer.strip() == "yes"
    audit.step("confirmed" if is_agreed else "declined", by="terminal")
    if not is_agreed:
        complain("declined, nothing is written")
    return is_agreed


def _is_terminal() -> bool:
    """True where a question is seen and can be answered. A stream that was closed before we came is None."""
    streams = (sys.stdin, sys.stderr)
    return all(stream is not None and not stream.closed and stream.isatty() for stream in streams)


def _asked(question: str) -> str:
    """Asked on standard error: standard output may go to a file. Empty at the end of input."""
    sys.stdout.flush()
    sys.stderr.write(question)
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        sys.stderr.write("\n")
    return answer
