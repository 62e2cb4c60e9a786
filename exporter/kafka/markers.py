"""Writes end-transaction markers, the only writing request besides InitProducerId (WriteTxnMarkers, API key 27, KIP-664).

Only an operator's `abort` and `complete` send it; the import contracts forbid the daemon to import it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from kafka.protocol.producer.transaction import InitProducerIdRequest, WriteTxnMarkersRequest

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ErrorCode, FaultReason, MalformedAnswerError, error_name
from exporter.snapshot import CoordinatorTransaction

UNCLEAR_FAULTS = frozenset(
    {
        FaultReason.TIMED_OUT,
        FaultReason.CONNECTION_LOST,
        FaultReason.MALFORMED_ANSWER,
        FaultReason.RECEIVE_LIMIT,
    }
)
"""After these errors the marker may have been written or not: only a read shows it."""
REFUSALS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
)
"""The broker says these before it writes. Of all others some come after the write, while the marker waits for replicas:
REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND, and NOT_LEADER_OR_FOLLOWER (kafka.server.DelayedProduce).
"""

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


class MarkerOutcome(Enum):
    """Whether a marker was written. A marker is never sent twice: an abort is not idempotent in the log."""

    WRITTEN = "written"
    REFUSED = "refused"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class MarkerAnswer:
    """`detail` is Kafka's name of the error, or the broker's fault; empty if the marker was written."""

    outcome: MarkerOutcome
    detail: str = ""


async def write_marker(client: ClusterClient, leader: int, marker: Marker) -> MarkerAnswer:
    """Send `marker` to the partition's leader. Never raises BrokerFault, never retries."""
    request_type = WriteTxnMarkersRequest.WritableTxnMarker
    topic = request_type.WritableTxnMarkerTopic(name=marker.topic, partition_indexes=[marker.partition])
    request = WriteTxnMarkersRequest(
        markers=[
            request_type(
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
    try:
        code = await client.request(leader, "WriteTxnMarkers", request, _error_code, once=True)
    except BrokerFault as fault:
        unclear = fault.reason in UNCLEAR_FAULTS
        return MarkerAnswer(MarkerOutcome.UNCLEAR if unclear else MarkerOutcome.REFUSED, str(fault))
    if code == ErrorCode.NONE:
        return MarkerAnswer(MarkerOutcome.WRITTEN)
    return MarkerAnswer(MarkerOutcome.REFUSED if code in REFUSALS else MarkerOutcome.UNCLEAR, error_name(code))


def _error_code(answer: Any) -> int:
    codes = [row.error_code for marker in answer.markers for topic in marker.topics for row in topic.partitions]
    if len(codes) != 1:
        raise MalformedAnswerError(f"it has {len(codes)} partitions, and one was requested")
    return int(codes[0])


FENCE_TIMEOUT_MS = 1
"""Coordinators refuse one above transaction.max.timeout.ms, which may have been lowered since the transaction began. The
next producer of the id sets its own."""


async def fence(client: ClusterClient, transaction: CoordinatorTransaction) -> str | None:
    """InitProducerId for this producer id and epoch: the coordinator aborts the ongoing transaction. None if it is done.

    Otherwise the error's name: after CONCURRENT_TRANSACTIONS the coordinator is working on it, and nothing must be sent
    again without a read. Coordinators check the epoch between two transactions, and not while one is ongoing. Must not be
    called for one that is prepared for two-phase commit. Raises BrokerFault.
    """
    request = InitProducerIdRequest(
        transactional_id=transaction.transactional_id,
        transaction_timeout_ms=FENCE_TIMEOUT_MS,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        min_version=3,
        max_version=5,
    )
    code = await client.request(
        transaction.coordinator, "InitProducerId", request, lambda answer: int(answer.error_code), once=True
    )
    return None if code == ErrorCode.NONE else error_name(code)
