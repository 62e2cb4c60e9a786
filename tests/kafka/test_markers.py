"""The broker's word about a marker: what proves that none was written, and what only a read can settle."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from exporter.kafka.errors import BrokerFault, ErrorCode, FaultReason
from exporter.kafka.markers import MarkerOutcome, MarkerResponse, write_marker
from exporter.kafka.messages.write_txn_markers import Marker

MARKER = Marker(topic="orders", partition=0, producer_id=7, producer_epoch=0, coordinator_epoch=0, commit=False)


class Broker:
    """Responds with an error code, or not at all."""

    def __init__(self, word: int | BrokerFault) -> None:
        self._word = word

    async def request(self, *_: Any, once: bool) -> int:
        assert once
        if isinstance(self._word, BrokerFault):
            raise self._word
        return self._word


def answer(word: int | BrokerFault) -> MarkerResponse:
    return asyncio.run(write_marker(Broker(word), 1, MARKER))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (ErrorCode.NONE, MarkerOutcome.WRITTEN),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, MarkerOutcome.REFUSED),
        (ErrorCode.NOT_ENOUGH_REPLICAS, MarkerOutcome.REFUSED),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, MarkerOutcome.REFUSED),
        (ErrorCode.INVALID_PRODUCER_EPOCH, MarkerOutcome.REFUSED),
        (ErrorCode.TRANSACTION_COORDINATOR_FENCED, MarkerOutcome.REFUSED),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, MarkerOutcome.UNCLEAR),
        (ErrorCode.REQUEST_TIMED_OUT, MarkerOutcome.UNCLEAR),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, MarkerOutcome.UNCLEAR),
        (ErrorCode.KAFKA_STORAGE_ERROR, MarkerOutcome.UNCLEAR),
        (-1, MarkerOutcome.UNCLEAR),
    ],
)
def test_an_error_that_may_come_after_the_write_is_no_refusal(code: int, outcome: MarkerOutcome) -> None:
    """The leader has appended the marker, and waits for replicas that do not come."""
    assert answer(code).outcome is outcome


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        (FaultReason.UNREACHABLE, MarkerOutcome.REFUSED),
        (FaultReason.AUTHENTICATION_FAILED, MarkerOutcome.REFUSED),
        (FaultReason.TIMED_OUT, MarkerOutcome.UNCLEAR),
        (FaultReason.CONNECTION_LOST, MarkerOutcome.UNCLEAR),
        (FaultReason.MALFORMED_ANSWER, MarkerOutcome.UNCLEAR),
        (FaultReason.RECEIVE_LIMIT, MarkerOutcome.UNCLEAR),
    ],
)
def test_a_lost_response_is_no_refusal(reason: FaultReason, outcome: MarkerOutcome) -> None:
    """Only where nothing was sent, nothing was written."""
    assert answer(BrokerFault(reason, "broker 1 is away")) == MarkerResponse(outcome, "broker 1 is away")
