"""A loaded broker of 10,000 partitions with and without the exporter at its default interval, in turn.

Appends to a partition without history, and to one with 20,000 producer entries: a scan holds that partition's lock while it
copies them. Latency is from the send to the acknowledgement at a steady rate; throughput is as fast as one producer can.
"""

from __future__ import annotations

import statistics
import threading
import time
from contextlib import ExitStack
from typing import Any, Final

from confluent_kafka import Producer

from benchmarks.serving import serving
from benchmarks.shapes import IDLE_FROM, KAFKA, PROPERTIES, SHAPES, plant
from hangbench.kafka.cluster import MeasuredCluster
from hangbench.kafka.planting import plant_producers

ROUNDS: Final = 2
WINDOW_S: Final = 31.0
"""Longer than the default interval: every window with the exporter holds a scan."""
THROUGHPUT_S: Final = 10.0
RATE_PER_S: Final = 200
FAT_ENTRIES: Final = 20_000
DEFAULT_INTERVAL_MS: Final = 30_000
OFTEN_MS: Final = 1_000
THIN, FAT = "thin", "fat"


def measure() -> dict[str, Any]:
    """Latencies and throughput by state: without, at the default interval, and a scan every second."""
    (many,) = (shape for shape in SHAPES if shape.name == "S3")
    with MeasuredCluster(KAFKA, properties=PROPERTIES) as cluster:
        plant(cluster, many)
        for topic in (THIN, FAT):
            cluster.topics.create(topic)
        plant_producers(cluster.bootstrap, FAT, [0], range(IDLE_FROM, IDLE_FROM + FAT_ENTRIES))
        states = {"without": None, "default interval": DEFAULT_INTERVAL_MS, "every second": OFTEN_MS}
        told: dict[str, list[dict[str, float]]] = {name: [] for name in states}
        for number in range(1 + ROUNDS):
            for name, interval_ms in states.items():
                window_s = 2.0 if number == 0 else WINDOW_S
                figures = _window(cluster.bootstrap, interval_ms, window_s)
                if number:
                    told[name].append(figures)
    return {
        "rounds": ROUNDS,
        "window_s": WINDOW_S,
        "rate_per_s": RATE_PER_S,
        "fat_entries": FAT_ENTRIES,
        "partitions": many.topics * many.partitions + 2,
        "rows": [
            {"name": name, **{key: statistics.median(window[key] for window in figures) for key in figures[0]}}
            for name, figures in told.items()
        ],
    }


def _window(bootstrap: str, interval_ms: int | None, window_s: float) -> dict[str, float]:
    with ExitStack() as stack:
        if interval_ms is not None:
            stack.enter_context(serving(bootstrap, interval_ms=interval_ms)).wait_for_cycles(1)
        latencies: dict[str, list[float]] = {THIN: [], FAT: []}
        threads = [
            threading.Thread(target=steady, args=(bootstrap, topic, window_s, latencies[topic])) for topic in latencies
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        per_second = as_fast_as_can_be(bootstrap, THIN, min(window_s, THROUGHPUT_S))
    figures = {"records_per_s": per_second}
    for topic, seconds in latencies.items():
        figures[f"{topic}_p50_ms"], figures[f"{topic}_p99_ms"] = percentiles_ms(seconds)
    return figures


def percentiles_ms(seconds: list[float]) -> tuple[float, float]:
    """Returns the latency that half of the records have at most, and 99 in 100."""
    in_order = sorted(seconds)
    return 1000 * in_order[len(in_order) // 2], 1000 * in_order[int(0.99 * len(in_order))]


def steady(bootstrap: str, topic: str, window_s: float, latencies: list[float]) -> None:
    """One record after the other, each acknowledged or not before the next is due."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all", "enable.idempotence": True})
    producer.produce(
        topic, b"first"
    )  # finding the leader and a producer id takes longer than a hundredth of the window
    unwritten = producer.flush(30)
    assert not unwritten
    begin = time.perf_counter()
    for number in range(int(window_s * RATE_PER_S)):
        due = begin + number / RATE_PER_S
        while (left := due - time.perf_counter()) > 0:
            producer.poll(left)
        sent = time.perf_counter()
        producer.produce(
            topic, b"x" * 100, on_delivery=lambda *_, sent=sent: latencies.append(time.perf_counter() - sent)
        )
        producer.poll(0)
    unwritten = producer.flush(30)
    assert not unwritten


def as_fast_as_can_be(bootstrap: str, topic: str, window_s: float) -> float:
    """Records of 100 bytes acknowledged per second."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "all", "enable.idempotence": True})
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < window_s:
        try:
            producer.produce(topic, b"x" * 100)
            count += 1
        except BufferError:
            producer.poll(0.05)
    unwritten = producer.flush(60)
    assert not unwritten
    return count / (time.perf_counter() - began)
