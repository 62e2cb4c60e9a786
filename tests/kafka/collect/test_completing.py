"""Completing transactions are described once they last, and compared with the logs. A fake cluster makes the faults."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.gaps import gaps
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Policy
from exporter.kafka.collect.collector import Collector
from exporter.kafka.collect.completing import DESCRIBED_MAX
from exporter.kafka.collect.scope import Scope
from exporter.kafka.errors import ErrorCode
from exporter.snapshot import CLOCKS_AGREE_WITHIN_MS, STATE_TOPIC, CompletingTransaction, MarkerFinding, Snapshot
from tests.kafka.fake_broker import EVERYTHING, FETCH, FakeCluster, Received
from tests.kafka.fake_model import Model, Partition, Producer, Transaction
from tests.kafka.log_batch import ABORT, COMMIT, CONTROL, log_batch
from tests.kafka.scene import collector_of

BEGAN_MS = 1_700_000_000_000


def stuck_model(*producers: Producer, count: int = 1) -> Model:
    """Nothing is open; `count` transactions wait for the marker of jobs-0."""
    return Model(
        topics={STATE_TOPIC: [Partition(1), Partition(1)], "jobs": [Partition(1, producers=list(producers))]},
        transactions={
            f"app-{number}": Transaction(
                7 + number, "PrepareCommit", epoch=1, start_ms=BEGAN_MS, partitions={("jobs", 0)}
            )
            for number in range(count)
        },
    )


class Cycles:
    """Cycles of one collector, with the memory of the earlier ones."""

    def __init__(self, collector: Collector, cluster: FakeCluster) -> None:
        self._collector, self.cluster, self._memory = collector, cluster, Memory()

    def run(self) -> tuple[Snapshot, list[str]]:
        """The snapshot, and the APIs that were requested."""
        before = len(self.cluster.received)
        memory = self._memory
        snapshot = self._collector.collect(seen_before=memory.seen, completing=memory.completing)
        self._memory = evaluate(snapshot, memory, Policy()).memory
        return snapshot, [request.api for request in self.cluster.received[before:]]


def third_cycle(model: Model, **hooks: Any) -> CompletingTransaction:
    with FakeCluster(model, nodes=1) as cluster, collector_of(cluster) as collector:
        for name, hook in hooks.items():
            setattr(cluster, name, hook)
        cycles = Cycles(collector, cluster)
        cycles.run()
        cycles.run()
        (found,) = cycles.run()[0].completing.lasting
    return found


def test_it_is_listed_then_described_then_compared() -> None:
    """A transaction that completes within a cycle costs one request to each coordinator, and no more."""
    with FakeCluster(stuck_model(Producer(7, -1)), nodes=1) as cluster, collector_of(cluster) as collector:
        cycles = Cycles(collector, cluster)
        (first, first_apis), (second, second_apis), (third, _) = (cycles.run() for _ in range(3))

    assert [len(each.completing.listed) for each in (first, second, third)] == [1, 1, 1]
    assert first_apis.count("ListTransactions") == 1
    assert "DescribeTransactions" not in first_apis
    assert first.completing.lasting == ()
    assert second_apis.count("DescribeTransactions") == 1
    assert [each.markers for each in second.completing.lasting] == [()]
    assert [len(each.markers) for each in third.completing.lasting] == [1]


def test_an_open_partition_lacks_its_marker() -> None:
    (marker,) = third_cycle(stuck_model(Producer(7, 40, coordinator_epoch=9))).markers

    assert (marker.finding, marker.offset, marker.coordinator_epoch) == (MarkerFinding.MISSING, 40, 9)


@pytest.mark.parametrize(
    ("producers", "why"),
    [
        ([], "its leader does not remember the producer"),
        ([Producer(7, -1, last_timestamp_ms=BEGAN_MS)], "its newest marker there may be of an earlier transaction"),
        (
            [Producer(7, -1, last_timestamp_ms=BEGAN_MS + 1000)],
            "its newest marker there may be of an earlier transaction",
        ),
    ],
    ids=["expired", "at the start", "within the clocks' difference"],
)
def test_what_is_not_evidence_is_unknown(producers: list[Producer], why: str) -> None:
    """Absence of a producer, and a marker that may be older, accuse nobody and acquit nobody."""
    (marker,) = third_cycle(stuck_model(*producers)).markers

    assert (marker.finding, marker.detail) == (MarkerFinding.UNKNOWN, why)


def test_a_partition_that_cannot_be_read_is_unknown() -> None:
    def refuse(received: Received, response: Any) -> None:
        for topic in response.topics if received.api == "DescribeProducers" else ():
            for partition in topic.partitions:
                if topic.name == "jobs":
                    partition.error_code, partition.active_producers = ErrorCode.NOT_LEADER_OR_FOLLOWER, []

    (marker,) = third_cycle(stuck_model(Producer(7, -1)), on_response=refuse).markers

    assert (marker.finding, marker.detail) == (MarkerFinding.UNKNOWN, "its leader could not be read")


def test_a_marker_that_is_not_in_the_log_is_unknown() -> None:
    """Compaction and retention remove markers; the entry still has its coordinator epoch."""
    producer = Producer(7, -1, last_timestamp_ms=BEGAN_MS + 5000, coordinator_epoch=9)
    (marker,) = third_cycle(stuck_model(producer)).markers

    assert (marker.finding, marker.detail) == (MarkerFinding.UNKNOWN, "its newest marker was not found in the log")
    assert marker.coordinator_epoch == 9


@pytest.mark.parametrize(
    ("control", "after_start_ms", "finding"),
    [
        (COMMIT, 5000, MarkerFinding.AS_DECIDED),
        (ABORT, CLOCKS_AGREE_WITHIN_MS + 1, MarkerFinding.CONTRADICTED),
        (ABORT, CLOCKS_AGREE_WITHIN_MS, MarkerFinding.UNKNOWN),
    ],
)
def test_clocks_that_are_apart_accuse_nobody(control: int, after_start_ms: int, finding: MarkerFinding) -> None:
    """The last transaction's ABORT, by a leader whose clock is ahead, is no lost commit of one that wrote nothing there."""
    at_ms = BEGAN_MS + after_start_ms
    model = stuck_model(Producer(7, -1, epoch=1, last_timestamp_ms=at_ms))
    row = (at_ms, struct.pack(">hh", 0, control), b"value", ())
    model.topics["jobs"][0].log = log_batch([row], base_offset=40, producer=(7, 1), attributes=CONTROL)
    (marker,) = third_cycle(model, offered={1: EVERYTHING | FETCH}).markers

    assert marker.finding is finding
    is_open = finding is MarkerFinding.UNKNOWN
    assert (marker.offset, marker.detail) == (
        (None, "the opposite marker, at offset 40, may be of an earlier transaction") if is_open else (40, "")
    )


def test_a_coordinator_that_has_moved_is_not_confirmed() -> None:
    """The metadata name another broker than the one that describes it."""
    model = stuck_model(Producer(7, 40))
    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        cycles = Cycles(collector, cluster)
        cycles.run()
        cycles.run()
        state = model.topics[STATE_TOPIC]

        def move(received: Received) -> None:
            if received.api == "DescribeTransactions":
                for partition in state:
                    partition.leader, partition.leader_epoch = 2, 1

        cluster.on_request = move
        lasting = cycles.run()[0].completing.lasting

    assert all(each.unconfirmed for each in lasting)


def test_a_broker_that_is_gone_may_leave_thousands() -> None:
    """The limit bounds how many are described, and the others are a gap."""
    with FakeCluster(stuck_model(count=DESCRIBED_MAX + 5), nodes=1) as cluster, collector_of(cluster) as collector:
        cycles = Cycles(collector, cluster)
        cycles.run()
        snapshot, _ = cycles.run()

    assert (len(snapshot.completing.lasting), len(snapshot.completing.undescribed)) == (DESCRIBED_MAX, 5)
    assert gaps(snapshot) == ("completing for long and not described: 5 transactions",)
    assert not snapshot.is_complete


def test_a_coordinator_that_describes_nothing_leaves_a_gap() -> None:
    """While its log is loaded; what was known of the transaction stays."""

    def loading(_: Received, response: Any) -> None:
        for each in getattr(response, "transaction_states", ()):
            if hasattr(each, "error_code"):
                each.error_code = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    with FakeCluster(stuck_model(Producer(7, -1)), nodes=1) as cluster, collector_of(cluster) as collector:
        cycles = Cycles(collector, cluster)
        *_, (before, _) = [cycles.run() for _ in range(3)]
        cluster.on_response = loading
        failed, _ = cycles.run()
        cluster.on_response = lambda _received, _response: None
        after, _ = cycles.run()

    assert (failed.completing.lasting, gaps(failed)) == ((), ("completing for long and not described: 1 transaction",))
    assert not failed.is_complete
    assert [each.markers != () for each in (*before.completing.lasting, *after.completing.lasting)] == [True, True]


def test_one_partition_alone_costs_no_request_to_the_coordinators() -> None:
    with FakeCluster(stuck_model(Producer(7, -1)), nodes=1) as cluster, collector_of(cluster) as collector:
        snapshot = collector.collect(seen_before=None, scope=Scope(topic="jobs"))

    assert snapshot.completing.listed == frozenset()
    assert "ListTransactions" not in {request.api for request in cluster.received}
