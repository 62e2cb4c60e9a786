"""Two hours of a tenth of the workload: what must be quiet is quiet, and a bad world is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Final

import numpy as np
import pytest

from exporter.artifacts.rules import rule_groups
from exporter.baseline import NO_BASELINE
from exporter.snapshot import OFFSETS_TOPIC
from tests.evaluation.builders import NOW_MS
from tests.verification.noise.baselines import baseline
from tests.verification.noise.day import play, read_by
from tests.verification.noise.plans import HOUR_MS, MINUTE_MS, SECOND_MS, Batches, PlannedTransaction
from tests.verification.noise.report import DOCUMENT, PAGE, WARNING, rows_of, workload_table, wrong
from tests.verification.noise.rules import Alarm, replay
from tests.verification.noise.workload import FAMILIES, family_of
from tests.verification.noise.workload import OWNERS as OWNERS_OF_A_RUN
from tests.verification.noise.world import CYCLE_MS, HUNG, Faults, World

OWNERS: Final = 100
SEED: Final = 1
CYCLES_AN_HOUR: Final = HOUR_MS // CYCLE_MS


def alarms_of(world: World, cycles: int, *, has_baseline: bool = False) -> Sequence[Alarm]:
    """Returns what is pending or firing in the first cycles of this world."""
    groups = rule_groups()
    usual = baseline(OWNERS) if has_baseline else NO_BASELINE
    return replay(play(world, cycles, read_by(groups), usual), groups)


@pytest.mark.programs
@pytest.mark.parametrize("has_baseline", [False, True])
def test_a_cluster_in_which_all_is_well_is_quiet(has_baseline: bool) -> None:  # noqa: FBT001 - a case
    """Nobody is paged or warned about a transaction that ends within its time-out."""
    rows = rows_of(alarms_of(World(OWNERS, SEED), 2 * CYCLES_AN_HOUR, has_baseline=has_baseline))

    raised = {(row.family, row.reason) for row in rows if row.severity in {PAGE, WARNING} and row.fired}
    assert raised == set(), rows


@pytest.mark.programs
def test_a_killed_owner_and_a_hang_are_not_quiet() -> None:
    """An owner with a time-out of two hours is killed: its page comes within a quarter of that, and goes two minutes before
    the abort. A hang is paged by the second cycle that sees it, and stays.
    """
    busy = replace(FAMILIES[1], timeout_ms=2 * HOUR_MS)
    killed_ms, hang_ms = 10 * MINUTE_MS, 20 * MINUTE_MS
    faults = Faults(killed=((f"{busy.name}-1-0", killed_ms),), hang_ms=hang_ms)
    cycles = 5 * CYCLES_AN_HOUR // 2

    alarms = alarms_of(World(30, SEED, faults, (busy,)), cycles)

    silent = [alarm for alarm in alarms if alarm["reason"] == "OwnerSilent"]
    assert {(alarm["severity"], family_of(alarm["topic"]), alarm["partition"]) for alarm in silent} == {
        (PAGE, busy.name, "0")
    }
    after_ms = (silent[0].first * CYCLE_MS - killed_ms, silent[-1].last * CYCLE_MS - killed_ms)
    assert MINUTE_MS <= after_ms[0] <= 32 * MINUTE_MS
    assert after_ms[1] == pytest.approx(118 * MINUTE_MS, abs=2 * MINUTE_MS)
    (hung,) = (alarm for alarm in alarms if alarm["reason"] == "Hanging")
    assert (hung["severity"], family_of(hung["topic"]), hung.is_firing) == (PAGE, HUNG, True)
    assert hung.first * CYCLE_MS <= hang_ms + 3 * CYCLE_MS
    assert hung.last >= cycles - 2
    assert {line.partition(" (")[0] for line in wrong(rows_of(alarms), cycles)} == {
        "critical: KafkaTransactionBlocksConsumersLong",
        "critical: KafkaTransactionHanging",
    }


def test_a_cycle_meets_short_transactions_as_often_as_they_are_open() -> None:
    """A thread of Kafka Streams is open for 108 of 110 ms, and has an offset pending for 11 of them."""
    world, cycles = World(30, SEED, families=FAMILIES[:1]), 200
    data = offsets = 0
    for number in range(cycles):
        taken = world.snapshot(number)
        topics = [taken.partitions.name(row)[0] for row in taken.open_transactions.partition_row.tolist()]
        offsets += topics.count(OFFSETS_TOPIC)
        data += len(topics) - topics.count(OFFSETS_TOPIC)

    owners = FAMILIES[0].owners(30)
    assert data / cycles / owners == pytest.approx(108 / 110, abs=0.05)
    assert offsets / cycles / owners == pytest.approx(11 / 110, abs=0.02)


def test_offsets_sequences_and_times_are_those_of_a_log() -> None:
    """No transaction begins behind the end of its log or after its last write, and none goes back."""
    world = World(OWNERS, SEED)
    before: dict[tuple[int, int, int], tuple[int, int]] = {}
    for number in range(30):
        taken = world.snapshot(number)
        open_ = taken.open_transactions
        columns = (open_.partition_row, open_.producer_id, open_.current_txn_start_offset)
        keys = list(zip(*(column.tolist() for column in columns), strict=True))
        writes = dict(
            zip(keys, zip(open_.last_sequence.tolist(), open_.last_timestamp.tolist(), strict=True), strict=True)
        )
        assert len(writes) == len(keys)
        assert np.all(open_.current_txn_start_offset < open_.high_watermark)
        assert np.all(open_.last_stable_offset <= open_.high_watermark)
        assert np.all(open_.last_timestamp <= taken.taken_at_ms)
        assert all(writes[key] >= before[key] for key in writes.keys() & before.keys())
        before = writes


def test_a_planned_transaction_has_written_what_it_has_by_then() -> None:
    planned = PlannedTransaction(
        transactional_id="job",
        producer_id=1,
        producer_epoch=0,
        began_ms=0,
        decided_ms=10 * MINUTE_MS,
        ended_ms=10 * MINUTE_MS + 5,
        bursts=((0, 1000), (5000, 5000)),
        every_ms=400,
    )
    killed = planned.killed(300, MINUTE_MS)

    assert [planned.written(at_ms) for at_ms in (0, 399, 400, 4999, 5000)] == [
        (1, 0),
        (1, 0),
        (2, 400),
        (3, 800),
        (4, 5000),
    ]
    assert (killed.written(MINUTE_MS), killed.ended_ms, killed.is_aborted) == ((1, 0), MINUTE_MS + 20, True)


def test_every_owner_behaves_well() -> None:
    """Each transaction ends within its time-out."""
    world = World(OWNERS, SEED)
    for number in range(2 * CYCLES_AN_HOUR):
        for each in world.snapshot(number).transactions:
            if each.is_described:
                assert each.start_ms is not None
                assert NOW_MS + number * CYCLE_MS - each.start_ms < each.timeout_ms, each


def test_a_batch_pauses_for_one_to_five_minutes() -> None:
    job = Batches(takes_ms=HOUR_MS, rests_ms=(HOUR_MS, 2 * HOUR_MS))
    bursts = next(job.plan(Random(SEED), "job", 1, 0)).bursts

    pauses_ms = [begin - end for (_, end), (begin, _) in pairwise(bursts)]
    assert len(bursts) > 10
    assert MINUTE_MS <= min(pauses_ms) <= max(pauses_ms) <= 5 * MINUTE_MS


def test_every_id_has_a_baseline_that_its_transactions_do_not_reach() -> None:
    """An id that is used once has that of its topic."""
    usual = baseline(OWNERS)
    ids = {
        ("streams-1-0", "streams-1"): 10,
        ("flink-idle-10m-1h-1-0-1", "flink-idle-10m-1h-1"): 900,
        ("flink-idle-10m-1h-2-0-77", "flink-idle-10m-1h-2"): 900,
        ("batch-1-0", "batch-1"): 5_400,
        ("daily-1-0", "daily-1"): 1_800,
    }

    found = {key: usual.usual("cluster-1", *key) for key in ids}
    assert {key: each and each.threshold_ms / SECOND_MS for key, each in found.items()} == {
        key: pytest.approx(seconds, rel=0.1) for key, seconds in ids.items()
    }
    assert [each.of.partition(" ")[0] for each in found.values() if each] == [
        *["transactional"] * 2,
        "topic",
        *["transactional"] * 2,
    ]


def test_the_readme_has_the_workload() -> None:
    """The proportions are a thousand owners in all."""
    assert sum(family.of_thousand for family in FAMILIES) == OWNERS_OF_A_RUN
    assert workload_table() in DOCUMENT.read_text(encoding="utf-8")
