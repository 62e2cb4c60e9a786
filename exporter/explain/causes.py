"""Names the cause of a hanging transaction, with its evidence; `unknown` where evidence is missing or fits more than one.

docs/causes.md has the set, with the facts behind each. A cause named wrongly is worse than `unknown`: each rule below
requires that what could look the same is excluded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from exporter.evaluation.humanize import humanize_duration
from exporter.evaluation.verdicts import Verdict
from exporter.explain.clocks import stamps_of
from exporter.explain.facts import CLOCKS_APART_MS, Facts
from exporter.snapshot import CLOCKS_AGREE_WITHIN_MS
from exporter.snapshot.origin import LoggedBatch, LoggedMarker
from exporter.transaction_log.past import PastTransaction


class Cause(Enum):
    """Cause of a transaction that hangs. The values are published."""

    LATE_WRITE = "late_write"
    NOT_ADDED = "not_added"
    WRITTEN_AFTER_EXPIRY = "written_after_expiry"
    MARKER_LOST = "marker_lost"
    EPOCH_ADOPTED = "epoch_adopted"
    MARKER_BY_HAND = "marker_by_hand"
    COORDINATOR_LOG_LOST = "coordinator_log_lost"
    FOREIGN_RECORDS = "foreign_records"
    UNKNOWN = "unknown"

    @property
    def sentence(self) -> str:
        """Description of the cause, without its full stop; empty for `unknown`."""
        return _SENTENCES.get(self, "")


_SENTENCES = {
    Cause.LATE_WRITE: "a record of the transaction arrived after its end marker, and opened it again",
    Cause.NOT_ADDED: "the client wrote to a partition that it had not added to a transaction",
    Cause.WRITTEN_AFTER_EXPIRY: "the client wrote after its transactional id had expired",
    Cause.MARKER_LOST: "the partition lost the end marker, or had no leader when it was due",
    Cause.EPOCH_ADOPTED: "a newer producer of the same id wrote into the open transaction of an older one",
    Cause.MARKER_BY_HAND: "a marker that no coordinator wrote makes the partition refuse the coordinator's",
    Cause.COORDINATOR_LOG_LOST: "the coordinator lost records of its log, and with them the transaction",
    Cause.FOREIGN_RECORDS: "the records were written in another cluster, and restored or copied here",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """The cause, or why there is none."""

    cause: Cause | None
    """Cause of the hang; None if the transaction does not hang."""
    evidence: tuple[str, ...] = ()
    """Evidence of the cause, a sentence each without its full stop."""
    possible: tuple[Cause, ...] = ()
    """Causes that are not excluded, for `unknown`."""
    missing: tuple[str, ...] = ()
    """Reasons why the evidence does not decide, for `unknown`: a sentence each without its full stop."""


def cause_of(facts: Facts) -> Conclusion:
    """The cause of an open suspect, or of one that has ended."""
    verdict, adopted = facts.verdict, _adopted(facts)
    if adopted is not None:  # also where the newer transaction is open, and would commit the older one's records
        return adopted
    if verdict is not None and not verdict.is_suspect:
        return Conclusion(cause=None, evidence=(f"it does not hang: its verdict is {verdict.label}",))
    if verdict is Verdict.STUCK_COMPLETING:
        return _of_stuck(facts)
    if verdict is Verdict.OVERDUE_AT_COORDINATOR:
        return _unknown((), "no record shows why the coordinator does not end it: search the log lines of its broker")
    first = facts.first
    if first is None:
        unread = facts.logs.own.unread
        why = f"was not read: {unread}" if unread else "is not in the log any more"
        return _unknown((), f"the first record of the transaction {why}")
    return (
        _foreign(facts, first)
        or _after_expiry(facts, first)
        or _in_a_transaction(facts, first)
        or _outside_of_transactions(facts, first)
    )


def _named(cause: Cause, *evidence: str) -> Conclusion:
    return Conclusion(cause=cause, evidence=evidence)


def _unknown(possible: Iterable[Cause], missing: str) -> Conclusion:
    return Conclusion(cause=Cause.UNKNOWN, possible=tuple(possible), missing=(missing,))


def _foreign(facts: Facts, first: LoggedBatch) -> Conclusion | None:
    current = facts.logs.own.leader_epoch
    if not 0 <= current < first.leader_epoch:
        return None
    return _named(
        Cause.FOREIGN_RECORDS,
        f"the first record has leader epoch {first.leader_epoch}, and the partition never had a leader after epoch "
        f"{current} in this cluster",
    )


def _of_stuck(facts: Facts) -> Conclusion:
    entry, owner_epoch = facts.logs.entry, facts.state.owner_leader_epoch
    if (
        entry is not None
        # Once the marker has come after all, the entry has its epoch, which may be newer than the metadata.
        and entry.start_offset == facts.opened.start_offset
        and facts.is_producer_known
        and 0 <= owner_epoch < entry.coordinator_epoch
    ):
        return _named(
            Cause.MARKER_BY_HAND,
            f"the partition has a marker of coordinator epoch {entry.coordinator_epoch}, and the coordinator's own epoch "
            f"is {owner_epoch}: it never reached {entry.coordinator_epoch}, so a tool wrote that marker, and the partition "
            "refuses those of the coordinator",
        )
    return _unknown(
        (),
        "no record shows why the partition refuses the coordinator's marker: search the log lines of its leader",
    )


def _adopted(facts: Facts) -> Conclusion | None:
    batches = facts.open_batches
    if not batches or batches[0].offset != facts.opened.start_offset:
        return None
    old, entry = batches[0], facts.logs.entry
    newer = next((batch for batch in batches if batch.producer_epoch > old.producer_epoch), None)
    if newer is not None:
        where, epoch = f"the one at offset {newer.offset}", newer.producer_epoch
    elif entry is not None and entry.start_offset == old.offset and entry.producer_epoch > old.producer_epoch:
        where, epoch = "the latest one", entry.producer_epoch
    else:
        return None
    return _named(
        Cause.EPOCH_ADOPTED,
        f"the record at offset {old.offset} has producer epoch {old.producer_epoch}, {where} has epoch {epoch}, and no "
        "marker is between them",
        "the marker of the newer transaction will end the old records as well: a COMMIT makes them visible",
    )


def _after_expiry(facts: Facts, first: LoggedBatch) -> Conclusion | None:
    if not facts.is_producer_known or first.has_log_append_time:
        return None
    expired = [at_ms for at_ms in facts.past.expired_ms if at_ms + CLOCKS_APART_MS < first.first_timestamp_ms]
    known = [at_ms for (producer, _), at_ms in facts.past.initialized.items() if producer == facts.opened.producer_id]
    if not expired or max(known) > max(expired):
        return None
    arrived_later = facts.logs.own.marker_before_ms > max(expired) + CLOCKS_APART_MS
    if (facts.with_partition or not arrived_later) and (doubt := stamps_of(facts, first).doubt):
        late = (Cause.LATE_WRITE,) if facts.with_partition else ()
        return _unknown((Cause.WRITTEN_AFTER_EXPIRY, Cause.NOT_ADDED, *late), doubt)
    after = humanize_duration(first.first_timestamp_ms - max(expired))
    return _named(
        Cause.WRITTEN_AFTER_EXPIRY,
        f"the coordinator removed transactional id {facts.state.transactional_id!r} {after} before the record was "
        "written" + (", as a marker before it in the log shows" if arrived_later else ", by the client's clock"),
    )


def _in_a_transaction(facts: Facts, first: LoggedBatch) -> Conclusion | None:
    """Returns a conclusion if the record belongs, by its time, to a transaction that includes the partition."""
    written_ms = first.first_timestamp_ms
    candidates = [
        one
        for one in facts.with_partition
        if one.producer_epoch == first.producer_epoch
        and 0 <= one.start_ms <= written_ms + CLOCKS_APART_MS
        and (one.prepared_ms < 0 or written_ms <= one.prepared_ms + CLOCKS_APART_MS)
    ]
    if not candidates:
        return None
    # If several short transactions fit and the marker of the last of them is there, so are those of the others.
    latest = max(candidates, key=lambda one: one.start_ms)
    if latest.prepared_ms < 0:
        return _unknown((), "the coordinator's log has the transaction open, with this partition")
    ended = _ended_in_time(facts, first, latest)
    if ended is not None:
        return ended
    before = [marker for marker in facts.logs.own.markers if marker.offset < facts.opened.start_offset]
    if before and (facts.ended_by(before[-1]) is latest or _has_every_marker(facts, before)):
        return _late(facts, first, latest, before[-1])
    if len(candidates) > 1 and not _lacks_last_marker(facts, before, latest):
        return _unknown(
            (Cause.LATE_WRITE, Cause.MARKER_LOST), "the record may belong to any of several short transactions"
        )
    return _lost_marker(facts, first, latest)


def _ended_in_time(facts: Facts, first: LoggedBatch, transaction: PastTransaction) -> Conclusion | None:
    """Returns that it did not hang if its coordinator's marker came when that completed it; one by hand comes later."""
    for marker in facts.logs.own.markers:
        is_its = marker.offset > first.offset and facts.ended_by(marker) is transaction
        if is_its and marker.timestamp_ms <= transaction.completed_ms + CLOCKS_APART_MS:
            outcome = "COMMIT" if marker.commit else "ABORT"
            end = f"its coordinator ended it ({_end_in_words(transaction)}), with the {outcome} marker at offset"
            return Conclusion(cause=None, evidence=(f"it did not hang: {end} {marker.offset}",))
    return None


def _has_every_marker(facts: Facts, markers: Sequence[LoggedMarker]) -> bool:
    """True if the partition has as many markers as the coordinator decided transactions with it, and no operator's."""
    decided = sum(one.prepared_ms >= 0 for one in facts.with_partition)
    are_its_own = all(marker.commit or _is_accounted_for(facts, marker, CLOCKS_APART_MS) for marker in markers)
    return _is_everything_read(facts) and len(markers) == decided and are_its_own


def _lacks_last_marker(facts: Facts, markers: Sequence[LoggedMarker], latest: PastTransaction) -> bool:
    """True if the partition has one marker less than the coordinator completed, and the others are older."""
    completed = sum(one.completed_ms >= 0 for one in facts.with_partition)
    are_older = all(marker.timestamp_ms < latest.start_ms for marker in markers)
    return _is_everything_read(facts) and len(markers) == completed - 1 and are_older


def _is_everything_read(facts: Facts) -> bool:
    own = facts.logs.own
    return own.read_from == 0 and own.is_whole(0, facts.opened.start_offset) and facts.state.is_whole


def _late(facts: Facts, first: LoggedBatch, transaction: PastTransaction, marker: LoggedMarker) -> Conclusion:
    if not facts.logs.own.is_whole(marker.offset, first.offset):
        return _unknown(
            (Cause.LATE_WRITE,), "records between the marker and the first record are gone or were not read"
        )
    stamps = stamps_of(facts, first)
    if stamps.doubt:
        return _unknown((Cause.LATE_WRITE, Cause.NOT_ADDED), stamps.doubt)
    if not stamps.is_before(first, transaction.prepared_ms):
        near = "the record's time is too near to the end of the transaction to show which came first"
        return _unknown((Cause.LATE_WRITE, Cause.NOT_ADDED), near)
    outcome = "COMMIT" if marker.commit else "ABORT"
    delay = humanize_duration(max(transaction.prepared_ms - first.first_timestamp_ms, 0))
    return _named(
        Cause.LATE_WRITE,
        f"the coordinator ended a transaction with this partition ({_end_in_words(transaction)}), and its {outcome} marker "
        f"is at offset {marker.offset}, before the record at offset {first.offset}",
        f"the client made the record {delay} before that end, while the transaction was open",
    )


def _end_in_words(transaction: PastTransaction) -> str:
    return "unknown end" if transaction.outcome is None else transaction.outcome.value


def _lost_marker(facts: Facts, first: LoggedBatch, transaction: PastTransaction) -> Conclusion:
    own = facts.logs.own
    if transaction.completed_ms < 0:
        return _unknown((), "the coordinator's log has the decision, and does not show whether its marker was written")
    before = [marker for marker in own.markers if marker.offset < facts.opened.start_offset]
    # The marker would have been written by the leader's clock, and was decided by the coordinator's.
    later = [
        marker
        for marker in ([] if _lacks_last_marker(facts, before, transaction) else own.markers)
        if 0 <= marker.producer_epoch - transaction.producer_epoch <= 1
        and marker.timestamp_ms + CLOCKS_AGREE_WITHIN_MS >= transaction.prepared_ms
    ]
    oldest_start_ms = transaction.start_ms - CLOCKS_AGREE_WITHIN_MS
    reaches_back = 0 <= own.oldest_by_broker_ms <= oldest_start_ms or own.read_from == 0
    is_open = facts.logs.entry is not None and facts.logs.entry.start_offset == facts.opened.start_offset
    if later or not reaches_back or not own.is_whole(own.read_from, first.next_offset) or not is_open:
        return _unknown(
            (Cause.LATE_WRITE, Cause.MARKER_LOST),
            "the log of the partition does not show whether it ever had the transaction's marker",
        )
    epochs = (
        f"; its leader epoch was {first.leader_epoch} when the record was written, and is {own.leader_epoch} now"
        if own.leader_epoch > first.leader_epoch >= 0
        else ""
    )
    return _named(
        Cause.MARKER_LOST,
        f"the coordinator completed the transaction ({_end_in_words(transaction)}), which it does only after every "
        "partition has acknowledged its marker, or (Kafka 4.3, KAFKA-20734) had no leader",
        f"the log of the partition, read from offset {own.read_from} on, has no such marker{epochs}",
    )


def _outside_of_transactions(facts: Facts, first: LoggedBatch) -> Conclusion:
    """Returns the conclusion for a record that no transaction in the coordinator's log can have."""
    state = facts.state
    lost = _lost_log(facts)
    if lost is not None:
        return lost
    if not facts.is_producer_known:
        possible = [Cause.COORDINATOR_LOG_LOST, Cause.FOREIGN_RECORDS]
        possible += [] if any(map(_is_by_a_coordinator, facts.markers)) else [Cause.NOT_ADDED]
        if state.unread:
            return _unknown(possible, f"the coordinators' log was not read completely: {state.unread}")
        if not state.is_whole:
            possible.append(Cause.WRITTEN_AFTER_EXPIRY)
            return _unknown(possible, "older records of the coordinators' log are compacted or were not read")
        return _unknown(possible, "no coordinator of this cluster has a record of this producer id")
    if state.unread or state.has_gaps:
        return _unknown(
            (Cause.NOT_ADDED, Cause.LATE_WRITE, Cause.COORDINATOR_LOG_LOST),
            f"the log of the transactional id is incomplete: {state.unread or 'records are compacted'}",
        )
    if facts.with_partition:
        doubt = stamps_of(facts, first).doubt
        if not doubt and first.first_timestamp_ms <= max(one.prepared_ms for one in facts.with_partition):
            doubt = "the record is older than the last transaction with the partition, and may belong to another one"
        if doubt:
            return _unknown((Cause.NOT_ADDED, Cause.LATE_WRITE), doubt)
    if (why := _why_log_may_be_shorter(facts)) is not None:
        return _unknown((Cause.NOT_ADDED, Cause.COORDINATOR_LOG_LOST), why)
    return _named(
        Cause.NOT_ADDED,
        f"the coordinator's log has every state of transactional id {state.transactional_id!r}, and none of its "
        f"transactions included {facts.opened.topic}-{facts.opened.partition} when the record was written",
    )


def _lost_log(facts: Facts) -> Conclusion | None:
    """Returns a conclusion if markers show what the coordinator's log does not have."""
    state, producer_id = facts.state, facts.opened.producer_id
    if state.unread or not state.is_whole:
        return None
    if not facts.is_producer_known:
        if facts.known_id is not None:
            return _named(
                Cause.COORDINATOR_LOG_LOST,
                f"producer {producer_id} belonged to transactional id {facts.known_id!r}, as an incident shows, and its "
                f"partition of the coordinators' log, complete from its beginning, has no record of it",
            )
        return _lost_after_others(facts)
    for marker in facts.markers:
        if _is_by_a_coordinator(marker) and not _is_accounted_for(facts, marker, CLOCKS_AGREE_WITHIN_MS):
            return _named(
                Cause.COORDINATOR_LOG_LOST,
                f"{marker.topic}-{marker.partition} has the COMMIT marker of a transaction at offset {marker.offset}, and "
                "the coordinator's log, complete from its beginning, has no such transaction",
            )
    return None


def _lost_after_others(facts: Facts) -> Conclusion | None:
    """A marker of the producer after one of a producer that is known here was written in this cluster."""
    known = [offset for other, offset in facts.logs.own.ended_before.items() if other in facts.state.producer_ids]
    own = filter(_is_by_a_coordinator, facts.logs.own.markers)
    later = next((marker for marker in own if known and marker.offset > min(known)), None)
    if later is None:
        return None
    return _named(
        Cause.COORDINATOR_LOG_LOST,
        f"a coordinator committed a transaction of producer {facts.opened.producer_id} at offset {later.offset}, after a "
        f"marker of a producer of this cluster at offset {min(known)}; the coordinators' log, complete from its beginning, "
        "does not know the producer",
    )


def _is_by_a_coordinator(marker: LoggedMarker) -> bool:
    """A COMMIT that only a coordinator decides. An ABORT may be an operator's, who gives it the epochs of the partition."""
    return marker.commit and marker.coordinator_epoch >= 0


def _is_accounted_for(facts: Facts, marker: LoggedMarker, clocks_apart_ms: int) -> bool:
    """True if it was written while the coordinator was completing a transaction; a new coordinator writes it once more."""
    written_ms = marker.timestamp_ms
    return any(
        0 <= marker.producer_epoch - one.producer_epoch <= 1
        and 0 <= one.prepared_ms <= written_ms + clocks_apart_ms
        and (one.completed_ms < 0 or written_ms <= one.completed_ms + clocks_apart_ms)
        for one in facts.of_producer
    )


def _why_log_may_be_shorter(facts: Facts) -> str | None:
    """Returns why the coordinator's log may have lost records unseen; None if it cannot."""
    epochs = [state.leader_epoch for state in facts.state.states if state.leader_epoch >= 0]
    if epochs and facts.state.owner_leader_epoch == epochs[-1]:
        return None
    protection = facts.protection
    of_topic = protection.state_topic_configs.get("unclean.leader.election.enable")
    if of_topic == "false" and (protection.state_topic_replicas or 0) > 1:
        return None
    return "the coordinator's log may be incomplete: its leader has changed since, and " + (
        "unclean elections are possible" if of_topic != "false" else "it has one replica"
    )
