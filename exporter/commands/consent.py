"""Asking a person before anything is written, and writing down what was asked and answered."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from exporter.commands.report import complain
from exporter.recovery.audit import AuditLog

AUDIT_FILE = "audit.jsonl"


def audit_log(options: argparse.Namespace) -> AuditLog | None:
    """The log of `--audit-log`, or of the state directory; None, with a complaint, where neither is known."""
    path = options.audit_log
    if path is None and options.state_folder is not None:
        path = options.state_folder / AUDIT_FILE
    if path is None:
        complain("there is no state directory for the audit log: name a file with --audit-log")
        return None
    return AuditLog(Path(path), wall_clock=time.time)


def agrees(options: argparse.Namespace, audit: AuditLog) -> bool:
    """True when the operator wants it: by `--yes`, or by typing yes on a terminal. Raises AuditError."""
    if options.yes:
        audit.step("confirmed", by="--yes")
        return True
    if not sys.stdin.isatty():
        complain("nobody to ask: standard input is no terminal; repeat it with --yes")
        return False
    answer = input("Write it? Type yes: ").strip()
    audit.step("confirmed" if answer == "yes" else "declined", by="terminal")
    return answer == "yes"
