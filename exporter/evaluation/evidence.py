"""What is known of one open transaction, brought together from the snapshot and from memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from exporter.evaluation.memory import Memory, Remembered, TransactionKey
from exporter.snapshot import (
    STATE_TOPIC,
    ClockSource,
    CoordinatorProof,
    CoordinatorTransaction,
    EndMarker,
    IdVisibility,
    OpenTransactions,
    Ownership,
    SecondRead,
    Snapshot,
    TransactionState,
    ownership,
)
from exporter.snapshot.unexamined import keys_of
from exporter.transaction_log.journal import EndedTransaction, Journal, LoggedProducer

CLOCKS_AGREE_WITHIN_MS = 10_000
"""How far the brokers' clocks may differ among each other without changing a verdict (docs/proof.md)."""

CLOCK_SLACK_MS = 60 * 60 * 1000
"""How much longer ago a transaction may have ended than the timestamp of its last write shows: the client's clock is ahead
by as much at most, and a record is that late at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One open transaction: facts only, nothing decided. Durations and instants in milliseconds."""

    key: TransactionKey
    producer_epoch: int
    ownership: Ownership
    transaction: CoordinatorTransaction | None
    """What its coordinator says of the producer id, the latest answer; None when no coordinator lists it."""
    coordinator_age_ms: int | None
    """Since the start that the coordinator tells; None where it was not described or has not begun."""
    is_clock_sure: bool
    """The cluster's clock is known; else ours stands in for it, and may be off."""
    is_clock_behind: bool
    """Ours stands in for the cluster's clock, and some transaction starts later than it shows."""
    was_seen_before: bool
    watched_ms: int
    """For how long this process has seen it, by its monotonic clock."""
    completing_ms: int
    """Since we first saw it in a Prepare state, 0 when it is not in one."""
    was_asked: bool
    """True when it was in doubt, and its producer id was asked for between the probes."""
    second_read: SecondRead
    proof_failure: str | None
    """Why this cycle's answers of the coordinators prove nothing at all; None when they do."""
    is_unclear: bool
    """Its transactional id changed while it was asked for."""
    is_topic_hidden: bool
    """A coordinator may leave this partition's topic out of its descriptions."""
    id_visibility: IdVisibility
    """Whether a transactional id may be hidden from us while made-up ids are visible."""
    diverged_replicas: tuple[int, ...]
    """Followers that have seen the transaction end, which the leader shows open."""
    silent_replicas: tuple[int, ...]
    """In-sync followers that did not respond, or do not show it open."""
    unconfirmed: str | None
    """Why the leader of its partition, or of its state partition, is not confirmed; None where it is, or was not asked."""
    last_timestamp_ms: int
    """Of the producer's last write here: a client's clock."""
    end_markers: tuple[EndMarker, ...]
    """Of the same producer id at every epoch that was found, in the order of time."""
    was_searched: bool
    """True when the logs were searched for such markers: only an operator's question is worth it."""
    unsearched: tuple[str, ...]
    """What could not be searched for such markers this time, a sentence each."""
    lost: tuple[str, ...]
    """Which of such markers may be in no log any more, or not be found, a sentence each."""
    remembered: Remembered | None
    logged: LoggedProducer | None
    """What the coordinators' log says of the producer id; None where it is not read, or says nothing."""

    @property
    def state(self) -> TransactionState | None:
        """The coordinator's state of the producer id's transaction."""
        return None if self.transaction is None else self.transaction.state

    @property
    def transactional_id(self) -> str | None:
        """As a coordinator names it, else as the log did; None where nobody does."""
        if self.transaction is not None:
            return self.transaction.transactional_id
        return None if self.logged is None else self.logged.transactional_id

    @property
    def ended_in_log(self) -> EndedTransaction | None:
        """The newest transaction of this epoch on this partition that the log has as decided."""
        ended = None if self.logged is None else self.logged.ended.get((self.key.topic, self.key.partition))
        return None if ended is None or ended.producer_epoch != self.producer_epoch else ended

    @property
    def start_in_log_ms(self) -> int | None:
        """The start of the transaction that the log has open here at this epoch; None where it has none."""
        latest = None if self.logged is None else self.logged.latest
        if self.logged is None or latest is None or latest.start_ms < 0:
            return None
        is_open = (self.key.topic, self.key.partition) in latest.partitions
        return latest.start_ms if is_open and self.logged.open_epoch == self.producer_epoch else None


def gather(snapshot: Snapshot, memory: Memory, journal: Journal) -> Iterator[Evidence]:
    """The evidence of each open transaction, in the order of the snapshot's rows."""
    answers = _Answers(snapshot)
    open_ = snapshot.open_transactions
    same_cluster = memory.cluster_id in {"", snapshot.cluster_id}
    unexamined = _places(snapshot, memory) if same_cluster and len(memory.unexamined) else {}
    for row in range(len(open_)):
        key = key_of(snapshot, row)
        remembered = memory.of(key) if same_cluster else None
        if remembered is None and row in unexamined:
            remembered = memory.unexamined.remembered(unexamined[row])
        logged = journal.producers.get(key.producer_id)
        yield _evidence(snapshot, answers, open_, row, key, remembered, logged)


def _places(snapshot: Snapshot, memory: Memory) -> Mapping[int, int]:
    """Row -> where it is among what was seen and not examined."""
    keys = keys_of(snapshot.partitions, snapshot.open_transactions)
    place = keys.places_in(memory.unexamined.keys)
    found = np.flatnonzero(place >= 0)
    return dict(zip(found.tolist(), place[found].tolist(), strict=True))


def key_of(snapshot: Snapshot, row: int) -> TransactionKey:
    """What identifies one open transaction for as long as it stays open."""
    open_ = snapshot.open_transactions
    partition_row = int(open_.partition_row[row])
    topic, partition = snapshot.partitions.name(partition_row)
    topic_id = snapshot.partitions.topic_id(partition_row)
    return TransactionKey(
        topic, partition, int(open_.producer_id[row]), int(open_.current_txn_start_offset[row]), topic_id
    )


class _Answers:
    """The coordinators' answers by producer id: those of the proof are later, and count for whatever was in doubt."""

    def __init__(self, snapshot: Snapshot) -> None:
        proof = snapshot.proof
        self.proof = proof
        self._unclear = snapshot.unclear_producer_ids
        self.listed: Mapping[int, CoordinatorTransaction] = {t.producer_id: t for t in snapshot.transactions}
        self.proved: Mapping[int, CoordinatorTransaction] = (
            {} if proof is None else {t.producer_id: t for t in proof.transactions}
        )
        self.is_clock_behind = _is_clock_behind(snapshot, (*self.listed.values(), *self.proved.values()))

    def of(self, producer_id: int, *, was_asked: bool) -> CoordinatorTransaction | None:
        if was_asked or producer_id in self.proved:
            return self.proved.get(producer_id)
        return self.listed.get(producer_id)

    def is_unclear(self, producer_id: int, *, was_asked: bool) -> bool:
        if self.proof is not None and (was_asked or producer_id in self.proved):
            return producer_id in self.proof.unclear_producer_ids
        return producer_id in self._unclear


def _evidence(
    snapshot: Snapshot,
    answers: _Answers,
    open_: OpenTransactions,
    row: int,
    key: TransactionKey,
    remembered: Remembered | None,
    logged: LoggedProducer | None,
) -> Evidence:
    proof = answers.proof
    second_read = SecondRead(int(open_.second_read[row]))
    was_asked = proof is not None and second_read is not SecondRead.NOT_ASKED
    transaction = answers.of(key.producer_id, was_asked=was_asked)
    producer_epoch = int(open_.producer_epoch[row])
    owned = ownership(transaction, (key.topic, key.partition), producer_epoch)
    now = snapshot.cluster_time_ms
    watched_ms = _watched_ms(remembered, snapshot.monotonic_ms)
    if owned is Ownership.OWNED and transaction is not None and is_another_start(remembered, transaction):
        watched_ms = 0
    return Evidence(
        key=key,
        producer_epoch=producer_epoch,
        ownership=owned,
        transaction=transaction,
        coordinator_age_ms=_coordinator_age_ms(transaction, now),
        is_clock_sure=snapshot.clock_source is ClockSource.CONTROLLER,
        is_clock_behind=answers.is_clock_behind,
        was_seen_before=remembered is not None,
        watched_ms=watched_ms,
        completing_ms=_completing_ms(snapshot, owned, remembered, _prepared_ms(transaction, logged)),
        was_asked=was_asked,
        second_read=second_read,
        proof_failure=None if proof is None else proof.failure_for(transaction),
        is_unclear=answers.is_unclear(key.producer_id, was_asked=was_asked),
        is_topic_hidden=proof is not None and key.topic in proof.hidden_topics,
        id_visibility=IdVisibility.DENY_POSSIBLE if proof is None else proof.id_visibility,
        diverged_replicas=open_.diverged_replicas[row] if open_.diverged_replicas else (),
        silent_replicas=open_.silent_replicas[row] if open_.silent_replicas else (),
        unconfirmed=_unconfirmed(proof, key, transaction) or (open_.unconfirmed[row] if open_.unconfirmed else None),
        last_timestamp_ms=int(open_.last_timestamp[row]),
        **_search_for_end(snapshot, key.producer_id, int(open_.last_timestamp[row])),
        remembered=remembered,
        logged=logged,
    )


def _watched_ms(remembered: Remembered | None, monotonic_ms: int | None) -> int:
    if remembered is None or remembered.watched_from_ms is None or monotonic_ms is None:
        return 0
    return max(monotonic_ms - remembered.watched_from_ms, 0)


def is_another_start(remembered: Remembered | None, transaction: CoordinatorTransaction) -> bool:
    """True where its owner began another transaction since, which has taken over the records that were open."""
    return remembered is not None and remembered.coordinator_start_ms != transaction.start_time_ms


def _is_clock_behind(snapshot: Snapshot, transactions: Iterable[CoordinatorTransaction]) -> bool:
    """True where ours stands in for the cluster's clock and shows less than a coordinator has already written."""
    if snapshot.clock_source is ClockSource.CONTROLLER:
        return False
    latest_ms = max((it.start_time_ms for it in transactions), default=-1)
    return latest_ms > snapshot.cluster_time_ms + CLOCKS_AGREE_WITHIN_MS


def _unconfirmed(
    proof: CoordinatorProof | None, key: TransactionKey, transaction: CoordinatorTransaction | None
) -> str | None:
    """For the partition itself, else for the state partition of its id, or for any of them where nobody names the id."""
    if proof is None:
        return None
    here = proof.why_unconfirmed(key.topic, key.partition)
    if here is not None or transaction is None:
        return here or proof.why_state_unconfirmed
    return proof.why_unconfirmed(STATE_TOPIC, transaction.state_partition)


class _SearchForEnd(TypedDict):
    end_markers: tuple[EndMarker, ...]
    was_searched: bool
    unsearched: tuple[str, ...]
    lost: tuple[str, ...]


def _search_for_end(snapshot: Snapshot, producer_id: int, last_timestamp_ms: int) -> _SearchForEnd:
    found = snapshot.end_markers
    now_ms = snapshot.cluster_time_ms if snapshot.clock_source is ClockSource.CONTROLLER else None
    if found is None:
        return _SearchForEnd(end_markers=(), was_searched=False, unsearched=(), lost=())
    return _SearchForEnd(
        end_markers=tuple(it for it in found.markers if it.producer_id == producer_id),
        was_searched=True,
        unsearched=(*(sentence for it, sentence in found.unread if it == producer_id), *snapshot.visibility.gaps),
        lost=(
            *(sentence for it, sentence in found.lost if it == producer_id),
            *_forgotten(found.producers_kept_ms, last_timestamp_ms, now_ms),
        ),
    )


def _forgotten(kept_ms: int | None, last_timestamp_ms: int, now_ms: int | None) -> tuple[str, ...]:
    """Why a partition may have forgotten the producer, and so not be searched at all; empty where none has."""
    if kept_ms is None:
        return (
            "it is not known how long partitions remember a producer: needs DESCRIBE_CONFIGS on the cluster, and Kafka 3.5",
        )
    if now_ms is None:
        return ("the cluster's time is not known, so partitions may have forgotten the producer",)
    is_sane = 0 < last_timestamp_ms <= now_ms + CLOCK_SLACK_MS
    if is_sane and now_ms - last_timestamp_ms + CLOCK_SLACK_MS < kept_ms:
        return ()
    hours = f"{kept_ms / 3_600_000:g}"
    return (f"partitions forget a producer {hours} hours after its end there, and that may have been longer ago",)


def _coordinator_age_ms(transaction: CoordinatorTransaction | None, now_ms: int) -> int | None:
    if transaction is None or transaction.start_time_ms < 0:
        return None
    return max(now_ms - transaction.start_time_ms, 0)


def _completing_ms(snapshot: Snapshot, owned: Ownership, remembered: Remembered | None, prepared_ms: int | None) -> int:
    """For how long, by a clock that cannot be set where this process saw it begin: the cluster's may only just be known."""
    if owned is not Ownership.COMPLETING or remembered is None or remembered.completing_since_ms < 0:
        return 0
    now_ms, is_clock_sure = snapshot.cluster_time_ms, snapshot.clock_source is ClockSource.CONTROLLER
    # Only now that it was seen so twice: the coordinator's clock may be behind ours.
    since_log_ms = now_ms - prepared_ms if prepared_ms is not None and is_clock_sure else 0
    if snapshot.monotonic_ms is not None and remembered.completing_from_ms is not None:
        watched_ms = snapshot.monotonic_ms - remembered.completing_from_ms
    else:
        is_comparable = is_clock_sure or snapshot.monotonic_ms is None
        watched_ms = now_ms - remembered.completing_since_ms if is_comparable else 0
    return max(since_log_ms, watched_ms, 0)


def _prepared_ms(transaction: CoordinatorTransaction | None, logged: LoggedProducer | None) -> int | None:
    """When this very transaction was decided, as the log tells: it has the start that the coordinator tells."""
    if transaction is None or logged is None or logged.latest is None or logged.prepared_ms < 0:
        return None
    is_same = transaction.start_time_ms >= 0 and transaction.start_time_ms == logged.latest.start_ms
    return logged.prepared_ms if is_same else None
