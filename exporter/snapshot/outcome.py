"""Records the end markers that a search found, and what could not be searched."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndMarker:
    """A COMMIT or ABORT marker in a partition's log."""

    producer_id: int
    producer_epoch: int
    """TransactionVersion 2 writes it with the epoch after that of the records which it ends."""
    ended_epoch: int | None = None
    """Epoch of the records that the marker ends on its partition; None if these were not read, or there are none."""
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """Timestamp by the clock of the partition's leader."""
    commit: bool

    def may_end(self, epoch: int) -> bool:
        """True unless it ended records of another epoch than `epoch`."""
        return self.ended_epoch == epoch if self.ended_epoch is not None else 0 <= self.producer_epoch - epoch <= 1


@dataclass(frozen=True, kw_only=True)
class EndMarkers:
    """The end markers of the producers of unverified transactions, on every partition that remembers them."""

    markers: tuple[EndMarker, ...]
    """Markers in the order of producer id and time."""
    unread: tuple[tuple[int, str], ...] = ()
    """(producer id, sentence) of what could not be searched this time."""
    lost: tuple[tuple[int, str], ...] = ()
    """(producer id, sentence) of markers that may have existed, and are in no log any more."""
    producers_kept_ms: int | None = None
    """Time that every partition remembers a producer that does not write; None if not every broker returned it."""

    @cached_property
    def markers_of(self) -> Mapping[int, Sequence[EndMarker]]:
        """Returns the same by producer id, as the next two do."""
        return _grouped((marker.producer_id, marker) for marker in self.markers)

    @cached_property
    def unread_of(self) -> Mapping[int, Sequence[str]]:
        return _grouped(self.unread)

    @cached_property
    def lost_of(self) -> Mapping[int, Sequence[str]]:
        return _grouped(self.lost)


def _grouped(pairs: Iterable[tuple[int, T]]) -> Mapping[int, Sequence[T]]:
    found: dict[int, list[T]] = defaultdict(list)
    for producer_id, value in pairs:
        found[producer_id].append(value)
    return dict(found)
