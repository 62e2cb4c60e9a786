"""The exporter's decoder, kafka-python and kio read the same response alike; hostile bytes are refused."""

from __future__ import annotations

import io
import struct
import sys
from dataclasses import fields
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kafka.protocol.admin.transactions import DescribeProducersRequest, DescribeProducersResponse

from exporter.kafka.messages import describe_producers, producers_layout
from exporter.kafka.messages.describe_producers import FIELDS, ProducersResponse, decode
from exporter.kafka.messages.producers_layout import ENTRY_BYTES
from exporter.kafka.messages.response import without_tags
from exporter.primitives import compact, uvarint
from exporter.snapshot import ENTRY_FIELDS
from tests.kafka.messages.producers import Row, Topics, by_hand, by_kafka_python, columns, no_tags
from tests.kafka.two_decoders import TwoDecoders, assert_refused_for_little

if sys.version_info >= (3, 11):
    from kio.schema.describe_producers.v0 import response as kio_response
    from kio.schema.errors import ErrorCode as KioErrorCode
    from kio.schema.types import ProducerId, TopicName
    from kio.serial import entity_writer
    from kio.static.primitive import i32, i32Timedelta, i64

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT16 = st.integers(-(2**15), 2**15 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


START_OFFSETS = st.one_of(st.sampled_from([-1, 0, 1, -(2**63), 2**63 - 1]), INT64)
ENTRIES = st.tuples(INT64, INT32, INT32, INT64, INT32, START_OFFSETS)
# Beyond 127 producers the length takes two bytes.
MANY = st.integers(126, 130).map(lambda count: tuple((i, 0, 0, 0, -1, i % 3 - 1) for i in range(count)))
PARTITIONS = st.builds(
    Row,
    index=INT32,
    error=st.one_of(st.just(0), INT16),
    message=st.one_of(st.none(), TEXT),
    entries=st.one_of(st.lists(ENTRIES, max_size=6).map(tuple), MANY),
)
TOPICS = st.lists(st.tuples(TEXT, st.lists(PARTITIONS, max_size=4)), max_size=4)


def expected(
    topics: Topics, throttle_time_ms: int, producer_ids: set[int] | None = None, *, every: bool = False
) -> tuple[Any, ...]:
    """The expected columns, worked out without any decoder."""
    numbered = [(i, p) for i, (_, partitions) in enumerate(topics) for p in partitions]
    entries = [(i, entry) for i, (_, p) in enumerate(numbered) for entry in p.entries]
    picked = [
        indexed
        for indexed in entries
        if every or (indexed[1][5] >= 0 if producer_ids is None else indexed[1][0] in producer_ids)
    ]
    return (
        throttle_time_ms,
        tuple(name for name, _ in topics),
        [(topic, p.index, p.error, len(p.entries)) for topic, p in numbered],
        picked,
    )


def by_oracle(body: bytes) -> tuple[Any, ...]:
    """The expected columns, as kafka-python reads the response."""
    response = DescribeProducersResponse.decode(body, version=0)
    topics = [
        (
            topic.name,
            [
                Row(
                    partition.partition_index,
                    partition.error_code,
                    partition.error_message,
                    tuple(tuple(getattr(entry, name) for name in ENTRY_FIELDS) for entry in partition.active_producers),
                )
                for partition in topic.partitions
            ],
        )
        for topic in response.topics
    ]
    return expected(topics, response.throttle_time_ms)


DECODERS = TwoDecoders(lambda body: columns(decode(body)), by_oracle)


def all_columns(answer: ProducersResponse) -> list[tuple[str, object]]:
    """Everything but the layout."""
    return [(f.name, np.asarray(getattr(answer, f.name)).tolist()) for f in fields(answer) if f.name != "layout"]


def twice(body: bytes, producer_ids: set[int] | None = None, *, every: bool = False) -> ProducersResponse:
    """The columns of `body`, which must be the same where it is laid out as the last response."""
    answer = decode(memoryview(body), producer_ids, every=every)
    assert all_columns(decode(memoryview(body), producer_ids, every=every, like=answer.layout)) == all_columns(answer)
    return answer


@given(TOPICS, INT32)
@example([("t", [Row(0, 0, None, ((1, 0, 0, 0, -1, 0), (2, 0, 0, 0, -1, -1)))])], 0)
def test_a_response_encoded_by_kafka_python_decodes_to_its_columns(topics: Topics, throttle_time_ms: int) -> None:
    """Every field of every open transaction, in order; entries that are not open are only counted."""
    assert columns(twice(by_kafka_python(topics, throttle_time_ms))) == expected(topics, throttle_time_ms)


@given(TOPICS, st.data())
@example([("t", [Row(0, 0, None, ((1, 0, 0, 0, -1, 0), (2, 0, 0, 0, -1, -1)))])], None)
def test_the_entries_of_named_producers_are_picked_open_or_not(topics: Topics, data: st.DataObject | None) -> None:
    """With producer ids, all of their entries and no others."""
    there = sorted({entry[0] for _, partitions in topics for partition in partitions for entry in partition.entries})
    some = st.sets(st.sampled_from(there)) if there else st.just(set[int]())
    producer_ids = {2, 77} if data is None else data.draw(some) | {77}

    assert columns(twice(by_kafka_python(topics, 0), producer_ids)) == expected(topics, 0, producer_ids)


@given(TOPICS)
def test_every_entry_is_picked_for_a_single_partition(topics: Topics) -> None:
    """Idle ones included, as the command line shows them."""
    assert columns(twice(by_kafka_python(topics, 0), every=True)) == expected(topics, 0, every=True)


if sys.version_info >= (3, 11):

    def by_kio(topics: Topics, throttle_time_ms: int) -> bytes:
        answer = kio_response.DescribeProducersResponse(
            throttle_time=i32Timedelta.parse(timedelta(milliseconds=throttle_time_ms)),
            topics=tuple(
                kio_response.TopicResponse(
                    name=TopicName(name),
                    partitions=tuple(
                        kio_response.PartitionResponse(
                            partition_index=i32(partition.index),
                            error_code=KioErrorCode(partition.error),
                            error_message=partition.message,
                            active_producers=tuple(
                                kio_response.ProducerState(
                                    producer_id=ProducerId(i64(entry[0])),
                                    producer_epoch=i32(entry[1]),
                                    last_sequence=i32(entry[2]),
                                    last_timestamp=i64(entry[3]),
                                    coordinator_epoch=i32(entry[4]),
                                    current_txn_start_offset=i64(entry[5]),
                                )
                                for entry in partition.entries
                            ),
                        )
                        for partition in partitions
                    ),
                )
                for name, partitions in topics
            ),
        )
        buffer = io.BytesIO()
        entity_writer(kio_response.DescribeProducersResponse)(buffer, answer)
        return buffer.getvalue()

else:

    def by_kio(topics: Topics, throttle_time_ms: int) -> bytes:
        raise NotImplementedError("kio needs Python 3.11 or newer")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="kio needs Python 3.11 or newer")
@given(TOPICS, st.integers(0, 2**31 - 1), st.sampled_from([0, 3, 6, 29, 56]))
def test_a_response_encoded_by_kio_decodes_to_its_columns(topics: Topics, throttle_time_ms: int, error: int) -> None:
    """A second, independent encoder of Kafka's own schema gives the same columns."""
    known = [(name, [Row(p.index, error, p.message, p.entries) for p in rows]) for name, rows in topics]

    assert columns(twice(by_kio(known, throttle_time_ms))) == expected(known, throttle_time_ms)


# Tagged fields as a later Kafka may add them: none, a short one, several, a long one whose size takes two bytes.
TAGS = st.sampled_from([b"\0", b"\1\0\1x", b"\2\0\0\x81\1\3abc", b"\1\7" + b"\x90\1" + bytes(144)])


@given(TOPICS, st.data())
def test_tagged_fields_anywhere_are_stepped_over(topics: Topics, data: st.DataObject) -> None:
    """Tagged fields on entries, partitions, topics and the response change nothing of what is read."""

    def tags() -> bytes:
        return data.draw(TAGS)

    body = by_hand(topics, 7, tags)
    assert without_tags(body, FIELDS[0]) == by_hand(topics, 7, no_tags)
    assert columns(twice(body)) == expected(topics, 7)


def test_bytes_built_by_hand_are_what_kafka_python_builds() -> None:
    """The helper that the hostile responses are made with writes the same bytes as kafka-python."""
    assert by_hand(SMALL, 3, no_tags) == by_kafka_python(SMALL, 3)


SMALL: Topics = [
    ("first", [Row(0, 0, None, ((1, 2, 3, 4, 5, 6), (7, 8, 9, 10, 11, -1))), Row(1, 29, "no", ())]),
    ("second", [Row(5, 0, None, ((2**40, 0, -1, -1, -1, 0),))]),
]


@pytest.mark.parametrize("body", [by_hand(SMALL, 3, no_tags), by_hand(SMALL, 3, lambda: b"\1\0\1x")])
def test_a_response_cut_short_anywhere_or_prolonged_is_refused(body: bytes) -> None:
    DECODERS.hold_to_the_byte(body, (b"\0", b"x", bytes(ENTRY_BYTES)))


@pytest.mark.parametrize("body", [by_hand(SMALL, 3, no_tags), by_hand(SMALL, 3, lambda: b"\1\0\1x")])
def test_every_flipped_bit_is_refused_or_read_alike(body: bytes) -> None:
    DECODERS.flip_every_bit(body)


def partitions_of(*producers: int, message: str | None = None) -> list[Row]:
    """Partitions with so many producers each, of which every third has something open."""
    return [
        Row(i, 0, message, tuple((n, 0, 0, 0, -1, n if n % 3 == 0 else -1) for n in range(count)))
        for i, count in enumerate(producers)
    ]


LAID_OUT: list[Topics] = [
    [],
    [("t", [])],
    SMALL,
    [("t", partitions_of(1, 0, 1, 0)), ("u", partitions_of(0, 1, 0, 1))],
    [("t", partitions_of(0, 1, 1, 0)), ("u", partitions_of(0, 1, 0, 1))],
    [("t", partitions_of(3, 3, 3)), ("u", partitions_of(3, 3, 3))],
    [("t", partitions_of(250, 250, 250, 7, 250)), ("u", partitions_of(250))],
    [("t", partitions_of(250, 250, 7, 250, 250)), ("u", partitions_of(250))],
    [("t", partitions_of(40, 40, 40, 40, 40, 40)), ("u", partitions_of(0, 40, 40, 0, 40, 40))],
    [("t", partitions_of(126, 127, 128, 129)), ("u", partitions_of(1, message="no"))],
    [("t", partitions_of(128, 127, 128, 127)), ("u", partitions_of(1, message="no"))],
]


@pytest.mark.parametrize("last", LAID_OUT)
@pytest.mark.parametrize("now", LAID_OUT)
@pytest.mark.parametrize("producer_ids", [None, {0, 1, 200}])
def test_how_the_last_response_was_laid_out_changes_nothing_in_what_is_read(
    last: Topics, now: Topics, producer_ids: set[int] | None
) -> None:
    """It may be the same, of the same length and other, or of other topics."""
    body = memoryview(by_hand(now, 3, no_tags))
    like = decode(memoryview(by_hand(last, 3, no_tags))).layout

    assert like is not None
    assert all_columns(decode(body, producer_ids, like=like)) == all_columns(decode(body, producer_ids))


@pytest.mark.parametrize("topics", [SMALL, [("t", partitions_of(1, 0, 2)), ("u", partitions_of(1, message="no"))]])
def test_every_bit_that_differs_from_the_last_response_is_seen(topics: Topics) -> None:
    """A response with any other bit than when the layout was found is read as without that layout, or refused."""
    body = by_hand(topics, 3, no_tags)
    like = decode(memoryview(body)).layout

    TwoDecoders(lambda data: columns(decode(data, like=like)), by_oracle).flip_every_bit(body)


@pytest.mark.parametrize("entry", [0, 249, 250, 499])
def test_a_tag_within_many_entries_is_seen(entry: int) -> None:
    """A byte that announces tagged fields where 500 entries lie at equal distances: read alike, or refused."""
    body = bytearray(by_hand([("t", partitions_of(250, 250))], 3, no_tags))
    like = decode(memoryview(bytes(body))).layout
    assert like is not None
    first = int(like.entries_at[entry // 250])
    size = like.entry.itemsize
    body[first + entry % 250 * size + size - 1] = 1

    assert not TwoDecoders(lambda data: columns(decode(data, like=like)), by_oracle).same_or_refused(bytes(body))
    assert not DECODERS.same_or_refused(bytes(body))


def test_a_response_that_is_laid_out_as_the_last_is_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other offsets, errors and producers, of the same lengths: the walk is not taken; with one producer more it is."""
    body = by_hand([("t", partitions_of(1, 300, 0))], 3, no_tags)
    other = by_hand(
        [("t", [*partitions_of(1), Row(1, 6, None, ((9, 9, 9, 9, 9, 9),) * 300), Row(2, 3, None, ())])], 0, no_tags
    )
    more = by_hand([("t", partitions_of(1, 301, 0))], 3, no_tags)
    like = decode(memoryview(body)).layout
    walked: list[int] = []

    def walk(body: bytes, entry: Any) -> producers_layout.Layout:
        walked.append(len(body))
        return producers_layout.walk(body, entry)

    monkeypatch.setattr(describe_producers, "walk", walk)

    assert columns(decode(memoryview(other), like=like)) == by_oracle(other)
    assert walked == []
    assert columns(decode(memoryview(more), like=like)) == by_oracle(more)
    assert walked == [len(more)]


@pytest.mark.parametrize("count", [2**28, 2**31, 2**35 - 1])
@pytest.mark.parametrize("place", ["topics", "name", "partitions", "message", "producers", "tags", "tag size"])
def test_a_hostile_length_is_refused_and_reserves_nothing(place: str, count: int) -> None:
    """A length is not used before its bytes are there: the frame bounds the memory."""
    huge, filler = uvarint(count), bytes(range(1, 200))
    to_partition = struct.pack(">i", 0) + b"\2" + compact("t") + b"\2" + struct.pack(">ih", 0, 0)
    body = {
        "topics": struct.pack(">i", 0) + huge,
        "name": struct.pack(">i", 0) + b"\2" + huge,
        "partitions": struct.pack(">i", 0) + b"\2" + compact("t") + huge,
        "message": to_partition + huge,
        "producers": to_partition + b"\0" + huge,
        "tags": to_partition + b"\0\1" + huge,
        "tag size": to_partition + b"\0\1" + b"\1\0" + huge,
    }[place] + filler

    assert_refused_for_little(decode, body)


def test_only_offsets_of_zero_or_more_are_open() -> None:
    """0 is an offset; -1 means none, and so does every other negative number."""
    starts = (0, -1, 1, -(2**63), 2**63 - 1, -2)
    topics: Topics = [("t", [Row(0, 0, None, tuple((i, 0, 0, 0, -1, start) for i, start in enumerate(starts)))])]
    answer = twice(by_kafka_python(topics, 0))

    assert answer.current_txn_start_offset.tolist() == [0, 1, 2**63 - 1]
    assert answer.producers.tolist() == [6]


def test_errors_and_their_messages_are_read() -> None:
    """An error code comes through with or without a message, also an empty and a long one."""
    messages = (None, "", "READ on the topic is missing", "é" * 200)
    topics: Topics = [("t", [Row(i, 29 + i, message, ()) for i, message in enumerate(messages)])]

    assert twice(by_kafka_python(topics, 0)).error.tolist() == [29, 30, 31, 32]


@given(st.dictionaries(TEXT, st.lists(st.integers(0, 2**31 - 1), max_size=200), max_size=5))
@example({"t": list(range(127))})
@example({"": []})
def test_the_request_is_encoded_as_kafka_python_does(partitions: dict[str, list[int]]) -> None:
    """Header and body of the exporter's request are kafka-python's, byte for byte."""
    ours = describe_producers.request(partitions)
    topic_type = DescribeProducersRequest.TopicRequest
    theirs = DescribeProducersRequest(
        version=0,
        topics=[topic_type(version=0, name=name, partition_indexes=indexes) for name, indexes in partitions.items()],
    )
    for request in (ours, theirs):
        request.with_header(correlation_id=2**31 - 1, client_id="tränsaction-exporter")

    assert ours.encode(framed=True, header=True) == bytes(theirs.encode(framed=True, header=True))
