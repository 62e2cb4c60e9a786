"""Exit statuses of every command."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """What a command tells its caller."""

    ANSWERED = 0
    """In full."""
    COULD_NOT_RUN = 1
    WRONG_USAGE = 2
    HANGING = 3
    """Something is proved to hang, and `--exit-code` asked to be told so."""
    INCOMPLETE = 4
    """Answered, and part of the answer is missing: what is missing is on standard error."""
    REFUSED = 5
    """Nothing was written: the guards of `abort`, `complete` and `force-terminate` stand against it."""
