"""Exit statuses of every command."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """What a command tells its caller."""

    ANSWERED = 0
    """In full."""
    COULD_NOT_RUN = 1
    WRONG_USAGE = 2
    INCOMPLETE = 4
    """Answered, and part of the answer is missing: what is missing is on standard error."""
