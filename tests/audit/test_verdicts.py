"""Verdicts of the audit, in worlds whose truth is known."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from exporter.audit.verdicts import ACCUSATIONS, CLOCKS_APART_MS, AuditVerdict
from tests.audit.runs import Audit, audit
from tests.audit.world import BEGIN_MS, Truth, World
from tests.audit.worlds import played

WORLDS = 100


def accusations(result: Audit) -> Counter[Truth]:
    return Counter(
        Truth(
            finding.verdict.value,
            (finding.decision or finding.in_log).producer_id,  # type: ignore[union-attr]
            (finding.topic, finding.partition),
            None if finding.decision is None else finding.decision.start_ms,
        )
        for finding in result.findings
        if finding.verdict in ACCUSATIONS
    )


def runs_of(world: World, chance: random.Random) -> list[int]:
    """Up to four runs, the last one after everything."""
    return [*sorted(chance.randint(BEGIN_MS, world.now_ms) for _ in range(chance.randint(0, 3))), world.now_ms]


def said_of(result: Audit, truth: Truth) -> set[AuditVerdict]:
    """The verdicts about that producer on that partition."""
    return {
        finding.verdict
        for finding in result.findings
        if (finding.topic, finding.partition) == truth.partition
        and (finding.decision or finding.in_log).producer_id == truth.producer_id  # type: ignore[union-attr]
    }


def check(world: World, result: Audit) -> int:
    """Nothing is said that is not so, and no fault is passed over; returns how many faults are unknown."""
    found, expected = accusations(result), Counter(world.truths)
    assert found - expected == {}
    missing = expected - found
    assert [truth for truth in missing if AuditVerdict.UNKNOWN not in said_of(result, truth)] == []
    return missing.total()


def test_every_fault_is_named_and_nothing_else() -> None:
    """One in a hundred may be unknown: of transactions with one epoch the clocks alone tell which one has no marker."""
    faults = unknown = 0
    for seed in range(WORLDS):
        world, chance = played(seed, faults=0.15), random.Random(seed)

        result = audit(world, runs_of(world, chance), chance)

        unknown += check(world, result)
        faults += len(world.truths)
        assert result.transactions.total() == world.decided
    assert faults > 5 * WORLDS
    assert unknown < 0.01 * faults


def test_what_a_run_cannot_read_is_judged_by_a_later_one() -> None:
    """And until then it is not counted as decided. That a transaction is torn is seen in one run only."""
    unread = missing = faults = 0
    for seed in range(WORLDS // 2):
        world, chance = played(seed, faults=0.15), random.Random(seed)
        runs = sorted(chance.randint(BEGIN_MS, world.now_ms) for _ in range(3))

        result = audit(world, [*runs, world.now_ms], chance, failing=0.4)

        found = {(each.producer_id, each.partition, each.start_ms) for each in accusations(result)}
        expected = {(each.producer_id, each.partition, each.start_ms) for each in world.truths}
        assert found <= expected
        missing += len(expected - found)
        faults += len(expected)
        assert result.transactions.total() == world.decided
        unread += result.transactions[AuditVerdict.UNKNOWN]
        clean = played(seed, faults=0)
        assert not accusations(audit(clean, [*runs, clean.now_ms], chance, failing=0.4))
    assert unread > WORLDS
    assert missing < 0.02 * faults


@pytest.mark.parametrize("skew_ms", [0, 400, 5_000])
def test_nothing_is_said_of_a_clean_world(skew_ms: int) -> None:
    """Whatever the brokers' clocks are; within their limit everything is known."""
    for seed in range(WORLDS // 4):
        world, chance = played(seed, faults=0, skew_ms=skew_ms), random.Random(seed)

        result = audit(world, runs_of(world, chance), chance)

        assert not accusations(result)
        assert not result.pending
        assert result.transactions.total() == world.decided
        if skew_ms < 1_000 // 2:
            assert result.transactions == {AuditVerdict.AS_DECIDED: world.decided}


@pytest.mark.parametrize("faults", [0, 0.15])
@pytest.mark.parametrize("loss", ["decisions", "compaction", "retention"])
def test_what_is_lost_accuses_nobody(loss: str, faults: float) -> None:
    """Where half of a log is gone nothing is said of a producer and a partition that have no fault."""
    for seed in range(WORLDS // 4):
        world, chance = played(seed, faults=faults), random.Random(seed)
        complete_from_ms = world.forget_decisions(0.5) if loss == "decisions" else 0
        if loss == "compaction":
            world.compact(0.5)
        if loss == "retention":
            world.trim(0.5)

        result = audit(world, runs_of(world, chance), chance, complete_from_ms=complete_from_ms)

        faulty = {(truth.producer_id, truth.partition) for truth in world.truths}
        assert [found for found in accusations(result) if (found.producer_id, found.partition) not in faulty] == [], (
            seed
        )


BEHIND_MS = {0: 4_000, 1: 20_000, 2: 0}
"""How far the transaction log was read before a run: its partitions are not read up to the same instant."""


@pytest.mark.parametrize("skew_ms", [3, 300])
def test_busy_clients_of_one_epoch_are_compared_transaction_by_transaction(skew_ms: int) -> None:
    """A run sees markers of hundreds of transactions whose decisions it has not read yet, also without a record."""
    world, chance = busy(1, faults=0, skew_ms=skew_ms), random.Random(1)

    result = audit(world, runs_within(world), chance, behind_ms=BEHIND_MS)

    assert result.transactions == {AuditVerdict.AS_DECIDED: world.decided}
    assert {finding.verdict for finding in result.findings} == {AuditVerdict.AS_DECIDED}
    assert result.pending == {}


def test_faults_of_busy_clients_are_named() -> None:
    """Within the limit of the clocks: which transaction of an epoch has no marker is known within a second."""
    faults = unknown = 0
    for seed in range(6):
        world, chance = busy(seed, faults=0.01), random.Random(seed)

        result = audit(world, runs_within(world), chance, behind_ms=BEHIND_MS)

        left = list(world.truths)
        for accused in accusations(result).elements():
            near = [truth for truth in left if is_near(truth, accused)]
            assert near, accused
            left.remove(near[0])
        assert all(AuditVerdict.UNKNOWN in said_of(result, truth) for truth in left)
        faults, unknown = faults + len(world.truths), unknown + len(left)
    assert faults > 40
    assert unknown < 0.1 * faults


def busy(seed: int, **options: float) -> World:
    """Three clients with about 30 transactions a second each, which neither restart nor time out."""
    return played(
        seed,
        transactions=700,
        producers=3,
        partitions=2,
        pauses_ms=(1, 2, 5),
        is_steady=True,
        **{"skew_ms": 3, **options},
    )


def runs_within(world: World) -> list[int]:
    """Two while everything goes on, and one after it."""
    span_ms = world.state[-4].at_ms - BEGIN_MS
    return [BEGIN_MS + span_ms // 3, BEGIN_MS + 2 * span_ms // 3, world.now_ms]


def is_near(truth: Truth, accused: Truth) -> bool:
    at_ms = truth.start_ms or 0
    return (truth.verdict, truth.producer_id, truth.partition) == (
        accused.verdict,
        accused.producer_id,
        accused.partition,
    ) and abs(at_ms - (accused.start_ms or 0)) <= CLOCKS_APART_MS
