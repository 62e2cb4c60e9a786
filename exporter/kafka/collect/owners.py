"""Confirms the leaders behind transactions that may be overdue or stuck at their coordinator.

A broker that is cut off from its controller still describes transactions that their new coordinator ended long ago. The
leaders come from the metadata of the beginning of this cycle, and are confirmed after the coordinators responded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.state import CoordinatorView, ExaminedEntries, Verification
from exporter.kafka.collect.suspects import is_kept_too_long
from exporter.kafka.coordinators import by_producer_id
from exporter.kafka.leadership.confirm import Claim, unconfirmed
from exporter.kafka.state_partitions import coordinator_claim, other_coordinator
from exporter.snapshot import NO_LEADER, ClockSource, CoordinatorTransaction


async def unconfirmed_owners(
    client: ClusterClient, verified: Verification, coordinators: CoordinatorView, now_ms: int
) -> Mapping[int, str]:
    """Entry -> why the leader of its partition, or its coordinator, is not confirmed; empty if all are.

    Without a transaction that may be overdue or stuck no request is sent.
    """
    is_clock_known = client.cluster_clock.source is ClockSource.CONTROLLER
    kept = dict(_kept_too_long(verified, coordinators, now_ms, is_clock_known=is_clock_known))
    claims = {entry: _claims(verified.examined, entry, transaction) for entry, transaction in kept.items()}
    against = await unconfirmed(
        client, {claim for both in claims.values() for claim in both if claim.leader != NO_LEADER}
    )
    found = {}
    for entry, both in claims.items():
        contradictions = (against.get((claim.topic, claim.partition)) for claim in both)
        moved = other_coordinator(kept[entry], both[1])
        why = moved or next((reason for reason in contradictions if reason is not None), None)
        if why is not None:
            found[entry] = why
    return found


def _kept_too_long(
    verified: Verification, coordinators: CoordinatorView, now_ms: int, *, is_clock_known: bool
) -> Iterator[tuple[int, CoordinatorTransaction]]:
    """The newest description of each such entry: that of the proof, otherwise that of the cycle.

    If only the exporter's clock is known, any described transaction may become overdue by the time that it was watched, and
    a clock that is behind would not show it.
    """
    proved = () if verified.proof is None else verified.proof.transactions
    described = {**by_producer_id(coordinators.transactions), **by_producer_id(proved)}
    for entry, producer_id in enumerate(verified.examined.entries.producer_id.tolist()):
        transaction = described.get(producer_id)
        if transaction is None or not transaction.is_described:
            continue
        if not is_clock_known or is_kept_too_long(transaction, now_ms):
            yield entry, transaction


def _claims(examined: ExaminedEntries, entry: int, transaction: CoordinatorTransaction) -> tuple[Claim, Claim]:
    """The leaders of the partition, and of the state partition to which its transactional id hashes."""
    topology = examined.topology
    own = Claim.of(topology, *examined.partition(entry))
    return own, coordinator_claim(topology, transaction.transactional_id)
