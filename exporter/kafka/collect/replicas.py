"""Queries followers about transactions that the leader shows open.

A leader can lose a marker that its followers have: a log restored from a backup, or compaction that raced replication. Then
an abort would hide records that were committed. So every in-sync follower must show the transaction open as well. A
follower out of sync may be behind, so it proves nothing for the leader; it counts if it has seen the end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.scan import LeaderScan, read_rows
from exporter.kafka.topology import Topology
from exporter.snapshot import NO_LEADER, Int32Column, OneEntry, TopicPartition, was_read


class OpenAtLeader(NamedTuple):
    """One open transaction as the leader shows it."""

    partition: TopicPartition
    entry: OneEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Followers:
    """Open transactions on which some follower disagrees with the leader."""

    diverged: Mapping[OpenAtLeader, tuple[int, ...]]
    """Brokers that have seen the transaction end."""
    silent: Mapping[OpenAtLeader, tuple[int, ...]]
    """In-sync brokers that did not respond, or show another state of the producer: they may be behind."""
    unaware: Mapping[OpenAtLeader, tuple[int, ...]]
    """In-sync brokers that do not know the producer."""


EVERYBODY_AGREES = Followers(diverged={}, silent={}, unaware={})


async def ask_followers(client: ClusterClient, topology: Topology, transactions: Collection[OpenAtLeader]) -> Followers:
    """Queries every follower of the partitions of `transactions`, which `topology` must contain, for their producers."""
    wanted = {
        transaction.partition: row
        for transaction in transactions
        if (row := topology.row(*transaction.partition)) is not None
    }
    followers = {
        row: tuple(broker for broker in topology.replicas.of(row) if broker != topology.leader[row])
        for row in wanted.values()
    }
    seen: dict[tuple[int, int], _Producers | None] = {}
    producer_ids = frozenset(transaction.entry.producer_id for transaction in transactions)
    for turn in range(max((len(brokers) for brokers in followers.values()), default=0)):
        of_turn = {row: brokers[turn] for row, brokers in followers.items() if turn < len(brokers)}
        seen.update(await _ask(client, topology, of_turn, producer_ids))
    diverged: dict[OpenAtLeader, tuple[int, ...]] = {}
    silent: dict[OpenAtLeader, tuple[int, ...]] = {}
    unaware: dict[OpenAtLeader, tuple[int, ...]] = {}
    for transaction in transactions:
        row = wanted.get(transaction.partition)
        brokers = () if row is None else followers[row]
        views = {broker: seen.get((row or 0, broker)) for broker in brokers}
        ended = tuple(broker for broker, view in views.items() if has_ended(transaction.entry, view))
        in_sync = () if row is None else topology.in_sync.of(row)
        others = {b: view for b, view in views.items() if b in in_sync and b not in ended}
        forgetful = tuple(b for b, view in others.items() if not _knows(transaction.entry, view))
        unclear = tuple(b for b, view in others.items() if b not in forgetful and not _shows(transaction.entry, view))
        for found, brokers in ((diverged, ended), (silent, unclear), (unaware, forgetful)):
            if brokers:
                found[transaction] = brokers
    return Followers(diverged=diverged, silent=silent, unaware=unaware)


_Producers = Mapping[int, OneEntry]
"""A follower's entries of one partition, by producer id."""


async def _ask(
    client: ClusterClient, topology: Topology, asked: Mapping[int, int], producer_ids: frozenset[int]
) -> dict[tuple[int, int], _Producers | None]:
    """(row, follower) -> its entries of these producers, None if it did not respond; one follower for each row."""
    follower: Int32Column = np.full(len(topology), NO_LEADER, dtype=np.int32)
    rows = np.array(sorted(asked), dtype=np.int64)
    follower[rows] = [asked[row] for row in rows.tolist()]
    scan = LeaderScan.unasked(topology, producer_ids=producer_ids)
    await read_rows(client, scan, rows, follower)
    found: dict[tuple[int, int], dict[int, OneEntry]] = {
        (row, asked[row]): {} for row in rows[was_read(scan.answer[rows])].tolist()
    }
    entries = scan.entries()
    for i, row in enumerate(entries.row.tolist()):
        entry = entries.one(i)
        found[row, asked[row]][entry.producer_id] = entry
    return {(row, broker): found.get((row, broker)) for row, broker in asked.items()}


def _knows(at_leader: OneEntry, producers: _Producers | None) -> bool:
    """True also without a response: then nothing is known of the follower."""
    return producers is None or at_leader.producer_id in producers


def _shows(at_leader: OneEntry, producers: _Producers | None) -> bool:
    known = None if producers is None else producers.get(at_leader.producer_id)
    return known is not None and known.current_txn_start_offset == at_leader.current_txn_start_offset


def has_ended(at_leader: OneEntry, producers: _Producers | None) -> bool:
    """True if a follower with `producers` has everything that the leader has of this transaction, and its end."""
    known = None if producers is None else producers.get(at_leader.producer_id)
    if known is None or known.current_txn_start_offset == at_leader.current_txn_start_offset:
        return False
    # A marker of TransactionVersion 2 bumps the epoch, and the sequence starts again at 0.
    return known.producer_epoch > at_leader.producer_epoch or (
        known.producer_epoch == at_leader.producer_epoch and known.last_sequence >= at_leader.last_sequence
    )
