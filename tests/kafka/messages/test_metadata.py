"""The exporter's decoder of Metadata and kafka-python's agree; hostile bytes are refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any
from uuid import NAMESPACE_DNS, UUID, uuid5

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from exporter.kafka.messages import metadata
from exporter.kafka.messages.metadata import FIELDS, decode
from exporter.kafka.messages.response import without_tags
from exporter.kafka.messages.versions import METADATA
from exporter.primitives import compact, uvarint
from tests.kafka.messages.metadata import Topics, columns
from tests.kafka.two_decoders import TwoDecoders, assert_refused_for_little

API_VERSION = METADATA.highest

INT32 = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
BROKERS = st.lists(INT32, max_size=4)
# Beyond 126 replicas their number takes two bytes: no cluster has that.
MANY = st.just(list(range(130)))
PARTITIONS = st.tuples(INT32, INT32, INT32, st.one_of(BROKERS, MANY), BROKERS, BROKERS)
ALIKE = st.integers(1, 6).map(lambda count: [(i, 1, 7, [1, 2], [2], list[int]()) for i in range(count)])
TOPICS = st.lists(st.tuples(TEXT, st.integers(-1, 40), st.one_of(ALIKE, st.lists(PARTITIONS, max_size=4))), max_size=4)

SMALL: Topics = [
    ("first", 0, [(0, 1, 5, [1, 2], [1], [2]), (1, 2, 6, [2, 1], [2, 1], []), (2, -1, 6, [], [], [])]),
    ("second", 3, []),
    ("third", 0, [(i, 1, 0, [1], [1], []) for i in range(3)]),
]


def topic_id(name: str) -> UUID:
    """None of a topic whose name is empty."""
    return uuid5(NAMESPACE_DNS, name) if name else UUID(int=0)


def by_kafka_python(topics: Topics) -> bytes:
    """The response's body as kafka-python encodes it."""
    topic_type = MetadataResponse.MetadataResponseTopic
    partition_type = topic_type.MetadataResponsePartition
    broker_type = MetadataResponse.MetadataResponseBroker
    answer = MetadataResponse(
        version=API_VERSION,
        throttle_time_ms=7,
        cluster_id="cluster",
        controller_id=1,
        brokers=[broker_type(version=API_VERSION, node_id=1, host="localhost", port=9092, rack="a")],
        topics=[
            topic_type(
                version=API_VERSION,
                error_code=error,
                name=name,
                topic_id=topic_id(name),
                partitions=[
                    partition_type(
                        version=API_VERSION,
                        error_code=0,
                        partition_index=index,
                        leader_id=leader,
                        leader_epoch=epoch,
                        replica_nodes=replicas,
                        isr_nodes=in_sync,
                        offline_replicas=offline,
                    )
                    for index, leader, epoch, replicas, in_sync, offline in partitions
                ],
            )
            for name, error, partitions in topics
        ],
    )
    return bytes(answer.encode())


def by_hand(topics: Topics, tags: Callable[[], bytes]) -> bytes:
    """The response's body, field by field, with `tags()` at the end of every structure."""

    def numbers(values: list[int]) -> bytes:
        return uvarint(len(values) + 1) + struct.pack(f">{len(values)}i", *values)

    parts = [struct.pack(">i", 7), uvarint(2), struct.pack(">i", 1), compact("localhost"), struct.pack(">i", 9092)]
    parts += [compact("a"), tags(), compact("cluster"), struct.pack(">i", 1), uvarint(len(topics) + 1)]
    for name, error, partitions in topics:
        parts += [struct.pack(">h", error), compact(name), topic_id(name).bytes, b"\0", uvarint(len(partitions) + 1)]
        for index, leader, epoch, *lists in partitions:
            parts += [struct.pack(">hiii", 0, index, leader, epoch), *map(numbers, lists), tags()]
        parts += [struct.pack(">i", -(2**31)), tags()]
    return b"".join([*parts, tags()])


def by_oracle(body: bytes) -> tuple[Any, ...]:
    """As kafka-python reads it."""
    response = MetadataResponse.decode(body, version=API_VERSION)
    topics: Topics = [
        (
            topic.name,
            topic.error_code,
            [
                (
                    partition.partition_index,
                    partition.leader_id,
                    partition.leader_epoch,
                    partition.replica_nodes,
                    partition.isr_nodes,
                    [],
                )
                for partition in topic.partitions
            ],
        )
        for topic in response.topics
    ]
    ids = tuple("" if topic.topic_id is None else topic.topic_id.hex for topic in response.topics)
    brokers = tuple((broker.node_id, broker.host, broker.port) for broker in response.brokers)
    return response.throttle_time_ms, response.cluster_id, brokers, ids, topics


def by_ours(body: memoryview) -> tuple[Any, ...]:
    answer = decode(body)
    return answer.throttle_time_ms, answer.cluster_id, answer.brokers, answer.topic_ids, columns(answer)


DECODERS = TwoDecoders(by_ours, by_oracle)


def online(topics: Topics) -> Topics:
    return [(name, error, [(*partition[:5], []) for partition in partitions]) for name, error, partitions in topics]


@given(TOPICS)
@example(SMALL)
@example([("t", 0, [(0, 1, 1, [1, 2], [1], []), (1, 1, 1, [1], [1, 2], [])])])
def test_a_response_encoded_by_kafka_python_decodes_to_its_columns(topics: Topics) -> None:
    """Every topic and every partition, in the order of the response."""
    answer = decode(memoryview(by_kafka_python(topics)))

    assert columns(answer) == online(topics)
    assert (answer.throttle_time_ms, answer.cluster_id) == (7, "cluster")
    assert answer.brokers == ((1, "localhost", 9092),)


TAGS = st.sampled_from([b"\0", b"\1\0\1x", b"\2\0\0\x81\1\3abc"])


@given(TOPICS, st.data())
def test_tagged_fields_anywhere_are_stepped_over(topics: Topics, data: st.DataObject) -> None:
    """Additions of a later Kafka change nothing of what is read."""
    body = by_hand(topics, lambda: data.draw(TAGS))
    assert without_tags(body, FIELDS) == by_hand(topics, lambda: b"\0")
    assert columns(decode(memoryview(body))) == online(topics)


def test_bytes_built_by_hand_are_what_kafka_python_builds() -> None:
    """The helper that the hostile responses are made with writes the same bytes as kafka-python."""
    assert by_hand(SMALL, lambda: b"\0") == by_kafka_python(SMALL)


@pytest.mark.parametrize("tags", [b"\0", b"\1\0\1x"], ids=["plain", "tagged"])
def test_damaged_responses_are_refused_or_read_alike(tags: bytes) -> None:
    """Cut anywhere or prolonged it is refused; whatever bit is wrong, it is refused or read as kafka-python does."""
    body = by_hand(SMALL, lambda: tags)
    DECODERS.hold_to_the_byte(body, (b"\0", b"x", bytes(18)))
    DECODERS.flip_every_bit(body)


@pytest.mark.parametrize("count", [2**28, 2**35 - 1])
@pytest.mark.parametrize("place", ["brokers", "host", "topics", "name", "partitions", "replicas"])
def test_a_hostile_length_is_refused_and_reserves_nothing(place: str, count: int) -> None:
    """A length is not used before its bytes are there: the frame bounds the memory."""
    huge, filler = uvarint(count), bytes(range(1, 200))
    start = struct.pack(">i", 0)
    to_topics = start + b"\1" + b"\0" + struct.pack(">i", 1)
    to_partitions = to_topics + b"\2" + struct.pack(">h", 0) + compact("t") + b"\0"
    body = {
        "brokers": start + huge,
        "host": start + b"\2" + struct.pack(">i", 1) + huge,
        "topics": to_topics + huge,
        "name": to_topics + b"\2" + struct.pack(">h", 0) + huge,
        "partitions": to_partitions + huge,
        "replicas": to_partitions + b"\2" + struct.pack(">hiii", 0, 0, 1, 0) + huge,
    }[place] + filler

    assert_refused_for_little(decode, body)


@pytest.mark.parametrize("topics", [None, (), ("t",), ("a", "b" * 200)])
def test_the_request_is_encoded_as_kafka_python_does_and_creates_no_topic(topics: tuple[str, ...] | None) -> None:
    """Header and body are kafka-python's, byte for byte; asking for a topic must never bring it into being."""
    ours = metadata.request(topics)
    named: Any = MetadataRequest.MetadataRequestTopic
    theirs = MetadataRequest(
        version=API_VERSION,
        topics=None if topics is None else [named(version=API_VERSION, name=name) for name in topics],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    for request in (ours, theirs):
        request.with_header(correlation_id=5, client_id="client")

    assert ours.encode(framed=True, header=True) == bytes(theirs.encode(framed=True, header=True))
