"""Finds metadata from a broker that is in contact with its controller.

A broker that is cut off shows an old state of the cluster: it hides new topics, and names former coordinators, which report
no problem. `confirm.py` protects verdicts on suspects; this file protects cycles without a suspect.
"""

from __future__ import annotations

from dataclasses import dataclass

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import ClusterUnavailableError
from exporter.kafka.leadership.confirm import Claim, unconfirmed
from exporter.kafka.leadership.quorum import ControllerContact, quorum_through
from exporter.kafka.topology import Topology
from exporter.snapshot import NO_LEADER, STATE_TOPIC


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSource:
    """Status of the broker that returned the metadata."""

    out_of_date: str | None = None
    """Reason why its metadata may be old; None if it was in contact with its controller."""
    clock_ahead_ms: int | None = None
    """The active controller's clock minus the exporter's wall clock; None if it is unknown."""


CHECKED_EVERY_CYCLES = 3
"""A healthy cycle sends no further request; every third sends one."""


async def checked_topology(client: ClusterClient) -> tuple[Topology, str | None]:
    """Metadata of all topics from a broker in contact with its controller, or the reason why no broker is.

    Raises ClusterUnavailableError if no broker responds.
    """
    topology = await client.topology()
    why: str | None = None
    while client.source is not None and client.source not in client.out_of_touch:
        broker = next((broker for broker, address in topology.brokers.items() if address == client.source), None)
        if broker is not None:
            against = await _against(client, topology, broker)
            if against is None:
                return topology, None
            if why is None:
                await _find_out_of_touch(client, topology, broker)
            why = against
        # This includes a bootstrap address that no broker has as its own: only a broker with an id can be checked.
        client.out_of_touch.add(client.source)
        fresh = await _from_another(client, topology)
        if fresh is None:
            break
        topology = fresh
    return topology, why


async def _find_out_of_touch(client: ClusterClient, topology: Topology, but: int) -> None:
    """Queries all brokers `but` one at once: without controllers each responds late, and the cycle has one deadline."""
    others = [broker for broker in topology.brokers if broker != but]
    views = await client.gather(quorum_through(client, broker) for broker in others)
    client.out_of_touch.update(
        topology.brokers[broker]
        for broker, view in zip(others, views, strict=True)
        if view.touch is ControllerContact.OUT_OF_TOUCH
    )


async def _from_another(client: ClusterClient, topology: Topology) -> Topology | None:
    """The metadata of a broker that is not known to be cut off; None if none is left.

    A broker that is cut off does not name brokers that were cut off before it and are back: bootstrap addresses may.
    """
    if client.out_of_touch.issuperset({*topology.brokers.values(), *client.bootstrap}):
        return None
    try:
        return await client.topology()
    except ClusterUnavailableError:
        return None


async def _against(client: ClusterClient, topology: Topology, broker: int) -> str | None:
    """Returns why the metadata of `broker` cannot be used; None if it can."""
    view = await quorum_through(client, broker)
    if view.touch is ControllerContact.OUT_OF_TOUCH:
        return view.why
    if view.touch is not ControllerContact.NOT_OFFERED:
        return None
    # DescribeQuorum is missing: compare with the other brokers' metadata of the coordinators' topic.
    rows = topology.rows_of(STATE_TOPIC)
    claims = [Claim.of(topology, STATE_TOPIC, partition) for partition in range(len(rows))]
    against = await unconfirmed(client, [claim for claim in claims if claim.leader != NO_LEADER])
    return next(iter(against.values()), None)
