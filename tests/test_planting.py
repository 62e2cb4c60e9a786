"""A planted transaction looks real to a client, and to the Java tool."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition

from examples.workload.producers import OpenTransaction, run_transaction
from examples.workload.rhythm import Rhythm
from examples.workload.workload import Workload
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import (
    UNALLOCATED_PRODUCER_ID,
    plant_hang,
    plant_hang_without_id,
    plant_producers,
    write_marker,
)
from hangbench.kafka.wire import BrokerRefused
from hangbench.waiting import until
from tests.conftest import FreshName, MakeCluster, MakeTopic

THIRTY_YEARS_MS = 30 * 365 * 24 * 3600 * 1000
INVALID_TXN_STATE = 48


@contextmanager
def admin_of(cluster: KafkaCluster) -> Iterator[Any]:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        yield admin
    finally:
        admin.close()


def producers(cluster: KafkaCluster, topic: str, partition: int = 0) -> dict[int, Any]:
    """DescribeProducers' rows of a partition, by producer id."""
    key = TopicPartition(topic, partition)
    with admin_of(cluster) as admin:
        return {state.producer_id: state for state in admin.describe_producers([key])[key].active_producers}


def coordinator_state(cluster: KafkaCluster, transactional_id: str) -> str:
    with admin_of(cluster) as admin:
        return str(admin.describe_transactions([transactional_id])[transactional_id].state.value)


def test_a_hang_is_open_on_the_partition_and_unknown_to_its_coordinator(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """A planted hang has a start offset on its partition while its coordinator says Empty."""
    topic, transactional_id = make_topic(broker), fresh_name("hang")
    run_transaction(broker.bootstrap, fresh_name("before"), [(topic, 0)], records=3)

    hang = plant_hang(broker.bootstrap, topic, 0, transactional_id)

    shown = producers(broker, topic)[hang.producer_id]
    assert hang.start_offset in (3, 4)  # after three records; their marker is written when the coordinator gets to it
    assert shown.current_transaction_start_offset == hang.start_offset
    assert (shown.producer_epoch, shown.last_timestamp) == (hang.producer_epoch, hang.timestamp_ms)
    assert coordinator_state(broker, transactional_id) == "Empty"


def test_a_hang_can_look_thirty_years_old_or_minutes_young(broker: KafkaCluster, make_topic: MakeTopic) -> None:
    """The CreateTime of a hang is as given, in the past or a little in the future."""
    topic = make_topic(broker, partitions=2)
    now_ms = time.time_ns() // 1_000_000
    stamps = {0: now_ms - THIRTY_YEARS_MS, 1: now_ms + 50 * 60 * 1000}

    for partition, timestamp_ms in stamps.items():
        plant_hang_without_id(broker.bootstrap, topic, partition, timestamp_ms=timestamp_ms)

        assert producers(broker, topic, partition)[UNALLOCATED_PRODUCER_ID].last_timestamp == timestamp_ms


def test_a_hang_without_id_is_known_to_no_coordinator(broker: KafkaCluster, make_topic: MakeTopic) -> None:
    """The producer id of such a hang is in no coordinator's listing, in any state."""
    topic = make_topic(broker)
    hang = plant_hang_without_id(broker.bootstrap, topic, 0)

    with admin_of(broker) as admin:
        listed = {row.producer_id for rows in admin.list_transactions().values() for row in rows}
    assert hang.producer_id not in listed
    assert producers(broker, topic)[hang.producer_id].current_transaction_start_offset == hang.start_offset


def test_a_marker_closes_a_hang(broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    """An ABORT marker with the observed epoch closes the hang; one with an older epoch is refused."""
    topic = make_topic(broker)
    transactional_id = fresh_name("closed")
    plant_hang(broker.bootstrap, topic, 0, transactional_id)
    hang = plant_hang(broker.bootstrap, topic, 0, transactional_id)  # the same id again: one epoch later

    with pytest.raises(BrokerRefused) as refusal:
        write_marker(broker.bootstrap, topic, 0, hang.producer_id, hang.producer_epoch - 1)
    assert refusal.value.error_code == 47  # INVALID_PRODUCER_EPOCH
    assert producers(broker, topic)[hang.producer_id].current_transaction_start_offset >= 0

    write_marker(broker.bootstrap, topic, 0, hang.producer_id, hang.producer_epoch)
    assert producers(broker, topic)[hang.producer_id].current_transaction_start_offset == -1


def test_verification_refuses_a_hang(make_cluster: MakeCluster, fresh_name: FreshName) -> None:
    """With partition verification on, Kafka 4.3.1 refuses the batch with INVALID_TXN_STATE."""
    cluster = make_cluster("4.3.1", properties={"transaction.partition.verification.enable": "true"})
    topic = cluster.topics.create("guarded")

    with pytest.raises(BrokerRefused) as refusal:
        plant_hang(cluster.bootstrap, topic, 0, fresh_name("refused"))
    assert refusal.value.error_code == INVALID_TXN_STATE


def test_many_producers_are_planted_at_once(broker: KafkaCluster, make_topic: MakeTopic) -> None:
    """Every producer id becomes one idle entry, or one open one, on every partition."""
    topic = make_topic(broker, partitions=3)
    idle, still_open = range(500_000, 500_100), range(600_000, 600_010)

    assert plant_producers(broker.bootstrap, topic, range(3), idle) == 300
    plant_producers(broker.bootstrap, topic, [2], still_open, open_transactions=True)

    for partition, expected in ((0, set(idle)), (1, set(idle)), (2, {*idle, *still_open})):
        shown = producers(broker, topic, partition)
        opened = {number for number, state in shown.items() if state.current_transaction_start_offset >= 0}
        assert set(shown) == expected
        assert opened == (set(still_open) if partition == 2 else set())


def test_an_ordinary_transaction_stays_open_until_it_is_closed(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """An open transaction is Ongoing and has a start offset; closed, it has neither."""
    topic, transactional_id = make_topic(broker), fresh_name("ordinary")

    with OpenTransaction(broker.bootstrap, transactional_id, [(topic, 0)], records=2):
        (shown,) = producers(broker, topic).values()
        assert shown.current_transaction_start_offset == 0
        assert coordinator_state(broker, transactional_id) == "Ongoing"
    wait_until_closed(broker, topic)


def test_an_exception_aborts_the_open_transaction(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    topic, transactional_id = make_topic(broker), fresh_name("failing")
    with (
        pytest.raises(KeyError),
        OpenTransaction(broker.bootstrap, transactional_id, [(topic, 0)]),
    ):
        raise KeyError
    wait_until_closed(broker, topic)

    assert coordinator_state(broker, transactional_id) in {"PrepareAbort", "CompleteAbort"}


def test_a_workload_commits_and_aborts_until_stopped(
    broker: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """Each producer of a workload goes on in its own way, and leaves nothing open when stopped."""
    topic = make_topic(broker, partitions=2)
    quick, clumsy = fresh_name("quick"), fresh_name("clumsy")
    with Workload(broker.bootstrap, [(topic, 0), (topic, 1)]) as workload:
        workload.add(quick, Rhythm()).add(clumsy, Rhythm(abort_share=1.0, hold_s=0.01))
        until(workload.ledger.total, lambda total: total.committed >= 3 and total.aborted >= 3)

    counts = workload.ledger.counts()
    assert counts[quick].begun == counts[quick].committed
    assert counts[clumsy].begun == counts[clumsy].aborted
    for partition in (0, 1):
        wait_until_closed(broker, topic, partition)


def wait_until_closed(cluster: KafkaCluster, topic: str, partition: int = 0) -> None:
    """Markers are written a moment after the client's call returned."""
    until(
        lambda: producers(cluster, topic, partition).values(),
        lambda states: all(state.current_transaction_start_offset < 0 for state in states),
    )
