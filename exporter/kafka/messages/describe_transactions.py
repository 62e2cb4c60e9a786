"""DescribeTransactions (API key 65): the request, and the transactions in its response."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kafka.protocol.admin.transactions import DescribeTransactionsRequest

from exporter.kafka.errors import ErrorCode, MalformedResponseError, error_name
from exporter.kafka.messages.metadata import is_topic_name
from exporter.snapshot import CoordinatorTransaction, TransactionState


def request(transactional_ids: Collection[str]) -> Any:
    return DescribeTransactionsRequest(transactional_ids=tuple(transactional_ids))


def decode(broker: int, answer: Any) -> dict[str, CoordinatorTransaction | str]:
    """Transactional id -> its transaction, which `broker` coordinates, or the name of the error.

    Raises MalformedResponseError for a topic that Kafka does not accept: its name is shown.
    """
    return {
        row.transactional_id: _transaction(row, broker)
        if row.error_code == ErrorCode.NONE
        else error_name(row.error_code)
        for row in answer.transaction_states
    }


def _transaction(row: Any, broker: int) -> CoordinatorTransaction:
    if not all(is_topic_name(topic.topic) for topic in row.topics):
        raise MalformedResponseError("a topic with a name that Kafka does not accept")
    return CoordinatorTransaction(
        transactional_id=row.transactional_id,
        producer_id=row.producer_id,
        state=TransactionState.of(row.transaction_state),
        coordinator=broker,
        producer_epoch=row.producer_epoch,
        timeout_ms=row.transaction_timeout_ms,
        start_ms=row.transaction_start_time_ms if row.transaction_start_time_ms >= 0 else None,
        partitions=frozenset((topic.topic, partition) for topic in row.topics for partition in topic.partitions),
    )
