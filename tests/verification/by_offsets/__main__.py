"""`python -m tests.verification.by_offsets`: busy producers, faults and planted hangs, judged without READ on any topic.

Five transactional ids commit as many transactions as the brokers take on the first of the partitions where hangs are
planted and aborted, other ids come and go, and brokers are killed, frozen, cut off, elected and given other partitions.
What is called a hang must be a planted one, by its start offset, that is open. Ends with a row for the README, and with
status 1 if one was not.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from exporter.kafka.errors import ClusterUnavailableError
from exporter.snapshot import STATE_TOPIC
from hangbench.kafka.isolation import IsolatedCluster
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED
from tests.brokers.leaders import reorder_replicas
from tests.verification.background import Background
from tests.verification.by_offsets.findings import SOON, Delay, Findings, Span, calm, delay_of, rate
from tests.verification.by_offsets.hangs import Hangs, now_ms
from tests.verification.by_offsets.producers import BusyProducers
from tests.watching import Watch

TOPIC: Final = "busy"
PARTITIONS: Final = 6
"""All transactions are on the first one, or on another one too."""
HUNG: Final = 3
"""Partitions with hangs, the first ones."""
NODES: Final = 3
STATE_PARTITIONS: Final = 5
CYCLE_S: Final = 1.0
REQUEST_TIMEOUT_MS: Final = 1500
PLANTED: Final = 0.15
"""Share of the cycles before which a hang is planted, if a partition is free."""
FAULT_EVERY_S: Final = 12.0
MOVED_FOR_S: Final = 4.0
SWITCH_S: Final = 0.0005
"""The links between brokers are threads of this process: each would wait 5 ms for a cycle that computes."""
PROPERTIES: Final[dict[str, str | int]] = {
    **HANGS_CAN_BE_PLANTED,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "min.insync.replicas": 2,
    "transaction.state.log.min.isr": 2,
    "add.partitions.to.txn.retry.backoff.ms": 5,
    # Ids that come and go expire within the run.
    "transactional.id.expiration.ms": 20_000,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 5_000,
}


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

    def partitions() -> list[tuple[str, int]]:
        return [(TOPIC, chance.randrange(HUNG)), (STATE_TOPIC, chance.randrange(STATE_PARTITIONS))]

    def elect() -> None:
        nodes = [broker.node_id for broker in cluster.brokers[:NODES]]
        reorder_replicas(cluster.bootstrap, partitions(), nodes, chance)

    def move() -> None:
        """Two of the brokers have them for a while; a third one copies them afterwards."""
        nodes, moved = [broker.node_id for broker in cluster.brokers[:NODES]], partitions()
        reorder_replicas(cluster.bootstrap, moved, nodes, chance, replicas=NODES - 1)
        time.sleep(MOVED_FOR_S)
        reorder_replicas(cluster.bootstrap, moved, nodes, chance)

    return (kill, freeze, cut_off, elect, move)


class Disturbance(Background):
    """One fault after the other, on a thread of its own."""

    def __init__(self, cluster: IsolatedCluster, chance: random.Random) -> None:
        self._faults, self._chance = faults(cluster, chance), chance
        self.spans: list[Span] = []
        super().__init__(joined_within_s=60)

    def run(self) -> None:
        while not self.pause(FAULT_EVERY_S):
            began_ms = now_ms()
            with suppress(Exception):
                self._chance.choice(self._faults)()
            self.spans.append((began_ms, now_ms()))


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run, judged."""

    findings: Findings
    false: list[str]
    delays: list[Delay]
    transactions: int
    ids: int
    faults: int
    rate: float
    calm_rate: float

    def row(self) -> str:
        """The cells of its row in the README."""
        due = [delay for delay in self.delays if delay.was_due]
        soon = sum(delay.is_soon for delay in due)
        cells = (
            self.findings.cycles,
            f"{self.transactions:,}",
            f"{self.rate:.0f}, {self.calm_rate:.0f}",
            self.faults,
            len(self.delays),
            sum(delay.is_proved for delay in self.delays),
            f"{soon} of {len(due)}",
            sum(delay.is_proved and delay.whole_since_candidates <= SOON for delay in due),
            _spread([delay.since_candidates for delay in due if delay.is_proved]),
            _spread([delay.since_planted for delay in due if delay.is_proved]),
            len(self.false),
        )
        return " | ".join(map(str, cells))


def _spread(counts: Sequence[int]) -> str:
    ordered = sorted(counts)
    return f"{ordered[len(ordered) // 2]}, {ordered[-1]}" if ordered else "none"


def run(version: str, transaction_version: int, minutes: float, seed: int) -> Outcome:
    """One run on a cluster of its own."""
    chance, findings = random.Random(seed), Findings()
    with ExitStack() as stack:
        stack.callback(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(SWITCH_S)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="by-offsets-")))
        cluster = stack.enter_context(IsolatedCluster(version, nodes=NODES, properties=PROPERTIES))
        if transaction_version == 0 and not version.startswith("3."):
            cluster.downgrade_transactions(0)
        cluster.topics.create(TOPIC, partitions=PARTITIONS, replication_factor=NODES)
        producers = BusyProducers(cluster, folder, TOPIC, PARTITIONS, HUNG, seed)
        stack.callback(producers.close)
        assert producers.transaction_version() == transaction_version
        disturbance = Disturbance(cluster, random.Random(seed + 2))
        stack.callback(disturbance.close)
        watch = stack.enter_context(Watch(cluster.bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS, may_read=False))
        hangs, run_began_ms = Hangs(cluster.bootstrap, TOPIC, HUNG), now_ms()
        while now_ms() - run_began_ms < 60_000 * minutes:
            began = time.monotonic()
            hangs.adopt()
            free = hangs.free()
            if free and chance.random() < PLANTED:
                with suppress(Exception):
                    hangs.plant(free[0])
            hangs.heal()
            try:
                findings.judge(watch.cycle, hangs, TOPIC)
            except ClusterUnavailableError:
                findings.failed += 1
            time.sleep(max(CYCLE_S - (time.monotonic() - began), 0))
        whole: Span = (run_began_ms, now_ms())
        disturbance.close()
        hangs.adopt()
        journal = [entry for entry in producers.journal() if entry.ended_ms >= run_began_ms]
        return Outcome(
            findings=findings,
            false=findings.false(hangs),
            delays=[delay_of(hang, journal) for hang in hangs.every.values()],
            transactions=len(journal),
            ids=len({entry.transactional_id for entry in journal}),
            faults=len(disturbance.spans),
            rate=rate(journal, 0, [whole]),
            calm_rate=rate(journal, 0, calm(whole, disturbance.spans)),
        )


def main() -> int:
    """Returns 1 if something was called a hang that was not planted."""
    parser = argparse.ArgumentParser(prog="python -m tests.verification.by_offsets", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kafka", default="4.3.1")
    parser.add_argument(
        "--transaction-version", type=int, choices=(0, 2), default=2, help="0 for Kafka before 4.0 (default: 2)"
    )
    arguments = parser.parse_args()
    outcome = run(arguments.kafka, arguments.transaction_version, arguments.minutes, arguments.seed)
    print(f"| {arguments.kafka} | {arguments.transaction_version} | {arguments.seed} | {outcome.row()} |")
    print(f"{outcome.findings.failed} cycles failed, {outcome.ids} ids, {dict(outcome.findings.verdicts)}")
    print(
        "cycles since planted, overlapping, candidates, and whole ones of the last:",
        *sorted(map(_delay, outcome.delays)),
    )
    for delay in outcome.delays:
        if not delay.is_soon:
            print(f"LATE {_delay(delay)}: {', '.join(delay.sights)}")
    for sentence in outcome.false:
        print(f"FALSE {sentence}")
    return 1 if outcome.false else 0


def _delay(delay: Delay) -> str:
    state = "" if delay.is_proved else "unproved:"
    counts = delay.since_planted, delay.since_overlapping, delay.since_candidates, delay.whole_since_candidates
    return state + "/".join(map(str, counts))


if __name__ == "__main__":
    sys.exit(main())
