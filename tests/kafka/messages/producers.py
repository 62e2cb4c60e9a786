"""Encodes DescribeProducers responses by hand and by kafka-python, and compares what decoders make of them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin.transactions import DescribeProducersResponse

from exporter.kafka.messages.describe_producers import ProducersResponse
from exporter.primitives import compact, uvarint

Entry = tuple[int, int, int, int, int, int]
"""(producer id, epoch, last sequence, last timestamp, coordinator epoch, start offset), in the order of the wire."""


@dataclass(frozen=True)
class Row:
    """One partition of a response."""

    index: int
    error: int
    message: str | None
    entries: tuple[Entry, ...]


Topics = list[tuple[str, list[Row]]]


def by_kafka_python(topics: Topics, throttle_time_ms: int) -> bytes:
    """The response's body as kafka-python encodes it."""
    topic_type = DescribeProducersResponse.TopicResponse
    partition_type = topic_type.PartitionResponse
    answer = DescribeProducersResponse(
        version=0,
        throttle_time_ms=throttle_time_ms,
        topics=[
            topic_type(
                version=0,
                name=name,
                partitions=[
                    partition_type(
                        version=0,
                        partition_index=row.index,
                        error_code=row.error,
                        error_message=row.message,
                        active_producers=[partition_type.ProducerState(*entry, version=0) for entry in row.entries],
                    )
                    for row in partitions
                ],
            )
            for name, partitions in topics
        ],
    )
    return bytes(answer.encode())


def columns(answer: ProducersResponse) -> tuple[Any, ...]:
    """The same, from a response's columns."""
    partitions = (answer.topic, answer.partition, answer.error, answer.producers)
    entries = answer.columns().values()
    return (
        answer.throttle_time_ms,
        answer.topics,
        list(zip(*(column.tolist() for column in partitions), strict=True)),
        list(
            zip(
                answer.entry_partition.tolist(),
                zip(*(column.tolist() for column in entries), strict=True),
                strict=True,
            )
        ),
    )


def by_hand(topics: Topics, throttle_time_ms: int, tags: Callable[[], bytes]) -> bytes:
    """The response's body, field by field, with `tags()` at the end of every structure."""
    parts = [struct.pack(">i", throttle_time_ms), uvarint(len(topics) + 1)]
    for name, partitions in topics:
        parts += [compact(name), uvarint(len(partitions) + 1)]
        for row in partitions:
            parts += [struct.pack(">ih", row.index, row.error)]
            parts += [b"\0" if row.message is None else compact(row.message), uvarint(len(row.entries) + 1)]
            for entry in row.entries:
                parts += [struct.pack(">qiiqiq", *entry), tags()]
            parts.append(tags())
        parts.append(tags())
    return b"".join([*parts, tags()])


def no_tags() -> bytes:
    return b"\0"
