"""Whose metadata a cycle goes by: of a broker that is in touch with its controller.

A broker that is cut off shows the cluster as it was: it hides new topics, and sends us to coordinators that are none any
more, which find nothing amiss. Suspects are protected by `leadership.py`; this is for what must be noticed without one.
"""

from __future__ import annotations

from dataclasses import dataclass

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import ClusterUnavailableError
from exporter.kafka.leadership.confirm import Claim, unconfirmed
from exporter.kafka.leadership.quorum import Touch, quorum_through
from exporter.kafka.topology import Topology
from exporter.snapshot import NO_LEADER, STATE_TOPIC


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What is known of the broker that the metadata are of."""

    out_of_date: str | None = None
    """Why it may not know the cluster as it is; None where it was in touch with its controller."""
    clock_ahead_ms: int | None = None
    """What the active controller's clock shows more than our wall clock; None where it is not known."""


CHECKED_EVERY_CYCLES = 3
"""A healthy cycle costs no request more; every third costs one."""


async def checked_topology(client: ClusterClient) -> tuple[Topology, str | None]:
    """Metadata of all topics from a broker in touch with its controller, and why from none where there is no such broker.

    Raises ClusterUnavailableError when nobody responds.
    """
    topology = await client.topology()
    why: str | None = None
    while client.source is not None and client.source not in client.out_of_touch:
        broker = _source(client, topology)
        if broker is not None:
            against = await _against(client, topology, broker)
            if against is None:
                return topology, None
            if why is None:
                await _find_out_of_touch(client, topology, broker)
            why = against
        # Also a bootstrap address that no broker calls its own: a broker that has a name can be checked.
        client.out_of_touch.add(client.source)
        fresh = await _from_another(client, topology)
        if fresh is None:
            break
        topology = fresh
    return topology, why


async def _find_out_of_touch(client: ClusterClient, topology: Topology, but: int) -> None:
    """Ask all brokers `but` one at once: without controllers each holds its answer back, and the cycle has one deadline."""
    others = [broker for broker in topology.brokers if broker != but]
    views = await client.gather(quorum_through(client, broker) for broker in others)
    client.out_of_touch.update(
        topology.brokers[broker] for broker, view in zip(others, views, strict=True) if view.touch is Touch.OUT_OF_TOUCH
    )


def _source(client: ClusterClient, topology: Topology) -> int | None:
    return next((broker for broker, address in topology.brokers.items() if address == client.source), None)


async def _from_another(client: ClusterClient, topology: Topology) -> Topology | None:
    """The metadata of a broker that was not found out of touch; None where there is none left.

    A broker that is cut off does not name those that were cut off before it and are back: bootstrap addresses may.
    """
    if client.out_of_touch.issuperset({*topology.brokers.values(), *client.bootstrap}):
        return None
    try:
        return await client.topology()
    except ClusterUnavailableError:
        return None


async def _against(client: ClusterClient, topology: Topology, broker: int) -> str | None:
    """Why the metadata of `broker` are not to be gone by; None where they are."""
    view = await quorum_through(client, broker)
    if view.touch is Touch.OUT_OF_TOUCH:
        return view.why
    if view.touch is not Touch.NOT_OFFERED:
        return None
    # Without DescribeQuorum: what the other brokers know of the coordinators' topic.
    rows = topology.rows_of(STATE_TOPIC)
    claims = [Claim.of(topology, STATE_TOPIC, partition) for partition in range(len(rows))]
    against = await unconfirmed(client, [it for it in claims if it.leader != NO_LEADER])
    return next(iter(against.values()), None)
