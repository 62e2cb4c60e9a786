"""Fetch requests for pieces of partitions' logs, and their responses (FetchRequest.json, FetchResponse.json)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from kafka.protocol.consumer.fetch import FetchRequest

from exporter.kafka.errors import MalformedResponseError

MEGABYTE = 1_048_576
PIECE_BYTES = MEGABYTE
_VERSION_MIN = 4
_VERSION_MAX = 12
"""Later versions name topics by id."""


class Position(NamedTuple):
    """Place where the reading of a partition continues."""

    offset: int
    leader_epoch: int = -1
    """The epoch of the record before it; -1 if it is unknown."""


def request(topic: str, positions: Mapping[int, Position], *, wait_ms: int = 0) -> Any:
    """Requests the pieces of a topic that begin at these positions, by partition; the leader may wait for records."""
    topic_type = FetchRequest.FetchTopic
    wanted = [
        topic_type.FetchPartition(
            partition=partition,
            fetch_offset=position.offset,
            last_fetched_epoch=position.leader_epoch,
            partition_max_bytes=PIECE_BYTES,
        )
        for partition, position in positions.items()
    ]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1 if wait_ms else 0,
        max_bytes=PIECE_BYTES,
        topics=[topic_type(topic=topic, partitions=wanted)],
        forgotten_topics_data=[],
        min_version=_VERSION_MIN,
        max_version=_VERSION_MAX,
    )


class Fetched(NamedTuple):
    """Response for one partition."""

    error: int
    """Kafka's code of the error."""
    records: bytes
    high_watermark: int
    diverges_at: int | None
    """Offset from which the leader's log differs: another leader had what was read, and it was truncated (KIP-595)."""


def fetched_of_topic(answer: Any, topic: str, partitions: Collection[int]) -> Mapping[int, Fetched]:
    """Reads each partition of a response about one topic. Raises MalformedResponseError if it has others, or one twice."""
    found: dict[int, Fetched] = {}
    for of_topic in answer.responses:
        for response in of_topic.partitions:
            number = int(response.partition_index)
            if of_topic.topic != topic or number not in partitions or number in found:
                raise MalformedResponseError(
                    f"it has {of_topic.topic}-{number}, which was not requested, or has it twice"
                )
            records = bytes(response.records or b"")
            end_offset = -1 if response.diverging_epoch is None else int(response.diverging_epoch.end_offset)
            found[number] = Fetched(
                int(response.error_code),
                records,
                int(response.high_watermark),
                end_offset if end_offset >= 0 else None,
            )
    if answer.error_code:
        raise MalformedResponseError(f"it has the error {answer.error_code} as a whole")
    return found


def fetched(answer: Any) -> tuple[int, bytes, int]:
    """(error code, records, high watermark) of the one partition. Raises MalformedResponseError."""
    partitions = [partition for topic in answer.responses for partition in topic.partitions]
    if len(partitions) != 1:
        raise MalformedResponseError(f"it has {len(partitions)} partitions, and one was requested")
    (response,) = partitions
    return int(response.error_code), bytes(response.records or b""), int(response.high_watermark)
