"""Thousands of transactional ids at work: their coordinator has each Ongoing, and some have written."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from kafka.protocol.producer import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

from hangbench.kafka.planting import _produce, init_producer_id, init_producer_id_of, record_batch
from hangbench.kafka.wire import COORDINATOR_ERRORS, LEADER_ERRORS, BrokerRefused, Wire, first_address, until_answered

TIMEOUT_MS: Final = 900_000
"""The longest that brokers allow: they are not to end while cycles are measured."""


def begin_transactions(bootstrap: str, topics: Sequence[str], *, active: int, writing: int) -> None:
    """`active` ids begin a transaction on a partition of `topics` each; the first `writing` write a record there.

    For a cluster of one broker: it coordinates and leads everything.
    """
    began = time.monotonic()
    init_producer_id(bootstrap, "first")  # makes __transaction_state
    with Wire(*first_address(bootstrap)) as wire:
        for number in range(active):
            name, topic = f"application-{number:05d}", topics[number % len(topics)]
            partition = number // len(topics)
            producer_id, epoch = until_answered(
                lambda name=name: init_producer_id_of(wire, name, timeout_ms=TIMEOUT_MS),  # type: ignore[misc]
                COORDINATOR_ERRORS,
            )
            until_answered(
                lambda arguments=(name, producer_id, epoch, topic, partition): _add(wire, *arguments),  # type: ignore[misc]
                COORDINATOR_ERRORS,
            )
            if number < writing:
                batch = record_batch(producer_id, epoch, open_transaction=True)
                until_answered(
                    lambda arguments=(topic, {partition: batch}, name): _produce(wire, *arguments),  # type: ignore[misc]
                    LEADER_ERRORS,
                )
    print(f"{active:,} transactions begun in {time.monotonic() - began:.0f} s", flush=True)


def _add(wire: Wire, name: str, producer_id: int, epoch: int, topic: str, partition: int) -> None:
    topic_type: Any = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    answer = wire.ask(
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse,
        version_cap=3,
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[topic_type(name=topic, partitions=[partition])],
    )
    error = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    if error:
        raise BrokerRefused("AddPartitionsToTxn", error)
