"""The records of a batch: the exporter's decoder and kafka-python's agree; damaged and compressed ones are refused."""

from __future__ import annotations

import contextlib
import gzip
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords

from exporter.kafka.errors import MalformedResponseError
from exporter.kafka.messages.log_batches import Record, batches, records_in
from tests.kafka.log_batch import GZIP, log_batch

BYTES = st.none() | st.binary(max_size=300)
RECORDS = st.lists(st.tuples(st.integers(0, 2**45), BYTES, BYTES), min_size=1, max_size=20)
HEADERS = [("name", b"value"), ("", b"")]


def built(records: list[tuple[int, bytes | None, bytes | None]], *, headers: bool = False) -> bytes:
    return log_batch((*record, HEADERS if headers else ()) for record in records)


def decoded(data: bytes) -> list[Record]:
    return [record for batch in batches(data) for record in records_in(batch, data)]


@given(records=RECORDS, headers=st.booleans())
@example(records=[(0, None, None)], headers=False)
@example(records=[(2**45, b"k" * 63, b"v" * 64), (0, b"", b"")], headers=True)
def test_both_decoders_agree(*, records: list[tuple[int, bytes | None, bytes | None]], headers: bool) -> None:
    data = built(records, headers=headers)
    by_kafka_python = [
        Record(record.offset, record.timestamp, record.key, record.value) for record in MemoryRecords(data).next_batch()
    ]

    assert decoded(data) == by_kafka_python
    assert [record[1:] for record in by_kafka_python] == records


@given(RECORDS, st.integers(61, 10_000), st.integers(0, 255))
def test_a_damaged_record_is_decoded_or_refused(
    records: list[tuple[int, bytes | None, bytes | None]], at: int, byte: int
) -> None:
    """Never another error, and never bytes of outside of the batch."""
    data = bytearray(built(records))
    data[at % (len(data) - 61) + 61] = byte
    with contextlib.suppress(MalformedResponseError):
        assert all(len(record.key or b"") + len(record.value or b"") < len(data) for record in decoded(bytes(data)))


@pytest.mark.parametrize("count", [2, 2**31 - 1])
def test_more_records_than_bytes_are_refused(count: int) -> None:
    data = bytearray(built([(0, b"k", b"v")]))
    data[57:61] = count.to_bytes(4, "big")
    with pytest.raises(MalformedResponseError):
        decoded(bytes(data))


def test_a_compressed_batch_is_not_unpacked() -> None:
    """260 kB that would take 268 MB."""
    data = bytearray(built([(0, b"k", b"v")]))[:61]
    data[21:23] = GZIP.to_bytes(2, "big")
    bomb = gzip.compress(bytes(2**28))
    data[8:12] = (len(data) - 12 + len(bomb)).to_bytes(4, "big")
    whole = bytes(data + bomb)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedResponseError, match="compressed"):
            decoded(whole)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
