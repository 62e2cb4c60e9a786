"""Tests facts of the model that schedules depend on: hash, third and rebuilt replicas, deleted records, other clusters."""

from __future__ import annotations

import pytest

from tests.verification.model.beginnings import SHOP
from tests.verification.model.cluster import home_of, java_hash
from tests.verification.model.events import Event, happen
from tests.verification.model.hand import do, fates, world_of
from tests.verification.model.image import STATE_TOPIC
from tests.verification.model.logs import Replica
from tests.verification.model.truth import Fate, standings
from tests.verification.model.world import World


def leader_of(world: World, topic: str, index: int) -> Replica:
    """The log that counts."""
    replica = world.cluster.leader_replica(topic, index)
    assert replica is not None
    return replica


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(2**31)), (SHOP, -903152870)],
)
def test_the_hash_is_javas(text: str, code: int) -> None:
    assert java_hash(text) == code


def test_the_smallest_hash_belongs_to_the_first_partition() -> None:
    assert [home_of("polygenelubricants", count) for count in (3, 5, 50)] == [0, 0, 0]
    assert [home_of(SHOP, count) for count in (2, 3, 5, 50)] == [0, 2, 0, 20]


def test_the_third_replica_can_lead() -> None:
    world = world_of("late write, three replicas")
    do(world, ("move_leader_to_last", "t", 0))
    partition = world.cluster.image.partition("t", 0)
    assert partition is not None
    assert (partition.leader, partition.in_sync) == (3, (1, 2, 3))


def test_deleted_records_leave_the_transaction_open_and_hold_the_stable_offset_at_the_log_start() -> None:
    world = world_of("late write")
    do(world, ("write_late", "a", "t", 0), ("delete_first_record", "t", 0))
    leader = leader_of(world, "t", 0)
    assert (fates(world), leader.start, leader.stable, leader.end) == ({"t-0 from 0": Fate.HANGING}, 1, 1, 2)
    do(world, ("rebuild_replica", "t", 0), ("move_leader", "t", 0))
    assert fates(world) == {"t-0 from 1": Fate.HANGING}, "the new replica has seen the second record only"


def test_a_replica_that_was_made_after_the_records_were_deleted_ends_the_hang_as_leader() -> None:
    world = world_of("deleted records, a new replica")
    (standing,) = standings(world.cluster).values()
    assert (standing.fate, standing.is_unknown_in_sync, standing.serials) == (Fate.HANGING, True, frozenset())
    do(world, ("move_leader_to_last", "t", 0))
    leader = leader_of(world, "t", 0)
    assert (fates(world), leader.stable) == ({}, leader.end)


def test_a_former_leader_that_leads_again_still_has_the_transaction_open() -> None:
    """Its producer state outlives its time as a follower: the hang is back, unless that replica is rebuilt as well."""
    world = world_of("deleted records, a new replica")
    do(world, ("move_leader_to_last", "t", 0), ("move_leader", "t", 0))
    assert fates(world) == {"t-0 from 0": Fate.HANGING}
    do(world, ("move_leader_to_last", "t", 0))
    for node_id in (1, 2):
        partition = world.cluster.image.partition("t", 0)
        assert partition is not None
        others = tuple(other for other in partition.in_sync if other != node_id)
        world.cluster.decide(world.cluster.image.with_partition("t", 0, partition._replace(in_sync=(*others, node_id))))
        do(world, ("rebuild_replica", "t", 0))
    do(world, ("move_leader", "t", 0))
    assert fates(world) == {}


@pytest.mark.parametrize("situation", ["lost marker", "deleted records, lost marker"])
def test_a_replica_that_has_the_marker_ends_the_hang_as_leader_and_commits_what_was_committed(situation: str) -> None:
    world = world_of(situation)
    (standing,) = standings(world.cluster).values()
    assert standing.is_closed_in_sync
    do(world, ("move_leader", "t", 0))
    leader = leader_of(world, "t", 0)
    assert (fates(world), leader.stable) == ({}, leader.end)
    assert [batch.kind for batch in leader.batches] == ["data", "commit"]


def test_the_names_lead_to_a_second_cluster_and_back() -> None:
    world = world_of("another cluster")
    first = world.cluster
    world.begin_cycle()
    do(world, ("lead_elsewhere", "the same id"))
    second = world.cluster
    assert (second.cluster_id, fates(world)) == (first.cluster_id, {})
    ids = [{topic.topic_id for topic in cluster.image.topics.values()} for cluster in (first, second)]
    assert not ids[0] & ids[1]
    assert not happen(world, Event("lead_back")), "not in the same cycle"
    world.begin_cycle()
    do(world, ("pass_time", 5_000), ("lead_back",))
    assert world.cluster is first
    assert (first.now_ms, fates(world)) == (second.now_ms, {"t-0 from 0": Fate.HANGING})
    world.begin_cycle()
    assert not happen(world, Event("lead_elsewhere", ("another id",))), "there is one second cluster"


def test_without_a_transaction_log_no_coordinator_ends_anything() -> None:
    world = world_of("ongoing")
    do(world, ("delete_state_topic",))
    assert STATE_TOPIC not in world.cluster.image.topics
    assert fates(world) == {"t-0 from 0": Fate.HANGING, "t-1 from 0": Fate.HANGING}
    assert fates(world_of("no transaction log")) == {"t-0 from 0": Fate.HANGING}
