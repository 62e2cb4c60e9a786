"""Requests to partition leaders are cut into bounded chunks, and a failed chunk affects only its partitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporter.kafka import offsets
from exporter.kafka.collect import scan_requests
from exporter.kafka.collect.scan_requests import CHUNK_BYTES_MAX, CHUNK_PARTITIONS_MAX, chunks
from exporter.kafka.messages import describe_producers
from exporter.kafka.messages.describe_producers import ProducersResponse
from exporter.kafka.messages.producers_layout import ENTRY_BYTES, PARTITION_BYTES
from exporter.snapshot import PartitionResult
from hangbench.waiting import until
from tests.kafka.fake_broker import FakeCluster, Fault, Received
from tests.kafka.fake_model import Model, Partition, Producer
from tests.kafka.scene import answers, collector_of, reasons


@given(expected=st.lists(st.one_of(st.integers(0, 3), st.integers(0, 40_000)), max_size=60), known=st.booleans())
@example(expected=[CHUNK_BYTES_MAX] * 3, known=True)
def test_chunks_hold_every_row_once_and_keep_to_the_bound(expected: list[int], *, known: bool) -> None:
    """In order, none empty; only a partition that exceeds the bound by itself does, and has a request of its own."""
    rows = np.arange(len(expected), dtype=np.int64) * 2  # a broker's rows have gaps
    producers = np.zeros(2 * len(expected), dtype=np.int32)
    producers[rows] = expected
    cut = list(chunks(rows, producers if known else None))

    assert [row for chunk in cut for row in chunk.tolist()] == rows.tolist()
    assert all(len(chunk) for chunk in cut)
    for chunk in cut:
        size = sum(PARTITION_BYTES + ENTRY_BYTES * int(producers[row]) for row in chunk)
        assert not known or size <= CHUNK_BYTES_MAX or len(chunk) == 1


def test_chunks_keep_to_the_number_of_partitions() -> None:
    """However small the responses are expected to be, and whether or not that is known."""
    rows = np.arange(2 * CHUNK_PARTITIONS_MAX + 1, dtype=np.int64)
    for expected in (None, np.zeros(len(rows), dtype=np.int32)):
        sizes = [len(chunk) for chunk in chunks(rows, expected)]
        assert sizes == [CHUNK_PARTITIONS_MAX, CHUNK_PARTITIONS_MAX, 1]


def test_chunks_are_as_few_as_the_bound_allows() -> None:
    """Neighbours share a request for as long as they fit."""
    half = (CHUNK_BYTES_MAX // 2 - PARTITION_BYTES) // ENTRY_BYTES
    producers = np.array([half, half, half, 0, 0], dtype=np.int32)

    assert [chunk.tolist() for chunk in chunks(np.arange(5), producers)] == [[0, 1], [2, 3, 4]]


def model_of(partitions: int) -> Model:
    return Model(topics={"t": [Partition(1 + i % 2, producers=[Producer(i, i)]) for i in range(partitions)]})


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_requests, "CHUNK_PARTITIONS_MAX", 3)
    monkeypatch.setattr(offsets, "_REQUEST_PARTITIONS_MAX", 3)


@pytest.mark.usefixtures("small_chunks")
def test_many_chunks_read_every_partition_and_progress_is_reported() -> None:
    """Twenty partitions on two nodes, three a request: all are read, with their offsets, and progress grows to all."""
    reported: list[tuple[int, int]] = []
    with FakeCluster(model_of(20), nodes=2) as cluster, collector_of(cluster) as collector:
        snapshot = collector.collect(progress=lambda done, of: reported.append((done, of)))
        first_reads = [request for request in cluster.received if request.api == "DescribeProducers"][:8]

    assert {len(topic.partition_indexes) for request in first_reads for topic in request.request.topics} == {3, 1}
    assert set(answers(snapshot).values()) == {PartitionResult.READ}
    open_ = snapshot.open_transactions
    assert sorted(open_.current_txn_start_offset.tolist()) == list(range(20))
    assert open_.last_stable_offset.tolist() == open_.current_txn_start_offset.tolist()
    assert [done for done, _ in reported] == sorted(done for done, _ in reported)
    assert reported[-1] == (20, 20)


@pytest.mark.usefixtures("small_chunks")
def test_after_a_failed_chunk_the_rest_is_not_requested() -> None:
    """Chunks that were read stay read; the rest is unread for the same reason, after one more request after the refresh."""
    seen = 0

    def fail_from_the_second(received: Received) -> Fault | None:
        nonlocal seen
        if (received.api, received.node) != ("DescribeProducers", 2):
            return None
        seen += 1
        return Fault.CLOSED if seen >= 2 else None

    with FakeCluster(model_of(20), nodes=2) as cluster, collector_of(cluster) as collector:
        cluster.on_request = fail_from_the_second
        snapshot = collector.collect()

    unread = {("t", i) for i in range(20) if i % 2} - {("t", 1), ("t", 3), ("t", 5)}
    assert reasons(snapshot) == dict.fromkeys(unread, "connection_lost")
    assert {partition for partition, answer in answers(snapshot).items() if answer is PartitionResult.READ}.isdisjoint(
        unread
    )
    (failed,) = [broker for broker in snapshot.brokers if broker.failure is not None]
    assert (failed.broker, failed.partitions) == (2, 10)


@pytest.mark.usefixtures("small_chunks")
def test_the_next_request_is_out_before_a_response_is_decoded_and_never_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader of twenty partitions works on the next three while the exporter decodes its last response."""
    count = 7
    asked_when_decoding: list[int] = []
    decode = describe_producers.decode

    def patient(*arguments: Any, **more: Any) -> ProducersResponse:
        ours = len(asked_when_decoding) + 1
        until(lambda: producers_requests() > min(ours, count - 1))
        asked_when_decoding.append(producers_requests())
        return decode(*arguments, **more)

    def producers_requests() -> int:
        return sum(request.api == "DescribeProducers" for request in cluster.received)

    monkeypatch.setattr(describe_producers, "decode", patient)
    model = Model(topics={"t": [Partition(1, producers=[Producer(i, i)]) for i in range(20)]})
    with FakeCluster(model) as cluster, collector_of(cluster) as collector:
        snapshot = collector.collect()

    assert set(answers(snapshot).values()) == {PartitionResult.READ}
    assert asked_when_decoding[:count] == [*range(2, count + 1), count]


def test_the_second_cycle_sizes_its_requests_by_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition known to have many producers gets a request of its own from the next cycle on."""
    monkeypatch.setattr(scan_requests, "CHUNK_BYTES_MAX", 20 * ENTRY_BYTES)
    model = Model(topics={"t": [Partition(1) for _ in range(4)]})
    model.topics["t"][1].producers = [Producer(i) for i in range(100)]

    def requests() -> list[list[int]]:
        return [
            list(topic.partition_indexes)
            for request in cluster.received
            if request.api == "DescribeProducers"
            for topic in request.request.topics
        ]

    with FakeCluster(model) as cluster, collector_of(cluster) as collector:
        assert collector.collect().partitions.producers.tolist() == [0, 100, 0, 0]
        assert requests() == [[0, 1, 2, 3]]
        cluster.restart_numbers()
        collector.collect()
        assert requests() == [[0], [1], [2, 3]]


def test_a_silent_broker_is_waited_for_once_in_a_cycle() -> None:
    """After its first time-out it gets no further request: the others are not delayed."""
    with FakeCluster(model_of(6), nodes=2) as cluster, collector_of(cluster, request_timeout_s=2) as collector:
        collector.collect()
        cluster.restart_numbers()
        cluster.on_request = lambda received: Fault.SILENT if received.node == 2 else None
        snapshot = collector.collect()
        apis = [a.api for a in cluster.received if a.node == 2]

    assert len(apis) <= 2  # the producers and the settings are requested concurrently
    assert reasons(snapshot) == {("t", i): "timed_out" for i in (1, 3, 5)}
