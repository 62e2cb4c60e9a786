"""A partition with scripted responses that counts its markers. It simplifies: no other client writes to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from exporter.evaluation.verdicts import TransactionRow, Verdict
from exporter.kafka.markers import MarkerOutcome, MarkerResponse
from exporter.kafka.messages.write_txn_markers import Marker
from exporter.recovery.partition import DecidingCoordinator, PartitionState
from exporter.snapshot import OneEntry
from tests.publication.builders import transaction

WRITTEN = MarkerResponse(MarkerOutcome.WRITTEN)
Seen = tuple[OneEntry, ...] | BaseException
OPEN = OneEntry(
    producer_id=4000,
    producer_epoch=3,
    coordinator_epoch=-1,
    last_sequence=0,
    last_timestamp=0,
    current_txn_start_offset=100,
)
"""The transaction that the scenes and plans of the tests are about."""


class PartitionStandIn:
    """`looks` are what is seen or raised, before the marker and after it; the last of each is repeated."""

    def __init__(
        self,
        before: Sequence[Seen] = ((OPEN,),),
        after: Sequence[Seen] = ((),),
        *,
        answer: MarkerResponse | BaseException = WRITTEN,
        stable: tuple[int, int] = (100, 150),
        log_start: int = 0,
        topic_id: str = "",
    ) -> None:
        self._before = list(before)
        self._after = list(after)
        self._answer = answer
        self._stable = stable
        self._log_start = log_start
        self._topic_id = topic_id
        self.written: list[Marker] = []
        self.coordinated: list[DecidingCoordinator | None] = []
        self.looks = 0

    def look(self, coordinated: DecidingCoordinator | None = None) -> PartitionState:
        self.coordinated.append(coordinated)
        return PartitionState(
            leader=1,
            leader_epoch=0,
            topic_id=self._topic_id,
            log_start_offset=self._log_start,
            last_stable_offset=self.last_stable_offset(),
            entries=self.producers(),
        )

    def producers(self) -> tuple[OneEntry, ...]:
        self.looks += 1
        script = self._after if self.written else self._before
        look = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(look, BaseException):
            raise look
        return look

    def last_stable_offset(self) -> int:
        return self._stable[1 if self.written else 0]

    def write(
        self,
        marker: Marker,
        is_unchanged: Callable[[PartitionState], bool],
        coordinated: DecidingCoordinator | None = None,
    ) -> MarkerResponse | PartitionState:
        look = self.look(coordinated)
        if not is_unchanged(look):
            return look
        self.written.append(marker)
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


def row(verdict: Verdict = Verdict.HANGING_NOT_IN_TRANSACTION, **changes: object) -> TransactionRow:
    """The transaction of `OPEN`, with a verdict."""
    facts: dict[str, object] = {
        "coordinator_epoch": -1,
        "start_offset": 100,
        "last_sequence": 0,
        "last_timestamp_ms": 0,
        "coordinator_state": "Empty",
        **changes,
    }
    return replace(transaction(verdict=verdict), **facts)  # type: ignore[arg-type]  # the tests' own keywords
