"""Confirms that a broker whose response was used leads the partition.

A broker that is cut off from its controller still responds as the leader and coordinator that it was. Its responses were
true for one leader epoch; others know whether that epoch has ended:

- the active controller, queried through this broker (`quorum.py`), which a broker that is cut off cannot reach;
- the other brokers' metadata, which name a newer leader epoch, another topic id, or no such topic any more.

The epoch comes from metadata that was read *before* the broker was queried, and is confirmed *after* it: leader epochs only
grow, so the broker led in all the time in between. docs/proof.md says why both are queried, and what is not excluded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ErrorCode
from exporter.kafka.leadership.quorum import ControllerContact, QuorumView, quorum_through
from exporter.kafka.topology import Topology
from exporter.snapshot import TopicPartition

CATCH_UP_POLL_S = 0.2
CATCH_UP_POLLS = 8
PAST_DEADLINE = "the cycle reached its deadline before the leader was confirmed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One partition with the leader that the exporter used."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    topic_id: str = ""
    """"" if it is unknown."""

    @classmethod
    def of(cls, topology: Topology, topic: str, partition: int) -> Claim:
        """Returns the claim in `topology`; of NO_LEADER if it has none."""
        leader, leader_epoch = topology.leader_of(topic, partition)
        topic_id = topology.topic_id_of(topic)
        return cls(topic=topic, partition=partition, leader=leader, leader_epoch=leader_epoch, topic_id=topic_id)

    def contradiction(self, view: Topology, broker: int) -> str | None:
        """Returns how the metadata of `broker` contradicts; None if it agrees, is older, or does not show the topic."""
        if view.row(self.topic, self.partition) is None:
            # Invisible without DESCRIBE is not a contradiction; missing is one: it was deleted, or never known there.
            is_hidden = view.topic_errors.get(self.topic) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return None if is_hidden else f"broker {broker} does not know {self.topic}-{self.partition}"
        topic_id = view.topic_id_of(self.topic)
        if self.topic_id and topic_id and topic_id != self.topic_id:
            return f"on broker {broker}, {self.topic} is another topic with the same name"
        leader, epoch = view.leader_of(self.topic, self.partition)
        if epoch > self.leader_epoch or (epoch == self.leader_epoch and leader != self.leader):
            return f"broker {broker} names leader {leader} at epoch {epoch}, not {self.leader} at {self.leader_epoch}"
        return None

    def is_agreed(self, view: Topology) -> bool:
        """True if the metadata names the same leader at the same epoch."""
        return view.leader_of(self.topic, self.partition) == (self.leader, self.leader_epoch)


async def unconfirmed(client: ClusterClient, claims: Collection[Claim]) -> Mapping[TopicPartition, str]:
    """The reason for each of `claims` that is not confirmed, a sentence without its full stop. Never raises BrokerFault.

    Must be called after every read that depends on the claims.
    """
    if not claims:
        return {}
    topics = tuple(sorted({claim.topic for claim in claims}))
    leaders = sorted({claim.leader for claim in claims} & (client.brokers or {}).keys())
    # The controller first: metadata that is older than the contact with it may be from before a broker was cut off.
    quorum = dict(zip(leaders, await client.gather(quorum_through(client, leader) for leader in leaders), strict=True))
    views = await metadata_of_all(client, topics)
    named = views.keys() | {broker for view in views.values() if view is not None for broker in view.brokers}
    if any(views.get(broker) is None for broker in named):
        quorum = await _caught_up(client, quorum)
        again = await client.gather(_metadata(client, leader, topics) for leader in leaders)
        views.update(zip(leaders, again, strict=True))
    found = {}
    for claim in claims:  # 50,000 of them in a cluster of 100 brokers take 8 s
        is_in_time = client.remaining_s() > 0
        why = _against(claim, views, quorum.get(claim.leader), len(named)) if is_in_time else PAST_DEADLINE
        if why is not None:
            found[claim.topic, claim.partition] = why
    return found


def _against(claim: Claim, views: Mapping[int, Topology | None], quorum: QuorumView | None, brokers: int) -> str | None:
    own = views.get(claim.leader)
    if own is None or quorum is None:
        return f"broker {claim.leader} did not respond when it had to confirm that it leads"
    responded = {broker: view for broker, view in views.items() if view is not None}
    contradictions = (claim.contradiction(view, broker) for broker, view in sorted(responded.items()))
    contradiction = next((reason for reason in contradictions if reason is not None), None)
    if contradiction is not None:
        return contradiction
    if quorum.touch is ControllerContact.OUT_OF_TOUCH:
        return quorum.why
    if not claim.is_agreed(own):
        return f"broker {claim.leader} no longer names itself the leader"
    agreed = sum(claim.is_agreed(view) for view in responded.values())
    if quorum.touch is not ControllerContact.CURRENT and 2 * agreed <= brokers:
        return f"broker {claim.leader} is named the leader by {agreed} of {brokers}, and {quorum.why}"
    return None


async def metadata_of_all(client: ClusterClient, topics: tuple[str, ...]) -> dict[int, Topology | None]:
    """Broker -> its metadata of `topics`, None if it did not respond; includes every broker that any of them names."""
    views: dict[int, Topology | None] = {}
    addresses = dict(client.brokers or {})
    while missing := sorted(addresses.keys() - views.keys()):
        client.brokers = addresses
        responses = await client.gather(_metadata(client, broker, topics) for broker in missing)
        views.update(zip(missing, responses, strict=True))
        for view in filter(None, responses):
            addresses = {**view.brokers, **addresses}
    return views


async def _metadata(client: ClusterClient, broker: int, topics: tuple[str, ...]) -> Topology | None:
    try:
        return await client.topology(topics, broker=broker)
    except BrokerFault:
        return None


async def _caught_up(client: ClusterClient, quorum: dict[int, QuorumView]) -> dict[int, QuorumView]:
    """Queries until each has caught up with the metadata log as of the first query, or for the time allowed.

    If every broker responds, a new leader contradicts by its own metadata. A broker that does not respond may be that
    leader.
    """
    begun_ms = {
        broker: view.controller_time_ms for broker, view in quorum.items() if view.touch is ControllerContact.CURRENT
    }
    for _ in range(CATCH_UP_POLLS):
        behind = [broker for broker, begun in begun_ms.items() if (quorum[broker].caught_up_ms or 0) < (begun or 0)]
        if not behind or client.remaining_s() <= 0:
            break
        await client.pause(CATCH_UP_POLL_S)
        again = await client.gather(quorum_through(client, broker) for broker in behind)
        quorum = {**quorum, **dict(zip(behind, again, strict=True))}
    late = {
        broker: QuorumView(
            touch=ControllerContact.OUT_OF_TOUCH,
            why=f"broker {broker} had not caught up with its controller, and other brokers do not respond",
            controller_time_ms=quorum[broker].controller_time_ms,
        )
        for broker, begun in begun_ms.items()
        if quorum[broker].touch is not ControllerContact.CURRENT or (quorum[broker].caught_up_ms or 0) < (begun or 0)
    }
    return {**quorum, **late}
