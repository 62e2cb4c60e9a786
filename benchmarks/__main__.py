"""`make bench`: one scan of 100,000 producer entries, ours beside kafka-python as it is and Java's AdminClient.

One real broker, the contestants in turn in every round, client CPU as each process counts its own. Ends with status 1
when a floor is missed: a tenth of kafka-python's client CPU, 150 MB of memory.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Final

from benchmarks.contestants import Contestant, contestants
from examples.workload.planting import plant_producers
from tests.brokers.cluster import KafkaCluster
from tests.brokers.maven import BrokersUnavailable

KAFKA: Final = "4.3.1"
TOPIC: Final = "fat"
PARTITIONS: Final = 200
PRODUCERS: Final = 500  # on every partition: 100,000 entries
OPEN: Final = range(9_100_000_000, 9_100_000_002)  # open transactions among them, on the first few partitions
ROUNDS: Final = int(os.environ.get("BENCH_ROUNDS", "11"))
WARM_UP_ROUNDS: Final = 2
RESULT: Final = Path("build/benchmarks/scan.json")

CPU_RATIO_MAX: Final = 1 / 10
MEMORY_MB_MAX: Final = 150


def main() -> int:
    """Run the rounds, print the table, keep it as JSON; the exit status says whether the floors hold."""
    try:
        with KafkaCluster(KAFKA, properties={"transaction.partition.verification.enable": "false"}) as cluster:
            entries = _plant(cluster)
            with contestants(cluster) as all_of_them:
                for number in range(WARM_UP_ROUNDS + ROUNDS):
                    for contestant in all_of_them:
                        contestant.scan(counts=number >= WARM_UP_ROUNDS)
    except BrokersUnavailable as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 1
    return _report(entries, all_of_them)


def _plant(cluster: KafkaCluster) -> int:
    began = time.monotonic()
    cluster.topics.create(TOPIC, partitions=PARTITIONS)
    ids = range(9_000_000_000, 9_000_000_000 + PRODUCERS - len(OPEN))
    entries = plant_producers(cluster.bootstrap, TOPIC, range(PARTITIONS), ids)
    entries += plant_producers(cluster.bootstrap, TOPIC, range(PARTITIONS), OPEN)
    open_ones = plant_producers(
        cluster.bootstrap, TOPIC, range(5), range(9_200_000_000, 9_200_000_003), open_transactions=True
    )
    print(f"planted {entries} idle producers and {open_ones} open transactions in {time.monotonic() - began:.0f} s")
    return entries + open_ones


def _report(entries: int, all_of_them: tuple[Contestant, ...]) -> int:
    ours = all_of_them[0]
    rows = [_row(contestant, ours) for contestant in all_of_them]
    print(f"\n{entries} producer entries on {PARTITIONS} partitions, Kafka {KAFKA}, {ROUNDS} rounds\n")
    print(f"{'':28}{'wall ms':>9}{'min':>8}{'CPU ms':>9}{'min':>8}{'peak MB':>9}{'wall ratio':>12}{'CPU ratio':>11}")
    for row in rows:
        print(
            f"{row['name']:28}{row['wall_ms']:9.1f}{row['wall_ms_min']:8.1f}{row['cpu_ms']:9.1f}{row['cpu_ms_min']:8.1f}"
            f"{row['peak_mb']:9.0f}{row['wall_ratio']:12.1f}{row['cpu_ratio']:11.1f}"
        )
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps({"kafka": KAFKA, "entries": entries, "rounds": ROUNDS, "rows": rows}, indent=2))
    print(f"\nmedians; ratios to ours are medians over the rounds; kept in {RESULT}")
    return _floors(all_of_them)


def _row(contestant: Contestant, ours: Contestant) -> dict[str, float | str]:
    def ratio(name: str) -> float:
        pairs = zip(contestant.rounds, ours.rounds, strict=True)
        return statistics.median(theirs[name] / mine[name] for theirs, mine in pairs)

    return {
        "name": contestant.name,
        "wall_ms": statistics.median(r["wall_ms"] for r in contestant.rounds),
        "wall_ms_min": min(r["wall_ms"] for r in contestant.rounds),
        "cpu_ms": statistics.median(r["cpu_ms"] for r in contestant.rounds),
        "cpu_ms_min": min(r["cpu_ms"] for r in contestant.rounds),
        "peak_mb": contestant.peak_mb,
        "wall_ratio": ratio("wall_ms"),
        "cpu_ratio": ratio("cpu_ms"),
    }


def _floors(all_of_them: tuple[Contestant, ...]) -> int:
    ours, kafka_python, *_ = all_of_them
    share = 1 / float(_row(kafka_python, ours)["cpu_ratio"])
    kept = share < CPU_RATIO_MAX and ours.peak_mb < MEMORY_MB_MAX
    print(
        f"floors {'kept' if kept else 'MISSED'}: client CPU is {share:.3f} of kafka-python's (below {CPU_RATIO_MAX}), "
        f"memory {ours.peak_mb:.0f} MB (below {MEMORY_MB_MAX})"
    )
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
