"""Makes a batch of records as producers write it, by kafka-python."""

from __future__ import annotations

from kafka.record.default_records import DefaultRecordBatchBuilder

GZIP = 1


def log_batch(base_offset: int, *values: bytes, compression: int = 0) -> bytes:
    """With a record for each value."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=2**30,
    )
    for offset, value in enumerate(values):
        builder.append(offset, timestamp=1, key=b"k", value=value, headers=[])
    whole = bytearray(builder.build())
    whole[:8] = base_offset.to_bytes(8, "big")  # its checksum does not cover the offset
    return bytes(whole)
