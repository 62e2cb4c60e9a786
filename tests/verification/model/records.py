"""Makes record batches for Fetch: magic v2, without checksums, which no reader checks; each made once."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache

from tests.verification.model.logs import Batch

_HEADER = struct.Struct(">qiibIhiqqqhii")
_MAGIC = 2
_IS_TRANSACTIONAL, _IS_CONTROL = 0x10, 0x20


def records_of(batches: Iterable[Batch], offset: int, bytes_max: int) -> bytes:
    """The batches from `offset` on that fit, and one at least."""
    parts: list[bytes] = []
    weight = 0
    for batch in batches:
        if batch.offset < offset:
            continue
        if parts and weight + batch.weight > bytes_max:
            break
        weight += batch.weight
        parts.append(_encoded(batch))
    return b"".join(parts)


@lru_cache(maxsize=20_000)
def _encoded(batch: Batch) -> bytes:
    key, value = b"k", b"v"
    attributes = _IS_TRANSACTIONAL if batch.producer_id >= 0 else 0
    if batch.kind != "data":
        attributes |= _IS_CONTROL
        key = struct.pack(">hh", 0, 1 if batch.kind == "commit" else 0)
        value = struct.pack(">hi", 0, batch.coordinator_epoch)
    body = b"\0" + _varint(0) + _varint(0) + _varint(len(key)) + key + _varint(len(value)) + value + _varint(0)
    record = _varint(len(body)) + body
    size = _HEADER.size - 12 + len(record)
    head = _HEADER.pack(
        batch.offset,
        size,
        0,
        _MAGIC,
        0,
        attributes,
        0,
        batch.timestamp_ms,
        batch.timestamp_ms,
        batch.producer_id,
        batch.epoch,
        batch.sequence,
        1,
    )
    return head + record


def _varint(number: int) -> bytes:
    """Zigzag; every number here is small."""
    value = number << 1
    assert 0 <= value < 128
    return bytes((value,))
