"""Reads a piece of a log: which refusals last, and which ones a later cycle may not get."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.kafka.client.connections import Address, Connections
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.log_reader import read_piece
from exporter.kafka.errors import BrokerFault, ErrorCode, FaultReason
from tests.kafka.fake_broker import FakeCluster, Received
from tests.kafka.scene import scene

THROTTLED = SimpleNamespace(responses=[], throttle_time_ms=500)


def refused(error: ErrorCode) -> Any:
    partition = SimpleNamespace(error_code=int(error), records=None, high_watermark=-1)
    return SimpleNamespace(responses=[SimpleNamespace(partitions=[partition])], throttle_time_ms=0)


@pytest.mark.parametrize(
    ("response", "reason", "said"),
    [
        (
            refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            FaultReason.REFUSED,
            "not authorized to read orders (TOPIC_AUTHORIZATION_FAILED): needs READ on it",
        ),
        (refused(ErrorCode.OFFSET_OUT_OF_RANGE), FaultReason.REFUSED, "broker 1 responded with OFFSET_OUT_OF_RANGE"),
        (
            refused(ErrorCode.NOT_LEADER_OR_FOLLOWER),
            FaultReason.TIMED_OUT,
            "broker 1 responded with NOT_LEADER_OR_FOLLOWER",
        ),
        (
            THROTTLED,
            FaultReason.TIMED_OUT,
            "broker 1 throttles this client: the quota of its kafka.client.id, or of its user, is used up",
        ),
    ],
)
def test_a_refusal_says_whether_it_lasts(response: Any, reason: FaultReason, said: str) -> None:
    class Leader:
        async def request(self, _broker: int, _api: str, _request: Any, read: Callable[[Any], Any], **_: Any) -> Any:
            return read(response)

    client: Any = Leader()

    with pytest.raises(BrokerFault) as caught:
        asyncio.run(read_piece(client, 1, ("orders", 0), 0, lambda _: None))

    assert (caught.value.reason, str(caught.value)) == (reason, said)


def test_a_broker_that_throttles_is_named_also_after_the_deadline() -> None:
    """The wait for it has used the time up."""

    def throttled(_: Received, response: Any) -> None:
        if hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = 60_000

    async def said(connections: Connections) -> list[str]:
        client = ClusterClient(
            connections=connections,
            bootstrap=(address,),
            request_timeout_s=0.2,
            deadline=time.monotonic() + 3600,
        )
        await client.topology()
        found: list[str] = []
        for deadline in (client.deadline, time.monotonic()):
            client.deadline = deadline
            try:
                await client.topology(broker=1)
            except BrokerFault as fault:
                found.append(str(fault))
        return found

    with FakeCluster(scene(), nodes=1) as cluster:
        cluster.on_response = throttled
        address = Address("127.0.0.1", cluster.ports[1])
        connections = Connections({}, client_id="reader")
        try:
            first, second = connections.run(said, connections)
        finally:
            connections.close()

    why = "throttles this client: the quota of its kafka.client.id, or of its user, is used up"
    assert first == f"broker at {address} {why}"
    assert second == f"broker at {address} gets no further request in this cycle: it {why}"
