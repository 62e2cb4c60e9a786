"""Reads a piece of a log: which refusals last, and which ones a later cycle may not get."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.kafka.collect.log_reader import read_piece
from exporter.kafka.errors import BrokerFault, ErrorCode, FaultReason

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
