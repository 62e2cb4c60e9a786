"""Checks whether a broker is in contact with its controller, and reads the controller's time: DescribeQuorum (KIP-836).

A broker forwards this request (API key 55) to the active controller. A broker that is cut off from it still responds to
Metadata, DescribeProducers and DescribeTransactions as the leader and coordinator that it was, but cannot respond to this
one. The response has each broker's progress in the controller's metadata log: a broker that has not fetched for a while may
lead nothing any more. Without DESCRIBE on the cluster the controller refuses: then the broker is in contact with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ErrorCode, FaultReason, error_name
from exporter.kafka.messages import describe_quorum
from exporter.kafka.messages.describe_quorum import QuorumResponse
from exporter.snapshot import LATEST_MS

CAUGHT_UP_WITHIN_MS = 2000
"""Brokers fetch the metadata log every half second when it does not change; controllers append to it as often."""
PATIENCE_S = 3.0
"""A forwarded request takes milliseconds; a broker that is cut off delays it until it times out."""


class ControllerContact(Enum):
    """Contact of a broker with its controller."""

    CURRENT = "current"
    """The active controller responded through it, and the broker has just fetched the metadata log to its end."""
    IN_TOUCH = "in_touch"
    """The active controller responded through it, without the broker's progress."""
    NOT_OFFERED = "not_offered"
    """Brokers with ZooKeeper, and other servers that speak Kafka's protocol, do not have DescribeQuorum."""
    OUT_OF_TOUCH = "out_of_touch"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumView:
    """The result of DescribeQuorum through one broker."""

    touch: ControllerContact
    why: str = ""
    """Reason why the contact is not CURRENT, a sentence without its full stop."""
    controller_time_ms: int | None = None
    """The active controller's clock at its response; None if it is unknown."""
    caught_up_ms: int | None = None
    """The instant, by that clock, up to which the broker and a majority of the controllers know the metadata log."""


async def quorum_through(client: ClusterClient, broker: int) -> QuorumView:
    """Queries the active controller through `broker`. Never raises BrokerFault."""
    request, decode = describe_quorum.request(), describe_quorum.decode
    try:
        view = _view(await client.request(broker, "DescribeQuorum", request, decode, patience_s=PATIENCE_S), broker)
        if view.touch is ControllerContact.CURRENT and view.controller_time_ms is not None:
            client.cluster_clock.hear(view.controller_time_ms)
    except BrokerFault as fault:
        if fault.reason is FaultReason.UNSUPPORTED_API:
            return QuorumView(touch=ControllerContact.NOT_OFFERED, why=f"broker {broker} does not offer DescribeQuorum")
        why = f"the active controller could not be reached through broker {broker} ({fault.reason.value})"
        return QuorumView(touch=ControllerContact.OUT_OF_TOUCH, why=why)
    return view


def _view(quorum: QuorumResponse, broker: int) -> QuorumView:
    if quorum.error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        why = "whether its metadata is current is unknown: grant DESCRIBE on the cluster"
        return QuorumView(touch=ControllerContact.IN_TOUCH, why=why)
    if quorum.error in {ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REQUEST}:
        return QuorumView(touch=ControllerContact.NOT_OFFERED, why=f"broker {broker} does not offer DescribeQuorum")
    if quorum.error != ErrorCode.NONE:
        why = f"the response to DescribeQuorum through broker {broker} is {error_name(quorum.error)}"
        return QuorumView(touch=ControllerContact.OUT_OF_TOUCH, why=why)
    now_ms = quorum.caught_up_ms.get(quorum.leader_id, -1)
    if not 0 <= now_ms <= LATEST_MS or not quorum.voters:
        return QuorumView(
            touch=ControllerContact.IN_TOUCH, why="the controller does not report how current its brokers are"
        )
    voters = sorted((quorum.caught_up_ms[voter] for voter in quorum.voters), reverse=True)
    majority_ms = voters[len(voters) // 2]
    caught_up_ms = min(quorum.caught_up_ms.get(broker, -1), majority_ms)
    if now_ms - caught_up_ms <= CAUGHT_UP_WITHIN_MS:
        return QuorumView(touch=ControllerContact.CURRENT, controller_time_ms=now_ms, caught_up_ms=caught_up_ms)
    behind = "the controllers" if caught_up_ms == majority_ms else f"broker {broker}"
    why = f"{behind} had not caught up with the metadata log within {CAUGHT_UP_WITHIN_MS} ms"
    return QuorumView(
        touch=ControllerContact.OUT_OF_TOUCH,
        why=why,
        controller_time_ms=now_ms,
        caught_up_ms=max(caught_up_ms, 0) or None,
    )
