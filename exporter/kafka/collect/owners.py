"""Confirms the leaders behind transactions that their coordinator keeps too long: they may be called overdue, or stuck.

A broker that is cut off from its controller goes on describing transactions that their new coordinator has ended long ago.
The leaders are those of the metadata that this cycle began with, and are confirmed after the coordinators were asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.state import CollectionState
from exporter.kafka.collect.suspects import is_kept_too_long
from exporter.kafka.coordinators import by_producer_id, state_partition
from exporter.kafka.leadership.confirm import Claim, unconfirmed
from exporter.snapshot import NO_LEADER, STATE_TOPIC, ClockSource, CoordinatorTransaction


async def unconfirmed_owners(client: ClusterClient, reading: CollectionState, now_ms: int) -> Mapping[int, str]:
    """Entry -> why the leader of its partition, or its coordinator, is not confirmed; nothing where all are.

    Without a transaction that is kept too long nobody is asked.
    """
    is_clock_known = client.cluster_clock.source is ClockSource.CONTROLLER
    kept = dict(_kept_too_long(reading, now_ms, is_clock_known=is_clock_known))
    claims = {entry: _claims(reading, entry, transaction) for entry, transaction in kept.items()}
    against = await unconfirmed(client, {it for both in claims.values() for it in both if it.leader != NO_LEADER})
    found = {}
    for entry, both in claims.items():
        told = (against.get((it.topic, it.partition)) for it in both)
        why = _moved(kept[entry], both[1]) or next((it for it in told if it is not None), None)
        if why is not None:
            found[entry] = why
    return found


def _kept_too_long(
    reading: CollectionState, now_ms: int, *, is_clock_known: bool
) -> Iterator[tuple[int, CoordinatorTransaction]]:
    """Each entry whose transaction is: the proof's description, which is later, or else the cycle's first.

    Where only the exporter's clock is known, any described transaction may turn out to be kept too long by how long it
    was watched, and a clock that is behind would not show it.
    """
    proved = () if reading.proof is None else reading.proof.transactions
    described = {**by_producer_id(reading.transactions), **by_producer_id(proved)}
    for entry, producer_id in enumerate(reading.entries.producer_id.tolist()):
        transaction = described.get(producer_id)
        if transaction is None or not transaction.is_described:
            continue
        if not is_clock_known or is_kept_too_long(transaction, now_ms):
            yield entry, transaction


def _claims(reading: CollectionState, entry: int, transaction: CoordinatorTransaction) -> tuple[Claim, Claim]:
    """Of the partition, and of the state partition to which its transactional id hashes."""
    topology = reading.topology
    partitions = max(len(topology.rows_of(STATE_TOPIC)), 1)
    home = state_partition(transaction.transactional_id, partitions)
    return Claim.of(topology, *reading.partition(entry)), Claim.of(topology, STATE_TOPIC, home)


def _moved(transaction: CoordinatorTransaction, coordinator: Claim) -> str | None:
    if transaction.coordinator == coordinator.leader:
        return None
    if coordinator.leader == NO_LEADER:
        return f"the metadata names no coordinator of {transaction.transactional_id!r}"
    return (
        f"broker {transaction.coordinator} describes it, but the metadata names broker {coordinator.leader} as its "
        "coordinator"
    )
