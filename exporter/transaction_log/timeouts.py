"""Records transactions that their coordinator ended: timed out, or fenced for a newer producer of the id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from exporter.transaction_log.events import Event, Happening, Outcome

PARTITIONS_TOLD_MAX: Final = 3
_BY_THE_COORDINATOR: Final = frozenset({Outcome.TIMED_OUT, Outcome.FENCED})


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedByCoordinator:
    """A transaction whose client did not end it. Instants and durations in milliseconds, by the coordinator's clock."""

    transactional_id: str
    outcome: Outcome
    """TIMED_OUT or FENCED."""
    at_ms: int
    """Time of the coordinator's decision."""
    duration_ms: int
    """Duration since the start; -1 if the log does not show it."""
    timeout_ms: int
    partitions: tuple[str, ...]
    """`orders-0`, sorted."""


def ended_by_coordinator(event: Event) -> EndedByCoordinator | None:
    """The transaction, if the event is such an end."""
    if event.happening is not Happening.PREPARED or event.outcome not in _BY_THE_COORDINATOR:
        return None
    return EndedByCoordinator(
        transactional_id=event.transactional_id,
        outcome=event.outcome,
        at_ms=event.at_ms,
        duration_ms=event.duration_ms,
        timeout_ms=event.timeout_ms,
        partitions=tuple(f"{topic}-{partition}" for topic, partition in sorted(event.partitions)),
    )


def in_words(transaction: EndedByCoordinator) -> str:
    """Formats the timeout for a log line."""
    how = "timed out" if transaction.outcome is Outcome.TIMED_OUT else "was fenced"
    after = "" if transaction.duration_ms < 0 else f" after {transaction.duration_ms / 1000:.1f} s"
    where = ", ".join(transaction.partitions[:PARTITIONS_TOLD_MAX]) or "no partition"
    more = len(transaction.partitions) - PARTITIONS_TOLD_MAX
    others = f" and {more} more" if more > 0 else ""
    return (
        f"transaction of {transaction.transactional_id!r} {how}{after} "
        f"(time-out {transaction.timeout_ms / 1000:g} s): its coordinator "
        f"aborts it on {where}{others}"
    )
