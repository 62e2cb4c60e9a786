"""The work and memory of a cycle are bounded by what it received: counted in calls and bytes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.scan import LeaderScan, ask_again_where_moved
from exporter.kafka.errors import ErrorCode, error_name
from exporter.kafka.messages.describe_producers import ProducersResponse, decode
from exporter.kafka.messages.metadata import MetadataColumns
from exporter.kafka.topology import GAPS_MAX, Topology, topology_of
from exporter.snapshot import ENTRY_FIELDS, NO_LEADER, PartitionResult
from tests.kafka.counting import CALLS_MAX, calls
from tests.kafka.fake_broker import FakeCluster, Received
from tests.kafka.fake_model import Model, Partition
from tests.kafka.messages.metadata import answer
from tests.kafka.messages.producers import Row, by_kafka_python
from tests.kafka.scene import collector_of

MANY = 20_000
FAR = 999_999


def peak_bytes(do: Callable[[], object]) -> int:
    """The most memory that `do` holds at once."""
    tracemalloc.start()
    try:
        do()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def result(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Of a coroutine that waits for nothing."""
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    return ended.value.value


@dataclass
class AnsweredAtOnce:
    """The part of a ClusterClient that reading again needs, when nothing is left to be read."""

    fresh: Topology

    def remaining_s(self) -> float:
        return 1.0

    async def topology(self) -> Topology:
        return self.fresh

    async def gather(self, coroutines: Any) -> list[Any]:
        assert list(coroutines) == []
        return []


def led_by_one(partitions: int) -> MetadataColumns:
    return answer({"t": dict.fromkeys(range(partitions), (1, 0))})


def test_partitions_of_a_dead_broker_are_requested_again_in_few_steps() -> None:
    """The number of calls does not grow with the partitions that are unread."""
    response = led_by_one(MANY)

    def after_a_dead_broker() -> None:
        scan = LeaderScan.unasked(topology_of(response))
        scan.fail(np.arange(MANY), "unreachable")
        result(ask_again_where_moved(cast("ClusterClient", AnsweredAtOnce(topology_of(response))), scan))
        assert not scan.answer.min() < 1

    assert calls(after_a_dead_broker) < CALLS_MAX


def test_a_refusal_of_every_partition_costs_few_steps() -> None:
    """A partition that may not be read is not an object of its own."""
    scan = LeaderScan.unasked(topology_of(led_by_one(MANY)))
    rows = np.arange(MANY)

    assert calls(lambda: scan.refuse(rows, int(ErrorCode.TOPIC_AUTHORIZATION_FAILED))) < CALLS_MAX
    assert set(scan.reason) == {error_name(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}


def test_long_error_messages_take_no_more_than_a_few_times_their_bytes() -> None:
    """A position of each of their bytes would take twelve times as much; the next response is read like the first."""
    size = 3_000_000
    body = memoryview(by_kafka_python([("t", [Row(0, 87, "m" * size, ())])], 0))

    assert peak_bytes(lambda: decode(body)) < 4 * size
    assert decode(body, like=decode(body).layout).error.tolist() == [87]


def test_error_codes_that_are_made_up_are_one_reason() -> None:
    """Another one for each partition: a step for each, a series for each, and an overflow after 32,767 of them."""
    scan = LeaderScan.unasked(topology_of(led_by_one(MANY)))
    rows = np.arange(MANY)
    partitions = np.arange(MANY, dtype=np.int32)
    response = ProducersResponse(
        topics=("t",),
        topic=np.zeros(MANY, dtype=np.int32),
        partition=partitions,
        error=(partitions % 65_535 - 32_768).astype(np.int16),
        producers=np.zeros(MANY, dtype=np.int32),
        **cast("dict[str, Any]", {name: np.zeros(0, dtype=np.int64) for name in ("entry_partition", *ENTRY_FIELDS)}),
        throttle_time_ms=0,
        layout=None,
    )

    assert calls(lambda: scan.add(rows, response)) < CALLS_MAX
    assert len(set(scan.reason)) == 51
    assert np.all(scan.answer == PartitionResult.UNAVAILABLE)


def test_partitions_are_found_again_in_other_metadata() -> None:
    """By topic and partition, wherever their rows are; what is not there any more is nowhere."""
    one = topology_of(answer({"a": dict.fromkeys(range(3), (1, 0)), "gone": {0: (1, 0)}, "z": {0: (1, 0), 1: (1, 0)}}))
    other = topology_of(answer({"a": {0: (2, 1)}, "b": dict.fromkeys(range(4), (1, 0)), "z": {0: (2, 1), 1: (2, 1)}}))
    rows = np.arange(len(one))

    assert one.rows_in(other, rows).tolist() == [
        -1 if (found := other.row(one.topics[one.topic[row]], int(one.partition[row]))) is None else found
        for row in rows
    ]
    assert one.rows_in(other, rows[:0]).tolist() == []


def test_gaps_of_all_topics_together_are_bounded_by_what_was_received() -> None:
    """200 topics of the one partition 999,999 each would be 200 million rows: they get a row for each that is named."""
    response = answer({f"far-{number:03d}": {FAR: (1, 0)} for number in range(200)} | {"near": {0: (1, 0), 2: (1, 5)}})
    made: list[Topology] = []

    assert peak_bytes(lambda: made.append(topology_of(response))) < 10_000_000
    (topology,) = made
    assert len(topology) == 203
    assert topology.left_out == {f"far-{number:03d}": 1 for number in range(200)}
    assert topology.row("far-000", FAR) is None
    assert topology.leader_of("near", 2) == (1, 5)
    assert topology.replicas.of(topology.rows_of("near")[2]) == (0, 1, 2)


def test_few_gaps_are_filled_wherever_they_are() -> None:
    """A topic whose partitions are not all named keeps its rows while all gaps together are few."""
    topology = topology_of(answer({"t": {0: (1, 0), GAPS_MAX: (1, 3)}}))

    assert topology.left_out == {}
    assert topology.leader_of("t", GAPS_MAX) == (1, 3)
    assert topology.leader_of("t", 1) == (NO_LEADER, -1)


def test_partitions_without_a_row_are_a_gap_of_coverage() -> None:
    """They are counted, their topic is named, and the others are read."""
    model = Model(topics={"far": [Partition(1)], "near": [Partition(1)]})

    def far_away(received: Received, response: Any) -> None:
        if received.api == "Metadata":
            for topic in response.topics:
                if topic.name == "far":
                    topic.partitions[0].partition_index = FAR

    with FakeCluster(model) as cluster, collector_of(cluster) as collector:
        cluster.on_response = far_away
        snapshot = collector.collect()

    assert not snapshot.is_complete
    assert [gap for gap in snapshot.visibility.gaps if gap.endswith("missing from the metadata: 1, of the topics far")]
    assert snapshot.partitions.row("near", 0) is not None
