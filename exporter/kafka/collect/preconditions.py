"""Reads what a proof of a hang would need, before there is one: `doctor`, and `serve` from time to time.

A cycle without a suspect asks no coordinator and reads no ACL: a missing grant would be noticed with the first hang.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

from exporter.kafka.client.connections import Address
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.consumer_groups import GROUPS_REFUSED, what_hides_groups
from exporter.kafka.coordinators import coordinators_of, describe_ids
from exporter.kafka.errors import BrokerFault, ErrorCode
from exporter.kafka.leadership.confirm import unconfirmed
from exporter.kafka.leadership.quorum import ControllerContact, quorum_through
from exporter.kafka.state_partitions import StateLeaders, claim_of, probe, state_leaders
from exporter.kafka.topology import Topology
from exporter.kafka.visibility.acls import read_acls
from exporter.kafka.visibility.ids import id_visibility
from exporter.kafka.visibility.topics import what_hides_topics
from exporter.snapshot import (
    STATE_TOPIC,
    BrokerContact,
    Preconditions,
    StatePartitionProof,
    StateTopic,
)

_SOME_GROUPS = "some consumer groups may not be visible"


async def preconditions(client: ClusterClient, *, bootstrap: bool = True) -> Preconditions:
    """Queries every broker, and with `bootstrap` the addresses from the settings that no broker names as its own.

    Raises ClusterUnavailableError if none returns the metadata.
    """
    topology = await client.topology()
    contacts = await client.gather(_contacts(client, topology, bootstrap=bootstrap))
    reached = [contact.broker for contact in contacts if contact.broker is not None and not contact.failure]
    leaders = await state_leaders(client, topology)
    brokers = coordinators_of(topology) if leaders.topic is not StateTopic.PRESENT else leaders.brokers
    if not reached:
        return Preconditions(contacts=tuple(contacts), state_topic=leaders.topic)
    hidden_groups = await what_hides_groups(client, reached[0])
    return Preconditions(
        contacts=tuple(contacts),
        state_topic=leaders.topic,
        state_partitions=await _state_partitions(client, leaders),
        id_visibility=await id_visibility(client, brokers),
        is_id_refused=await _is_id_refused(client, reached[0]),
        acls=await read_acls(client, reached[0]),
        hidden_topics=await what_hides_topics(client, reached),
        are_groups_refused=hidden_groups == GROUPS_REFUSED,
        groups_hidden=f"{_SOME_GROUPS}: {hidden_groups}" if hidden_groups else "",
    )


def _contacts(client: ClusterClient, topology: Topology, *, bootstrap: bool) -> list[Any]:
    own = set(topology.brokers.values())
    found = [_contact(client, address, broker) for broker, address in sorted(topology.brokers.items())]
    others = client.bootstrap if bootstrap else ()
    return [*found, *(_contact(client, address, None) for address in others if address not in own)]


async def _contact(client: ClusterClient, address: Address, broker: int | None) -> BrokerContact:
    try:
        latency_s = await client.latency_s(address)
    except BrokerFault as fault:
        return BrokerContact(broker=broker, address=str(address), failure=str(fault))
    found = BrokerContact(
        broker=broker,
        address=str(address),
        latency_ms=latency_s * 1000,
        release=client.release_at(address),
    )
    if broker is None:
        return found
    view = await quorum_through(client, broker)
    return replace(found, out_of_date=view.why) if view.touch is ControllerContact.OUT_OF_TOUCH else found


async def _state_partitions(client: ClusterClient, leaders: StateLeaders) -> tuple[StatePartitionProof, ...]:
    failures = await probe(client, leaders.leaders)
    proofs = [
        StatePartitionProof(partition=partition, leader=leader, leader_epoch=epoch, failure=failures[partition])
        for partition, (leader, epoch) in enumerate(leaders.leaders)
    ]
    why = await unconfirmed(
        client, tuple(claim_of(proof, leaders.topic_id) for proof in proofs if proof.failure is None)
    )
    return tuple(
        replace(proof, failure="leadership_unconfirmed") if (STATE_TOPIC, proof.partition) in why else proof
        for proof in proofs
    )


async def _is_id_refused(client: ClusterClient, broker: int) -> bool:
    """Returns whether the id is refused; any broker shows it, because authorization comes before coordination."""
    made_up = secrets.token_urlsafe(24)
    answer = (await describe_ids(client, broker, [made_up])).get(made_up)
    return answer == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.name
