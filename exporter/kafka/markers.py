"""Writes end-transaction markers, the only writing request besides InitProducerId (WriteTxnMarkers, API key 27, KIP-664).

Only an operator's `abort` and `complete` send it; the import contracts forbid the daemon to import it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ErrorCode, FaultReason, error_name
from exporter.kafka.messages import describe_cluster, init_producer_id, write_txn_markers
from exporter.kafka.messages.write_txn_markers import Marker
from exporter.snapshot import CoordinatorTransaction

UNCLEAR_FAULTS = frozenset(
    {
        FaultReason.TIMED_OUT,
        FaultReason.CONNECTION_LOST,
        FaultReason.MALFORMED_ANSWER,
        FaultReason.RECEIVE_LIMIT,
    }
)
"""Errors after which the marker may have been written or not: only a read shows it."""
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


class MarkerOutcome(Enum):
    """Outcome of writing a marker. A marker is never sent twice: an abort is not idempotent in the log."""

    WRITTEN = "written"
    REFUSED = "refused"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class MarkerResponse:
    """`detail` is Kafka's name of the error, or the broker's fault; empty if the marker was written."""

    outcome: MarkerOutcome
    detail: str = ""


async def write_marker(client: ClusterClient, leader: int, marker: Marker) -> MarkerResponse:
    """Sends `marker` to the partition's leader. Never raises BrokerFault, never retries."""
    try:
        code = await client.request(
            leader, "WriteTxnMarkers", write_txn_markers.request(marker), write_txn_markers.decode, once=True
        )
    except BrokerFault as fault:
        unclear = fault.reason in UNCLEAR_FAULTS
        return MarkerResponse(MarkerOutcome.UNCLEAR if unclear else MarkerOutcome.REFUSED, str(fault))
    if code == ErrorCode.NONE:
        return MarkerResponse(MarkerOutcome.WRITTEN)
    return MarkerResponse(MarkerOutcome.REFUSED if code in REFUSALS else MarkerOutcome.UNCLEAR, error_name(code))


async def lacks_right_to_write_markers(client: ClusterClient, leader: int) -> bool:
    """True only if this broker is sure to refuse a marker of this login. Sends nothing that writes."""
    try:
        return await client.request(
            leader, "DescribeCluster", describe_cluster.request(), describe_cluster.lacks_right_to_write_markers
        )
    except BrokerFault:
        return False


FENCE_TIMEOUT_MS = 1
"""Coordinators refuse one above transaction.max.timeout.ms, which may have been lowered since the transaction began. The
next producer of the id sets its own."""


async def fence(client: ClusterClient, transaction: CoordinatorTransaction) -> str | None:
    """InitProducerId for this producer id and epoch: the coordinator aborts the ongoing transaction. None if it is done.

    Otherwise the error's name: after CONCURRENT_TRANSACTIONS the coordinator is working on it, and nothing must be sent
    again without a read. Coordinators check the epoch between two transactions, and not while one is ongoing. Must not be
    called for one that is prepared for two-phase commit. Raises BrokerFault.
    """
    request = init_producer_id.request(transaction, timeout_ms=FENCE_TIMEOUT_MS)
    code = await client.request(transaction.coordinator, "InitProducerId", request, init_producer_id.decode, once=True)
    return None if code == ErrorCode.NONE else error_name(code)
