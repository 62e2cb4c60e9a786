"""A small cluster with one open transaction of every kind, and what is true of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, InconclusiveReason, Policy, Verdict
from exporter.kafka.client.connections import Address, Connections
from exporter.kafka.collect.collector import CollectOptions, Collector
from exporter.kafka.errors import ClusterUnavailableError, ErrorCode
from exporter.snapshot import NO_PRODUCER_ID, STATE_TOPIC, PartitionResult, SecondRead, Snapshot
from tests.kafka.fake_broker import FakeCluster, Fault, Received
from tests.kafka.fake_model import Model, Partition, Producer, Transaction
from tests.kafka.loopback import HOST

Row = tuple[str, int, int]
"""(topic, partition, producer id)."""

PRODUCER_ID_UNKNOWN = 11
"""Of the hang that no coordinator knows."""

HANGING: dict[Row, Verdict] = {
    ("hung", 0, PRODUCER_ID_UNKNOWN): Verdict.HANGING_NO_TRANSACTIONAL_ID,
    ("hung", 1, 12): Verdict.HANGING_NOT_IN_TRANSACTION,
    ("hung", 1, 13): Verdict.HANGING_NOT_IN_TRANSACTION,
    ("mixed", 1, 14): Verdict.HANGING_STALE_EPOCH,
}
UNKNOWN: Row = ("hung", 0, PRODUCER_ID_UNKNOWN)
BY_OFFSETS: dict[tuple[str, int], Verdict] = {
    ("hung", 0): Verdict.HANGING_BY_OFFSETS,
    ("hung", 1): Verdict.HANGING_BY_OFFSETS,
    ("mixed", 0): Verdict.OPEN_WITHIN_TIMEOUT,
    ("mixed", 1): Verdict.OPEN_WITHIN_TIMEOUT,
    ("lively", 0): Verdict.OPEN_WITHIN_TIMEOUT,
    ("lively", 1): Verdict.OPEN_WITHIN_TIMEOUT,
}
"""The verdict on what holds the last stable offset of a partition whose producers are not shown."""

POLICY = Policy(stuck_after_ms=3_600_000)
"""On a busy machine a test with time-outs takes longer than the half minute after which a transaction is stuck."""

ALIVE: dict[Row, Verdict] = {
    ("mixed", 0, 1): Verdict.OPEN_WITHIN_TIMEOUT,
    ("mixed", 1, 2): Verdict.COMPLETING,
    ("lively", 0, 3): Verdict.OPEN_WITHIN_TIMEOUT,
    ("lively", 1, 3): Verdict.OPEN_WITHIN_TIMEOUT,
    ("lively", 1, 13): Verdict.OPEN_WITHIN_TIMEOUT,
    ("lively", 1, 4): Verdict.PREPARED_TWO_PHASE_COMMIT,
}


def scene() -> Model:
    """Two nodes, eight state partitions; the transactions of HANGING and ALIVE, and idle producers."""
    now_ms = time.time_ns() // 1_000_000

    def ongoing(producer_id: int, *partitions: tuple[str, int], **more: int) -> Transaction:
        return Transaction(producer_id, start_ms=now_ms, timeout_ms=600_000, partitions=set(partitions), **more)  # type: ignore[arg-type]

    idle = Producer(99)
    return Model(
        topics={
            STATE_TOPIC: [Partition(leader=leader) for leader in (1, 2) * 4],
            "hung": [
                Partition(1, producers=[Producer(PRODUCER_ID_UNKNOWN, 5), idle]),
                Partition(2, producers=[Producer(12, 7), Producer(13, 8)]),
            ],
            "mixed": [
                Partition(2, producers=[Producer(1, 0), idle]),
                Partition(1, producers=[Producer(2, 4), Producer(14, 6)]),
            ],
            "lively": [
                Partition(1, producers=[Producer(3, 9)]),
                Partition(2, producers=[Producer(3, 9), Producer(13, 20), Producer(4, 2)]),
                Partition(2, producers=[idle]),
            ],
        },
        transactions={
            "alive": ongoing(1, ("mixed", 0)),
            "completing": Transaction(2, "PrepareCommit", epoch=1, start_ms=now_ms, partitions={("mixed", 1)}),
            "wide": ongoing(3, ("lively", 0), ("lively", 1)),
            "prepared": Transaction(4, timeout_ms=2**31 - 1, start_ms=now_ms - 10**9, partitions={("lively", 1)}),
            "ended": Transaction(12, "CompleteCommit", start_ms=now_ms),
            "elsewhere": ongoing(13, ("lively", 1)),
            "newer": ongoing(14, ("mixed", 1), epoch=2),
            "idle": Transaction(98, "Empty", start_ms=-1),
        },
    )


def spare_state_partition(model: Model) -> int:
    """A partition of __transaction_state that owns none of the transactions."""
    return min(set(range(8)) - {model.coordinator_of(name)[0] for name in model.transactions})


@contextmanager
def collector_of(
    cluster: FakeCluster,
    *,
    request_timeout_s: float = 20,
    deadline_s: float = 60,
    wall_clock: Callable[[], float] = time.time,
    bootstrap: str = HOST,
) -> Iterator[Collector]:
    """A collector that knows every node's port as a bootstrap address; closed on exit."""
    collector = Collector(
        Connections({}, client_id="tests"),
        [Address(bootstrap, port) for port in cluster.ports.values()],
        CollectOptions(deadline_s=deadline_s, request_timeout_s=request_timeout_s),
        wall_clock=wall_clock,
    )
    try:
        yield collector
    finally:
        collector.close()


def evaluated(snapshot: Snapshot, memory: Memory | None = None) -> Evaluation:
    return evaluate(snapshot, memory or Memory(), POLICY)


def verdicts(evaluation: Evaluation) -> dict[Row, Verdict]:
    """The verdict on each open transaction."""
    return {
        (evidence.key.topic, evidence.key.partition, evidence.key.producer_id): Verdict.ranked(int(verdict))
        for evidence, verdict in zip(evaluation.evidence, evaluation.transactions.verdict, strict=True)
    }


def inconclusive(evaluation: Evaluation) -> dict[Row, InconclusiveReason | None]:
    """Why each inconclusive transaction is so."""
    return {
        (row.topic, row.partition, row.producer_id): row.inconclusive_reason
        for row in evaluation.suspects
        if row.verdict is Verdict.INCONCLUSIVE
    }


def answers(snapshot: Snapshot) -> dict[tuple[str, int], PartitionResult]:
    """The result of each partition."""
    partitions = snapshot.partitions
    return {partitions.name(row): PartitionResult(int(partitions.answer[row])) for row in range(len(partitions))}


def reasons(snapshot: Snapshot) -> dict[tuple[str, int], str]:
    """Why each unread partition is unread."""
    partitions = snapshot.partitions
    return {
        partitions.name(row): partitions.reasons[partitions.reason[row]]
        for row in range(len(partitions))
        if partitions.reason[row] >= 0
    }


def collected(
    model: Model,
    *,
    on_request: Callable[[Received], Fault | ErrorCode | None] = lambda _: None,
    on_response: Callable[[Received, Any], None] = lambda _received, _answer: None,
) -> Snapshot:
    """The first snapshot of a cluster of two nodes."""
    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        cluster.on_request = on_request
        cluster.on_response = on_response
        return collector.collect(seen_before=None)


def nth(count: int, api: str, act: Callable[[], object]) -> Callable[[Received], None]:
    """Does `act` before the `count`th request of an API is answered."""
    seen = 0

    def on_request(received: Received) -> None:
        nonlocal seen
        seen += received.api == api
        if received.api == api and seen == count:
            act()

    return on_request


def only_unknown_is_inconclusive(snapshot: Snapshot, reason: InconclusiveReason) -> None:
    """Unlisted ones are inconclusive for this reason; hangs with a known owner are proved, and the others are live."""
    evaluation = evaluated(snapshot)
    assert inconclusive(evaluation) == {UNKNOWN: reason}
    assert {row: verdict for row, verdict in verdicts(evaluation).items() if row != UNKNOWN} == {
        row: verdict for row, verdict in (HANGING | ALIVE).items() if row != UNKNOWN
    }


def remembered(collector: Collector) -> Memory:
    """The exporter's memory after a cycle without faults."""
    evaluation = evaluated(collector.collect(seen_before=None))
    assert verdicts(evaluation) == HANGING | ALIVE
    return evaluation.memory


def cycle(collector: Collector) -> Snapshot | None:
    """A snapshot; None if no broker returned the metadata."""
    try:
        return collector.collect(seen_before=None)
    except ClusterUnavailableError:
        return None


def assert_true_of_the_scene(snapshot: Snapshot, memory: Memory) -> None:
    """Nothing is missing without saying so, no verdict is wrong, and no hanging verdict rests on less than a proof."""
    everything = HANGING | ALIVE
    evaluation = evaluated(snapshot, memory)
    reported = verdicts(evaluation)
    proof_failures = {
        (evidence.key.topic, evidence.key.partition, evidence.key.producer_id): evidence.proof_failure
        for evidence in evaluation.evidence
    }
    read = {partition for partition, answer in answers(snapshot).items() if answer is PartitionResult.READ}
    by_offsets = {name for name, answer in answers(snapshot).items() if answer is PartitionResult.BY_OFFSETS}
    held = {row: verdict for row, verdict in reported.items() if row[2] == NO_PRODUCER_ID}
    assert held.keys() == {(*name, NO_PRODUCER_ID) for name in BY_OFFSETS.keys() & by_offsets}
    for row, verdict in held.items():
        assert verdict in {BY_OFFSETS[row[:2]], Verdict.INCONCLUSIVE}, row
        del reported[row]
    assert set(reported) == {row for row in everything if row[:2] in read}
    assert len(answers(snapshot)) == 15
    for row, verdict in reported.items():
        assert verdict in {everything[row], Verdict.INCONCLUSIVE}, row
        if verdict.is_hanging:
            assert verdict is HANGING.get(row)
            assert snapshot.proof is not None
            assert proof_failures[row] is None
            assert second_read(snapshot, row) is SecondRead.UNCHANGED


def second_read(snapshot: Snapshot, row: tuple[str, int, int]) -> SecondRead:
    open_ = snapshot.open_transactions
    (index,) = (
        i
        for i in range(len(open_))
        if (*snapshot.partitions.name(int(open_.partition_row[i])), int(open_.producer_id[i])) == row
    )
    return SecondRead(int(open_.second_read[index]))
