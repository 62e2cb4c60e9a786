"""Reads ranges of logs of brokers that do not respond, or refuse: how often they are requested."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest

from exporter.audit import data_source, reading
from exporter.audit.data_source import KafkaTransactionMarkers
from exporter.audit.reading import (
    ATTEMPTS,
    LogExtent,
    LogListing,
    LogReadError,
    RangeResult,
    list_partitions,
    ranges_of,
    read_ranges,
)
from exporter.config.kafka_section import KafkaSettings
from exporter.config.loading import load
from exporter.kafka.collect.topic_filter import NO_FILTER
from tests.kafka.fake_broker import FETCH, FakeCluster, Fault, Received
from tests.kafka.fake_model import Model, Partition
from tests.kafka.log_batch import COMMIT, batch
from tests.kafka.loopback import HOST

TOPIC = "orders"
LOG = batch(0) + batch(1, control=COMMIT)


def settings(cluster: FakeCluster) -> KafkaSettings:
    for offered in cluster.offered.values():
        offered.update(FETCH)
    flags = {"kafka.bootstrap.servers": f"{HOST}:{cluster.ports[1]}", "kafka.request.timeout.ms": "200"}
    return load(file=None, environment={}, flags=flags).settings.kafka


def failures(cluster: FakeCluster, *partitions: int) -> list[str | None]:
    """Reads these partitions from their beginning; returns why each was not read, None if it was."""
    kafka = settings(cluster)
    ends = list_partitions(kafka, NO_FILTER).ends
    ranges = [each for number in partitions for each in ranges_of((TOPIC, number), ends[TOPIC, number], 0)]
    return [each.failure for each in read_ranges(kafka, ranges) if isinstance(each, RangeResult)]


def fetches(cluster: FakeCluster) -> Counter[int]:
    """Partition -> the number of its requests."""
    return Counter(
        partition.partition
        for received in cluster.received
        if received.api == "Fetch"
        for topic in received.request.topics
        for partition in topic.partitions
    )


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PAUSE_S", 0.0)


def test_a_broker_that_does_not_respond_is_given_up_until_it_does() -> None:
    """A range costs up to eight time-outs: the logs of a broker that hangs would take hours."""
    requests = count(1)

    def respond(received: Received) -> Fault | None:
        is_silent = received.api == "Fetch" and received.node == 2 and next(requests) != ATTEMPTS + 2
        return Fault.SILENT if is_silent else None

    model = Model(topics={TOPIC: [Partition(1 + number % 2, high_watermark=2, log=LOG) for number in range(8)]})
    with FakeCluster(model, nodes=2) as cluster:
        cluster.on_request = respond
        partitions = (1, 0, 3, 2, 5, 7)
        assert [why is None for why in failures(cluster, *partitions)] == [False, True, False, True, True, False]
        assert fetches(cluster) == {1: ATTEMPTS, 0: 1, 3: 1, 2: 1, 5: 1, 7: ATTEMPTS}


def test_a_broker_that_has_just_started_may_not_know_the_topic_yet() -> None:
    model = Model(topics={TOPIC: [Partition(1, high_watermark=2, log=LOG)]})
    looks = count(1)

    def respond(received: Received) -> None:
        if received.api == "Metadata":
            model.hidden_topics = {(1, TOPIC)} if next(looks) in {2, 3} else set()

    with FakeCluster(model) as cluster:
        cluster.on_request = respond
        assert failures(cluster, 0) == [None]
        assert next(looks) == 5


def test_a_topic_that_may_not_be_read_is_requested_once() -> None:
    """A thousand partitions with eight attempts each would take half an hour, and fill the authorizer's log."""
    model = Model(topics={TOPIC: [Partition(1, high_watermark=2, log=LOG)] * 3}, unreadable_topics={TOPIC})
    needs_read = f"not authorized to read {TOPIC} (TOPIC_AUTHORIZATION_FAILED): needs READ on it"
    with FakeCluster(model) as cluster:
        assert failures(cluster, 0, 1) == [needs_read, needs_read]
        assert fetches(cluster) == {0: 1, 1: 1}


def ranges_from(monkeypatch: pytest.MonkeyPatch, **options: str) -> list[tuple[int, int]]:
    """Returns the ranges that the table source reads of a log from 5 to 20."""
    extent = LogExtent(topic_id="id", log_start=5, high_watermark=20, size_bytes=100)
    found = LogListing(cluster_id="c", at_ms=0, ends={(TOPIC, 0): extent}, failures={}, excluded=frozenset())
    monkeypatch.setattr(data_source, "list_partitions", lambda *_: found)
    source = KafkaTransactionMarkers({"kafka.bootstrap.servers": f"{HOST}:1", **options})
    return [(part.wanted.first, part.wanted.end) for part in source.reader(source.schema()).partitions()]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "ranges"),
    [
        ({}, [(5, 20)]),
        ({"startingOffsets": '{"orders": {"0": -2}}', "endingOffsets": '{"orders": {"0": -1}}'}, [(5, 20)]),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, []),
        ({"startingOffsets": '{"orders": {"0": 7}}', "endingOffsets": '{"orders": {"0": 9}}'}, [(7, 9)]),
    ],
)
def test_offsets_of_the_table_source_are_as_of_sparks_kafka_source(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str], ranges: list[tuple[int, int]]
) -> None:
    """-2 is the earliest offset, and -1 the latest one."""
    assert ranges_from(monkeypatch, **options) == ranges


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"startingOffsets": '{"order": {"0": 7}}'}, "startingOffsets: order-0 does not exist, or "),
        ({"endingOffsets": '{"orders": {"1": 7}}'}, "endingOffsets: orders-1 does not exist, or "),
        (
            {"startingOffsets": '{"orders": {"0": 21}}'},
            "offset 21 of orders-0 is not in its log, which is from 5 to 20 ",
        ),
        ({"endingOffsets": '{"orders": {"0": 21}}'}, "endingOffsets: offset 21 of orders-0 is not in its log"),
        ({"startingOffsets": '{"orders": {"0": 4}}'}, "startingOffsets: offset 4 of orders-0 is not in its log"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "startingOffsets: offset -3 of orders-0 is not in its log"),
        (
            {"startingOffsets": '{"orders": {"0": 9}}', "endingOffsets": '{"orders": {"0": 7}}'},
            "startingOffsets: offset 9 of orders-0 is after its ending offset, 7",
        ),
    ],
)
def test_offsets_that_no_log_has_are_refused(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str], why: str
) -> None:
    """They would be read as nothing, or as the whole log."""
    with pytest.raises(LogReadError, match=f"^{why}|^[a-zA-Z]+: {why}"):
        ranges_from(monkeypatch, **options)
