"""Commands of a process that has seen nothing, with every subset of rights, and rights that are taken and given back."""

from __future__ import annotations

import pytest

from tests.verification.model import rights
from tests.verification.model.directors import Played, Schedule
from tests.verification.model.events import Event, happen
from tests.verification.model.exhaustive import NO_LIMIT, Extent, exhaustively, spread, with_every_subset
from tests.verification.model.explore import Reached, replay, story
from tests.verification.model.image import STATE_TOPIC
from tests.verification.model.rights import CLUSTER, DESCRIBE, READ, TOPIC, TRANSACTIONAL_ID, allows
from tests.verification.model.situations import BY_NAME, SITUATIONS, WRITES, make
from tests.verification.model.subsets import every_subset
from tests.verification.model.world import World

COMMITTED_ELSEWHERE = tuple(
    BY_NAME[name] for name in ("abort of what was committed elsewhere", "abort of an expired id")
)


def authorized() -> World:
    """A cluster where every right is granted and can be taken."""
    world = make(BY_NAME["full rights"], lambda cluster: World(cluster, Played(Schedule())))
    assert allows(world.cluster.image.rights, READ, TOPIC, "t")
    return world


def changed(world: World, name: str, *arguments: object) -> rights.Rights:
    """The rights after an event that must be possible."""
    assert happen(world, Event(name, arguments))
    return world.cluster.image.rights


def test_rights_are_taken_and_given_back() -> None:
    world = authorized()
    ours = changed(world, "set_topic_right", "u", "none")
    assert not allows(ours, DESCRIBE, TOPIC, "u")
    assert all(allows(ours, READ, TOPIC, topic) for topic in ("t", "new", STATE_TOPIC))
    ours = changed(world, "set_topic_right", "u", "DESCRIBE")
    assert (allows(ours, READ, TOPIC, "u"), allows(ours, DESCRIBE, TOPIC, "u")) == (False, True)
    ours = changed(world, "set_id_right", "a")
    assert [allows(ours, DESCRIBE, TRANSACTIONAL_ID, name) for name in ("a", "b")] == [True, False]
    assert not allows(changed(world, "set_id_right", "none"), DESCRIBE, TRANSACTIONAL_ID, "a")
    assert not allows(changed(world, "set_cluster_right", "DESCRIBE", False), DESCRIBE, CLUSTER)
    changed(world, "deny_topic", "t")
    ours = changed(world, "give_everything")
    assert rights.sees_everything(ours)
    assert not happen(world, Event("give_everything"))
    assert not happen(world, Event("authorize"))


def test_every_subset_of_rights_is_another_one() -> None:
    subsets = []
    for events in every_subset():
        world = make(BY_NAME["abort"], lambda cluster: World(cluster, Played(Schedule())))
        assert all(happen(world, event) for event in events)
        ours = world.cluster.image.rights
        names = [(TOPIC, name) for name in ("t", "u", STATE_TOPIC)] + [(TRANSACTIONAL_ID, name) for name in ("a", "b")]
        seen = [allows(ours, operation, *name) for name in names for operation in (READ, DESCRIBE)]
        cluster = [allows(ours, operation, CLUSTER) for operation in (DESCRIBE, rights.DESCRIBE_CONFIGS)]
        assert any(allows(ours, operation, CLUSTER) for operation in (rights.ALTER, rights.CLUSTER_ACTION))
        subsets.append((*seen, *cluster))
    assert len(set(subsets)) == len(subsets) == 3**4 * 2**2


@pytest.mark.parametrize(
    "situation",
    [
        pytest.param(one, id=one.name, marks=() if one in COMMITTED_ELSEWHERE else pytest.mark.long)
        for one in SITUATIONS
        if one.script in WRITES
    ],
)
def test_no_command_does_harm_with_any_subset_of_rights(situation: object) -> None:
    """Less right was less caution once: with no right on the topic of the COMMIT marker the abort was written."""
    chosen = [one for one in SITUATIONS if one is situation]
    reached = Reached()
    with_every_subset(reached, situations=chosen)
    assert reached.schedules == len(tuple(every_subset()))
    assert not reached.found, story(chosen[0], reached.found[0].schedule)


@pytest.mark.parametrize("topic", ["t", STATE_TOPIC])
def test_a_topic_that_becomes_visible_within_a_cycle_is_not_read_in_it(topic: str) -> None:
    """It was missing in the metadata that the cycle read, and shown by name a moment later: coverage was complete."""
    for position in range(2, 40):
        events = (Event("authorize"), Event("set_topic_right", (topic, "none")))
        taken = tuple((1 if event.name == "authorize" else position, event) for event in events)
        for given_back in range(position + 1, 60):
            ran = replay(BY_NAME["late write"], Schedule(events=(*taken, (given_back, Event("give_everything")))))
            assert ran.violations == ()


@pytest.mark.parametrize("given_back", [65, 80, 95, 116])
def test_a_topic_that_becomes_visible_within_a_search_is_not_searched_by_it(given_back: int) -> None:
    """The right on the COMMIT marker's topic is missing as each of the two evaluations begins, and given back within it."""
    taken, all_given = Event("set_topic_right", ("u", "none")), Event("give_everything")
    situation = BY_NAME["abort of what was committed elsewhere, with rights that change"]
    before = ((1, taken), (given_back, all_given))
    places = replay(situation, Schedule(events=before)).places
    question = places.index("question") + 1 if "question" in places else len(places)
    for position in range(question + 1, len(places) + 1):
        again = ((question, taken), (position, all_given))
        assert replay(situation, Schedule(events=(*before, *again))).violations == ()


def test_a_proof_by_offsets_of_another_partition_is_not_the_last_question_about_this_one() -> None:
    """The checker's own fault (seed 4049552): then the names led to another cluster, whose t-0 a search read at the end."""
    events = (
        (1, Event("authorize")),
        (1, Event("set_topic_right", ("t", "none"))),
        (4, Event("give_everything_to", (1,))),
        (16, Event("shrink_in_sync", ("t", 0))),
        (67, Event("lead_elsewhere", ("the same id",))),
    )
    ran = replay(BY_NAME["abort by a plan at another cluster"], Schedule(events=events))
    assert (ran.violations, ran.verdicts["hanging_not_in_transaction"]) == ((), 1)


def test_listed_schedules_are_bounded_and_spread_evenly() -> None:
    placements = [(number, Event("kill", (1,))) for number in range(100)]
    assert [position for position, _ in spread(placements, 4)] == [0, 25, 50, 75]
    assert spread(placements, NO_LIMIT) == placements
    for depth in (1, 2):
        reached = Reached()
        exhaustively(
            reached, Extent(depth, ("pass_time", "silence"), schedules_max=40), situations=[BY_NAME["late write"]]
        )
        assert 10 < reached.schedules <= 40
