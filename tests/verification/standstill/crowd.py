"""Times cycles over 100 stalled partitions with 500 groups at each: `python -m tests.verification.standstill.crowd`.

Every group stands at the first record of an open transaction on every partition, 50,000 positions in all. A cycle must end
within `scan.deadline`. With `--aborted RECORDS` an aborted transaction with so many records lies between, and the first
cycles, which come to know these, count too.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from confluent_kafka import Producer

from examples.workload.producers import OpenTransaction, run_transaction
from exporter.config.loading import load
from exporter.evaluation.verdicts import Policy
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.groups import commit_all
from hangbench.parties.play import PROPERTIES
from tests.watching import Watch

PARTITIONS: Final = 100
GROUPS: Final = 500
CYCLES: Final = 10
CLIENTS: Final = 10
TIMEOUT_MS: Final = 3_600_000


def crowd(cluster: KafkaCluster, partitions: int, groups: int, aborted: int) -> None:
    """Opens a transaction on each partition, writes a record behind it, and has each group stand at all of them."""
    topic = cluster.topics.create("stalled", partitions=partitions)
    if aborted:
        for partition in range(partitions):
            run_transaction(cluster.bootstrap, "aborting", [(topic, partition)], records=aborted, outcome="abort")

    def open_on(partition: int) -> None:
        owner = OpenTransaction(cluster.bootstrap, f"owner-{partition}", [(topic, partition)], timeout_ms=TIMEOUT_MS)
        owner.__enter__()

    def stand(group: int) -> None:
        commit_all(cluster.bootstrap, f"group-{group}", {(topic, partition): 0 for partition in range(partitions)})

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(open_on, range(partitions)))
        list(pool.map(stand, range(groups)))
    plain = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "log_level": 0})
    for partition in range(partitions):
        plain.produce(topic, value=b"behind", partition=partition)
    assert plain.flush(30) == 0


def main() -> int:
    """Prints the times of the cycles; the status is 1 if one is past the deadline, or the last does not name everybody."""
    parser = argparse.ArgumentParser(prog="python -m tests.verification.standstill.crowd", description=__doc__)
    parser.add_argument(
        "--aborted", type=int, default=0, metavar="RECORDS", help="between each group and the transaction"
    )
    aborted = parser.parse_args().aborted
    settings = load(file=None, environment={}, flags={"kafka.bootstrap.servers": "a:1"}).settings
    deadline_s = settings.scan.deadline_ms / 1000
    took: list[tuple[float, float]] = []
    named = 0
    with KafkaCluster("4.3.1", properties=PROPERTIES) as cluster:
        crowd(cluster, PARTITIONS, GROUPS, aborted)
        with Watch(cluster.bootstrap, policy=Policy(blocked_after_ms=1000)) as watch:
            while len(took) < CYCLES:
                began = time.monotonic(), time.process_time()
                named = len(watch.cycle().blocked_groups)
                took.append((time.monotonic() - began[0], time.process_time() - began[1]))
    wall_s, processor_s = zip(*took, strict=True)
    print(
        f"{PARTITIONS} partitions, {GROUPS} groups, {aborted} records before: "
        f"{CYCLES} cycles of {min(wall_s):.1f} to {max(wall_s):.1f} s, "
        f"{min(processor_s):.1f} to {max(processor_s):.1f} s on the processor; the deadline is {deadline_s:.0f} s; "
        f"{named} of {PARTITIONS * GROUPS} waiting positions are named"
    )
    return int(max(wall_s) > deadline_s or named < PARTITIONS * GROUPS)


if __name__ == "__main__":
    sys.exit(main())
