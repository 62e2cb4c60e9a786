"""Makes a batch of records as producers and coordinators write it, by kafka-python, and has it read."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

from kafka.record.default_records import DefaultRecordBatchBuilder

from exporter.kafka.collect.log_reader import LogBudget, LogReader, TakeBatch

GZIP: Final = 1
CONTROL: Final = 0x20
LOG_APPEND_TIME: Final = 0x08
_ATTRIBUTES_AT: Final = 22

Row = tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes]]]
"""Timestamp in milliseconds, key, value and headers."""


def log_batch(
    rows: Iterable[Row],
    *,
    base_offset: int = 0,
    compression: int = 0,
    producer: tuple[int, int] | None = None,
    attributes: int = 0,
) -> bytes:
    """`producer` is the id and epoch of a transaction's; `attributes` are added to those that follow from the rest.

    The checksum is that of a batch without added attributes: the exporter does not check it.
    """
    producer_id, epoch = producer or (-1, -1)
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=producer is not None,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=-1 if producer is None else 0,
        batch_size=2**30,
    )
    for number, (timestamp_ms, key, value, headers) in enumerate(rows):
        builder.append(number, timestamp_ms, key, value, list(headers))
    whole = bytearray(builder.build())
    whole[:8] = base_offset.to_bytes(8, "big")  # the checksum does not cover the offset
    whole[_ATTRIBUTES_AT] |= attributes
    return bytes(whole)


def values_batch(base_offset: int, *values: bytes, compression: int = 0) -> bytes:
    """A batch with a record for each value."""
    return log_batch(((1, b"k", value, ()) for value in values), base_offset=base_offset, compression=compression)


def reader_into(take_batch: TakeBatch, offset: int = 0) -> LogReader:
    """A reader without a broker: a test hands it the pieces."""
    no_client: Any = None
    return LogReader(no_client, 1, ("orders", 1), offset, take_batch, LogBudget(0))


def batch(offset: int, *, producer_id: int = 7, epoch: int = 3, control: int | None = None) -> bytes:
    """One record at `offset`; with `control` a control record of that type."""
    key = b"k" if control is None else struct.pack(">hh", 0, control)
    return log_batch(
        [(1000 + offset, key, b"value", ())],
        base_offset=offset,
        producer=(producer_id, epoch),
        attributes=0 if control is None else CONTROL,
    )


ABORT, COMMIT, KRAFT_LEADER_CHANGE = 0, 1, 2
