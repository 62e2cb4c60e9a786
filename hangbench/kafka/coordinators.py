"""Finds the coordinator of an id or of a group, and reads what it says of a transaction.

Each is asked once, and raises BrokerRefused.
"""

from __future__ import annotations

from typing import Any, Final

from kafka.protocol.admin import DescribeTransactionsRequest, DescribeTransactionsResponse
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from hangbench.kafka.wire import BrokerRefused, Wire, open_wire

GROUP: Final = 0
TRANSACTION: Final = 1
"""Key types of FindCoordinator."""
TRANSACTIONAL_ID_NOT_FOUND: Final = 105


def coordinator_address(bootstrap: str, key: str, key_type: int = TRANSACTION) -> tuple[str, int]:
    """Where the coordinator of a transactional id, or of a group, listens."""
    with open_wire(bootstrap) as wire:
        answer = wire.ask(FindCoordinatorRequest, FindCoordinatorResponse, version_cap=3, key=key, key_type=key_type)
    if answer.error_code:
        raise BrokerRefused("FindCoordinator", answer.error_code)
    return answer.host, answer.port


def described(bootstrap: str, transactional_id: str) -> Any | None:
    """The coordinator's own answer about an id; None when it does not know it."""
    with Wire(*coordinator_address(bootstrap, transactional_id)) as wire:
        answer = wire.ask(
            DescribeTransactionsRequest,
            DescribeTransactionsResponse,
            version_cap=0,
            transactional_ids=[transactional_id],
        )
    (transaction,) = answer.transaction_states
    if transaction.error_code == TRANSACTIONAL_ID_NOT_FOUND:
        return None
    if transaction.error_code:
        raise BrokerRefused("DescribeTransactions", transaction.error_code)
    return transaction
