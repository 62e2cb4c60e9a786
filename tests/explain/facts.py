"""Builds what was read about one transaction: a producer with three good transactions, and then the record that hangs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from exporter.evaluation.verdicts import Verdict
from exporter.explain.facts import Facts
from exporter.snapshot import TransactionKey, TransactionState
from exporter.snapshot.origin import (
    LoggedBatch,
    LoggedMarker,
    OtherPartitionEntry,
    PartitionLog,
    PartitionLogs,
    Protection,
)
from exporter.transaction_log.past import LoggedState, StateRead
from exporter.transaction_log.records import Decoded, Tombstone, TransactionRecord

PRODUCER = 7
NAME = "app"
HERE = ("orders", 3)
SECOND_MS = 1000
BEGAN_MS = 1_800_000_000_000


@dataclass
class History:
    """A partition and its coordinator's log, written one after the other; instants in milliseconds since BEGAN_MS."""

    epoch: int = 0
    batches: list[LoggedBatch] = field(default_factory=list)
    markers: list[LoggedMarker] = field(default_factory=list)
    states: list[LoggedState] = field(default_factory=list)
    elsewhere: list[LoggedMarker] = field(default_factory=list)
    offset: int = 0
    leader_epoch: int = 0
    coordinator_epoch: int = 0

    def initialize(self, at: int) -> None:
        self.state(at, TransactionState.EMPTY)

    def state(self, at: int, status: TransactionState, start: int = -1, *partitions: tuple[str, int]) -> None:
        """The coordinator writes a state."""
        self.write(
            at,
            TransactionRecord(
                transactional_id=NAME,
                producer_id=PRODUCER,
                producer_epoch=self.epoch,
                timeout_ms=60_000,
                status=status,
                partitions=frozenset(partitions),
                last_update_ms=BEGAN_MS + at,
                start_ms=BEGAN_MS + start if start >= 0 else -1,
            ),
        )

    def expire(self, at: int) -> None:
        self.write(at, Tombstone(NAME))

    def write(self, at: int, decoded: Decoded) -> None:
        self.states.append(LoggedState(1, len(self.states), BEGAN_MS + at, self.coordinator_epoch, decoded))

    def record(self, at: int, *, epoch: int | None = None, log_append_time: bool = False) -> int:
        """The leader appends a record that the client made at this time; its offset."""
        offset = self.offset
        self.batches.append(
            LoggedBatch(
                offset=offset,
                next_offset=offset + 1,
                producer_epoch=self.epoch if epoch is None else epoch,
                base_sequence=len(self.batches),
                records=1,
                first_timestamp_ms=BEGAN_MS + at,
                max_timestamp_ms=BEGAN_MS + at,
                leader_epoch=self.leader_epoch,
                is_transactional=True,
                has_log_append_time=log_append_time,
            )
        )
        self.offset += 1
        return offset

    def marker(self, at: int, *, commit: bool = True, coordinator_epoch: int | None = None) -> None:
        """The leader writes a marker."""
        self.markers.append(
            LoggedMarker(
                topic=HERE[0],
                partition=HERE[1],
                offset=self.offset,
                producer_epoch=self.epoch,
                coordinator_epoch=self.coordinator_epoch if coordinator_epoch is None else coordinator_epoch,
                timestamp_ms=BEGAN_MS + at,
                leader_epoch=self.leader_epoch,
                commit=commit,
            )
        )
        self.offset += 1

    def transaction(
        self, begun: int, ended: int, *, commit: bool = True, record: bool = True, marker: bool = True
    ) -> None:
        """A whole one, with this partition."""
        if record:
            self.record(begun)
        self.state(begun, TransactionState.ONGOING, begun, HERE)
        decided = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
        self.state(ended, decided, begun, HERE)
        if marker:
            self.marker(ended + 5, commit=commit)
        completed = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
        self.state(ended + 10, completed, begun)

    def facts(self, start_offset: int, verdict: Verdict | None = Verdict.HANGING_NOT_IN_TRANSACTION) -> Facts:
        """Everything was read, and the brokers are set as well as they can be."""
        log = PartitionLog(
            topic=HERE[0],
            partition=HERE[1],
            leader=1,
            leader_epoch=self.leader_epoch,
            read_from=0,
            read_to=self.offset,
            oldest_by_broker_ms=BEGAN_MS,
            batches=tuple(self.batches),
            markers=tuple(self.markers),
            marker_before_ms=max((one.timestamp_ms for one in self.markers if one.offset < start_offset), default=-1),
        )
        entry = OtherPartitionEntry(
            topic=HERE[0],
            partition=HERE[1],
            producer_epoch=self.epoch,
            coordinator_epoch=max((one.coordinator_epoch for one in self.markers), default=-1),
            last_timestamp_ms=BEGAN_MS,
            start_offset=start_offset,
        )
        state = StateRead(
            transactional_id=NAME if self.states else None,
            states=tuple(self.states),
            owner_leader_epoch=self.coordinator_epoch if self.states else -1,
            is_whole=True,
            producer_ids=frozenset({PRODUCER} if self.states else ()),
            partitions_read=1,
            records_read=len(self.states),
        )
        return Facts(
            opened=TransactionKey(*HERE, PRODUCER, start_offset),
            verdict=verdict,
            logs=PartitionLogs(own=log, markers=tuple(self.elsewhere), entry=entry),
            state=state,
            protection=Protection(
                state_topic_configs={"unclean.leader.election.enable": "false"}, state_topic_replicas=3
            ),
        )


def history() -> History:
    """A producer with three good transactions of a second each, five seconds apart, the last until second 13."""
    made = History()
    made.initialize(0)
    for begun in (2, 7, 12):
        made.transaction(begun * SECOND_MS, (begun + 1) * SECOND_MS)
    return made


def with_log(facts: Facts, **changes: object) -> Facts:
    """With another log of the partition."""
    return replace(facts, logs=replace(facts.logs, own=replace(facts.logs.own, **changes)))  # type: ignore[arg-type]


def with_state(facts: Facts, **changes: object) -> Facts:
    """With another log of the coordinator."""
    return replace(facts, state=replace(facts.state, **changes))  # type: ignore[arg-type]
