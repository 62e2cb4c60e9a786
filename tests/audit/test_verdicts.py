"""Verdicts of the audit, in worlds whose truth is known."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from exporter.audit.verdicts import ACCUSATIONS, AuditVerdict
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
