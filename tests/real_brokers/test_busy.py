"""find-hanging responds within its bound, with every hang, while transactions complete without pause."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaException

from examples.workload.producers import end_transaction, produce, transactional_producer
from exporter.transaction_log.events import Happening
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import plant_hang
from hangbench.waiting import until
from tests.brokers.messages import events, read_log
from tests.conftest import FreshName, MakeTopic
from tests.real_brokers.exporting import ended

WRITERS: Final = 10
STUCK_AFTER_S: Final = 5.0
LOOK_S: Final = 40.0
"""More than one look takes on a machine with ten times as much to do as it can."""


@contextmanager
def writing(bootstrap: str, topic: str, partitions: int, name: str) -> Iterator[list[int]]:
    """So many producers that each commit over every partition, without pause; the count of their transactions."""
    stopped, count = threading.Event(), [0] * WRITERS

    def write(number: int) -> None:
        producer = transactional_producer(bootstrap, f"{name}-{number}")
        places = [(topic, partition) for partition in range(partitions)]
        while not stopped.is_set():
            with contextlib.suppress(KafkaException):
                producer.begin_transaction()
                produce(producer, places, 1)
                end_transaction(producer, "commit")
                count[number] += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: all(count))
        yield count
    finally:
        stopped.set()
        for thread in threads:
            thread.join(60)


def completion_times(bootstrap: str) -> dict[tuple[str, int], int]:
    """(transactional id, start) -> milliseconds from decision to last marker, by the transaction log."""
    ends = (event for event in events(read_log(bootstrap)) if event.happening is Happening.COMPLETED)
    return {(event.transactional_id, event.start_ms): event.duration_ms for event in ends}


@pytest.mark.parametrize("partitions", [100, pytest.param(400, marks=pytest.mark.slow)])
def test_a_busy_cluster_is_answered_within_a_bound(
    kafka_4_3_1: KafkaCluster,
    make_topic: MakeTopic,
    fresh_name: FreshName,
    tmp_path: Path,
    partitions: int,
) -> None:
    """Ten writers on each of many partitions: the hang is proved, and nothing of theirs is a suspect that is not stuck."""
    topic = make_topic(kafka_4_3_1, partitions=partitions + 1)
    hang = plant_hang(kafka_4_3_1.bootstrap, topic, partitions, fresh_name("hang"))
    command = ("find-hanging", "--format", "json", "--stuck-after", f"{STUCK_AFTER_S:g}s")

    with writing(kafka_4_3_1.bootstrap, topic, partitions, fresh_name("writer")) as count:
        began, before = time.monotonic(), sum(count)
        run = ended(tmp_path, "--bootstrap-server", kafka_4_3_1.bootstrap, *command)
        took_s, meanwhile = time.monotonic() - began, sum(count) - before

    print(f"{took_s:.1f} s beside {meanwhile} transactions; {run.stderr}")
    assert took_s < STUCK_AFTER_S + 1 + 2 * LOOK_S
    found = [row for row in json.loads(run.stdout)["transactions"] if row["topic"] == topic]
    assert [(row["partition"], row["verdict"]) for row in found if row["verdict"].startswith("hanging")] == [
        (hang.partition, "hanging_not_in_transaction")
    ]
    stuck = {
        (row["transactional_id"], row["start_timestamp_ms"]) for row in found if row["verdict"] == "stuck_completing"
    }
    if stuck:  # on a machine so slow that the brokers take longer
        times = until(lambda: completion_times(kafka_4_3_1.bootstrap), lambda known: stuck <= known.keys(), pause_s=1)
        assert min(times[transaction] for transaction in stuck) > STUCK_AFTER_S * 1000
    suspects = {"hanging_not_in_transaction", "inconclusive", "stuck_completing"}
    assert {row["verdict"] for row in found} <= suspects
