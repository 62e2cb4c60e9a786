"""Declares the exit statuses of every command."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """The result of a command for its caller."""

    ANSWERED = 0
    """Complete."""
    COULD_NOT_RUN = 1
    WRONG_USAGE = 2
    HANGING = 3
    """A transaction is proved to hang, and `--exit-code` requested this status."""
    INCOMPLETE = 4
    """Part of the result is missing: standard error says what."""
    REFUSED = 5
    """Nothing was written: a guard of `abort`, `complete` or `force-terminate` refused."""
