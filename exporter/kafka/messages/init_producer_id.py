"""InitProducerId (API key 22): the request about a known producer, and the error in its response."""

from __future__ import annotations

from typing import Any

from kafka.protocol.producer.transaction import InitProducerIdRequest

from exporter.snapshot import CoordinatorTransaction


def request(transaction: CoordinatorTransaction, *, timeout_ms: int) -> Any:
    return InitProducerIdRequest(
        transactional_id=transaction.transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        min_version=3,
        max_version=5,
    )


def decode(answer: Any) -> int:
    """Kafka's error code."""
    return int(answer.error_code)
