"""Decodes records of `__transaction_state` (TransactionLogKey, TransactionLogValue).

The key, version 0, and the value, versions 0 and 1; big-endian, without Kafka's request framing:

    key    version i16 = 0 | transactional id: length i16, UTF-8

    value  version i16 | producer_id i64 | producer_epoch i16 | timeout_ms i32 | status i8 |
           partitions, each: topic | partition ids i32... |
           last_update_ms i64 | start_ms i64 | version 1 only: tagged fields

    version 0  strings and arrays: length i16 and i32; a null array is -1
    version 1  (KIP-915, flexible; written from transaction.version 1 on) lengths are unsigned varints of n + 1, and
               tagged fields end every structure: 0 previous producer id i64, 1 next producer id i64, 2 client
               transaction version i16, 3 next producer epoch i16; others are skipped

A record without a value is a tombstone: the coordinator has removed the id. An unknown version is data as well: a later
Kafka may write it, and it must not end the reading.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from exporter.primitives import UNREADABLE, compact_string, read_uvarint, skip_tags, tagged_field
from exporter.snapshot import TopicPartition, TransactionState

KEY_VERSION = 0
VALUE_VERSION_FLEXIBLE = 1
VALUE_VERSION_MAX = 1

_HEAD = struct.Struct(">qhib")
_TAIL = struct.Struct(">qq")
_PREVIOUS_PRODUCER_ID, _NEXT_PRODUCER_ID, _CLIENT_TRANSACTION_VERSION, _NEXT_PRODUCER_EPOCH = range(4)
_TAG_FORMATS = {
    _PREVIOUS_PRODUCER_ID: ">q",
    _NEXT_PRODUCER_ID: ">q",
    _CLIENT_TRANSACTION_VERSION: ">h",
    _NEXT_PRODUCER_EPOCH: ">h",
}


class MalformedRecordError(Exception):
    """The bytes are not such a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRecord:
    """One state of one transactional id, as its coordinator wrote it. Instants in milliseconds since 1970 UTC."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: TransactionState
    partitions: frozenset[TopicPartition]
    last_update_ms: int
    start_ms: int
    """-1 if no transaction has begun."""
    previous_producer_id: int = -1
    """Producer id of the last committed transaction, if the id differs now; -1 if the log does not show it."""
    next_producer_id: int = -1
    """Already sent to the client, which uses it when the transaction completes; -1 if there is none."""
    next_producer_epoch: int = -1
    client_transaction_version: int = 0


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The coordinator has removed a transactional id."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class StateLogRecord:
    """A record of `__transaction_state` with its place in the log."""

    log_partition: int
    offset: int
    written_at_ms: int
    content: TransactionRecord | Tombstone


@dataclass(frozen=True, slots=True)
class UnknownVersion:
    """A key or value in a version that this exporter does not know."""

    what: str
    """`key` or `value`."""
    version: int


Decoded = TransactionRecord | Tombstone | UnknownVersion


def decode(key: bytes | None, value: bytes | None) -> Decoded:
    """The contents of a record. Raises MalformedRecordError if its bytes are not exactly such a record."""
    if key is None:
        raise MalformedRecordError("a record without a key")
    try:
        return _decode(key, value)
    except UNREADABLE as error:
        raise MalformedRecordError(f"a record of {len(key)} and {len(value or b'')} bytes: {error}") from error


def _decode(key: bytes, value: bytes | None) -> Decoded:
    (version,) = struct.unpack_from(">h", key)
    if version != KEY_VERSION:
        return UnknownVersion("key", version)
    transactional_id, at = _string(key, 2)
    _ends(key, at, "key")
    if value is None:
        return Tombstone(transactional_id)
    (version,) = struct.unpack_from(">h", value)
    if not 0 <= version <= VALUE_VERSION_MAX:
        return UnknownVersion("value", version)
    return _value(transactional_id, value, is_flexible=version >= VALUE_VERSION_FLEXIBLE)


def _value(transactional_id: str, value: bytes, *, is_flexible: bool) -> TransactionRecord:
    producer_id, producer_epoch, timeout_ms, status = _HEAD.unpack_from(value, 2)
    partitions, at = _partitions(value, 2 + _HEAD.size, is_flexible=is_flexible)
    last_update_ms, start_ms = _TAIL.unpack_from(value, at)
    at += _TAIL.size
    tags: dict[int, int] = {}
    if is_flexible:
        tags, at = _tags(value, at)
    _ends(value, at, "value")
    return TransactionRecord(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timeout_ms=timeout_ms,
        status=TransactionState.numbered(status),
        partitions=partitions,
        last_update_ms=last_update_ms,
        start_ms=start_ms,
        previous_producer_id=tags.get(_PREVIOUS_PRODUCER_ID, -1),
        next_producer_id=tags.get(_NEXT_PRODUCER_ID, -1),
        next_producer_epoch=tags.get(_NEXT_PRODUCER_EPOCH, -1),
        client_transaction_version=tags.get(_CLIENT_TRANSACTION_VERSION, 0),
    )


def _partitions(value: bytes, at: int, *, is_flexible: bool) -> tuple[frozenset[TopicPartition], int]:
    found: set[TopicPartition] = set()
    topics, at = _length(value, at, is_flexible=is_flexible)
    for _ in range(topics):
        topic, at = compact_string(value, at) if is_flexible else _string(value, at)
        count, at = _length(value, at, is_flexible=is_flexible)
        end = at + 4 * count
        if end > len(value):
            raise MalformedRecordError("partition ids reach beyond the record")
        found.update((topic, partition) for partition in struct.unpack_from(f">{count}i", value, at))
        at = end
        if is_flexible:
            at = skip_tags(value, at)
    return frozenset(found), at


def _length(value: bytes, at: int, *, is_flexible: bool) -> tuple[int, int]:
    """Decodes an array's length, 0 if it is null."""
    if is_flexible:
        length, at = read_uvarint(value, at)
        length -= 1
    else:
        (length,) = struct.unpack_from(">i", value, at)
        at += 4
    if length > len(value) - at:
        raise MalformedRecordError(f"an array of {length} in a record of {len(value)} bytes")
    return max(length, 0), at


def _string(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    at += 2
    if length < 0 or at + length > len(data):
        raise MalformedRecordError("a string reaches beyond the record, or is null")
    return data[at : at + length].decode(), at + length


def _tags(value: bytes, at: int) -> tuple[dict[int, int], int]:
    """The known ones; others are skipped."""
    known: dict[int, int] = {}
    count, at = read_uvarint(value, at)
    for _ in range(count):
        tag, begin, at = tagged_field(value, at)
        form = _TAG_FORMATS.get(tag)
        if form is not None:
            if struct.calcsize(form) != at - begin:
                raise MalformedRecordError(f"tagged field {tag} has {at - begin} bytes")
            (known[tag],) = struct.unpack_from(form, value, begin)
    return known, at


def _ends(data: bytes, at: int, what: str) -> None:
    if at != len(data):
        raise MalformedRecordError(f"{len(data) - at} bytes after the end of the {what}")
