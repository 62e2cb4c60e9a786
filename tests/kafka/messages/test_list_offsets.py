"""The exporter's decoder of ListOffsets and kafka-python's agree; damaged bytes are refused."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kafka.protocol.consumer.offsets import ListOffsetsRequest, ListOffsetsResponse

from exporter.kafka.messages import list_offsets
from exporter.kafka.messages.list_offsets import Offsets, decode
from exporter.kafka.messages.versions import LIST_OFFSETS
from exporter.primitives import compact, uvarint
from tests.kafka.two_decoders import TwoDecoders

API_VERSION = LIST_OFFSETS.highest

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ROWS = st.tuples(INT32, st.integers(-(2**15), 2**15 - 1), INT64, INT64, INT32)
TOPICS = st.lists(st.tuples(TEXT, st.lists(ROWS, max_size=5)), max_size=4)
Topics = list[tuple[str, list[tuple[int, int, int, int, int]]]]
"""(name, rows of (partition, error, timestamp, offset, leader epoch))."""
SMALL: Topics = [("first", [(0, 0, -1, 55, 3), (1, 6, -1, -1, -1)]), ("second", [(7, 0, 1_700_000_000_000, 2**40, 0)])]


def by_kafka_python(topics: Topics) -> bytes:
    topic_type = ListOffsetsResponse.ListOffsetsTopicResponse
    row_type = topic_type.ListOffsetsPartitionResponse
    answer = ListOffsetsResponse(
        version=API_VERSION,
        topics=[
            topic_type(
                version=API_VERSION,
                name=name,
                partitions=[
                    row_type(
                        version=API_VERSION,
                        partition_index=index,
                        error_code=error,
                        timestamp=timestamp,
                        offset=offset,
                        leader_epoch=epoch,
                    )
                    for index, error, timestamp, offset, epoch in rows
                ],
            )
            for name, rows in topics
        ],
    )
    return bytes(answer.encode())


def by_hand(topics: Topics, tags: Callable[[], bytes]) -> bytes:
    """The response's body, field by field, with `tags()` at the end of every structure."""
    parts = [struct.pack(">i", 0), uvarint(len(topics) + 1)]
    for name, rows in topics:
        parts += [compact(name), uvarint(len(rows) + 1)]
        for row in rows:
            parts += [struct.pack(">ihqqi", *row), tags()]
        parts.append(tags())
    return b"".join([*parts, tags()])


def expected(topics: Topics) -> Offsets:
    return {(name, index): (error, offset) for name, rows in topics for index, error, _, offset, _ in rows}


def by_oracle(body: bytes) -> Offsets:
    """As kafka-python reads it."""
    topics = ListOffsetsResponse.decode(body, version=API_VERSION).topics
    return {
        (topic.name, part.partition_index): (part.error_code, part.offset)
        for topic in topics
        for part in topic.partitions
    }


DECODERS = TwoDecoders(decode, by_oracle)


@given(TOPICS)
@example(SMALL)
def test_a_response_encoded_by_kafka_python_decodes_to_its_offsets(topics: Topics) -> None:
    """Error and offset of every partition."""
    assert decode(memoryview(by_kafka_python(topics))) == expected(topics)


@given(TOPICS, st.data())
def test_tagged_fields_anywhere_are_stepped_over(topics: Topics, data: st.DataObject) -> None:
    """Additions of a later Kafka change nothing of what is read."""
    tags = st.sampled_from([b"\0", b"\1\0\1x", b"\2\0\0\x81\1\3abc"])
    assert decode(memoryview(by_hand(topics, lambda: data.draw(tags)))) == expected(topics)


@pytest.mark.parametrize("tags", [b"\0", b"\1\0\1x"], ids=["plain", "tagged"])
def test_damaged_responses_are_refused_or_read_alike(tags: bytes) -> None:
    """Cut anywhere or prolonged it is refused; whatever bit is wrong, it is refused or read as kafka-python does."""
    body = by_hand(SMALL, lambda: tags)
    DECODERS.hold_to_the_byte(body, (b"\0", bytes(27)))
    DECODERS.flip_every_bit(body)


@given(st.dictionaries(TEXT, st.lists(st.integers(0, 2**31 - 1), max_size=5), max_size=4), st.integers(0, 1), INT64)
def test_the_request_is_encoded_as_kafka_python_does(
    partitions: dict[str, list[int]], isolation_level: int, timestamp_ms: int
) -> None:
    """Header and body are kafka-python's, byte for byte."""
    ours = list_offsets.request(partitions, isolation_level, timestamp_ms)
    topic_type = ListOffsetsRequest.ListOffsetsTopic
    row_type = topic_type.ListOffsetsPartition
    theirs = ListOffsetsRequest(
        version=API_VERSION,
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[
            topic_type(
                version=API_VERSION,
                name=name,
                partitions=[
                    row_type(
                        version=API_VERSION, partition_index=index, current_leader_epoch=-1, timestamp=timestamp_ms
                    )
                    for index in indexes
                ],
            )
            for name, indexes in partitions.items()
        ],
    )
    for request in (ours, theirs):
        request.with_header(correlation_id=5, client_id="client")

    assert ours.encode(framed=True, header=True) == bytes(theirs.encode(framed=True, header=True))
