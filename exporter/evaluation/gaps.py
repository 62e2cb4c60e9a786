"""Describes the gaps of a snapshot, one sentence each: the same for log, status page, commands and exit status."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from exporter.evaluation.humanize import humanize_count
from exporter.evaluation.reasons import missing_in_words
from exporter.evaluation.verdicts import InconclusiveReason
from exporter.snapshot import STATE_TOPIC, CoordinatorProof, IdVisibility, SecondRead, Snapshot, TopicPartition
from exporter.snapshot.proof import FAILURES_IN_WORDS

NOT_EVERY_GROUP = "not every group that stands still is known"
_NAMED_MAX = 100
"""Unconfirmed leaders with their own sentence, so that the log does not get 50,000."""


def gaps(snapshot: Snapshot, *, of: Collection[TopicPartition] | None = None) -> tuple[str, ...]:
    """Empty exactly where `snapshot.is_complete`. Of what is said of partitions those in `of` count, all by default."""
    sentences = [*snapshot.visibility.gaps, *_unread_partitions(snapshot, of)]
    sentences += [broker.failure for broker in snapshot.brokers if broker.failure is not None]
    sentences += [coordinator.failure for coordinator in snapshot.coordinators if coordinator.failure is not None]
    sentences += _unproved(snapshot, of)
    has_broker_failed = any(broker.failure for broker in snapshot.brokers)
    has_coordinator_failed = any(coordinator.failure for coordinator in snapshot.coordinators)
    if snapshot.impact is not None and not has_broker_failed and not has_coordinator_failed:
        sentences += [f"{NOT_EVERY_GROUP}: {failure}" for failure in snapshot.impact.unread]
    return tuple(dict.fromkeys(sentences))


def _unread_partitions(snapshot: Snapshot, of: Collection[TopicPartition] | None) -> list[str]:
    partitions = snapshot.partitions
    unread = partitions.is_unread
    if of is not None:
        unread = unread & np.array([partitions.name(row) in of for row in range(len(partitions))], dtype=np.bool_)
    sentences = []
    for index, reason in enumerate(partitions.reasons):
        rows = np.flatnonzero(unread & (partitions.reason == index))
        if len(rows):
            topic, partition = partitions.name(int(rows[0]))
            are = "partition is" if len(rows) == 1 else "partitions are"
            sentences.append(f"{len(rows)} {are} unread ({reason}), the first is {topic}-{partition}")
    return sentences


def _unproved(snapshot: Snapshot, of: Collection[TopicPartition] | None) -> list[str]:
    """Gaps in the proof of suspects."""
    open_ = snapshot.open_transactions
    sentences = []
    if snapshot.unclear_producer_ids:
        unclear = humanize_count(len(snapshot.unclear_producer_ids), "transaction")
        sentences.append(f"listed but not described: {unclear}")
    if snapshot.completing.undescribed:
        undescribed = humanize_count(len(snapshot.completing.undescribed), "transaction")
        sentences.append(f"completing for long and not described: {undescribed}")
    for proof in snapshot.proofs:
        if proof.failure is not None:
            sentences.append(
                f"producers that no coordinator lists cannot be proved to hang: {_in_words(proof.failure)}"
            )
        sentences += _unanswered(proof)
    unconfirmed = [
        f"the leader of {partition.topic}-{partition.partition} is not confirmed: {partition.why}"
        for proof in snapshot.proofs
        for partition in proof.unconfirmed
    ]
    sentences += _first_of(unconfirmed, "more leaders are not confirmed")
    sentences += _first_of(_undecided(snapshot, of), "more reasons why overdue and stuck cannot be decided")
    failed = int(np.count_nonzero(open_.second_read == int(SecondRead.UNREAD)))
    if failed:
        sentences.append(f"{humanize_count(failed, 'suspect transaction')} could not be read a second time")
    aside = int(np.count_nonzero(open_.needs_examination))
    if aside:
        all_open = humanize_count(len(open_), "open transaction")
        sentences.append(f"not examined: {aside:,} of {all_open}; raise scan.transactions_limit")
    silent = sorted({broker for brokers in open_.silent_replicas for broker in brokers})
    if silent:
        brokers = ", ".join(map(str, silent))
        sentences.append(f"in-sync replicas did not respond, or do not agree with their leader: broker {brokers}")
    return sentences


def _undecided(snapshot: Snapshot, of: Collection[TopicPartition] | None) -> list[str]:
    """A sentence for each reason, with the first partition: the id may be hidden from readers of coverage."""
    open_ = snapshot.open_transactions
    rows: dict[str, list[int]] = {}
    for row, why in zip(open_.partition_row.tolist(), open_.unconfirmed, strict=False):  # empty: nothing is against any
        if why is not None and (of is None or snapshot.partitions.name(row) in of):
            rows.setdefault(why, []).append(row)
    sentences = []
    for why, those in rows.items():
        topic, partition = snapshot.partitions.name(those[0])
        more = f" and {len(those) - 1} more" if len(those) > 1 else ""
        sentences.append(f"overdue and stuck cannot be decided for the transaction on {topic}-{partition}{more}: {why}")
    return sentences


def _in_words(failure: str) -> str:
    words = FAILURES_IN_WORDS.get(failure)
    if words is None:
        return missing_in_words(InconclusiveReason(failure))
    return f"partitions of {STATE_TOPIC} are {words}"


def _first_of(sentences: list[str], more: str) -> list[str]:
    rest = len(sentences) - _NAMED_MAX
    return [*sentences[:_NAMED_MAX], *([f"{rest} {more}"] if rest > 0 else [])]


def _unanswered(proof: CoordinatorProof) -> list[str]:
    """Requests of the proof without a usable response."""
    sentences = []
    if proof.unclear_producer_ids:
        listed = humanize_count(len(proof.unclear_producer_ids), "suspect producer")
        sentences.append(f"listed, but then changed or not described: {listed}")
    if proof.hidden_topics:
        topics = ", ".join(sorted(proof.hidden_topics))
        missing = f"it did not respond, or DESCRIBE on {topics} is missing"
        sentences.append(f"a coordinator may omit topics of suspects from its responses: {missing}")
    if proof.id_visibility is IdVisibility.NOT_ANSWERED:
        sentences.append("a coordinator did not respond to the request that shows whether transactional ids are hidden")
    return sentences
