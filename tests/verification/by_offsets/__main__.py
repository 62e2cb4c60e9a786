"""`python -m tests.verification.by_offsets`: busy producers, faults and planted hangs, judged without READ on any topic.

Five transactional ids commit as many transactions as the brokers take on the partitions where hangs are planted and healed,
other ids come and go, and brokers are killed, frozen, cut off and elected. Each `hanging_by_offsets` must be of a planted
hang, by its start offset. Ends with one line, and status 1 if one was not.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Producer

from examples.workload.planting import PlantedTransaction, plant_hang, plant_hang_without_id, write_marker
from examples.workload.producers import transactional_producer
from exporter.evaluation.evaluate import all_rows
from exporter.evaluation.verdicts import Evaluation, Verdict
from exporter.kafka.errors import ClusterUnavailableError
from exporter.snapshot import STATE_TOPIC
from tests.brokers.isolation import IsolatedCluster
from tests.brokers.leaders import reorder_replicas
from tests.conftest import HANGS_CAN_BE_PLANTED
from tests.verification.background import Background
from tests.verification.situations.play import Watch

TOPIC: Final = "busy"
PARTITIONS: Final = 6
"""Producers write to all of them; hangs are planted on one half."""
NODES: Final = 3
BUSY: Final = 5
LEFT_OPEN: Final = 0.01
ABORTED: Final = 0.2
"""Shares of transactions, the first within the second."""
CYCLE_S: Final = 1.0
REQUEST_TIMEOUT_MS: Final = 1500
FIRST_PRODUCER_ID: Final = 8_000_000_000
FAULT_EVERY_S: Final = 12.0
HANG_LASTS_S: Final = 40.0
PROPERTIES: Final[dict[str, str | int]] = {
    **HANGS_CAN_BE_PLANTED,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "min.insync.replicas": 2,
    "transaction.state.log.min.isr": 2,
    # Ids that come and go expire within the run.
    "transactional.id.expiration.ms": 20_000,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 5_000,
}


@dataclass
class Findings:
    """What came of the run."""

    verdicts: Counter[str] = field(default_factory=Counter)
    false: list[str] = field(default_factory=list)
    planted: dict[tuple[str, int, int], float] = field(default_factory=dict)
    """(topic, partition, start offset) -> when, by the monotonic clock."""
    cycles_seen: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    """Cycles that were carried out while it was open, until it was proved."""
    proved: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """The same number, when it was proved."""
    cycles: int = 0
    failed: int = 0
    work: str = ""


def judge(findings: Findings, evaluation: Evaluation, hangs: dict[int, PlantedTransaction]) -> None:
    """Counts the verdicts of a cycle, and compares hangs with those that were planted."""
    findings.cycles += 1
    for hang in hangs.values():
        key = (hang.topic, hang.partition, hang.start_offset)
        findings.cycles_seen[key] += key not in findings.proved
    for row in all_rows(evaluation):
        findings.verdicts[row.verdict.label] += 1
        key = (row.topic, row.partition, row.start_offset)
        if row.verdict is Verdict.HANGING_BY_OFFSETS and key in findings.planted:
            findings.proved.setdefault(key, findings.cycles_seen[key])
        elif row.verdict.is_hanging:
            findings.false.append(f"{row.topic}-{row.partition} from {row.start_offset}: {row.reason}")


class Producers(Background):
    """Transactions of one application on a thread of its own: ids that stay, or ids that come and never come again."""

    def __init__(self, bootstrap: str, name: str, chance: random.Random, *, transactions: int | None = None) -> None:
        """`transactions` of each id, after which the next one comes; None: one id stays."""
        self._bootstrap, self._name, self._chance, self._transactions = bootstrap, name, chance, transactions
        self.ids = self.ended = 0
        super().__init__(joined_within_s=30)

    def run(self) -> None:
        while not self.is_ending():
            self.ids += 1
            name = self._name if self._transactions is None else f"{self._name}-{self.ids}"
            with suppress(Exception):  # what comes late is refused, and brokers may be away for long
                producer = transactional_producer(self._bootstrap, name, timeout_ms=5_000)
                turn = 0
                while not self.is_ending() and turn != self._transactions:
                    self._one(producer)
                    turn += 1
            self.pause(0.2 if self._transactions is None else self._chance.uniform(1, 4))

    def _one(self, producer: Producer) -> None:
        """Now and then it is left open, for its time-out or the next producer of its id."""
        producer.begin_transaction()
        for partition in self._chance.sample(range(PARTITIONS), 3):
            producer.produce(TOPIC, b"x", partition=partition)
        producer.flush(5)
        fate = self._chance.random()
        if fate < LEFT_OPEN:
            raise TimeoutError
        producer.abort_transaction(5) if fate < ABORTED else producer.commit_transaction(5)
        self.ended += 1
        self.pause(0.01)


def faults(cluster: IsolatedCluster, chance: random.Random) -> tuple[Callable[[], None], ...]:
    """What happens to brokers, one at a time."""

    def kill() -> None:
        broker = chance.choice(cluster.brokers[:NODES])
        broker.kill()
        time.sleep(chance.uniform(0, 4))
        broker.start()

    def freeze() -> None:
        broker = chance.choice(cluster.brokers[:NODES])
        broker.pause()
        time.sleep(chance.uniform(1, 10))
        broker.resume()

    def cut_off() -> None:
        broker = chance.choice(cluster.brokers[:NODES])
        cluster.cut(broker.node_id)
        time.sleep(chance.choice((1.5, 8.0)))
        cluster.mend(broker.node_id)

    def reassign() -> None:
        nodes = [broker.node_id for broker in cluster.brokers[:NODES]]
        chosen = [(TOPIC, chance.randrange(PARTITIONS)), (STATE_TOPIC, chance.randrange(5))]
        reorder_replicas(cluster.bootstrap, chosen, nodes, chance)

    return (kill, freeze, cut_off, reassign, reassign)


class Disturbance(Background):
    """One fault after the other, on a thread of its own."""

    def __init__(self, cluster: IsolatedCluster, chance: random.Random) -> None:
        self._faults, self._chance, self.done = faults(cluster, chance), chance, 0
        super().__init__(joined_within_s=60)

    def run(self) -> None:
        while not self.pause(FAULT_EVERY_S):
            with suppress(Exception):
                self._chance.choice(self._faults)()
                self.done += 1


def plant(bootstrap: str, partition: int, number: int) -> PlantedTransaction:
    """A hang whose id is known, or one whose id nobody knows."""
    if number % 2:
        return plant_hang(bootstrap, TOPIC, partition, f"hung-{number}")
    return plant_hang_without_id(bootstrap, TOPIC, partition, producer_id=FIRST_PRODUCER_ID + number)


def run(version: str, minutes: float, seed: int) -> Findings:
    """One run on a cluster of its own."""
    chance, findings = random.Random(seed), Findings()
    hangs: dict[int, PlantedTransaction] = {}
    with ExitStack() as stack:
        cluster = stack.enter_context(IsolatedCluster(version, nodes=NODES, properties=PROPERTIES))
        cluster.topics.create(TOPIC, partitions=PARTITIONS, replication_factor=NODES)
        busy = [Producers(cluster.bootstrap, f"busy-{number}", random.Random(seed + number)) for number in range(BUSY)]
        visitors = Producers(cluster.bootstrap, "visitor", random.Random(seed + BUSY), transactions=2)
        for producers in (*busy, visitors):
            stack.callback(producers.close)
        disturbance = Disturbance(cluster, random.Random(seed + 2))
        stack.callback(disturbance.close)
        watch = stack.enter_context(Watch(cluster.bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS))
        watch.may_read = False
        until = time.monotonic() + 60 * minutes
        while time.monotonic() < until:
            began = time.monotonic()
            number = len(findings.planted)
            free = [partition for partition in range(PARTITIONS // 2) if partition not in hangs]
            if free and chance.random() < 0.15:
                with suppress(Exception):
                    hang = plant(cluster.bootstrap, free[0], number)
                    hangs[free[0]] = hang
                    findings.planted[hang.topic, hang.partition, hang.start_offset] = time.monotonic()
            for partition, hang in tuple(hangs.items()):
                key = (hang.topic, hang.partition, hang.start_offset)
                if time.monotonic() - findings.planted[key] > HANG_LASTS_S:
                    with suppress(Exception):
                        write_marker(cluster.bootstrap, TOPIC, partition, hang.producer_id, hang.producer_epoch)
                        del hangs[partition]
            try:
                judge(findings, watch.cycle(), hangs)
            except ClusterUnavailableError:
                findings.failed += 1
            time.sleep(max(CYCLE_S - (time.monotonic() - began), 0))
        ended = sum(producers.ended for producers in (*busy, visitors))
        findings.work = f"{ended} transactions, {visitors.ids} visitors, {disturbance.done} faults"
    return findings


def main() -> int:
    """Returns 1 if something was called a hang that was not planted."""
    parser = argparse.ArgumentParser(prog="python -m tests.verification.by_offsets", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kafka", default="4.3.1")
    arguments = parser.parse_args()
    findings = run(arguments.kafka, arguments.minutes, arguments.seed)
    within = sorted(findings.proved.values())
    print(
        f"Kafka {arguments.kafka}, seed {arguments.seed}: {findings.cycles} cycles ({findings.failed} failed), "
        f"{len(findings.planted)} hangs, {len(within)} proved after {within[:1]} to {within[-1:]} cycles; "
        f"{len(findings.false)} false; {dict(findings.verdicts)}; {findings.work}"
    )
    for sentence in dict.fromkeys(findings.false):
        print(f"FALSE {sentence}")
    return 1 if findings.false else 0


if __name__ == "__main__":
    sys.exit(main())
