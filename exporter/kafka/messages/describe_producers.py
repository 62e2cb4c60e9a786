"""DescribeProducers (KIP-664, API key 61, version 0): the request, and a decoder for its response that makes no objects.

The response, after the response header (DescribeProducersResponse.json; every length is an unsigned varint of n + 1):

    throttle_time_ms i32 | topics n+1, each:
        name compact string | partitions n+1, each:
            partition i32 | error i16 | message compact nullable string | producers n+1, each 37 bytes without tags:
                +0 producer_id i64   +8 producer_epoch i32   +12 last_sequence i32   +16 last_timestamp i64
                +24 coordinator_epoch i32   +28 current_txn_start_offset i64   +36 tagged fields, uvarint count, 0 so far
            | tagged fields
        | tagged fields
    | tagged fields

`decode` finds where each partition begins (`producers_layout`), and then numpy reads the sign byte of every start offset:
only open transactions are unpacked, or all entries of certain producers. No length is used before the bytes after it are
there.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from exporter.kafka.messages.producers_layout import ENTRIES, Layout, tags_of, walk
from exporter.kafka.messages.raw_request import RawRequest
from exporter.kafka.messages.response import STRING, Fields, decode_response, unaligned_view
from exporter.kafka.messages.versions import DESCRIBE_PRODUCERS
from exporter.primitives import (
    MalformedBytesError,
    compact,
    uvarint,
)
from exporter.snapshot import ENTRY_FIELDS, Int16Column, Int32Column, ProducerEntries

FIELDS: Final[Mapping[int, Fields]] = {
    version: (4, (STRING, (6, STRING, (tags_of(entry),)))) for version, entry in ENTRIES.items()
}
"""Version of the API -> as drawn above."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ProducersResponse(ProducerEntries):
    """One response as columns: P partitions, and N of their entries: open transactions, unless producers were named."""

    throttle_time_ms: int
    topics: tuple[str, ...]
    topic: Int32Column
    """(P,) index into `topics`."""
    partition: Int32Column
    error: Int16Column
    """(P,) Kafka error code."""
    producers: Int32Column
    """(P,) entries, idle and idempotent ones included."""
    entry_partition: Int32Column
    """(N,) index into the P partitions of this response."""
    layout: Layout | None
    """Layout for the next response to the same request."""


def request(partitions: Mapping[str, npt.ArrayLike]) -> RawRequest:
    """Requests the producers of `partitions`: topic -> partition indexes."""
    parts = [uvarint(len(partitions) + 1)]
    for topic, indexes in partitions.items():
        packed = np.asarray(indexes, dtype=">i4")
        parts += [compact(topic), uvarint(len(packed) + 1), packed.tobytes(), b"\0"]
    parts.append(b"\0")
    return RawRequest(DESCRIBE_PRODUCERS, b"".join(parts))


def decode(
    body: memoryview,
    producer_ids: Collection[int] | None = None,
    *,
    version: int = DESCRIBE_PRODUCERS.lowest,
    every: bool = False,
    like: Layout | None = None,
) -> ProducersResponse:
    """The columns of the response: its open transactions, the entries of `producer_ids`, or `every` entry.

    `like` is the layout of the previous response. Raises MalformedResponseError if `body` is not exactly such a response.
    """
    return decode_response(
        body,
        "DescribeProducers",
        FIELDS[version],
        lambda plain: _decode(plain, ENTRIES[version], producer_ids, every=every, like=like if plain is body else None),
    )


def _decode(
    body: memoryview, entry: np.dtype[Any], producer_ids: Collection[int] | None, *, every: bool, like: Layout | None
) -> ProducersResponse:
    bytes_ = np.frombuffer(body, dtype=np.uint8)
    # Indexing `bytes` takes half the time.
    known = None if like is None or like.entry is not entry or not like.is_of(body, bytes_) else like
    layout = known or walk(body.tobytes(), entry)
    if every:
        entry_at = layout.all_entries(bytes_)
    else:
        entry_at = layout.open_entries(bytes_) if producer_ids is None else layout.entries_of(body, producer_ids)
    if np.any(bytes_[layout.entries_at + layout.count * entry.itemsize]):
        raise MalformedBytesError("tagged fields")
    (throttle_time_ms,) = struct.unpack_from(">i", body, 0)
    rows = unaligned_view(body, entry)[entry_at]
    return ProducersResponse(
        throttle_time_ms=throttle_time_ms,
        topics=layout.topics,
        topic=np.repeat(np.arange(len(layout.topics), dtype=np.int32), layout.partitions),
        partition=unaligned_view(body, ">i4")[layout.head_at].astype(np.int32),
        error=unaligned_view(body, ">i2")[layout.head_at + 4].astype(np.int16),
        producers=layout.count,
        entry_partition=(np.searchsorted(layout.entries_at, entry_at, side="right") - 1).astype(np.int32),
        layout=layout,
        **{name: rows[name].astype(rows[name].dtype.newbyteorder("=")) for name in ENTRY_FIELDS},
    )
