"""The committed offsets of one group: what each broker may respond, of which only one coordinates it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ErrorCode, FaultReason
from exporter.kafka.lookups import KafkaRequestError, committed_by
from exporter.kafka.messages import offset_fetch
from exporter.snapshot import TopicPartition

AWAY = BrokerFault(FaultReason.UNREACHABLE, "broker 2 is away")
Response = tuple[int, dict[TopicPartition, int]] | BrokerFault


class Client:
    """Brokers 1, 2, ... with a response each."""

    def __init__(self, *responses: Response) -> None:
        self._by_broker = dict(enumerate(responses, start=1))

    async def topology(self, topics: tuple[str, ...]) -> Any:
        assert topics == ()
        return SimpleNamespace(brokers=dict.fromkeys(self._by_broker))

    async def request(self, broker: int, api: str, request: Any, decode: Any) -> Response:
        assert (api, request.groups[0].topics, decode) == ("OffsetFetch", None, offset_fetch.decode_one)
        response = self._by_broker[broker]
        if isinstance(response, BrokerFault):
            raise response
        return response

    async def gather(self, coroutines: Iterable[Any]) -> list[Any]:
        return [await each for each in coroutines]


def committed(*responses: Response) -> tuple[int, dict[TopicPartition, int]]:
    return asyncio.run(committed_by(cast("ClusterClient", Client(*responses)), "readers"))


def test_the_coordinator_is_the_one_that_knows_the_group() -> None:
    """The others may refuse, or not respond at all."""
    offsets = {("orders", 0): 7}
    assert committed((ErrorCode.NOT_COORDINATOR, {}), AWAY, (ErrorCode.NONE, offsets)) == (3, offsets)


@pytest.mark.parametrize(
    ("responses", "error", "sentence"),
    [
        (
            [(ErrorCode.NOT_COORDINATOR, {}), (30, {})],
            KafkaRequestError,
            "needs DESCRIBE on it .GROUP_AUTHORIZATION_FAILED",
        ),
        (
            [(ErrorCode.NOT_COORDINATOR, {}), (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {})],
            KafkaRequestError,
            "offsets of group readers cannot be read: run this again .COORDINATOR_LOAD_IN_PROGRESS",
        ),
        ([(ErrorCode.NOT_COORDINATOR, {})] * 2, KafkaRequestError, "no broker is the coordinator of group readers now"),
        ([(ErrorCode.NOT_COORDINATOR, {}), AWAY], BrokerFault, "broker 2 is away"),
    ],
)
def test_no_response_is_never_a_group_without_offsets(
    responses: list[Response], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        committed(*responses)
