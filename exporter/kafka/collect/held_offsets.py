"""Reads the offsets of partitions whose producers this principal may not read (DESCRIBE without READ).

    the ends of all of them -> where the last stable offset is below the high watermark, a transaction is open
    and for those that stood there in an earlier cycle:
    metadata -> ends -> probes, listings, descriptions -> ends -> listing, descriptions, probes (coordinator_proof.py) ->
    metadata -> confirm

The last stable offset passes the start of a transaction when its marker is replicated, and never goes back in one leader
epoch. So the transaction that begins at an offset where it stands at both reads was open all the time between. A leader
whose high watermark may lag behind its predecessor's responds with OFFSET_NOT_AVAILABLE (KIP-207): markers that it has not
yet seen replicated look like open transactions only until then. docs/proof.md has what follows from both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.examined import EarlierCycles, were_seen
from exporter.kafka.collect.scan import Entries, LeaderScan
from exporter.kafka.collect.scan_requests import Rows
from exporter.kafka.collect.state import ExaminedEntries, Verification
from exporter.kafka.collect.verify import confirmed, fresh_topology, leaders_in, without_strangers
from exporter.kafka.coordinator_proof import prove, state_claims
from exporter.kafka.errors import FaultReason
from exporter.kafka.leadership.confirm import Claim, unconfirmed
from exporter.kafka.offsets import PartitionEnds, ends_of_rows
from exporter.kafka.topology import Topology
from exporter.snapshot import (
    NO_LEADER,
    NO_PRODUCER_ID,
    BoolColumn,
    CoordinatorProof,
    CoordinatorTransaction,
    HeldOffset,
    Int8Column,
    PartitionResult,
    SecondRead,
    TopicPartition,
    Visibility,
    is_unread,
)

_NO_EPOCH = -1
_BEYOND_LIMIT = "partitions whose last stable offset stands were not examined: raise scan.transactions_limit"


@dataclass(frozen=True, slots=True)
class HeldOffsets:
    """The partitions (H) on which a transaction is open, by their offsets."""

    examined: ExaminedEntries
    offsets: tuple[HeldOffset, ...]
    proof: CoordinatorProof | None = None
    left_out: int = 0
    """Partitions beyond the limit of what a cycle examines."""

    def noted_in(self, visibility: Visibility) -> Visibility:
        """Returns `visibility` with the gap that the limit leaves."""
        return visibility.with_gap(f"{self.left_out} {_BEYOND_LIMIT}") if self.left_out else visibility

    def joined_to(self, verified: Verification) -> Verification:
        """Returns `verified` with these entries after its own."""
        if not len(self.examined):
            return verified
        examined = replace(
            verified.examined,
            entries=Entries.joined([verified.examined.entries, self.examined.entries]),
            second_read=np.concatenate((verified.examined.second_read, self.examined.second_read)),
        )
        unverified = np.concatenate((verified.unverified, np.zeros(len(self.examined), dtype=np.bool_)))
        return replace(
            verified, examined=examined, unverified=unverified, held_offsets=self.offsets, offset_proof=self.proof
        )


async def read_held_offsets(
    client: ClusterClient, scan: LeaderScan, earlier: EarlierCycles, others: ExaminedEntries
) -> HeldOffsets:
    """Reads as many as a cycle examines beside `others`, those of an earlier cycle first; `scan` gets the results.

    Without a partition whose producers were refused no request is sent.
    """
    topology, strangers, limit = scan.topology, others.strangers, client.transactions_limit - len(others)
    rows = _refused(scan, strangers)
    if not len(rows):
        return HeldOffsets(_entries(topology, rows, rows, strangers), ())
    ends = await ends_of_rows(client, topology, rows, topology.leader)
    scan.answer[rows[ends.is_known]] = PartitionResult.BY_OFFSETS
    led_unread = set(topology.leader[scan.is_subject() & is_unread(scan.answer)].tolist())
    for broker in scan.faults.keys() - led_unread:  # it does not offer the request, and nothing is missing
        del scan.faults[broker]
    is_held = ends.is_known & (ends.stable < ends.high_watermark)
    rows, ends = rows[is_held], ends.those(is_held)
    examined = _entries(topology, rows, ends.stable, strangers)
    was_seen = were_seen(examined, earlier)
    chosen = np.sort(np.argsort(~was_seen, kind="stable")[:limit])
    left_out = len(rows) - len(chosen)
    rows, ends, was_seen = rows[chosen], ends.those(chosen), was_seen[chosen]
    offsets = tuple(HeldOffset(leader_epoch=epoch) for epoch in ends.leader_epoch.tolist())
    once = HeldOffsets(_entries(topology, rows, ends.stable, strangers), offsets, left_out=left_out)
    if not np.any(was_seen) or client.remaining_s() <= 0:
        return once
    return await _proved(client, once, was_seen)


def _refused(scan: LeaderScan, strangers: frozenset[int]) -> Rows:
    """The rows whose leader refuses to show producers, or does not know the request."""
    is_refused = scan.answer == int(PartitionResult.UNAUTHORIZED)
    is_refused |= scan.has_reason(np.arange(len(scan.topology)), [FaultReason.UNSUPPORTED_API.value])
    is_reached = (scan.topology.leader != NO_LEADER) & ~np.isin(scan.topology.leader, sorted(strangers))
    return np.flatnonzero(scan.is_subject() & is_refused & is_reached)


def _entries(topology: Topology, rows: Rows, starts: Rows, strangers: frozenset[int]) -> ExaminedEntries:
    count = len(rows)
    unknown = np.full(count, _NO_EPOCH, dtype=np.int32)
    entries = Entries(
        row=rows,
        producer_id=np.full(count, NO_PRODUCER_ID, dtype=np.int64),
        producer_epoch=unknown,
        last_sequence=unknown,
        last_timestamp=np.full(count, -1, dtype=np.int64),
        coordinator_epoch=unknown,
        current_txn_start_offset=starts,
    )
    return ExaminedEntries.of(topology, entries, strangers)


async def _proved(client: ClusterClient, once: HeldOffsets, was_seen: BoolColumn) -> HeldOffsets:
    """Reads those that an earlier cycle has seen again, before and after the coordinators."""
    examined, topology = once.examined, once.examined.topology
    lasting = np.flatnonzero(was_seen)
    rows = examined.entries.row[lasting]
    topics = tuple(sorted({topology.name(row)[0] for row in rows.tolist()}))
    before = await fresh_topology(client, topics)
    leaders = leaders_in(topology, rows, before)
    first = second = await ends_of_rows(client, topology, rows, leaders)

    async def read_again() -> None:
        nonlocal second
        second = await ends_of_rows(client, topology, rows, leaders)

    proof = await prove(client, topology, topics=topics, producer_ids=None, read_again=read_again)
    proof = without_strangers(proof, examined.strangers)
    after = await fresh_topology(client, topics)
    starts = examined.entries.current_txn_start_offset.copy()
    second_read = examined.second_read.copy()
    second_read[lasting] = _second_read(topology, rows, (before, after), (starts[lasting], first, second))
    is_unchanged = second_read[lasting] == int(SecondRead.UNCHANGED)
    claims = [] if after is None else [Claim.of(after, *topology.name(row)) for row in rows[is_unchanged].tolist()]
    if claims:
        against = await unconfirmed(client, {*claims, *state_claims(proof, (NO_PRODUCER_ID,))})
        proof = confirmed(proof, against)
        doubted = [topology.name(row) in against for row in rows.tolist()]
        second_read[lasting[is_unchanged & np.array(doubted, dtype=np.bool_)]] = SecondRead.UNCONFIRMED
    # Where it stands at another offset now, another transaction holds it: this cycle has seen that one first.
    has_moved = second.is_known & (second.stable != starts[lasting])
    starts[lasting[has_moved]] = second.stable[has_moved]
    second_read[lasting[has_moved]] = SecondRead.NOT_ASKED
    names = {topology.name(row) for row in rows.tolist()}
    described = [_active_on(transactions, names) for transactions in (proof.transactions, *proof.later)]
    offsets = list(once.offsets)
    for place, epoch in zip(lasting.tolist(), second.leader_epoch.tolist(), strict=True):
        name = topology.name(examined.entries.row[place])
        *earlier, later = (tuple(active.get(name, ())) for active in described)
        offsets[place] = HeldOffset(leader_epoch=epoch, described=tuple(earlier), later=later)
    is_open = np.ones(len(examined), dtype=np.bool_)
    is_open[lasting] = ~(second.is_known & (second.stable >= second.high_watermark))
    entries = replace(examined.entries, current_txn_start_offset=starts)
    return replace(
        once,
        examined=replace(examined, entries=entries, second_read=second_read).those(is_open),
        offsets=tuple(offset for offset, keep in zip(offsets, is_open.tolist(), strict=True) if keep),
        proof=proof,
    )


def _second_read(
    topology: Topology,
    rows: Rows,
    views: tuple[Topology | None, Topology | None],
    ends: tuple[Rows, PartitionEnds, PartitionEnds],
) -> Int8Column:
    """(R,) `SecondRead`: UNCHANGED if it stood at the same offset, leader, epoch and topic id at both reads."""
    before, after = views
    starts, first, second = ends
    result = np.full(len(rows), int(SecondRead.CHANGED), dtype=np.int8)
    if before is None or after is None:
        result[:] = SecondRead.UNREAD
        return result
    is_same = (first.stable == starts) & (second.stable == starts) & (first.leader_epoch == second.leader_epoch)
    for place, row in enumerate(rows.tolist()):
        name = topology.name(row)
        claim, later = Claim.of(before, *name), Claim.of(after, *name)
        is_led_so = claim == later and claim.leader_epoch == second.leader_epoch[place] != _NO_EPOCH
        is_same[place] &= is_led_so and claim.topic_id == topology.topic_id_of(name[0])
    result[is_same] = SecondRead.UNCHANGED
    result[~(first.is_known & second.is_known)] = SecondRead.UNREAD
    return result


def _active_on(
    transactions: Iterable[CoordinatorTransaction], partitions: Collection[TopicPartition]
) -> Mapping[TopicPartition, list[CoordinatorTransaction]]:
    found: dict[TopicPartition, list[CoordinatorTransaction]] = {}
    for transaction in transactions:
        if transaction.is_active:
            for name in transaction.partitions or ():
                if name in partitions:
                    found.setdefault(name, []).append(transaction)
    return found
