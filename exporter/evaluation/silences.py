"""Declares for how long the owner of a transactional id is usually silent, as its earlier transactions show it.

A silence is usual if the owner ended it: with another write, or with the end of the transaction. A silence that was ended
by a time-out or a fence says nothing, since its owner may have been dead. Only the transaction log shows a fence; without
it one such silence is tolerated, because the longest of all is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TRANSACTIONS_MIN: Final = 3
"""Transactions that must have ended before a silence is usual."""
TRANSACTIONS_MAX: Final = 8
"""Remembered transactions of an id, the newest: what an application does may change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerSilences:
    """The silences of one transactional id's owner that this process has seen. Durations and instants in milliseconds."""

    start_ms: int
    """Start of the latest transaction by its coordinator: another transaction of the id has another start."""
    timeout_ms: int
    silent_ms: int
    """The silence in the latest cycle that saw it."""
    longest_ms: int = 0
    """The longest silence in it that a write has ended."""
    ended: tuple[int, ...] = ()
    """The longest silence in each earlier transaction, oldest first."""

    @property
    def usual_ms(self) -> int | None:
        """The longest usual silence; None if too few transactions have ended."""
        return sorted(self.ended)[-2] if len(self.ended) >= TRANSACTIONS_MIN else None

    def after(self, start_ms: int, timeout_ms: int, silent_ms: int, *, was_aborted: bool) -> OwnerSilences:
        """Returns the silences after one more cycle, in which the id's transaction has this start, time-out and silence.

        `was_aborted`: the transaction log shows that the transaction before was not committed.
        """
        longest_ms, ended = 0, self.ended
        if start_ms == self.start_ms:
            longest_ms = max(self.longest_ms, self.silent_ms if silent_ms < self.silent_ms else 0)
        elif start_ms < self.start_ms + self.timeout_ms and not was_aborted:
            ended = (*ended, max(self.longest_ms, self.silent_ms))[-TRANSACTIONS_MAX:]
        return OwnerSilences(
            start_ms=start_ms, timeout_ms=timeout_ms, silent_ms=silent_ms, longest_ms=longest_ms, ended=ended
        )
