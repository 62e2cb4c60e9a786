"""Finds transactions that are stuck at their coordinator: decided, and waiting for end markers for too long.

No partition needs to have anything open. The producer's application cannot start: it gets CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from exporter.evaluation.humanize import humanize_count, humanize_duration, humanize_names
from exporter.evaluation.memory import Memory
from exporter.evaluation.stuck_transaction import StuckTransaction
from exporter.evaluation.verdicts import Policy
from exporter.snapshot import (
    NOTHING_REMEMBERED,
    STATE_TOPIC,
    CompletingTransaction,
    MarkerFinding,
    PendingMarker,
    RememberedCompletion,
    RememberedCompletions,
    Snapshot,
    TransactionState,
)

ELECTIONS_MAX: Final = 20
"""A partition that needs more elections of the coordinator than this is not helped by restarts."""
REMEMBERED_UNLISTED_MAX: Final = 1_000
"""Transactions that are not listed, and that the memory keeps until every coordinator has responded."""
_NAMES_MAX: Final = 5


def stuck_transactions(snapshot: Snapshot, memory: Memory, policy: Policy) -> tuple[StuckTransaction, ...]:
    """Returns what completes for longer than `verdicts.stuck_after` at a confirmed coordinator, worst first."""
    stuck = []
    seen = _seen(snapshot, memory)
    for each in snapshot.completing.lasting:
        known = seen.get(each.identity)
        transaction = each.transaction
        if known is None or known.start_ms is None or not known.is_of(transaction) or each.unconfirmed:
            continue
        stuck_ms = _lasted_ms(snapshot, known)
        if stuck_ms <= policy.stuck_after_ms and not _are_old(each, snapshot.cluster_time_ms - policy.stuck_after_ms):
            continue
        stuck.append(
            StuckTransaction(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                coordinator=transaction.coordinator,
                state=transaction.state,
                start_ms=known.start_ms,
                since_ms=known.since_ms,
                stuck_ms=stuck_ms,
                state_partition=each.state_partition,
                coordinator_epoch=each.coordinator_epoch,
                markers=each.markers,
            )
        )
    order = list(MarkerFinding)
    return tuple(
        sorted(stuck, key=lambda each: (order.index(each.markers_state), -each.stuck_ms, each.transactional_id))
    )


def _are_old(each: CompletingTransaction, before_ms: int) -> bool:
    """True if every marker is in its log from before that time: its coordinator will not complete it any more.

    Either it has had them written and lost the response, or they were not its own, and it is refused.
    """
    return bool(each.markers) and all(
        marker.timestamp_ms is not None and marker.timestamp_ms < before_ms for marker in each.markers
    )


def remembered_completing(snapshot: Snapshot, memory: Memory) -> RememberedCompletions:
    """Returns what the next cycle needs to know about completing transactions.

    A missing response ends nothing: what was described before stays until a cycle that is complete does not list it.
    """
    completing, seen = snapshot.completing, _seen(snapshot, memory)
    described = {each.identity: _remembered(snapshot, each, seen.get(each.identity)) for each in completing.lasting}
    unanswered = {identity: seen[identity] for identity in completing.undescribed & seen.keys()}
    listed = dict.fromkeys(completing.listed, RememberedCompletion())
    return {**({} if snapshot.is_complete else _oldest(seen)), **listed, **unanswered, **described}


def _oldest(seen: RememberedCompletions) -> RememberedCompletions:
    """Bounds what is kept while a coordinator never responds."""
    lasting = [(identity, each) for identity, each in seen.items() if each.start_ms is not None]
    return dict(sorted(lasting, key=lambda pair: pair[1].since_ms)[:REMEMBERED_UNLISTED_MAX])


def _seen(snapshot: Snapshot, memory: Memory) -> RememberedCompletions:
    return memory.completing if memory.cluster_id == snapshot.cluster_id else NOTHING_REMEMBERED


def _remembered(
    snapshot: Snapshot, each: CompletingTransaction, known: RememberedCompletion | None
) -> RememberedCompletion:
    if known is None or not known.is_of(each.transaction):
        known = RememberedCompletion(since_ms=snapshot.cluster_time_ms, from_ms=snapshot.monotonic_ms)
    return replace(known, start_ms=each.transaction.start_ms, markers=each.markers)


def _lasted_ms(snapshot: Snapshot, known: RememberedCompletion) -> int:
    """Measures by the monotonic clock where there is one: a wall clock may be set."""
    if snapshot.monotonic_ms is not None and known.from_ms is not None:
        return max(snapshot.monotonic_ms - known.from_ms, 0)
    return max(snapshot.cluster_time_ms - known.since_ms, 0)


def stuck_in_words(stuck: StuckTransaction) -> str:
    """Writes a paragraph: the producer that cannot start, the markers in the logs, and what ends it."""
    return " ".join((_subject(stuck), *_findings(stuck, stuck.markers), _ending(stuck)))


def stuck_evidence(stuck: StuckTransaction) -> str:
    """Writes what an incident keeps: no durations and no reasons for unread logs, which differ from cycle to cycle."""
    where = humanize_names(_names(stuck.markers), shown_max=_NAMES_MAX) or "no partition that is known"
    subject = (
        f"Coordinator {stuck.coordinator} has decided to {_decision(stuck)} the transaction and cannot complete it, on "
        f"{where}: a producer with this id gets CONCURRENT_TRANSACTIONS and cannot start."
    )
    known = [marker for marker in stuck.markers if marker.finding is not MarkerFinding.UNKNOWN]
    return " ".join((subject, *_findings(stuck, known), _ending(stuck)))


def _decision(stuck: StuckTransaction) -> str:
    return "commit" if stuck.state is TransactionState.PREPARE_COMMIT else "abort"


def _subject(stuck: StuckTransaction) -> str:
    waits = (
        f"waits for the markers of {humanize_names(_names(stuck.markers), shown_max=_NAMES_MAX)}"
        if stuck.markers
        else "has not completed it"
    )
    age = humanize_duration(stuck.since_ms + stuck.stuck_ms - stuck.start_ms)
    owner = repr(stuck.transactional_id) if stuck.transactional_id else f"producer {stuck.producer_id}"
    return (
        f"Coordinator {stuck.coordinator} has decided to {_decision(stuck)} the transaction of {owner}, which began "
        f"{age} ago. It {waits}, for at least "
        f"{humanize_duration(stuck.stuck_ms)}: a producer with this id gets CONCURRENT_TRANSACTIONS and cannot start."
    )


def _findings(stuck: StuckTransaction, markers: Iterable[PendingMarker]) -> Iterator[str]:
    if not stuck.markers:
        yield (
            "No partition that it waits for is visible: either all markers are written, or this login lacks DESCRIBE on "
            "their topics."
        )
    is_commit = stuck.state is TransactionState.PREPARE_COMMIT
    by_finding: dict[MarkerFinding, list[PendingMarker]] = {}
    for marker in markers:
        by_finding.setdefault(marker.finding, []).append(marker)
    for finding, some in by_finding.items():
        where = humanize_names([_place(marker) for marker in some], shown_max=_NAMES_MAX)
        if finding is MarkerFinding.CONTRADICTED:
            yield (
                f"{where} has an ABORT marker: its records are dropped, although their commit is decided."
                if is_commit
                else f"{where} has a COMMIT marker: its records are visible, although their abort is decided."
            )
        elif finding is MarkerFinding.MISSING:
            yield f"{where} is still open."
        elif finding is MarkerFinding.AS_DECIDED:
            yield f"{where} has the {'COMMIT' if is_commit else 'ABORT'} marker, as decided."
        else:
            details = humanize_names(sorted({marker.detail for marker in some}), shown_max=1)
            yield f"The marker of {where} is unknown: {details}."


def _ending(stuck: StuckTransaction) -> str:
    """Says what ends it, as measured on Kafka 4.3.1 and 3.9.1 (tests/real_brokers/test_stuck.py)."""
    home = f"{STATE_TOPIC}-{stuck.state_partition}"
    again = f"The coordinator sends its markers again only after an election of the leader of {home}"
    if not stuck.markers:
        return f"{again}; whether they are refused is not known."
    if stuck.refused_epoch < 0:
        return f"{again}, as by a restart of broker {stuck.coordinator}."
    refused = (
        f"The partition refuses them: it remembers coordinator epoch {stuck.refused_epoch}, and {home} is at epoch "
        f"{stuck.coordinator_epoch}"
    )
    elections = stuck.refused_epoch - stuck.coordinator_epoch
    if elections <= ELECTIONS_MAX:
        return f"{again}. {refused}, which each election raises: {humanize_count(elections, 'is', 'are')} needed."
    return (
        f"{again}. {refused}: no number of restarts helps until the partition has forgotten the producer, "
        "producer.id.expiration.ms (a day by default) after its last marker."
    )


def _names(markers: Iterable[PendingMarker]) -> list[str]:
    return [f"{marker.topic}-{marker.partition}" for marker in markers]


def _place(marker: PendingMarker) -> str:
    at = "" if marker.offset is None else f" at offset {marker.offset}"
    return f"{marker.topic}-{marker.partition}{at}"
