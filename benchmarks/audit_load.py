"""The cost of an audit for a loaded broker: `python -m benchmarks.audit_load`, or with rates in MB a second as arguments.

In each round producers write for a while without an audit's reader, and with one that reads a log of 500 MB again and again
at each rate. The reader runs in a process of low priority, as its processors are the broker's and the producer's too; its
log is in the broker's memory.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import Producer

from benchmarks.listed import settings_at
from benchmarks.loaded import as_fast_as_can_be, percentiles_ms, steady
from benchmarks.peers import PYTHON
from benchmarks.shapes import KAFKA
from exporter.audit.reading import RangeResult, list_partitions, ranges_of, read_ranges
from exporter.kafka.collect.topic_filter import TopicFilter
from hangbench.kafka.cluster import MeasuredCluster

ROUNDS: Final = 3
WINDOW_S: Final = 20.0
LOG_BYTES: Final = 500_000_000
LOGS, WRITTEN, FAST = "logs", "written", "fast"
RECORD: Final = os.urandom(1000)
UNLIMITED: Final = 0.0


def fill(bootstrap: str, topic: str, size_bytes: int, *, partitions: int = 1) -> None:
    """Writes committed transactions of 1 MB each, in batches of 16 kB, to one partition after the other."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "filler", "batch.size": 16_384, "linger.ms": 50}
    )
    producer.init_transactions()
    for number in range(size_bytes // 1_000_000):
        producer.begin_transaction()
        for _ in range(1000):
            producer.produce(topic, RECORD, partition=number % partitions)
        producer.commit_transaction()


def read_again_and_again(bootstrap: str, megabytes_per_s: float) -> None:
    """Reads until standard input ends, and prints its mean rate in bytes a second, and its processor time."""
    os.nice(19)
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    kafka = settings_at(bootstrap).kafka
    listing = list_partitions(kafka, TopicFilter([re.compile(LOGS)], ()))
    ((partition, extent),) = listing.ends.items()
    began, size = time.monotonic(), 0
    print("reads", flush=True)
    while not ended.is_set():
        for wanted in ranges_of(partition, extent, 0, range_bytes=32_000_000):
            rate = megabytes_per_s * 1e6 or float("inf")
            for found in read_ranges(kafka, [wanted], bytes_per_second=rate):
                if isinstance(found, RangeResult):
                    assert found.failure is None, found.failure
                    size += found.log.size_bytes
            if ended.is_set():
                break
    print(json.dumps({"bytes_per_s": size / (time.monotonic() - began), "cpu_s": time.process_time()}), flush=True)


@contextmanager
def reading(bootstrap: str, megabytes_per_s: float | None, rates: list[float]) -> Iterator[None]:
    """Runs an audit's reader while the `with` lasts, none for None, and adds its mean rate to `rates`."""
    if megabytes_per_s is None:
        yield
        return
    process = subprocess.Popen(
        [*PYTHON, "benchmarks.audit_load", "read", bootstrap, str(megabytes_per_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "reads\n"
        yield
        process.stdin.close()
        rates.append(json.loads(process.stdout.readline())["bytes_per_s"])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def main(limits: list[float]) -> None:
    states: dict[str, float | None] = {"without": None}
    states |= {f"{limit:g} MB/s" if limit else "no limit": limit for limit in limits}
    figures: dict[str, list[tuple[float, float, float]]] = {name: [] for name in states}
    rates: dict[str, list[float]] = {name: [] for name in states}
    with MeasuredCluster(KAFKA) as cluster:
        for topic in (LOGS, WRITTEN, FAST):
            cluster.topics.create(topic)
        fill(cluster.bootstrap, LOGS, LOG_BYTES)
        for number in range(1 + ROUNDS):
            for name, limit in states.items():
                latencies: list[float] = []
                with reading(cluster.bootstrap, limit, rates[name]):
                    steady(cluster.bootstrap, WRITTEN, WINDOW_S if number else 2.0, latencies)
                    per_s = as_fast_as_can_be(cluster.bootstrap, FAST, WINDOW_S / 2 if number else 2.0)
                if number:
                    figures[name].append((*percentiles_ms(latencies), per_s))
    print(f"median (minimum to maximum) of {ROUNDS} windows of {WINDOW_S:.0f} s")
    for name, rows in figures.items():
        p50, p99, per_second = (
            f"{statistics.median(column):,.2f} ({min(column):,.2f} to {max(column):,.2f})"
            for column in zip(*rows, strict=True)
        )
        read = f", reads {statistics.median(rates[name]) / 1e6:.1f} MB/s" if rates[name] else ""
        print(f"{name}: p50 {p50} ms, p99 {p99} ms, {per_second} records/s{read}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["read"]:
        read_again_and_again(sys.argv[2], float(sys.argv[3]))
    else:
        main([float(word) for word in sys.argv[1:]] or [20.0, UNLIMITED])
