"""The decoder of `__transaction_state` against an encoder written for this test, and against bytes that make no sense."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.snapshot import TransactionState
from exporter.transaction_log.records import (
    MalformedRecordError,
    Tombstone,
    TransactionRecord,
    UnknownVersion,
    decode,
)
from tests.transaction_log.builders import key_of, value_of

INT64 = st.integers(-(2**63), 2**63 - 1)
INT16 = st.integers(-(2**15), 2**15 - 1)
TEXT = st.text(max_size=20)
PARTITIONS = st.frozensets(st.tuples(TEXT, st.integers(0, 2**31 - 1)), max_size=8)

RECORDS = st.builds(
    TransactionRecord,
    transactional_id=TEXT,
    producer_id=INT64,
    producer_epoch=INT16,
    timeout_ms=st.integers(-(2**31), 2**31 - 1),
    status=st.sampled_from([status for status in TransactionState if status is not TransactionState.UNKNOWN]),
    partitions=PARTITIONS,
    last_update_ms=INT64,
    start_ms=INT64,
)
FLEXIBLE = st.builds(
    lambda record, **tags: TransactionRecord(**{**as_fields(record), **tags}),
    RECORDS,
    previous_producer_id=INT64,
    next_producer_id=INT64,
    next_producer_epoch=INT16,
    client_transaction_version=INT16,
)


def as_fields(record: TransactionRecord) -> dict[str, object]:
    return {name: getattr(record, name) for name in TransactionRecord.__dataclass_fields__}


@given(RECORDS)
def test_version_0_is_read_back(record: TransactionRecord) -> None:
    """Every field that it has; those of version 1 are at their defaults."""
    assert decode(key_of(record.transactional_id), value_of(record, flexible=False)) == record


@given(FLEXIBLE, st.dictionaries(st.integers(4, 300), st.binary(max_size=200), max_size=3))
def test_version_1_is_read_back_with_unknown_tags(record: TransactionRecord, tags: dict[int, bytes]) -> None:
    """Tagged fields of a later Kafka are stepped over."""
    assert decode(key_of(record.transactional_id), value_of(record, flexible=True, more_tags=tags)) == record


def test_null_partitions_are_none() -> None:
    """As the log has them while nothing is open, in both versions."""
    head, tail = struct.pack(">qhib", 7, 3, 60_000, 0), struct.pack(">qq", 5, -1)

    for value in (b"\0\0" + head + b"\xff\xff\xff\xff" + tail, b"\0\1" + head + b"\0" + tail + b"\0"):
        record = decode(key_of("app"), value)
        assert isinstance(record, TransactionRecord)
        assert (record.partitions, record.start_ms, record.status) == (frozenset(), -1, TransactionState.EMPTY)


def test_what_is_not_known_is_data() -> None:
    """A tombstone, keys and values of other versions, a status of a later Kafka."""
    assert decode(key_of("app"), None) == Tombstone("app")
    assert decode(key_of("app", version=1), b"whatever") == UnknownVersion("key", 1)
    assert decode(key_of("app"), b"\0\2whatever") == UnknownVersion("value", 2)
    assert decode(key_of("app"), b"\xff\xffwhatever") == UnknownVersion("value", -1)
    later = decode(key_of("app"), b"\0\0" + struct.pack(">qhibiqq", 7, 3, 1, 99, 0, 5, 5))
    assert isinstance(later, TransactionRecord)
    assert later.status is TransactionState.UNKNOWN


EXAMPLE = TransactionRecord(
    transactional_id="billing-7",
    producer_id=4001,
    producer_epoch=3,
    timeout_ms=60_000,
    status=TransactionState.ONGOING,
    partitions=frozenset({("orders", 0), ("orders", 7), ("bills", 1)}),
    last_update_ms=1_800_000_000_100,
    start_ms=1_800_000_000_000,
    previous_producer_id=4000,
    client_transaction_version=2,
)


def refused(key: bytes | None, value: bytes | None) -> bool:
    """True for MalformedRecordError; anything else that is raised fails the test."""
    try:
        decode(key, value)
    except MalformedRecordError:
        return True
    return False


@pytest.mark.parametrize("flexible", [False, True], ids=["version 0", "version 1"])
def test_every_cut_and_every_addition_is_refused(*, flexible: bool) -> None:
    """A record is read to its last byte, or not at all."""
    key, value = key_of("billing-7"), value_of(EXAMPLE, flexible=flexible)

    assert not refused(key, value)
    assert all(refused(key, value[:length]) for length in range(len(value)))
    assert all(refused(key[:length], value) for length in range(len(key)))
    assert refused(key, value + b"\0")
    assert refused(key + b"\0", value)
    assert refused(None, value)


@pytest.mark.parametrize("flexible", [False, True], ids=["version 0", "version 1"])
def test_every_flipped_bit_is_a_record_or_refused(*, flexible: bool) -> None:
    """Nothing else is raised, and lengths that are wild cost nothing."""
    key, value = key_of("billing-7"), value_of(EXAMPLE, flexible=flexible)

    outcomes = set()
    for bit in range(len(value) * 8):
        damaged = bytearray(value)
        damaged[bit // 8] ^= 1 << bit % 8
        outcomes.add(refused(key, bytes(damaged)))
    assert outcomes == {True, False}


@given(st.binary(max_size=60), st.one_of(st.none(), st.binary(max_size=120)))
def test_any_bytes_are_a_record_or_refused(key: bytes, value: bytes | None) -> None:
    """Any content of the log."""
    refused(key, value)
