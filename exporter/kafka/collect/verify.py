"""Reads again what the coordinators contradict, and proves what is still open.

    read again -> probes, listing, descriptions, probes (coordinator_proof.py) -> followers -> read once more -> confirm

A transaction that ends in the meantime drops out at one of the reads. One that is the same at both, including last sequence
and timestamp, was open and unchanged at the time of the coordinator's response: a producer that continues takes its old
records into its next transaction. At the end every leader whose response was used is confirmed (`leadership/`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.replicas import EVERYBODY_AGREES, ask_followers
from exporter.kafka.collect.scan import Entries, LeaderScan, read_rows
from exporter.kafka.collect.state import CoordinatorView, ExaminedEntries, Verification
from exporter.kafka.coordinator_proof import prove, state_claims
from exporter.kafka.coordinators import by_producer_id
from exporter.kafka.errors import ClusterUnavailableError
from exporter.kafka.leadership.confirm import Claim, unconfirmed
from exporter.kafka.topology import Topology
from exporter.snapshot import (
    NO_LEADER,
    STATE_TOPIC,
    CoordinatorProof,
    Int32Column,
    Ownership,
    PartitionResult,
    SecondRead,
    Unconfirmed,
    ownership,
)

_EXPLAINED = frozenset({Ownership.OWNED, Ownership.COMPLETING, Ownership.LISTED_ACTIVE})

_KEPT_STILL = ("producer_epoch", "last_sequence", "last_timestamp", "coordinator_epoch")


async def reread_unexplained(
    client: ClusterClient, examined: ExaminedEntries, coordinators: CoordinatorView
) -> Verification:
    """Reads again what the coordinators contradict, and collects a proof for what is still open."""
    unverified = _unverified(examined, coordinators)
    if not np.any(unverified):
        return Verification(examined, unverified)
    # Most of them ended between the two requests: one more read of their partitions shows it without probes.
    before = await fresh_topology(client, _topics(examined, unverified))
    again = await _read_again(client, examined, unverified, before)
    examined, unverified = _refreshed(examined, unverified, again, before)
    if not np.any(unverified):
        return Verification(examined, unverified)
    unverified_rows = np.flatnonzero(unverified).tolist()
    proof = await prove(
        client,
        examined.topology,
        producer_ids={int(producer_id) for producer_id in examined.entries.producer_id[unverified_rows]},
        topics={examined.partition(i)[0] for i in unverified_rows},
    )
    proof = without_strangers(proof, examined.strangers)
    followers = EVERYBODY_AGREES
    if before is not None:
        followers = await ask_followers(client, before, [examined.at_leader(i) for i in unverified_rows])
    after = await fresh_topology(client, _topics(examined, unverified))
    again = await _read_again(client, examined, unverified, after)
    examined, unverified = _compared(examined, unverified, again, before, after)
    against = await _unconfirmed_leaders(client, examined, proof, unverified, after)
    return Verification(
        _without_confirmation(examined, unverified, against), unverified, confirmed(proof, against), followers
    )


def without_strangers(proof: CoordinatorProof, led_by_others: frozenset[int]) -> CoordinatorProof:
    """`proof` without the state partitions whose leader's address leads to another broker."""
    return replace(
        proof,
        state_partitions=tuple(
            replace(each, failure="address_of_another_broker") if each.leader in led_by_others else each
            for each in proof.state_partitions
        ),
    )


def _unverified(examined: ExaminedEntries, coordinators: CoordinatorView) -> npt.NDArray[np.bool_]:
    """(N,) entries that no coordinator's active transaction explains."""
    active = by_producer_id(coordinators.transactions)
    entries = examined.entries
    return np.array(
        [
            ownership(active.get(int(entries.producer_id[i])), examined.partition(i), int(entries.producer_epoch[i]))
            not in _EXPLAINED
            for i in range(len(entries))
        ],
        dtype=np.bool_,
    )


def _topics(examined: ExaminedEntries, unverified: npt.NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(sorted({examined.partition(i)[0] for i in np.flatnonzero(unverified).tolist()}))


async def fresh_topology(client: ClusterClient, topics: tuple[str, ...]) -> Topology | None:
    """Fresh metadata of `topics`; None if no broker responds.

    A former leader responds from its own log, without an error: it must not make a transaction look ended.
    """
    try:
        return await client.topology(topics)
    except ClusterUnavailableError:
        return None


_Found = Mapping[int, int | None]
"""Entry -> its index among those that were read again, None if it has ended; without entries that were not read."""


async def _read_again(
    client: ClusterClient, examined: ExaminedEntries, unverified: npt.NDArray[np.bool_], current: Topology | None
) -> tuple[Entries, _Found]:
    """Returns what the leaders in `current` show of the unverified entries' partitions."""
    entries = examined.entries
    rows = np.unique(entries.row[unverified])
    leader = leaders_in(examined.topology, rows, current)
    again = LeaderScan.unasked(examined.topology)
    await read_rows(client, again, rows[leader[rows] != NO_LEADER], leader)
    found = again.entries()
    # A partition may show many more than the unverified ones.
    found = found.those(np.isin(found.producer_id, entries.producer_id[unverified]))
    at = {key: i for i, key in enumerate(_keys(found))}
    led_by_strangers = examined.strangers
    keys = _keys(entries)
    return found, {
        i: at.get(keys[i])
        for i in np.flatnonzero(unverified).tolist()
        if again.answer[entries.row[i]] == int(PartitionResult.READ)
        and int(leader[entries.row[i]]) not in led_by_strangers
    }


def _keys(entries: Entries) -> list[tuple[int, int, int]]:
    columns = (entries.row, entries.producer_id, entries.current_txn_start_offset)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _refreshed(
    examined: ExaminedEntries,
    unverified: npt.NDArray[np.bool_],
    read: tuple[Entries, _Found],
    current: Topology | None,
) -> tuple[ExaminedEntries, npt.NDArray[np.bool_]]:
    """The entries as the read before the proof shows them; see `_without_ended`."""
    found, places = read
    columns = {name: getattr(examined.entries, name).copy() for name in _KEPT_STILL}
    second_read = examined.second_read.copy()
    for i in np.flatnonzero(unverified).tolist():
        if i not in places:
            second_read[i] = SecondRead.UNREAD
        if (place := places.get(i)) is None:
            continue
        for name, column in columns.items():
            column[i] = getattr(found, name)[place]
        known, fresh = (
            topology.topic_id_of(examined.partition(i)[0])
            for topology in (examined.topology, current or examined.topology)
        )
        second_read[i] = SecondRead.CHANGED if known != fresh and known and fresh else SecondRead.UNCHANGED
    refreshed = replace(examined, entries=replace(examined.entries, **columns), second_read=second_read)
    return _without_ended(refreshed, unverified, places)


def _compared(
    examined: ExaminedEntries,
    unverified: npt.NDArray[np.bool_],
    read: tuple[Entries, _Found],
    before: Topology | None,
    after: Topology | None,
) -> tuple[ExaminedEntries, npt.NDArray[np.bool_]]:
    """Notes which entries are exactly as before the proof, at the same leader and epoch; see `_without_ended`."""
    found, places = read
    second_read = examined.second_read.copy()
    for i in np.flatnonzero(unverified).tolist():
        if i not in places:
            second_read[i] = SecondRead.UNREAD
        if (place := places.get(i)) is None:
            continue
        is_same = all(getattr(examined.entries, name)[i] == getattr(found, name)[place] for name in _KEPT_STILL)
        are_led = before is not None and after is not None
        is_led_so = are_led and _claim(examined, i, before) == _claim(examined, i, after)
        if second_read[i] != int(SecondRead.CHANGED):
            second_read[i] = SecondRead.UNCHANGED if is_same and is_led_so else SecondRead.CHANGED
    return _without_ended(replace(examined, second_read=second_read), unverified, places)


def _without_ended(
    examined: ExaminedEntries, unverified: npt.NDArray[np.bool_], places: _Found
) -> tuple[ExaminedEntries, npt.NDArray[np.bool_]]:
    """The entries without those that were read again and have ended; `unverified` for those that are left."""
    keep = np.ones(len(unverified), dtype=np.bool_)
    keep[[i for i, place in places.items() if place is None]] = False
    return examined.those(keep), unverified[keep]


def _claim(examined: ExaminedEntries, entry: int, topology: Topology | None) -> Claim:
    assert topology is not None
    return Claim.of(topology, *examined.partition(entry))


async def _unconfirmed_leaders(
    client: ClusterClient,
    examined: ExaminedEntries,
    proof: CoordinatorProof,
    unverified: npt.NDArray[np.bool_],
    after: Topology | None,
) -> Mapping[tuple[str, int], str]:
    """(topic, partition) -> why its leader, whose response was used, is not confirmed."""
    unchanged = _unchanged(examined, unverified)
    if not unchanged:
        return {}
    producer_ids = {int(producer_id) for producer_id in examined.entries.producer_id[unchanged]}
    claims = {*(_claim(examined, i, after) for i in unchanged), *state_claims(proof, producer_ids)}
    return await unconfirmed(client, claims)


def _unchanged(examined: ExaminedEntries, unverified: npt.NDArray[np.bool_]) -> list[int]:
    rows: list[int] = np.flatnonzero(unverified & (examined.second_read == int(SecondRead.UNCHANGED))).tolist()
    return rows


def _without_confirmation(
    examined: ExaminedEntries, unverified: npt.NDArray[np.bool_], against: Mapping[tuple[str, int], str]
) -> ExaminedEntries:
    """The entries, with a note on those whose leader is not confirmed."""
    second_read = examined.second_read.copy()
    second_read[[i for i in _unchanged(examined, unverified) if examined.partition(i) in against]] = (
        SecondRead.UNCONFIRMED
    )
    return replace(examined, second_read=second_read)


def confirmed(proof: CoordinatorProof, against: Mapping[tuple[str, int], str]) -> CoordinatorProof:
    """`proof` with the partitions whose leader is not confirmed."""
    return replace(
        proof,
        state_partitions=tuple(
            replace(state_partition, failure="leadership_unconfirmed")
            if state_partition.failure is None and (STATE_TOPIC, state_partition.partition) in against
            else state_partition
            for state_partition in proof.state_partitions
        ),
        unconfirmed=tuple(
            Unconfirmed(topic=topic, partition=partition, why=why)
            for (topic, partition), why in sorted(against.items())
        ),
    )


def leaders_in(topology: Topology, rows: npt.NDArray[np.int64], current: Topology | None) -> Int32Column:
    """(P,) leaders of `rows` as `current` has them; NO_LEADER elsewhere."""
    leaders = np.full(len(topology), NO_LEADER, dtype=np.int32)
    if current is not None:
        at = topology.rows_in(current, rows)
        leaders[rows[at >= 0]] = current.leader[at[at >= 0]]
    return leaders
