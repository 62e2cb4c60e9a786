"""A partition that answers by script, and counts the markers that it is given. It simplifies: nobody else writes to it."""

from __future__ import annotations

from collections.abc import Sequence

from exporter.kafka.markers import Marker, MarkerAnswer, MarkerOutcome
from exporter.kafka.questions import ProducerEntry

WRITTEN = MarkerAnswer(MarkerOutcome.WRITTEN)
Look = tuple[ProducerEntry, ...] | BaseException
OPEN = ProducerEntry(
    producer_id=4000,
    producer_epoch=3,
    coordinator_epoch=-1,
    last_sequence=0,
    last_timestamp_ms=0,
    start_offset=100,
)
"""The transaction that the scenes and plans of the tests are about."""


class PartitionStandIn:
    """`looks` are what `producers` answers or raises, before the marker and after it; the last of each is repeated."""

    def __init__(
        self,
        before: Sequence[Look] = ((OPEN,),),
        after: Sequence[Look] = ((),),
        *,
        answer: MarkerAnswer | BaseException = WRITTEN,
        stable: tuple[int, int] = (100, 150),
    ) -> None:
        self._before = list(before)
        self._after = list(after)
        self._answer = answer
        self._stable = stable
        self.written: list[Marker] = []
        self.looks = 0

    def producers(self) -> tuple[ProducerEntry, ...]:
        self.looks += 1
        script = self._after if self.written else self._before
        look = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(look, BaseException):
            raise look
        return look

    def last_stable_offset(self) -> int:
        return self._stable[1 if self.written else 0]

    def write(self, marker: Marker) -> MarkerAnswer:
        self.written.append(marker)
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer
