"""Fetch requests for pieces of partitions' logs, and their responses (FetchRequest.json, FetchResponse.json)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from kafka.protocol.consumer.fetch import FetchRequest

from exporter.kafka.errors import ErrorCode, MalformedResponseError

MEGABYTE = 1_048_576
PIECE_BYTES = MEGABYTE
COMMITTED_PIECE_BYTES = MEGABYTE // 8
_READ_COMMITTED = 1
_VERSION_MIN = 4
_VERSION_MAX = 12
"""Later versions name topics by id."""


class Position(NamedTuple):
    """Place where the reading of a partition continues."""

    offset: int
    leader_epoch: int = -1
    """The epoch of the record before it; -1 if it is unknown."""


def request(
    topic: str,
    positions: Mapping[int, Position],
    *,
    wait_ms: int = 0,
    is_committed: bool = False,
    bytes_max: int | None = None,
) -> Any:
    """Requests the pieces of a topic that begin at these positions, by partition; the leader may wait for records.

    `is_committed`: as a reader of committed records, whose smaller pieces end at the last stable offset. `bytes_max` is
    another size of a piece.
    """
    bytes_max = bytes_max or (COMMITTED_PIECE_BYTES if is_committed else PIECE_BYTES)
    topic_type = FetchRequest.FetchTopic
    wanted = [
        topic_type.FetchPartition(
            partition=partition,
            fetch_offset=position.offset,
            last_fetched_epoch=position.leader_epoch,
            partition_max_bytes=bytes_max,
        )
        for partition, position in positions.items()
    ]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1 if wait_ms else 0,
        max_bytes=bytes_max,
        isolation_level=_READ_COMMITTED if is_committed else 0,
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


def is_throttled(answer: Any) -> bool:
    """True for a response without partitions: the client is over its quota, and has to wait (KIP-219)."""
    return not answer.responses and answer.throttle_time_ms > 0


def fetched(answer: Any) -> tuple[int, bytes, int]:
    """(error code, records, high watermark) of the one partition. Raises MalformedResponseError."""
    if is_throttled(answer):
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED, b"", -1
    partitions = [partition for topic in answer.responses for partition in topic.partitions]
    if len(partitions) != 1:
        raise MalformedResponseError(f"one partition was requested, and it has {len(partitions)}")
    (response,) = partitions
    return int(response.error_code), bytes(response.records or b""), int(response.high_watermark)


class AbortedTransaction(NamedTuple):
    """A transaction of a fetched piece that was aborted."""

    producer_id: int
    first_offset: int


def fetched_aborted(answer: Any) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions with records in the pieces of a response to a reader of committed records."""
    return tuple(
        AbortedTransaction(int(each.producer_id), int(each.first_offset))
        for topic in answer.responses
        for partition in topic.partitions
        for each in partition.aborted_transactions or ()
    )
