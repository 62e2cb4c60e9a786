"""InitProducerId (API key 22): requests about a known producer, and the error in the response."""

from __future__ import annotations

from typing import Any, Final

from kafka.protocol.producer.transaction import InitProducerIdRequest

from exporter.snapshot import CoordinatorTransaction

_NO_EPOCH: Final = -1
_NO_TIMEOUT_MS: Final = 0


def request(transaction: CoordinatorTransaction, *, timeout_ms: int) -> Any:
    return _of(transaction, transaction.producer_epoch, timeout_ms)


def invalid_request(transaction: CoordinatorTransaction) -> Any:
    """A request that a broker with the right to it refuses as invalid, without its coordinator (kafka.server.KafkaApis).

    A producer id without an epoch is no valid pair, and no coordinator accepts a timeout of 0.
    """
    return _of(transaction, _NO_EPOCH, _NO_TIMEOUT_MS)


def _of(transaction: CoordinatorTransaction, producer_epoch: int, timeout_ms: int) -> Any:
    return InitProducerIdRequest(
        transactional_id=transaction.transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=transaction.producer_id,
        producer_epoch=producer_epoch,
        min_version=3,
        max_version=5,
    )


def decode(answer: Any) -> int:
    """Kafka's error code."""
    return int(answer.error_code)
