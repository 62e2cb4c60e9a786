"""The rule that people write by hand: a group that stands at the last stable offset below the end waits for what is open.

A producer cannot start while its transaction is in a Prepare state. By kafka-python's admin client.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import kafka
from kafka.admin import OffsetSpec
from kafka.errors import TransactionalIdNotFoundError
from kafka.protocol.consumer import IsolationLevel
from kafka.structs import TopicPartition

from hangbench.adapters.answer import Where, asked, give_up, print_held


def main() -> None:
    try:
        admin = kafka.KafkaAdminClient(
            bootstrap_servers=asked("BOOTSTRAP").split(","), request_timeout_ms=int(asked("REQUEST_TIMEOUT_MS"))
        )
        transactional_id = asked("TRANSACTIONAL_ID")
        found = list(cannot_start(admin, transactional_id) if transactional_id else waits(admin, asked("GROUP")))
    except Exception as error:  # noqa: BLE001 - whatever it raises is its answer
        give_up(f"{type(error).__name__}: {error}")
    print_held(found)


def waits(admin: Any, group: str) -> Iterator[Where]:
    positions = {partition: each.offset for partition, each in admin.list_group_offsets(group)[group].items()}
    stable, ends = (
        ends_of(admin, positions, isolation)
        for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
    )
    for partition, offset in positions.items():
        if offset == stable[partition] < ends[partition]:
            yield partition.topic, partition.partition, holder_of(admin, partition)


def ends_of(
    admin: Any, partitions: Iterable[TopicPartition], isolation: IsolationLevel
) -> Mapping[TopicPartition, int]:
    specs = dict.fromkeys(partitions, OffsetSpec.LATEST)
    found = admin.list_partition_offsets(specs, isolation_level=isolation)
    return {partition: each.offset for partition, each in found.items()}


def holder_of(admin: Any, partition: TopicPartition) -> str | None:
    """The transactional id whose transaction is the oldest on the partition, by its producer id."""
    producers = admin.describe_producers([partition])[partition].active_producers
    open_ = [each for each in producers if each.current_transaction_start_offset >= 0]
    oldest = min(open_, key=lambda each: int(each.current_transaction_start_offset), default=None)
    if oldest is None:
        return None
    listed = itertools.chain.from_iterable(admin.list_transactions().values())
    return next((str(each.transactional_id) for each in listed if each.producer_id == oldest.producer_id), None)


def cannot_start(admin: Any, transactional_id: str) -> Iterator[Where]:
    try:
        transaction = admin.describe_transactions([transactional_id])[transactional_id]
    except TransactionalIdNotFoundError:
        return
    if transaction.state.value.startswith("Prepare"):
        for topic, partition in transaction.topic_partitions:
            yield topic, partition, None


if __name__ == "__main__":
    main()
