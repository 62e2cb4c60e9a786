"""Sizes on disk behind transactions: what brokers have sent, what they refuse, and when they are asked at all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.protocol.admin.cluster import DescribeLogDirsResponse

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect import disk as disk_module
from exporter.kafka.collect.disk import READ_EVERY_MS, disk_space, space_in
from exporter.kafka.errors import BrokerFault, ErrorCode, FaultReason
from exporter.kafka.messages import describe_log_dirs
from exporter.kafka.topology import Topology
from exporter.snapshot import NO_LEADER, DiskSpace, LogDir, ReplicaSize, TopicPartition
from tests.evaluation.builders import NOW_MS

PRICES, STOCKS = ("prices", 1), ("stocks", 0)
RECORDED = {
    1: b"\0\0\0\0\0\0\0\1\0\0\0\x0a/node/data\0\0\0\1\0\x06prices\0\0\0\1\0\0\0\1\0\0\0\0\0\x15\x70\x06\0\0\0\0\0\0\0\0\0",
    2: b"\0\0\0\0\2\0\0\x0b/node/data\2\x07prices\2\0\0\0\1\0\0\0\0\0\x15\x70\x06\0\0\0\0\0\0\0\0\0\0\0\0\0",
    3: b"\0\0\0\0\0\0\2\0\0\x0b/node/data\2\x07prices\2\0\0\0\1\0\0\0\0\0\x15\x70\x06\0\0\0\0\0\0\0\0\0\0\0\0\0",
    4: b"\0\0\0\0\0\0\2\0\0\x0b/node/data\2\x07prices\2\0\0\0\1\0\0\0\0\0\x15\x70\x06\0\0\0\0\0\0\0\0\0\0\0"
    b"\0\0\0>\xfe9\xd0\0\0\0\0\rXV\xc0\0\0\0",
    5: b"\0\0\0\0\0\0\2\0\0\x0b/node/data\2\x07prices\2\0\0\0\1\0\0\0\0\0\x15\x70\x06\0\0\0\0\0\0\0\0\0\0\0"
    b"\0\0\0>\xfe9\xd0\0\0\0\0\rXV\xc0\0\0\0\0",
}
"""Version -> the body that Kafka 4.3.1 sent about prices-1; path and size were changed."""
SIZE = 1_404_934


def answer(version: int, **fields: Any) -> Any:
    """A response without a log directory."""
    return DescribeLogDirsResponse(version=version, **{"throttle_time_ms": 0, "results": [], **fields})


def space(answer: Any, *requested: TopicPartition) -> DiskSpace:
    return space_in(1, frozenset(requested or [PRICES]), {PRICES: 7}, NOW_MS, answer)


@pytest.mark.parametrize("version", RECORDED)
def test_each_version_has_the_size_and_from_4_on_the_space(version: int) -> None:
    read = space(DescribeLogDirsResponse.decode(RECORDED[version], version=version))

    has_space = version >= 4
    log_dir = LogDir(
        broker=1,
        path="/node/data",
        total_bytes=270_553_174_016 if has_space else None,
        usable_bytes=57_316_655_104 if has_space else None,
    )
    assert read.sizes == {PRICES: ReplicaSize(log_dir=log_dir, size_bytes=SIZE, log_start_offset=7)}
    assert (read.log_dirs, read.failures) == ((log_dir,), ())


def test_the_request_is_one_that_a_broker_has_answered() -> None:
    """The bytes of version 4 were sent to Kafka 4.3.1."""
    request = describe_log_dirs.request([PRICES, ("nosuch", 0)])
    request.API_VERSION = 4
    request.with_header(7, "c")

    assert bytes(request.encode(framed=True, header=True)) == (
        b"\0\0\0(\0#\0\4\0\0\0\7\0\1c\0\3\x07prices\2\0\0\0\1\0\x07nosuch\2\0\0\0\0\0\0"
    )


@pytest.mark.parametrize(
    ("sentence", "response", "failures"),
    [
        (
            "without the right, versions before 3 have no log directory and no error",
            answer(2),
            ["no log directory: needs DESCRIBE on the cluster"],
        ),
        (
            "without the right, later ones have an error",
            answer(4, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            ["no log directory: needs DESCRIBE on the cluster"],
        ),
        (
            "another error",
            answer(4, error_code=ErrorCode.UNKNOWN_SERVER_ERROR),
            ["UNKNOWN_SERVER_ERROR", "no size for 1 of its partitions"],
        ),
        (
            "the disk is broken",
            answer(
                4,
                results=[
                    DescribeLogDirsResponse.DescribeLogDirsResult(
                        version=4, error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir="/broken", topics=[]
                    )
                ],
            ),
            ["KAFKA_STORAGE_ERROR for /broken", "no size for 1 of its partitions"],
        ),
    ],
)
def test_a_size_that_is_unknown_has_a_reason(sentence: str, response: Any, failures: list[str]) -> None:
    read = space(response)

    assert (read.sizes, read.log_dirs) == ({}, ()), sentence
    assert read.failures == tuple(f"broker 1 responded to DescribeLogDirs with {why}" for why in failures), sentence


def test_a_replica_that_is_being_moved_counts_where_it_still_is() -> None:
    topic_type = DescribeLogDirsResponse.DescribeLogDirsResult.DescribeLogDirsTopic

    def result(path: str, size: int, *, is_future: bool) -> Any:
        row = topic_type.DescribeLogDirsPartition(
            version=4, partition_index=1, partition_size=size, offset_lag=0, is_future_key=is_future
        )
        return DescribeLogDirsResponse.DescribeLogDirsResult(
            version=4, error_code=0, log_dir=path, topics=[topic_type(version=4, name="prices", partitions=[row])]
        )

    read = space(answer(4, results=[result("/old", 900, is_future=False), result("/new", 10, is_future=True)]))

    assert [(size.log_dir.path, size.size_bytes) for size in read.sizes.values()] == [("/old", 900)]
    assert read.failures == ()


class Client:
    """A broker 1 that sends the recorded response, or fails."""

    def __init__(self, fault: BrokerFault | None = None) -> None:
        self.fault = fault
        self.requests = 0

    async def gather(self, coroutines: Iterable[Any]) -> list[Any]:
        return [await coroutine for coroutine in coroutines]

    async def request(self, _broker: int, _api: str, _request: Any, read: Any) -> Any:
        self.requests += 1
        if self.fault is not None:
            raise self.fault
        return read(DescribeLogDirsResponse.decode(RECORDED[4], version=4))


def ask(
    client: Client,
    *partitions: TopicPartition,
    monkeypatch: pytest.MonkeyPatch,
    now_ms: int = NOW_MS,
    last: DiskSpace | None = None,
    leader: int = 1,
) -> DiskSpace | None:
    async def offsets_at(*_: Any) -> Any:
        return {PRICES: 7}, {}

    monkeypatch.setattr(disk_module, "offsets_at", offsets_at)
    topology = cast("Topology", SimpleNamespace(leader_of=lambda *_: (leader, 0)))
    return asyncio.run(disk_space(cast("ClusterClient", client), topology, partitions, now_ms, last))


def test_where_nothing_is_held_back_no_request_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()

    assert ask(client, monkeypatch=monkeypatch) is None
    assert client.requests == 0


def test_a_reading_is_used_for_a_minute_unless_a_partition_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    first = ask(client, PRICES, monkeypatch=monkeypatch)

    for sentence, later_ms, partitions, requests in (
        ("soon", READ_EVERY_MS - 1, [PRICES], 1),
        ("a minute later", READ_EVERY_MS, [PRICES], 2),
        ("another partition", 1, [PRICES, STOCKS], 3),
        ("the clock was set back", -1, [PRICES], 4),
    ):
        ask(client, *partitions, monkeypatch=monkeypatch, now_ms=NOW_MS + later_ms, last=first)
        assert client.requests == requests, sentence


def test_a_broker_that_does_not_respond_is_a_failure_in_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    read = ask(Client(BrokerFault(FaultReason.TIMED_OUT, "broker 1 is silent")), PRICES, monkeypatch=monkeypatch)

    assert read is not None
    assert (read.sizes, read.failures) == ({}, ("broker 1 is silent",))


def test_a_partition_without_a_leader_has_no_size(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    read = ask(client, PRICES, monkeypatch=monkeypatch, leader=NO_LEADER)

    assert read is not None
    assert (read.sizes, client.requests) == ({}, 0)
