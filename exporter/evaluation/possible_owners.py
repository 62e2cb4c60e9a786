"""Decides which producers may own a transaction of which only the start offset is known.

It is open at every offset at which the last stable offset stands. Its owner is one of the active transactions that include
the partition, or nobody. A marker of a producer id ends whatever that producer has open on the partition: when a
transaction of a producer was active there and is not any more, and the last stable offset still stands there, in the same
leader epoch, the producer id is not the one of the open records, and never becomes it. It is excluded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from exporter.snapshot import NULL, CoordinatorTransaction, HeldOffset

STARTS_MAX: Final = 10_000
"""Producers whose transactions are remembered for one offset; the newest."""
EXCLUDED_MAX: Final = 10_000
"""Excluded producers of one offset; beyond it those that are not active are forgotten, and may be excluded again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedOffset:
    """Facts of earlier cycles about an offset at which the last stable offset stands. They hold in one leader epoch."""

    leader_epoch: int
    starts: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """Producer id -> start of its first known transaction that included the partition, in ms; without those excluded."""
    excluded: frozenset[int] = frozenset()
    """Producer ids that do not have the open records."""
    was_proved: bool = False
    """True once no active transaction could own it."""


def exclude(held: HeldOffset, before: RememberedOffset | None) -> RememberedOffset:
    """Adds what a whole proof shows: each producer whose remembered transaction is not active any more has completed it.

    The transactions of `held` must be those of confirmed coordinators.
    """
    if before is None or before.leader_epoch != held.leader_epoch:
        before = RememberedOffset(leader_epoch=held.leader_epoch)
    excluded, starts = before.excluded, dict(before.starts)
    for described in held.described:  # the offset was read after all of these
        active = {of.producer_id: of.start_ms for of in described}
        excluded |= {
            producer_id
            for producer_id, start_ms in starts.items()
            if active.get(producer_id, NULL) not in {start_ms, None}
        }
        for producer_id, start_ms in active.items():
            if start_ms is not None:
                starts.setdefault(producer_id, start_ms)
    for of in held.later:  # compared only by the next proof: the offset was not read after it
        if of.start_ms is not None:
            starts.setdefault(of.producer_id, of.start_ms)
    starts = {producer_id: start_ms for producer_id, start_ms in starts.items() if producer_id not in excluded}
    if len(excluded) > EXCLUDED_MAX:
        excluded &= {of.producer_id for of in held.active}
    return RememberedOffset(
        leader_epoch=held.leader_epoch,
        starts=MappingProxyType(dict(list(starts.items())[-STARTS_MAX:])),
        excluded=excluded,
        was_proved=before.was_proved or all(of.producer_id in excluded for of in held.active),
    )


def possible_owners(held: HeldOffset, remembered: RememberedOffset) -> tuple[CoordinatorTransaction, ...]:
    """Returns the active transactions that may own it."""
    return tuple(of for of in held.active if of.producer_id not in remembered.excluded)
