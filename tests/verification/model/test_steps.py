"""Takes away each step of the proof: the model finds a wrong result, or the step is redundant and nothing is found."""

from __future__ import annotations

import pytest

from tests.verification.model.defects import SCHEDULES_MAX, Defect, put_back
from tests.verification.model.explore import Reached, by_chance, story
from tests.verification.model.lies import search
from tests.verification.model.offset_lies import OFFSET_DEFECTS
from tests.verification.model.situations import BY_NAME
from tests.verification.model.steps import NEEDED, REDUNDANT

REDUNDANT_SCHEDULES = 100


@pytest.mark.long
@pytest.mark.parametrize("step", NEEDED, ids=lambda step: step.name)
def test_a_step_that_is_taken_away_is_missed(step: Defect) -> None:
    with put_back(step):
        result = search(step.lie, seed=step.seed, schedules_max=SCHEDULES_MAX, shrink=False)
    assert result.found is not None


@pytest.mark.long
@pytest.mark.parametrize("step", NEEDED, ids=lambda step: step.name)
def test_the_schedules_that_miss_a_step_find_nothing_with_it(step: Defect) -> None:
    result = search(step.lie, seed=step.seed, schedules_max=REDUNDANT_SCHEDULES, shrink=False)
    assert result.found is None, story(BY_NAME[step.lie.situation], result.found.schedule)


@pytest.mark.long
@pytest.mark.parametrize("step", REDUNDANT, ids=lambda step: step.name)
def test_a_redundant_step_is_covered_by_others(step: Defect) -> None:
    with put_back(step):
        result = search(step.lie, schedules_max=REDUNDANT_SCHEDULES, shrink=False)
    assert result.found is None, story(BY_NAME[step.lie.situation], result.found.schedule)


@pytest.mark.long
@pytest.mark.parametrize("defect", OFFSET_DEFECTS, ids=lambda defect: defect.name)
def test_a_wrong_proof_by_offsets_is_found(defect: Defect) -> None:
    with put_back(defect):
        result = search(defect.lie, seed=defect.seed, shrink=False)
    assert result.found is not None
    assert search(defect.lie, seed=result.found.seed, schedules_max=1, shrink=False).found is None


@pytest.mark.parametrize("is_hidden", [True, False], ids=["KIP-207", "without KIP-207"])
def test_the_proof_by_offsets_rests_on_new_leaders_that_hide_lagging_ends(*, is_hidden: bool) -> None:
    """A marker that a new leader does not know to be replicated looks like an open transaction."""
    situation = BY_NAME["offsets alone: new leader"]
    kind = situation.kind._replace(hides_lagging_ends=is_hidden)
    situation = situation._replace(kind=kind, kinds=("move_leader_lagging",))
    reached = Reached()
    by_chance(reached, seed=1, schedules=60, situations=(situation,), endings=("",))
    assert bool(reached.found) is not is_hidden
