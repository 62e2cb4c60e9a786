"""Plants hangs, aborts them after a while, and knows which hang was open when."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from hangbench.kafka.planting import init_producer_id, plant_hang_without_id, write_marker
from hangbench.situations.ground import open_entries

FIRST_PRODUCER_ID: Final = 8_000_000_000
LASTS_S: Final = 40.0
APPENDED_WITHIN_S: Final = 30.0
"""A leader that was frozen appends what it received before, after the client has given up."""

Place = tuple[int, int]
"""(partition, start offset)."""


@dataclass(slots=True)
class Hang:
    """A hang, and its time by the wall clock in ms."""

    partition: int
    start_offset: int
    producer_id: int
    producer_epoch: int
    planted_ms: int
    cycles: list[int] = field(default_factory=list)
    """When each cycle began that ran while it was open, until it was proved."""
    sights: list[str] = field(default_factory=list)
    """What each of them said of it."""
    whole: list[bool] = field(default_factory=list)
    """Whether every coordinator responded to each of them, and every leader was confirmed; also the first sight is."""
    is_proved: bool = False
    healed_ms: int | None = None
    """When the leader confirmed its marker; None while it is open."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A hang whose planting was not confirmed: it may appear later."""

    partition: int
    producer_id: int
    producer_epoch: int
    began_s: float


class Hangs:
    """At most one on each of the first partitions of a topic."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._bootstrap, self._topic, self._partitions = bootstrap, topic, partitions
        self._attempts: list[_Attempt] = []
        self._numbers = 0
        self.open: dict[int, Hang] = {}
        self.every: dict[Place, Hang] = {}

    def free(self) -> list[int]:
        """Partitions without a hang."""
        taken = self.open.keys() | {attempt.partition for attempt in self._attempts}
        return [partition for partition in range(self._partitions) if partition not in taken]

    def plant(self, partition: int) -> None:
        """A hang whose id is known, or one whose id nobody knows."""
        self._numbers += 1
        producer_id, epoch = FIRST_PRODUCER_ID + self._numbers, 0
        if self._numbers % 2:
            producer_id, epoch = init_producer_id(self._bootstrap, f"hung-{self._numbers}")
        attempt = _Attempt(partition, producer_id, epoch, time.monotonic())
        self._attempts.append(attempt)
        planted = plant_hang_without_id(
            self._bootstrap, self._topic, partition, producer_id=producer_id, producer_epoch=epoch
        )
        self._add(attempt, planted.start_offset)

    def adopt(self) -> None:
        """Adds what was appended although its planting was not confirmed."""
        for attempt in tuple(self._attempts):
            with suppress(Exception):
                entry = open_entries(self._bootstrap, self._topic, attempt.partition).get(attempt.producer_id)
                if entry is not None:
                    self._add(attempt, entry.start_offset)
                elif time.monotonic() - attempt.began_s > APPENDED_WITHIN_S:
                    self._attempts.remove(attempt)

    def heal(self, *, older_than_s: float = LASTS_S) -> None:
        """Aborts those that have been open for so long."""
        for hang in tuple(self.open.values()):
            if now_ms() - hang.planted_ms > 1000 * older_than_s:
                with suppress(Exception):
                    write_marker(self._bootstrap, self._topic, hang.partition, hang.producer_id, hang.producer_epoch)
                    hang.healed_ms = now_ms()
                    del self.open[hang.partition]

    def _add(self, attempt: _Attempt, start_offset: int) -> None:
        hang = Hang(attempt.partition, start_offset, attempt.producer_id, attempt.producer_epoch, now_ms())
        self._attempts.remove(attempt)
        self.open[hang.partition] = self.every[hang.partition, start_offset] = hang


def now_ms() -> int:
    """The wall clock, which the journal of the producers has too."""
    return time.time_ns() // 1_000_000
