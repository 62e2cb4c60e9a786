"""WriteTxnMarkers (API key 27, KIP-664): the request for one marker, and the error in its response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.producer.transaction import WriteTxnMarkersRequest

from exporter.kafka.errors import MalformedResponseError

TRANSACTION_VERSION = 0
"""KIP-1228: version 2 requires an epoch above the open one; an operator's marker has exactly the open epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool


def request(marker: Marker) -> Any:
    marker_type = WriteTxnMarkersRequest.WritableTxnMarker
    topic = marker_type.WritableTxnMarkerTopic(name=marker.topic, partition_indexes=[marker.partition])
    return WriteTxnMarkersRequest(
        markers=[
            marker_type(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.commit,
                topics=[topic],
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=TRANSACTION_VERSION,
            )
        ],
        min_version=1,
    )


def decode(answer: Any) -> int:
    """Kafka's error code. Raises MalformedResponseError."""
    codes = [row.error_code for marker in answer.markers for topic in marker.topics for row in topic.partitions]
    if len(codes) != 1:
        raise MalformedResponseError(f"one partition was requested, and it has {len(codes)}")
    return int(codes[0])
