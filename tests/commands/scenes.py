"""Evaluations, records and stand-ins for tests of commands; all built in memory, nothing read from a broker."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path

from exporter.commands.arguments import build_parser
from exporter.commands.clusters import ClusterResult
from exporter.commands.context import Context
from exporter.commands.examine import Examiner, policy
from exporter.commands.recover import ClusterAccess
from exporter.config.loading import load
from exporter.evaluation.evaluate import all_rows, evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, Policy, TransactionRow
from exporter.kafka.collect.held_back import HeldBack
from exporter.kafka.collect.scope import Scope
from exporter.snapshot import (
    BrokerCoverage,
    CoordinatorCoverage,
    GroupOffset,
    Impact,
    OneEntry,
    RememberedCompletions,
    SecondRead,
    Snapshot,
)
from tests.evaluation.builders import MINUTE_MS, NOW_MS, Entry, proof, snapshot, transaction
from tests.recovery.stand_in import PartitionStandIn

SETTINGS = load(file=None, environment={}, flags={"kafka.bootstrap.servers": "localhost:1"}).settings
ODD_ID = 'app,\x1b[31m\n\r"1"'
"""A transactional id may hold anything."""


def alone(evaluation: Evaluation) -> tuple[ClusterResult[Evaluation]]:
    """The result of a command on one cluster, without a fleet."""
    return (ClusterResult(SETTINGS.watched[0], evaluation),)


def every_kind() -> Evaluation:
    """Five open transactions, three of them suspects, and a partition that could not be read."""
    ended = transaction("CompleteCommit", transactional_id="billing-1", producer_id=40, partitions=frozenset())
    listed = (
        transaction(transactional_id="live-1"),
        ended,
        transaction(transactional_id="slow-1", producer_id=41, start_ms=NOW_MS - 5 * MINUTE_MS, partitions=_on(2)),
        transaction("PrepareCommit", transactional_id="ends-1", producer_id=42, producer_epoch=4, partitions=_on(3)),
    )
    taken = snapshot(
        [
            Entry(partition=0),
            Entry(
                partition=1, producer_id=40, second_read=SecondRead.UNCHANGED, last_timestamp_ms=NOW_MS - 40 * MINUTE_MS
            ),
            Entry(partition=2, producer_id=41, start_offset=7),
            Entry(partition=3, producer_id=42),
            Entry(
                partition=12, producer_id=4000, second_read=SecondRead.UNCHANGED, last_timestamp_ms=NOW_MS - MINUTE_MS
            ),
        ],
        partitions=14,
        unread=[13],
        transactions=listed,
        proof=proof(transactions=(ended,)),
        impact=Impact(
            offsets=(GroupOffset(group="readers", topic="orders", partition=1, offset=100),),
            residents=(),
            failures=("broker 2 did not tell its groups",),
        ),
        brokers=(BrokerCoverage(broker=1, host="kafka-1", port=9092, partitions=14, failure="broker 1 is slow"),),
    )
    return evaluate(taken, Memory(), Policy())


def _on(partition: int) -> frozenset[tuple[str, int]]:
    return frozenset({("orders", partition)})


def hang(*, partition: int = 0, cluster_id: str = "cluster-1", start_offset: int = 100) -> Evaluation:
    """One partition with a transaction that no coordinator knows."""
    entry = Entry(partition=partition, producer_id=4000, start_offset=start_offset, second_read=SecondRead.UNCHANGED)
    return evaluate(snapshot([entry], cluster_id=cluster_id, proof=proof()), Memory(), Policy())


def live(*, partition: int = 0) -> Evaluation:
    """The same partition with a transaction that is fine."""
    listed = transaction(producer_id=4000, partitions=_on(partition))
    return evaluate(
        snapshot([Entry(partition=partition, producer_id=4000)], transactions=(listed,)), Memory(), Policy()
    )


def committed() -> Evaluation:
    """A late write into a transaction whose coordinator has committed it."""
    listed = transaction("CompleteCommit", partitions=frozenset())
    entry = Entry(second_read=SecondRead.UNCHANGED)
    return evaluate(snapshot([entry], transactions=(listed,), proof=proof(transactions=(listed,))), Memory(), Policy())


def stuck(state: str = "PrepareCommit") -> Evaluation:
    """Returns a decision, a commit by default, that has owed its marker for a minute."""
    listed = transaction(state, producer_epoch=4)
    policy = Policy(stuck_after_ms=30_000)
    first = evaluate(snapshot([Entry()], transactions=(listed,)), Memory(), policy)
    return evaluate(snapshot([Entry()], transactions=(listed,), taken_at_ms=NOW_MS + MINUTE_MS), first.memory, policy)


def nothing() -> Evaluation:
    """Nothing is open."""
    return evaluate(snapshot(), Memory(), Policy())


class World(ClusterAccess):
    """Means that answer each look with the next of `looks` (the last again and again), on partitions that obey."""

    @classmethod
    def of(cls, *looks: Evaluation | Callable[[Scope], Evaluation]) -> tuple[World, list[PartitionStandIn]]:
        """The means, and every partition that was asked for: it shows what was last judged, until a marker comes."""
        opened: list[PartitionStandIn] = []
        seen: list[Evaluation] = []
        left = list(looks)

        def judge(scope: Scope) -> Evaluation:
            look = left.pop(0) if len(left) > 1 else left[0]
            seen.append(look if isinstance(look, Evaluation) else look(scope))
            return seen[-1]

        def partition(_topic: str, _number: int) -> PartitionStandIn:
            opened.append(PartitionStandIn([tuple(map(_entry, all_rows(seen[-1])))]))
            return opened[-1]

        return cls(judge=judge, partition=partition, records=lambda _: HeldBack(own=1, others=49)), opened


def _entry(row: TransactionRow) -> OneEntry:
    return OneEntry(
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        coordinator_epoch=row.coordinator_epoch,
        last_sequence=row.last_sequence,
        last_timestamp=row.last_timestamp_ms,
        current_txn_start_offset=row.start_offset,
    )


def context_of(folder: Path | None, arguments: Sequence[str]) -> Context:
    """As the command line makes it."""
    options = build_parser().parse_args(list(arguments))
    return Context(options=options, words=tuple(arguments), state_folder=folder, may_colour=True)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Completing:
    """A collector that finds one transaction completing at each look, and `newcomers` that are others each time.

    Its clock is its own: a look takes `look_s`, and sleeping passes the time.
    """

    def __init__(self, *, newcomers: int = 0, look_s: float = 0.0, is_stuck: bool = True) -> None:
        self.looks = 0
        self.now_s = 0.0
        self._newcomers = newcomers
        self._look_s = look_s
        self._is_stuck = is_stuck

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def collect(
        self,
        *,
        seen_before: None,
        completing: RememberedCompletions,
        scope: Scope,
        progress: object,
        search_logs: bool,
    ) -> Snapshot:
        del seen_before, completing, scope, progress
        assert search_logs
        taken_at_ms = NOW_MS + int(self.now_s * 1000)
        self.looks += 1
        self.now_s += self._look_s
        lasting = [7] if self._is_stuck else []
        passing = [10_000 * self.looks + number for number in range(self._newcomers)]
        return snapshot(
            [Entry(producer_id=producer_id, start_offset=producer_id) for producer_id in [*lasting, *passing]],
            transactions=tuple(
                transaction("PrepareCommit", producer_id=producer_id, producer_epoch=4)
                for producer_id in lasting + passing
            ),
            taken_at_ms=taken_at_ms,
            coordinators=(CoordinatorCoverage(broker=1, failure=None),),
        )

    def judge(self, *, stuck_after_ms: int | None = 3000) -> Examiner:
        return Examiner(self, policy(SETTINGS, stuck_after_ms=stuck_after_ms), sleep=self.sleep, clock=self.clock)
