"""Says where a consumer group stands on one partition, with regard to the last stable offset. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from exporter.evaluation.blocked import is_held
from exporter.snapshot import UNKNOWN_OFFSET


class Stand(Enum):
    """The place of a group with regard to the last stable offset of a partition."""

    AT = "at"
    BEFORE = "before"
    """The group can read a record before that."""
    BEYOND = "beyond"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPosition:
    """The committed offset of the group on one partition, and the ends of that."""

    committed: int
    last_stable_offset: int
    high_watermark: int
    next_offset: int | None = None
    """Offset of the next record that it can read; see `GroupOffset`."""

    @property
    def lag(self) -> int:
        """Offsets up to the high watermark; 0 where that is unknown."""
        return 0 if self.high_watermark == UNKNOWN_OFFSET else max(self.high_watermark - self.committed, 0)

    @property
    def is_held(self) -> bool:
        """True at the last stable offset, with something behind it."""
        return is_held(self.committed, self.last_stable_offset, self.high_watermark, self.next_offset)

    @property
    def is_assumed(self) -> bool:
        """True if it is held unless the one offset before the last stable offset is a record."""
        return self.is_held and self.next_offset is None and self.committed < self.last_stable_offset

    @property
    def has_read_all(self) -> bool:
        """True if end markers and aborted records are left, and nothing that it can read."""
        return self.next_offset is not None and self.next_offset >= self.high_watermark

    @property
    def can_read(self) -> bool:
        """True if a committed record is known that is ahead of it."""
        return self.next_offset is not None and self.next_offset < self.last_stable_offset

    @property
    def is_unread(self) -> bool:
        """True before the last stable offset, where it is not known whether a committed record lies between."""
        is_before = self.committed < self.last_stable_offset < self.high_watermark
        return is_before and self.next_offset is None and not self.is_held

    @property
    def stand(self) -> Stand | None:
        """The place of the group; None where nothing is held back, the group has no lag, or it is not known."""
        if self.is_held:
            return Stand.AT
        if not UNKNOWN_OFFSET < self.last_stable_offset < self.high_watermark or not self.lag or self.is_unread:
            return None
        return Stand.BEFORE if self.committed < self.last_stable_offset else Stand.BEYOND
