"""Builds a Snapshot from leader responses: queries coordinators, re-reads unverified transactions, finds blocked groups.

Everything here belongs to one cluster and happens in one order in time. It does not matter who queried the leaders, and
from how many machines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.broker_configs import strangers
from exporter.kafka.collect.completing import completing
from exporter.kafka.collect.examined import EarlierCycles, set_aside, were_seen
from exporter.kafka.collect.held_offsets import read_held_offsets
from exporter.kafka.collect.log_before import read_before_starts
from exporter.kafka.collect.owners import unconfirmed_owners
from exporter.kafka.collect.replicas import OpenAtLeader
from exporter.kafka.collect.scan import LeaderScan
from exporter.kafka.collect.state import (
    CoordinatorView,
    Effects,
    ExaminedEntries,
    UnexaminedEntries,
    Verification,
)
from exporter.kafka.collect.suspects import find_impact
from exporter.kafka.collect.verify import reread_unexplained
from exporter.kafka.coordinators import by_producer_id, coordinators_of, describe, list_transactions
from exporter.kafka.offsets import latest_offsets
from exporter.kafka.topology import Topology
from exporter.kafka.visibility.cluster import with_state_topic
from exporter.snapshot import (
    COMPLETING_STATES,
    NO_LEADER,
    NOTHING_COMPLETES,
    NOTHING_HIDDEN,
    STATE_TOPIC,
    BoolColumn,
    BrokerCoverage,
    CoordinatorCoverage,
    Int16Column,
    Int64Column,
    MaxTimeout,
    OpenTransactions,
    PartitionResult,
    Partitions,
    Snapshot,
    Visibility,
    was_read,
)
from exporter.snapshot.open_transactions import NO_ROW

PAST_DEADLINE = "scan.deadline passed before suspect transactions could be proved"


async def complete(
    client: ClusterClient,
    scan: LeaderScan,
    limit: MaxTimeout,
    *,
    taken_at_ms: int,
    earlier: EarlierCycles,
    search_logs: bool,
    stopwatch: Stopwatch,
    now_ms: Callable[[], int],
    visibility: Visibility = NOTHING_HIDDEN,
    taken_at_s: float | None = None,
) -> Snapshot:
    """The snapshot of the partitions in `scan`, which began at `taken_at_ms`.

    `earlier` and `search_logs` are those of `Collector.collect`. `taken_at_s`: the same instant by the monotonic clock of
    `client`; None if the scan began on another machine.
    """
    examined = ExaminedEntries.of(scan.topology, scan.entries(), strangers(limit, scan.topology.brokers))
    scan.parts.clear()  # for a million of them this saves 88 MB
    visibility = visibility.with_strangers(examined.strangers)
    coordinators, others, waiting = CoordinatorView(), None, NOTHING_COMPLETES
    effects, owners = Effects(), dict[int, str]()
    not_open_at_ms: dict[int, int | None] = {}
    ends: Int64Column = np.empty((0, 2), dtype=np.int64)
    if not len(examined):
        verified = Verification(examined, np.zeros(0, dtype=np.bool_))
        if earlier.completing is not None:
            listings = await list_transactions(client, coordinators_of(scan.topology), states=COMPLETING_STATES)
            coordinators = CoordinatorView(listings)
            waiting = await completing(client, scan.topology, coordinators.listings, earlier)
            stopwatch.lap("transactions")
    else:
        coordinators, examined, others = await _ask_coordinators(client, examined, earlier)
        # Before the proof, whose last requests must be the reads of the partitions.
        waiting = await completing(client, scan.topology, coordinators.listings, earlier)
        stopwatch.lap("transactions")
        if client.remaining_s() > 0:
            verified = await reread_unexplained(client, examined, coordinators)
        else:
            verified = Verification(examined, np.zeros(len(examined), dtype=np.bool_))
            visibility = visibility.with_gap(PAST_DEADLINE)
    held = await read_held_offsets(client, scan, earlier, verified.examined)
    verified, visibility = held.joined_to(verified), held.noted_in(visibility)
    if len(verified.examined):
        stopwatch.lap("proof")
        cluster_ms = client.cluster_clock.at_ms(client.clock())
        owners = dict(await unconfirmed_owners(client, verified, coordinators, cluster_ms))
        ends = await _partition_ends(client, verified.examined)
        # Before the groups: a broker that does not respond about them is asked nothing further in this cycle.
        visibility = await with_state_topic(client, scan.topology, visibility)
        stopwatch.lap("offsets")
        effects = await find_impact(client, verified, coordinators, ends, cluster_ms, earlier, search_logs=search_logs)
        not_open_at_ms = await read_before_starts(client, verified, limit.timeout_ms, cluster_ms, earlier.log_facts)
        stopwatch.lap("impact")
    open_transactions = _open_transactions(verified, others, ends, owners, not_open_at_ms)
    for gap in client.connections.too_new():
        visibility = visibility.with_gap(gap)
    finished_at_ms = now_ms()
    begun_s = client.clock() - (finished_at_ms - taken_at_ms) / 1000 if taken_at_s is None else taken_at_s
    return replace(
        _snapshot(scan, limit, open_transactions, coordinators, verified, effects, (taken_at_ms, finished_at_ms)),
        completing=waiting,
        visibility=visibility,
        took_ms=max(int((client.clock() - begun_s) * 1000), 0),
        clock_offset_ms=client.cluster_clock.at_ms(begun_s) - taken_at_ms,
        clock_source=client.cluster_clock.source,
        monotonic_ms=None if taken_at_s is None else int(taken_at_s * 1000),
    )


class Stopwatch:
    """Duration of each phase of a cycle."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = clock()
        self._laps: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        """`phase` has ended, and began when the previous one did."""
        now = self._clock()
        self._laps[phase] = now - self._last
        self._last = now

    def laps(self) -> tuple[tuple[str, float], ...]:
        """(phase, seconds), in order."""
        return tuple(self._laps.items())


async def _ask_coordinators(
    client: ClusterClient, examined: ExaminedEntries, earlier: EarlierCycles
) -> tuple[CoordinatorView, ExaminedEntries, UnexaminedEntries | None]:
    """Lists the active transactions, chooses those that are examined, and describes what an earlier cycle has seen open."""
    listings = await list_transactions(client, coordinators_of(examined.topology))
    was_seen = were_seen(examined, earlier)
    examined, was_seen, others = set_aside(examined, listings, was_seen, client.transactions_limit)
    entries = examined.entries
    producer_ids = set(entries.producer_id.tolist())
    listed = [transaction for listing in listings for transaction in listing.of_producers(producer_ids)]
    active = by_producer_id(listed)
    is_active = np.fromiter(
        (producer_id in active for producer_id in entries.producer_id.tolist()), np.bool_, count=len(entries)
    )
    lasting = set(entries.producer_id[is_active & was_seen].tolist())
    known = [active[producer_id] for producer_id in sorted(lasting)]
    if not examined.topology.rows_of(STATE_TOPIC):  # without it any broker may list what another one coordinates
        known = [transaction for transaction in listed if transaction.producer_id in lasting]
    described, unclear = await describe(client, known)
    unclear -= {transaction.producer_id for transaction in described if transaction.is_described}
    transactions = tuple({**active, **by_producer_id(described)}.values())
    return CoordinatorView(listings, transactions, unclear), examined, others


async def _partition_ends(client: ClusterClient, examined: ExaminedEntries) -> Int64Column:
    """(K, 2) last stable offset and high watermark of each one's partition; -1 where they are unknown."""
    topology, entries = examined.topology, examined.entries
    partitions = [examined.partition(i) for i in range(len(entries))]
    offsets = await latest_offsets(client, dict(zip(partitions, topology.leader[entries.row].tolist(), strict=True)))
    pairs = [offsets[partition] for partition in partitions]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _open_transactions(
    verified: Verification,
    others: UnexaminedEntries | None,
    ends: Int64Column,
    owners: Mapping[int, str],
    not_open_at_ms: Mapping[int, int | None],
) -> OpenTransactions:
    """The open transactions; `ends` are those of `_partition_ends`."""
    examined, followers = verified.examined, verified.followers
    entries = examined.entries
    all_entries = entries if others is None else others.after(entries)
    return OpenTransactions(
        partition_row=all_entries.row.astype(np.int32),
        **all_entries.columns(),
        second_read=examined.second_read,
        diverged_replicas=_by_entry(examined, followers.diverged),
        silent_replicas=_by_entry(examined, followers.silent),
        unaware_replicas=_by_entry(examined, followers.unaware),
        unconfirmed=tuple(map(owners.get, range(len(entries)))) if owners else (),
        not_open_at_ms=tuple(map(not_open_at_ms.get, range(len(entries)))) if not_open_at_ms else (),
        last_stable_offset=ends[:, 0].copy(),
        high_watermark=ends[:, 1].copy(),
        held_offsets=tuple(map(verified.held_offset, range(len(entries)))) if verified.held_offsets else (),
        needs_examination=NO_ROW if others is None else others.needs_examination,
        is_completing=NO_ROW if others is None else others.is_completing,
    )


def _by_entry(
    examined: ExaminedEntries, brokers: Mapping[OpenAtLeader, tuple[int, ...]]
) -> tuple[tuple[int, ...], ...]:
    """(K,) the brokers of each entry; empty if there are none for any entry, which is the usual case."""
    if not brokers:
        return ()
    return tuple(brokers.get(examined.at_leader(i), ()) for i in range(len(examined)))


def _snapshot(
    scan: LeaderScan,
    limit: MaxTimeout,
    open_transactions: OpenTransactions,
    coordinators: CoordinatorView,
    verified: Verification,
    effects: Effects,
    instants_ms: tuple[int, int],
) -> Snapshot:
    """The snapshot of a cycle that began and ended at `instants_ms`."""
    topology, (taken_at_ms, finished_at_ms) = scan.topology, instants_ms
    exists = scan.is_subject()
    new_row = np.cumsum(exists) - 1
    answer = scan.answer[exists]
    unread = np.flatnonzero(~was_read(answer) & (answer != int(PartitionResult.EXCLUDED)))
    code = scan.reason_code[exists][unread]
    reasons = tuple(sorted({scan.reasons[reason_code] for reason_code in np.flatnonzero(np.bincount(code)).tolist()}))
    index = np.array(
        [reasons.index(reason_name) if reason_name in reasons else -1 for reason_name in scan.reasons], dtype=np.int16
    )
    reason: Int16Column = np.full(np.count_nonzero(exists), -1, dtype=np.int16)
    reason[unread] = index[code]
    partitions = Partitions(
        topics=topology.topics,
        topic_ids=topology.topic_ids,
        topic=topology.topic[exists],
        partition=topology.partition[exists],
        leader=topology.leader[exists],
        answer=answer,
        reasons=reasons,
        reason=reason,
        producers=scan.producers[exists],
    )
    moved = replace(open_transactions, partition_row=new_row[open_transactions.partition_row].astype(np.int32))
    return Snapshot(
        cluster_id=topology.cluster_id,
        taken_at_ms=taken_at_ms,
        finished_at_ms=finished_at_ms,
        partitions=partitions,
        open_transactions=moved,
        transactions=coordinators.transactions,
        unclear_producer_ids=coordinators.unclear_producer_ids,
        proof=verified.proof,
        offset_proof=verified.offset_proof,
        impact=effects.impact,
        disk=effects.disk,
        end_markers=effects.end_markers,
        brokers=_brokers(topology, scan, exists),
        coordinators=tuple(
            CoordinatorCoverage(broker=listing.broker, failure=listing.failure) for listing in coordinators.listings
        ),
        max_timeout=limit,
    )


def _brokers(topology: Topology, scan: LeaderScan, exists: BoolColumn) -> tuple[BrokerCoverage, ...]:
    led_by = topology.leader[exists & (topology.leader != NO_LEADER)]
    asked, count = np.unique(led_by, return_counts=True)
    led = dict(zip(asked.tolist(), count.tolist(), strict=True))
    return tuple(
        BrokerCoverage(
            broker=broker,
            host=topology.brokers[broker].host if broker in topology.brokers else "",
            port=topology.brokers[broker].port if broker in topology.brokers else -1,
            partitions=led.get(broker, 0),
            failure=scan.faults.get(broker),
        )
        for broker in sorted(led.keys() | scan.faults.keys())
    )
