"""Fetch requests for a piece of one partition's log, and their responses."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer.fetch import FetchRequest

from exporter.kafka.errors import MalformedAnswerError

MEGABYTE = 1_048_576
PIECE_BYTES = MEGABYTE
_VERSION_MIN = 4
_VERSION_MAX = 12
"""Later versions name topics by id."""


def piece_request(topic: str, partition: int, offset: int) -> Any:
    """A request for the piece of the log that begins at `offset`."""
    topic_type = FetchRequest.FetchTopic
    wanted = topic_type.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=PIECE_BYTES)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=PIECE_BYTES,
        topics=[topic_type(topic=topic, partitions=[wanted])],
        forgotten_topics_data=[],
        min_version=_VERSION_MIN,
        max_version=_VERSION_MAX,
    )


def fetched(answer: Any) -> tuple[int, bytes, int]:
    """(error code, records, high watermark) of the one partition. Raises MalformedAnswerError."""
    partitions = [partition for topic in answer.responses for partition in topic.partitions]
    if len(partitions) != 1:
        raise MalformedAnswerError(f"it has {len(partitions)} partitions, and one was requested")
    (response,) = partitions
    return int(response.error_code), bytes(response.records or b""), int(response.high_watermark)
