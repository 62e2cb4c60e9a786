"""Collects the evidence about one open transaction from the snapshot and from memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from exporter.evaluation.memory import Memory, MemoryJoin, RememberedTransaction
from exporter.evaluation.possible_owners import RememberedOffset
from exporter.snapshot import (
    CLOCKS_AGREE_WITHIN_MS,
    COMPLETING_STATES,
    NO_PRODUCER_ID,
    STATE_TOPIC,
    ClockSource,
    CoordinatorProof,
    CoordinatorTransaction,
    EndMarker,
    HeldOffset,
    IdVisibility,
    OpenTransactions,
    Ownership,
    SecondRead,
    Snapshot,
    TransactionKey,
    TransactionState,
    ownership,
)
from exporter.transaction_log.journal import EndedTransaction, Journal, LoggedProducer

CLOCK_SLACK_MS = 60 * 60 * 1000
"""A transaction may have completed this long before the timestamp of its last write: the limit for a client's clock that is
ahead, and for a late record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One open transaction: facts only, nothing decided. Durations and instants in milliseconds."""

    key: TransactionKey
    producer_epoch: int
    ownership: Ownership
    transaction: CoordinatorTransaction | None
    """The newest state of the producer id at its coordinator; None if no coordinator lists it."""
    coordinator_age_ms: int | None
    """Age by the coordinator's start; None if it was not described or has not begun."""
    is_clock_sure: bool
    """True if the cluster's clock is known; otherwise the exporter's own clock is used, and may be wrong."""
    is_clock_behind: bool
    """The exporter's own clock is used, and some transaction starts in its future."""
    was_seen_before: bool
    watched_ms: int
    """Time since this process first saw it, by its monotonic clock."""
    completing_ms: int
    """Time since it was first seen in a Prepare state, 0 if it is not in one."""
    was_asked: bool
    """True if it was unverified, and the coordinators were queried about its producer id between the probes."""
    second_read: SecondRead
    proof_failure: str | None
    """Reason why this cycle's responses of the coordinators prove nothing; None if they do."""
    is_unclear: bool
    """True if the transactional id changed during the requests."""
    is_topic_hidden: bool
    """A coordinator may omit this partition's topic from its descriptions."""
    id_visibility: IdVisibility
    """Visibility of transactional ids: one may be hidden although the probe ids are visible."""
    diverged_replicas: tuple[int, ...]
    """Followers with a marker of the transaction, which is open on the leader."""
    silent_replicas: tuple[int, ...]
    """In-sync followers that did not respond, or show another state of the producer."""
    unaware_replicas: tuple[int, ...]
    """In-sync followers that do not know the producer."""
    unconfirmed: str | None
    """Reason why the leader of the partition or its state partition is unconfirmed; None if confirmed or unchecked."""
    last_timestamp_ms: int
    """Timestamp of the producer's last write on this partition, by the client's clock."""
    end_markers: tuple[EndMarker, ...]
    """Markers of the same producer id at every epoch, in the order of time."""
    was_searched: bool
    """True if the logs were searched for such markers, which only an operator's command does."""
    unsearched: tuple[str, ...]
    """Places that could not be searched for such markers this time, one sentence each."""
    lost: tuple[str, ...]
    """Markers that may have been removed from the logs, or cannot be found, one sentence each."""
    remembered: RememberedTransaction | None
    not_open_at_ms: int | None = None
    """The latest instant at which it is known not to have been open: a cycle that read its partition, or what a broker has
    written to the log before it."""
    logged: LoggedProducer | None
    """The transaction log's state of the producer id; None if the log is not read, or has none."""
    last_sequence: int = -1
    """Sequence number of the producer's last record on this partition."""
    silent_ms: int | None = None
    """Time for which this process has seen neither that nor the timestamp change; None without a monotonic clock."""
    held_offset: HeldOffset | None = None
    """Facts about one of which only the offset is known; None if its producer was read."""
    remembered_offset: RememberedOffset | None = None
    """Facts of earlier cycles about that offset."""
    offset_facts: RememberedOffset | None = None
    """Facts about it after this cycle (`rules.with_offset_facts`)."""
    cluster_time_ms: int = 0
    """Instant of the snapshot by the cluster's clock."""

    @property
    def state(self) -> TransactionState | None:
        """The coordinator's state of the producer id's transaction."""
        return None if self.transaction is None else self.transaction.state

    @property
    def transactional_id(self) -> str | None:
        """The transactional id, from a coordinator or from the transaction log; None if unknown."""
        if self.transaction is not None:
            return self.transaction.transactional_id
        return None if self.logged is None else self.logged.transactional_id

    @property
    def ended_in_log(self) -> EndedTransaction | None:
        """The newest decided transaction of this epoch here in the transaction log; None if a later one is open.

        An older client has one epoch for many transactions, so the one that is open was not decided with the one before.
        """
        ended = None if self.logged is None else self.logged.ended.get((self.key.topic, self.key.partition))
        if ended is None or ended.producer_epoch != self.producer_epoch:
            return None
        open_since_ms = self.log_start_ms
        return None if open_since_ms is not None and ended.decided_ms <= open_since_ms else ended

    @property
    def log_start_ms(self) -> int | None:
        """The start of the open transaction on this partition at this epoch in the transaction log; None without one."""
        latest = None if self.logged is None else self.logged.latest
        if self.logged is None or latest is None or latest.start_ms < 0:
            return None
        is_open = (self.key.topic, self.key.partition) in latest.partitions
        return latest.start_ms if is_open and self.logged.open_epoch == self.producer_epoch else None


def gather(snapshot: Snapshot, memory: Memory, join: MemoryJoin, journal: Journal) -> Iterator[Evidence]:
    """The evidence of each examined transaction, in the order of the snapshot's rows."""
    answers = _CoordinatorResponses(snapshot, snapshot.proof)
    open_ = snapshot.open_transactions
    by_offsets = _CoordinatorResponses(snapshot, snapshot.offset_proof) if open_.held_offsets else answers
    last_reading = memory.last_reading if memory.is_of(snapshot) else None
    for row, key in enumerate(join.keys.those(slice(open_.examined_count)).rows()):
        remembered = join.remembered(row)
        if remembered is None:
            unseen_at_ms = last_reading.at_ms if last_reading is not None and last_reading.has_read(key) else None
        else:
            unseen_at_ms = remembered.not_open_at_ms
        logged = journal.producers.get(key.producer_id)
        held = open_.held_offsets[row] if open_.held_offsets else None
        responses = answers if held is None else by_offsets
        evidence = _evidence(snapshot, responses, open_, row, key, remembered, unseen_at_ms, logged)
        if held is not None:
            before = memory.offsets.get(key) if memory.is_of(snapshot) else None
            evidence = replace(evidence, held_offset=held, remembered_offset=before, silent_ms=None)
        yield evidence


class _CoordinatorResponses:
    """The coordinators' responses by producer id: those of the proof are later, and count for unverified transactions."""

    def __init__(self, snapshot: Snapshot, proof: CoordinatorProof | None) -> None:
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
        if producer_id == NO_PRODUCER_ID:  # any of them may be its producer
            return self.proof is not None and bool(self.proof.unclear_producer_ids)
        if self.proof is not None and (was_asked or producer_id in self.proved):
            return producer_id in self.proof.unclear_producer_ids
        return producer_id in self._unclear


def _evidence(
    snapshot: Snapshot,
    answers: _CoordinatorResponses,
    open_: OpenTransactions,
    row: int,
    key: TransactionKey,
    remembered: RememberedTransaction | None,
    unseen_at_ms: int | None,
    logged: LoggedProducer | None,
) -> Evidence:
    proof = answers.proof
    second_read = SecondRead(int(open_.second_read[row]))
    was_asked = proof is not None and second_read is not SecondRead.NOT_ASKED
    transaction = answers.of(key.producer_id, was_asked=was_asked)
    producer_epoch = int(open_.producer_epoch[row])
    owned = ownership(transaction, (key.topic, key.partition), producer_epoch)
    now, is_clock_sure = snapshot.cluster_time_ms, snapshot.clock_source is ClockSource.CONTROLLER
    found = snapshot.end_markers
    watched_ms = _watched_ms(remembered, snapshot.monotonic_ms)
    if owned is Ownership.OWNED and transaction is not None and is_another_start(remembered, transaction):
        watched_ms = 0
    return Evidence(
        key=key,
        producer_epoch=producer_epoch,
        ownership=owned,
        transaction=transaction,
        coordinator_age_ms=_coordinator_age_ms(transaction, now),
        is_clock_sure=is_clock_sure,
        is_clock_behind=answers.is_clock_behind,
        was_seen_before=remembered is not None,
        watched_ms=watched_ms,
        completing_ms=_completing_ms(snapshot, owned, remembered, transaction, logged),
        was_asked=was_asked,
        second_read=second_read,
        proof_failure=None if proof is None else proof.failure_for(transaction),
        is_unclear=answers.is_unclear(key.producer_id, was_asked=was_asked),
        is_topic_hidden=proof is not None and key.topic in proof.hidden_topics,
        id_visibility=IdVisibility.ACLS_UNREAD if proof is None else proof.id_visibility,
        diverged_replicas=open_.diverged_replicas[row] if open_.diverged_replicas else (),
        silent_replicas=open_.silent_replicas[row] if open_.silent_replicas else (),
        unaware_replicas=open_.unaware_replicas[row] if open_.unaware_replicas else (),
        unconfirmed=_unconfirmed(proof, key, transaction) or (open_.unconfirmed[row] if open_.unconfirmed else None),
        last_timestamp_ms=int(open_.last_timestamp[row]),
        end_markers=() if found is None else tuple(found.markers_of.get(key.producer_id, ())),
        was_searched=found is not None,
        unsearched=() if found is None else (*found.unread_of.get(key.producer_id, ()), *snapshot.visibility.gaps),
        lost=()
        if found is None
        else (
            *found.lost_of.get(key.producer_id, ()),
            *_forgotten(found.producers_kept_ms, int(open_.last_timestamp[row]), now if is_clock_sure else None),
        ),
        remembered=remembered,
        not_open_at_ms=_latest(unseen_at_ms, open_.not_open_at_ms[row] if open_.not_open_at_ms else None),
        logged=logged,
        last_sequence=int(open_.last_sequence[row]),
        silent_ms=_silent_ms(open_, row, remembered, snapshot.monotonic_ms),
        cluster_time_ms=now,
    )


def _silent_ms(
    open_: OpenTransactions, row: int, remembered: RememberedTransaction | None, monotonic_ms: int | None
) -> int | None:
    if monotonic_ms is None:
        return None
    if remembered is None or remembered.unchanged_from_ms is None:
        return 0
    last_write = int(open_.last_sequence[row]), int(open_.last_timestamp[row])
    is_same = last_write == (remembered.last_sequence, remembered.last_timestamp_ms)
    return max(monotonic_ms - remembered.unchanged_from_ms, 0) if is_same else 0


def _latest(*instants_ms: int | None) -> int | None:
    return max((each for each in instants_ms if each is not None), default=None)


def _watched_ms(remembered: RememberedTransaction | None, monotonic_ms: int | None) -> int:
    if remembered is None or remembered.watched_from_ms is None or monotonic_ms is None:
        return 0
    return max(monotonic_ms - remembered.watched_from_ms, 0)


def is_another_start(remembered: RememberedTransaction | None, transaction: CoordinatorTransaction) -> bool:
    """True if its producer has begun another transaction since, which includes the open records."""
    return remembered is not None and remembered.coordinator_start_ms != transaction.start_ms


def was_completing(
    remembered: RememberedTransaction | None, ownership: Ownership, transaction: CoordinatorTransaction | None
) -> bool:
    """True if an earlier cycle saw it decided, and this one does not contradict: a missing response is none."""
    if remembered is None or remembered.completing_since_ms is None:
        return False
    if ownership is Ownership.COMPLETING and transaction is not None:
        return not is_another_start(remembered, transaction)
    state = None if transaction is None else transaction.state
    return ownership is Ownership.UNLISTED or (ownership is Ownership.LISTED_ACTIVE and state in COMPLETING_STATES)


def _is_clock_behind(snapshot: Snapshot, transactions: Iterable[CoordinatorTransaction]) -> bool:
    """True if the exporter's own clock is used, and is behind a time that a coordinator has already written."""
    if snapshot.clock_source is ClockSource.CONTROLLER:
        return False
    latest_ms = max((t.start_ms for t in transactions if t.start_ms is not None), default=0)
    return latest_ms > snapshot.cluster_time_ms + CLOCKS_AGREE_WITHIN_MS


def _unconfirmed(
    proof: CoordinatorProof | None, key: TransactionKey, transaction: CoordinatorTransaction | None
) -> str | None:
    """Returns the reason of the partition itself, or of the state partition of its id, or of any if the id is unknown."""
    if proof is None:
        return None
    here = proof.why_unconfirmed(key.topic, key.partition)
    if here is not None or transaction is None:
        return here or proof.why_state_unconfirmed
    return proof.why_unconfirmed(STATE_TOPIC, transaction.state_partition)


def _forgotten(kept_ms: int | None, last_timestamp_ms: int, now_ms: int | None) -> tuple[str, ...]:
    """Returns why partitions may have forgotten the producer, and so are not searched; empty if none has."""
    if kept_ms is None:
        return ("how long partitions remember producers is unknown: needs DESCRIBE_CONFIGS on the cluster, Kafka 3.5+",)
    if now_ms is None:
        return ("the cluster's time is unknown, so partitions may have forgotten the producer",)
    is_sane = 0 < last_timestamp_ms <= now_ms + CLOCK_SLACK_MS
    if is_sane and now_ms - last_timestamp_ms + CLOCK_SLACK_MS < kept_ms:
        return ()
    hours = f"{kept_ms / 3_600_000:g}"
    return (f"more than the {hours} h after which partitions forget a producer may have passed",)


def _coordinator_age_ms(transaction: CoordinatorTransaction | None, now_ms: int) -> int | None:
    if transaction is None or transaction.start_ms is None:
        return None
    return max(now_ms - transaction.start_ms, 0)


def _completing_ms(
    snapshot: Snapshot,
    owned: Ownership,
    remembered: RememberedTransaction | None,
    transaction: CoordinatorTransaction | None,
    logged: LoggedProducer | None,
) -> int:
    """Time that it has been completing; by the monotonic clock if this process saw it begin: that cannot be set."""
    if owned is not Ownership.COMPLETING or remembered is None or not was_completing(remembered, owned, transaction):
        return 0
    prepared_ms = _prepared_ms(transaction, logged)
    now_ms, is_clock_sure = snapshot.cluster_time_ms, snapshot.clock_source is ClockSource.CONTROLLER
    # Two cycles must have seen it first: the coordinator's clock may be behind the exporter's.
    since_log_ms = now_ms - prepared_ms if prepared_ms is not None and is_clock_sure else 0
    if snapshot.monotonic_ms is not None and remembered.completing_from_ms is not None:
        watched_ms = snapshot.monotonic_ms - remembered.completing_from_ms
    else:
        is_comparable = is_clock_sure or snapshot.monotonic_ms is None
        since_ms = remembered.completing_since_ms
        watched_ms = now_ms - since_ms if is_comparable and since_ms is not None else 0
    return max(since_log_ms, watched_ms, 0)


def _prepared_ms(transaction: CoordinatorTransaction | None, logged: LoggedProducer | None) -> int | None:
    """Returns the time of the decision by the transaction log, if log and coordinator have the same start."""
    if transaction is None or logged is None or logged.latest is None or logged.prepared_ms < 0:
        return None
    is_same = transaction.start_ms is not None and transaction.start_ms == logged.latest.start_ms
    return logged.prepared_ms if is_same else None
