"""Reading 300,000 records of the coordinators' log: the exporter's reader beside a bare loop of confluent-kafka's consumer.

One real broker whose `__transaction_state` is filled with records of 5,000 transactional ids, as 4.3.1 writes them. Both
read it whole in every round, each in a process of its own that counts its own CPU. Ends with status 1 when a floor is
missed: 20,000 records for a second of one core.
"""

from __future__ import annotations

import json
import statistics
import struct
import sys
import time
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from benchmarks.contestants import Contestant
from examples.workload.producers import run_transaction
from exporter.snapshot import STATE_TOPIC
from hangbench.kafka.cluster import KafkaCluster, MeasuredCluster
from hangbench.kafka.maven import BrokersUnavailable

KAFKA: Final = "4.3.1"
RECORDS: Final = 300_000
TRANSACTIONAL_IDS: Final = 5_000
LOG_PARTITIONS: Final = 5
STATES: Final = (1, 2, 4)  # Ongoing, PrepareCommit, CompleteCommit
ROUNDS: Final = 5
RATE_MIN: Final = 20_000
RESULT: Final = Path("build/benchmarks/transaction_log.json")
ADMIN_CLIENT: Final = "__admin_client"
"""Brokers let nobody write to an internal topic but a client of this name."""


def main() -> int:
    """Run the rounds, print the table, keep it as JSON; the exit status says whether the floor holds."""
    try:
        with MeasuredCluster(KAFKA) as cluster:
            _fill(cluster)
            python = [sys.executable, "-m"]
            readers = tuple(
                Contestant(name, [*python, module, cluster.bootstrap, str(RECORDS)])
                for name, module in (
                    ("exporter's reader", "benchmarks.read_log_exporter"),
                    ("bare consumer loop", "benchmarks.read_log_bare"),
                )
            )
            try:
                for number in range(1 + ROUNDS):
                    for reader in readers:
                        reader.scan(counts=number > 0)
            finally:
                for reader in readers:
                    reader.close()
    except BrokersUnavailable as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 1
    return _report(*readers)


def _fill(cluster: KafkaCluster) -> None:
    """The topic is made by a real transaction; the records come after it."""
    cluster.topics.create("t")
    run_transaction(cluster.bootstrap, "first", [("t", 0)])
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "client.id": ADMIN_CLIENT,
            "linger.ms": 50,
            "queue.buffering.max.messages": RECORDS + 1,
        }
    )
    begun_ms = int(time.time() * 1000)
    for number in range(RECORDS // len(STATES)):
        which = number % TRANSACTIONAL_IDS
        name = f"application-{which:06d}"
        start_ms = begun_ms + number
        for step, status in enumerate(STATES):
            producer.produce(
                STATE_TOPIC,
                partition=which % LOG_PARTITIONS,
                key=struct.pack(">hh", 0, len(name)) + name.encode(),
                value=_value(status, producer_id=10_000 + which, updated_ms=start_ms + 10 * step, start_ms=start_ms),
            )
        producer.poll(0)
    unwritten = producer.flush(120)
    assert not unwritten, f"{unwritten} records were not written"


def _value(status: int, *, producer_id: int, updated_ms: int, start_ms: int) -> bytes:
    """TransactionLogValue version 1 with three partitions of one topic, and the client's transaction version as a tag."""
    partitions = b"\x02\x07orders\x04" + struct.pack(">iii", 0, 1, 2) + b"\x00" if status != STATES[-1] else b"\x01"
    head = struct.pack(">hqhib", 1, producer_id, 0, 60_000, status)
    return head + partitions + struct.pack(">qq", updated_ms, start_ms) + b"\x01\x02\x02\x00\x02"


def _report(ours: Contestant, bare: Contestant) -> int:
    rows = [_row(reader) for reader in (ours, bare)]
    cpu_ratio = statistics.median(
        mine["cpu_ms"] / theirs["cpu_ms"] for mine, theirs in zip(ours.rounds, bare.rounds, strict=True)
    )
    print(f"\n{RECORDS} records of {TRANSACTIONAL_IDS} transactional ids, Kafka {KAFKA}, {ROUNDS} rounds\n")
    print(f"{'':22}{'wall ms':>9}{'CPU ms':>9}{'min':>8}{'records/s of a core':>22}{'peak MB':>9}")
    for row in rows:
        print(
            f"{row['name']:22}{row['wall_ms']:9.0f}{row['cpu_ms']:9.0f}{row['cpu_ms_min']:8.0f}"
            f"{row['records_per_cpu_second']:22,.0f}{row['peak_mb']:9.0f}"
        )
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps({"kafka": KAFKA, "records": RECORDS, "cpu_ratio": cpu_ratio, "rows": rows}, indent=2))
    rate = float(rows[0]["records_per_cpu_second"])
    kept = rate >= RATE_MIN
    print(
        f"\nmedians; the exporter's CPU is {cpu_ratio:.1f} times the bare loop's; floor {'kept' if kept else 'MISSED'}: "
        f"{rate:,.0f} records for a second of one core (at least {RATE_MIN:,}); kept in {RESULT}"
    )
    return 0 if kept else 1


def _row(reader: Contestant) -> dict[str, float | str]:
    cpu_ms = statistics.median(cost["cpu_ms"] for cost in reader.rounds)
    return {
        "name": reader.name,
        "wall_ms": statistics.median(cost["wall_ms"] for cost in reader.rounds),
        "cpu_ms": cpu_ms,
        "cpu_ms_min": min(cost["cpu_ms"] for cost in reader.rounds),
        "records_per_cpu_second": RECORDS / cpu_ms * 1000,
        "peak_mb": reader.peak_mb,
    }


if __name__ == "__main__":
    sys.exit(main())
