"""Describes transactions that stay in PrepareCommit or PrepareAbort, and compares their end markers with the decision.

A partition refuses a marker with an older coordinator epoch than the newest that it has seen of the producer, and one whose
producer epoch is not new to it. Its coordinator then gives up, and tries again only after an election
(TransactionMarkerRequestCompletionHandler). Until then a producer with this id gets CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.examined import EarlierCycles
from exporter.kafka.collect.log_reader import LogBudget, LogReader
from exporter.kafka.collect.scan import scan_leaders
from exporter.kafka.coordinators import Listing, describe
from exporter.kafka.errors import BrokerFault
from exporter.kafka.leadership.confirm import unconfirmed
from exporter.kafka.messages.fetch import MEGABYTE
from exporter.kafka.messages.log_batches import Stretch
from exporter.kafka.offsets import offset_at_time
from exporter.kafka.state_partitions import coordinator_claim, other_coordinator
from exporter.kafka.topology import Topology
from exporter.snapshot import (
    CLOCKS_AGREE_WITHIN_MS,
    COMPLETING_STATES,
    NO_LEADER,
    NOTHING_COMPLETES,
    BoolColumn,
    CompletingId,
    CompletingTransaction,
    Completions,
    CoordinatorTransaction,
    EndMarker,
    MarkerFinding,
    OneEntry,
    PendingMarker,
    RememberedCompletions,
    TopicPartition,
    TransactionState,
    was_read,
)

DESCRIBED_MAX = 100
"""Transactions that a cycle describes here: a broker that is gone may leave thousands."""
PARTITIONS_MAX = 200
"""Partitions whose markers a cycle compares."""
LOG_BYTES_MAX = 16 * MEGABYTE
"""Limit for all logs of a cycle. Usually a marker is in the first piece."""
SHARE_OF_CYCLE = 0.25
"""Part of the remaining time of a cycle in which logs are read here."""
CLOCKS_APART_MS = 1000
"""A marker that is newer than the start by more is of this transaction: brokers' clocks usually differ by less."""


async def completing(
    client: ClusterClient,
    topology: Topology,
    listings: Iterable[Listing],
    earlier: EarlierCycles,
) -> Completions:
    """The completing transactions of `listings`.

    Those that an earlier cycle has seen are described, or all; those described before have their markers compared.
    Without a lasting one no request is sent, nor where only some partitions are read.
    """
    seen = earlier.completing
    if seen is None:
        return NOTHING_COMPLETES
    listed = {
        CompletingId.of(transaction): transaction
        for listing in listings
        for transaction in listing.in_states(COMPLETING_STATES)
    }
    if not listed:
        return NOTHING_COMPLETES
    lasting = sorted(listed if earlier.keys is None else listed.keys() & seen.keys())
    chosen = lasting[:DESCRIBED_MAX]
    described, _ = await describe(client, [listed[identity] for identity in chosen])
    found = [
        _with_home(topology, transaction)
        for transaction in described
        if transaction.is_described and transaction.state in COMPLETING_STATES
    ]
    compared = await _compared(client, topology, found, seen) if found else ()
    unanswered = (CompletingId.of(each) for each in described if not each.is_described)
    return Completions(
        listed=frozenset(listed),
        lasting=tuple(compared),
        undescribed=frozenset((*lasting[DESCRIBED_MAX:], *unanswered)),
    )


def _with_home(topology: Topology, transaction: CoordinatorTransaction) -> CompletingTransaction:
    claim = coordinator_claim(topology, transaction.transactional_id)
    return CompletingTransaction(
        transaction=transaction, state_partition=claim.partition, coordinator_epoch=claim.leader_epoch
    )


async def _compared(
    client: ClusterClient, topology: Topology, lasting: Sequence[CompletingTransaction], seen: RememberedCompletions
) -> Sequence[CompletingTransaction]:
    """Compares the markers of those that an earlier cycle has described, and confirms their coordinators afterwards."""
    limits = _CycleLimits(client, topology, client.clock() + client.remaining_s() * SHARE_OF_CYCLE)
    old = [each for each in lasting if each.identity in seen and seen[each.identity].is_of(each.transaction)]
    if not old:
        return lasting
    entries = await _entries(client, topology, old)
    markers = {}
    for each in old:
        known = {(marker.topic, marker.partition): marker for marker in seen[each.identity].markers}
        markers[each.identity] = tuple(
            [
                await _marker(limits, each.transaction, partition, entries, known.get(partition))
                for partition in sorted(each.transaction.partitions or ())
            ]
        )
    claims = {each.identity: coordinator_claim(topology, each.transaction.transactional_id) for each in old}
    against = await unconfirmed(client, {claim for claim in claims.values() if claim.leader != NO_LEADER})
    compared = {}
    for each in old:
        claim = claims[each.identity]
        why = other_coordinator(each.transaction, claim) or against.get((claim.topic, claim.partition)) or ""
        compared[each.identity] = replace(each, markers=markers[each.identity], unconfirmed=why)
    return [compared.get(each.identity, each) for each in lasting]


@dataclass(slots=True)
class _CycleLimits:
    """The limits of one cycle."""

    client: ClusterClient
    topology: Topology
    deadline: float
    """Instant by the clock of `client`; the proof of hangs comes after it."""
    budget: LogBudget = field(default_factory=lambda: LogBudget(LOG_BYTES_MAX))
    partitions_left: int = PARTITIONS_MAX

    def spent(self) -> str:
        """Returns why no log is read any more; empty before."""
        is_spent = self.budget.bytes_left <= 0 or self.client.clock() >= self.deadline
        return "the limit of this cycle was reached" if is_spent or self.partitions_left < 0 else ""


_Entries = dict[tuple[TopicPartition, int], OneEntry | None]
"""(partition, producer id) -> its entry; None if the leader does not remember the producer, missing if it is unread."""


async def _entries(client: ClusterClient, topology: Topology, lasting: Iterable[CompletingTransaction]) -> _Entries:
    """The producers' entries on all pending partitions, at the leaders."""
    pending: dict[TopicPartition, set[int]] = defaultdict(set)
    for each in lasting:
        for partition in each.transaction.partitions or ():
            pending[partition].add(each.transaction.producer_id)
    wanted: BoolColumn = np.zeros(len(topology.topic), dtype=np.bool_)
    rows = [row for partition in pending if (row := topology.row(*partition)) is not None]
    wanted[rows] = True
    scan = await scan_leaders(client, topology, wanted=wanted, producer_ids=frozenset().union(*pending.values()))
    found: _Entries = {}
    for row in np.flatnonzero(was_read(scan.answer) & scan.is_subject()).tolist():
        partition = scan.topology.name(row)
        found.update(dict.fromkeys(((partition, producer_id) for producer_id in pending.get(partition, ())), None))
    entries = scan.entries()
    for index, row in enumerate(entries.row.tolist()):
        found[scan.topology.name(row), int(entries.producer_id[index])] = entries.one(index)
    return found


async def _marker(
    limits: _CycleLimits,
    transaction: CoordinatorTransaction,
    partition: TopicPartition,
    entries: _Entries,
    known: PendingMarker | None,
) -> PendingMarker:
    key = partition, transaction.producer_id
    entry = entries.get(key)
    if entry is None:
        why = "its leader does not remember the producer" if key in entries else "its leader could not be read"
        return _unknown(partition, why)
    marker = await _marker_after(limits, transaction, partition, entry, known)
    return replace(marker, coordinator_epoch=entry.coordinator_epoch)


async def _marker_after(
    limits: _CycleLimits,
    transaction: CoordinatorTransaction,
    partition: TopicPartition,
    entry: OneEntry,
    known: PendingMarker | None,
) -> PendingMarker:
    """Compares one marker by the producer's entry; what was found in the log before is not read again."""
    if entry.current_txn_start_offset >= 0:
        return PendingMarker(
            topic=partition[0],
            partition=partition[1],
            finding=MarkerFinding.MISSING,
            offset=entry.current_txn_start_offset,
        )
    if known is not None and known.offset is not None and known.finding is not MarkerFinding.MISSING:
        return known
    limits.partitions_left -= 1
    if spent := limits.spent():
        return _unknown(partition, spent)
    if not _is_of(entry, transaction):
        return _unknown(partition, "its newest marker there may be of an earlier transaction")
    try:
        marker = await _newest_marker(limits, partition, entry)
    except BrokerFault as fault:
        return _unknown(partition, str(fault))
    return _finding(transaction, partition, marker)


def _is_of(entry: OneEntry, transaction: CoordinatorTransaction) -> bool:
    """True if the marker that made this entry was written after the transaction began, by the brokers' clocks.

    An entry without an open transaction has the time of its newest marker (ProducerAppendInfo.appendEndTxnMarker).
    """
    start_ms = transaction.start_ms
    return start_ms is not None and entry.last_timestamp > start_ms + CLOCKS_APART_MS


async def _newest_marker(limits: _CycleLimits, partition: TopicPartition, entry: OneEntry) -> EndMarker | str:
    """The producer's newest marker, whose timestamp its entry has, or why it was not found. Raises BrokerFault."""
    not_there = "its newest marker was not found in the log"
    leader, _ = limits.topology.leader_of(*partition)
    offset = await offset_at_time(limits.client, leader, partition, entry.last_timestamp)
    if offset is None:
        return not_there
    stretch = Stretch(*partition, entry.producer_id, (entry.producer_epoch, entry.last_timestamp))
    reader = LogReader(limits.client, leader, partition, offset, stretch.take, limits.budget)

    def newest() -> EndMarker | None:
        markers = [each for each in stretch.markers.values() if each.timestamp_ms == entry.last_timestamp]
        return markers[-1] if markers else None

    cut = await reader.read_to_end(limits.spent, lambda: newest() is not None)
    return newest() or cut or not_there


def _finding(transaction: CoordinatorTransaction, partition: TopicPartition, marker: EndMarker | str) -> PendingMarker:
    """Compares the producer's newest marker, after which it has written nothing, with the decision. Pure.

    Where this transaction has written nothing, it is of the last one, and a leader whose clock is ahead makes it look new.
    """
    if isinstance(marker, str):
        return _unknown(partition, marker)
    is_as_decided = marker.commit == (transaction.state is TransactionState.PREPARE_COMMIT)
    if not is_as_decided and marker.timestamp_ms <= (transaction.start_ms or 0) + CLOCKS_AGREE_WITHIN_MS:
        return _unknown(partition, f"the opposite marker, at offset {marker.offset}, may be of an earlier transaction")
    return PendingMarker(
        topic=partition[0],
        partition=partition[1],
        finding=MarkerFinding.AS_DECIDED if is_as_decided else MarkerFinding.CONTRADICTED,
        offset=marker.offset,
        timestamp_ms=marker.timestamp_ms,
    )


def _unknown(partition: TopicPartition, why: str) -> PendingMarker:
    return PendingMarker(topic=partition[0], partition=partition[1], finding=MarkerFinding.UNKNOWN, detail=why)
