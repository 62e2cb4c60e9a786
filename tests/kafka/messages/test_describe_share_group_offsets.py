"""The request and the decoder of DescribeShareGroupOffsets: what a broker sent, and damaged bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable

from hypothesis import example, given
from hypothesis import strategies as st

from exporter.kafka.errors import MalformedResponseError
from exporter.kafka.messages.describe_share_group_offsets import ShareOffset, decode, request
from exporter.primitives import compact, uvarint
from tests.kafka.two_decoders import assert_refused_for_little

RECORDED = (
    b'\0\0\0\0\x03\x03rc\x02\x05jobs\xb2\x1d\xdb#\xec\nFV\x8e\x1c\xbe\xac05\xa4"\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
    b"\0\x07\0\0\0\0\0\0\0\x01\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0"
    b"\x08classic\x01\0\0\0\0\0"
)
"""From Kafka 4.3.1: share group rc has read jobs-0 up to offset 4 of 11, and a classic group has nothing."""
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
ROWS = st.lists(
    st.builds(
        ShareOffset, TEXT, TEXT.filter(bool), st.integers(-(2**31), 2**31 - 1), INT64, INT64, st.integers(-1, 120)
    ),
    max_size=5,
)
SMALL = [ShareOffset("g", "orders", 3, 7, 2**40, 0), ShareOffset("h", "", -1, -1, -1, 30)]


def by_hand(rows: list[ShareOffset], tags: Callable[[], bytes]) -> bytes:
    """A body with a group for each row, and `tags()` at the end of every structure."""
    parts = [struct.pack(">i", 0), uvarint(len(rows) + 1)]
    for row in rows:
        parts += [compact(row.group), uvarint(2 if row.topic else 1)]
        if row.topic:
            where = struct.pack(">iqiq", row.partition, row.start_offset, 5, row.lag)
            parts += [
                compact(row.topic),
                bytes(16),
                uvarint(2),
                where,
                struct.pack(">h", row.error),
                b"\0",
                tags(),
                tags(),
            ]
        parts += [struct.pack(">h", 0 if row.topic else row.error), compact("why"), tags()]
    return b"".join([*parts, tags()])


def is_read(body: bytes) -> bool:
    """False if the decoder refuses; any other exception fails."""
    try:
        decode(memoryview(body))
    except MalformedResponseError:
        return False
    return True


def test_the_request_is_one_that_a_broker_has_answered() -> None:
    """Partitions by topic, or null for all; the bytes were sent to Kafka 4.3.1."""
    some = request(["rc"], [("jobs", 0), ("jobs", 1), ("nosuch", 0)])
    everything = request(["rc", "classic"], None)

    assert some._body == (b"\x02\x03rc\x03\x05jobs\x03\0\0\0\0\0\0\0\x01\0\x07nosuch\x02\0\0\0\0\0\0\0")
    assert everything._body == b"\x03\x03rc\0\0\x08classic\0\0\0"


def test_a_recorded_response_is_read() -> None:
    assert decode(memoryview(RECORDED)) == [
        ShareOffset("rc", "jobs", 0, 0, 7, 0),
        ShareOffset("rc", "jobs", 1, -1, -1, 0),
    ]


@given(ROWS)
@example(SMALL)
def test_every_row_and_every_error_is_read(rows: list[ShareOffset]) -> None:
    """A later Kafka may add tagged fields: the rows are the same with them and without."""
    for tags in (lambda: b"\0", lambda: b"\1\0\1x"):
        assert decode(memoryview(by_hand(rows, tags))) == rows


def test_a_response_is_read_to_the_byte() -> None:
    """Not one byte of it may be missing, nor one too many, and no length makes the decoder reserve memory."""
    for body in (RECORDED, by_hand(SMALL, lambda: b"\0")):
        assert is_read(body)
        assert not any(is_read(body[:end]) for end in range(len(body)))
        assert not is_read(body + b"\0")
    assert_refused_for_little(decode, b"\0\0\0\0\xff\xff\xff\xff\x0f")
