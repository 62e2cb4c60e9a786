"""Counts the parts of a scan, without a clock: no object for a partition, few requests, none encoded twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kafka.protocol.admin.transactions import DescribeProducersResponse
from kafka.protocol.metadata import MetadataResponse

from exporter.kafka.collect.collector import Collector
from exporter.kafka.collect.scan import LeaderScan
from exporter.kafka.collect.scan_requests import CHUNK_PARTITIONS_MAX, ScanRequests, chunks
from exporter.kafka.messages import describe_producers, metadata
from exporter.kafka.messages.versions import METADATA
from exporter.kafka.topology import topology_of
from tests.kafka.counting import OBJECTS_MAX, objects
from tests.kafka.fake_broker import FakeCluster
from tests.kafka.fake_model import Model, Partition, Producer
from tests.kafka.messages.metadata import answer as metadata_answer
from tests.kafka.messages.metadata import body as metadata_body
from tests.kafka.messages.producers import Row, Topics, by_hand, no_tags
from tests.kafka.scene import collector_of

MANY = 5_000


def producers_answer(partitions: int, entries: Callable[[int], int]) -> memoryview:
    """One topic."""
    rows = [Row(i, 0, None, ((1, 0, 0, 0, -1, -1),) * entries(i)) for i in range(partitions)]
    topics: Topics = [("t", rows)]
    return memoryview(by_hand(topics, 0, no_tags))


@pytest.mark.parametrize("entries", [lambda _: 1, lambda i: i % 3], ids=["all alike", "of differing length"])
def test_decoding_makes_no_object_for_a_partition(entries: Callable[[int], int]) -> None:
    """5,000 partitions are arrays from the first byte to the last; kafka-python, which makes objects, is detected."""
    body = producers_answer(MANY, entries)

    assert objects(lambda: describe_producers.decode(body)) < OBJECTS_MAX
    assert objects(lambda: DescribeProducersResponse.decode(bytes(body), version=0)) > MANY


def test_a_scan_makes_no_object_for_a_partition() -> None:
    """Requests, responses and failures: columns all of it."""
    topology = topology_of(metadata_answer({"t": dict.fromkeys(range(MANY), (1, 0))}))
    rows, body = np.arange(MANY), producers_answer(MANY, lambda i: i % 3)

    def scan() -> None:
        scan = LeaderScan.unasked(topology, requests=ScanRequests())
        for chunk in chunks(rows, scan.producers):
            scan.requests.of(topology, chunk)
        scan.add(rows, describe_producers.decode(body))
        scan.entries()
        assert not len(scan.may_have_moved())

    assert objects(scan) < OBJECTS_MAX


def test_metadata_make_no_object_for_a_partition() -> None:
    """From the bytes of the response to the leaders; kafka-python is detected."""
    body = memoryview(metadata_body({"t": dict.fromkeys(range(MANY), (1, 0))}))

    assert objects(lambda: topology_of(metadata.decode(body))) < OBJECTS_MAX
    assert objects(lambda: MetadataResponse.decode(bytes(body), version=METADATA.highest)) > MANY


def requests_of(collector: Collector, cluster: FakeCluster) -> list[tuple[str, int]]:
    """(API, requested partitions) of every request of one cycle."""
    cluster.restart_numbers()
    collector.collect()
    return [
        (request.api, sum(len(topic.partition_indexes) for topic in request.request.topics))
        if request.api == "DescribeProducers"
        else (request.api, 0)
        for request in cluster.received
    ]


def test_a_quiet_cycle_requests_metadata_limits_and_each_chunk_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """4,500 partitions of one leader are three requests of at most 2,000, from the second cycle on the very same bytes.

    The coordinator lists what it is completing: a transaction may be stuck there with nothing open.
    """
    model = Model(topics={name: [Partition(1, producers=[Producer(7)]) for _ in range(1500)] for name in "abc"})
    encoded: list[int] = []
    encode = describe_producers.request

    def counted(partitions: Any) -> Any:
        encoded.append(len(partitions))
        return encode(partitions)

    monkeypatch.setattr(describe_producers, "request", counted)
    with FakeCluster(model) as cluster, collector_of(cluster) as collector:
        cycles = [requests_of(collector, cluster) for _ in range(3)]

    # The first cycle, and every tenth, asks whether its source is in touch, and whether the coordinators' topic is hidden.
    assert set(cycles[0]) - set(cycles[1]) == {("DescribeQuorum", 0)}
    for requests in cycles[1:]:
        assert sorted(requests) == [
            ("DescribeConfigs", 0),
            ("DescribeProducers", 500),
            ("DescribeProducers", CHUNK_PARTITIONS_MAX),
            ("DescribeProducers", CHUNK_PARTITIONS_MAX),
            ("ListTransactions", 0),
            ("Metadata", 0),
        ]
    assert len(encoded) == 3


def test_metadata_are_decoded_again_only_when_they_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requested in every cycle, so that a move and a new topic are seen in the next; decoded when a byte is another."""
    model = Model(topics={"t": [Partition(1), Partition(2)]})
    decoded: list[int] = []
    decode = metadata.decode

    def counted(body: memoryview) -> Any:
        decoded.append(len(body))
        return decode(body)

    monkeypatch.setattr(metadata, "decode", counted)
    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        for _ in range(3):
            assert collector.collect().partitions.leader.tolist() == [1, 2]
        assert len(decoded) == 2  # with that of the coordinators' topic alone, in the first cycle
        model.topics["t"][1].leader, model.topics["t"][1].leader_epoch = 1, 1
        assert collector.collect().partitions.leader.tolist() == [1, 1]
        model.topics["u"] = [Partition(2)]
        assert collector.collect().partitions.topics == ("t", "u")
        assert len(decoded) == 5  # the fourth cycle looks for hidden topics again
