"""The groups behind transactions: how far share groups have come, and what is said where brokers say less."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from exporter.evaluation.blocked import group_failures
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.consumer_groups import impact_on, positions_of
from exporter.kafka.errors import BrokerFault, ErrorCode, FaultReason
from exporter.kafka.messages.describe_share_group_offsets import ShareOffset
from exporter.kafka.topology import Topology
from exporter.snapshot import OFFSETS_TOPIC, UNKNOWN_OFFSET, Impact

ORDERS = ("orders", 0)
LSO = 100
UNKNOWN = ["share groups of which some positions are not known: 1"]
UNSUPPORTED = BrokerFault(FaultReason.UNSUPPORTED_API, "broker at b:9092 does not offer DescribeShareGroupOffsets")


@pytest.mark.parametrize(
    ("sentence", "start_offset", "lag", "high_watermarks", "position"),
    [
        ("everything before the last stable offset is delivered, whatever was stored", 40, 50, (150, 150), LSO),
        ("records are in flight", 40, 60, (150, 150), 90),
        ("it reads uncommitted records", 40, 0, (150, 150), 150),
        ("it reads them slowly", 120, 20, (150, 150), 130),
        ("others write in the meantime", 40, 55, (150, 160), LSO),
        ("others write, and records are in flight", 40, 80, (150, 160), 80),
        ("others write, and it reads uncommitted records", 40, 5, (150, 160), 145),
        ("others write a lot, and the start offset says more", 130, 5, (120, 160), 130),
    ],
)
def test_a_share_group_stands_where_its_lag_begins(
    sentence: str, start_offset: int, lag: int, high_watermarks: tuple[int, int], position: int
) -> None:
    """The nearest to the last stable offset that the high watermarks before and after the response allow."""
    before, after = ({ORDERS: (LSO, high_watermark)} for high_watermark in high_watermarks)

    positions, unknown = positions_of([ShareOffset("jobs", *ORDERS, start_offset, lag, 0)], before, after)

    assert ([offset.offset for offset in positions], unknown) == ([position], []), sentence


@pytest.mark.parametrize(
    ("sentence", "row", "end", "unknown"),
    [
        ("it has read nothing yet", (*ORDERS, -1, -1, 0), 150, []),
        ("its lag is not known", (*ORDERS, 40, -1, 0), 150, UNKNOWN),
        ("the end is not known", (*ORDERS, 40, 5, 0), UNKNOWN_OFFSET, UNKNOWN),
        ("another partition than was requested", ("orders", 7, 40, 5, 0), 150, UNKNOWN),
        ("its topic is not authorized", (*ORDERS, -1, -1, ErrorCode.TOPIC_AUTHORIZATION_FAILED), 150, []),
        ("it has been deleted", ("", -1, -1, -1, ErrorCode.GROUP_ID_NOT_FOUND), 150, []),
        ("its coordinator is loading", ("", -1, -1, -1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), 150, UNKNOWN),
    ],
)
def test_an_unknown_position_is_no_position(sentence: str, row: Any, end: int, unknown: list[str]) -> None:
    """Nothing is unknown where a group has read nothing, and where the exporter lacks a right it is silent everywhere."""
    ends = {ORDERS: (LSO, end)}

    assert positions_of([ShareOffset("jobs", *row)], ends, ends) == ([], unknown), sentence


class Client:
    """One broker, which lists these groups; responses by API, in turn."""

    def __init__(self, groups: list[tuple[str, str]], **responses: list[Any]) -> None:
        self.responses = {"ListGroups": [(0, groups)], **responses}
        self.requested: list[str] = []

    async def request(self, _broker: int, api: str, _request: Any, _read: Any) -> Any:
        self.requested.append(api)
        response = self.responses[api].pop(0)
        if isinstance(response, BrokerFault):
            raise response
        return response

    async def gather(self, coroutines: Iterable[Any]) -> list[Any]:
        return [await each for each in coroutines]

    async def pause(self, _seconds: float) -> None:
        self.requested.append("pause")


def impact(client: Client, *partitions: tuple[str, int]) -> Impact:
    topology = SimpleNamespace(brokers={1: None}, rows_of=lambda _: range(1), leader_of=lambda *_: (-1, -1))
    return asyncio.run(impact_on(cast("ClusterClient", client), cast("Topology", topology), partitions))


def test_share_groups_that_a_broker_cannot_describe_are_a_gap_and_cost_no_other_group() -> None:
    shared, classic = ("jobs", "share"), ("readers", "classic")
    known, gap = [object()], (f"share groups are not examined: {UNSUPPORTED}",)

    without = Client([classic], OffsetFetch=[known])
    found = impact(Client([shared, classic], OffsetFetch=[known], DescribeShareGroupOffsets=[UNSUPPORTED]), ORDERS)

    assert (found.offsets, found.failures) == (tuple(known), gap)
    assert impact(without, ORDERS).failures == ()
    assert without.requested == ["ListGroups", "OffsetFetch"]


@pytest.mark.parametrize("reason", FaultReason)
def test_a_broker_that_does_not_respond_is_told_from_a_missing_right(reason: FaultReason) -> None:
    """A fault that no right mends is unread; a missing right or an old Kafka would make every cycle incomplete."""
    fault = BrokerFault(reason, "broker 1: no groups")
    shared = impact(Client([("jobs", "share")], OffsetFetch=[[]], DescribeShareGroupOffsets=[fault]), ORDERS)
    classic = impact(Client([("readers", "classic")], OffsetFetch=[fault]), ORDERS)

    is_lasting = reason in {FaultReason.UNSUPPORTED_API, FaultReason.REFUSED}
    for found in (shared, classic):
        assert len(found.failures) == 1
        assert found.unread == (() if is_lasting else found.failures)


def test_a_group_is_named_if_its_offset_is_pending_in_two_responses() -> None:
    """One that is ending its own transaction has no pending offset a moment later."""
    pending = [[], (0, ["stuck", "ending"]), (0, ["stuck"])]
    client = Client([("stuck", ""), ("ending", ""), ("neighbour", "")], OffsetFetch=pending)

    found = impact(client, (OFFSETS_TOPIC, 0))

    assert (found.residents, found.failures) == (((0, "stuck"),), ())
    assert client.requested == ["ListGroups", "OffsetFetch", "pause", "OffsetFetch", "pause", "OffsetFetch"]


@pytest.mark.parametrize(
    ("pending", "failures"),
    [
        ((0, []), ["no visible group has an offset pending on __consumer_offsets-0"]),
        (
            (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ["readers"]),
            [
                "broker 1 responded to OffsetFetch with COORDINATOR_LOAD_IN_PROGRESS",
                "no visible group has an offset pending on __consumer_offsets-0",
            ],
        ),
    ],
)
def test_no_group_is_named_on_a_guess(pending: Any, failures: list[str]) -> None:
    """Some group has an offset pending in that transaction: where none is seen, that is unknown and not nobody."""
    found = impact(Client([("readers", "classic")], OffsetFetch=[[], pending]), (OFFSETS_TOPIC, 0))

    assert found.residents == ()
    assert [failure.partition(":")[0] for failure in group_failures(found)] == failures
    assert group_failures(found, ("orders", 0)) == found.failures
