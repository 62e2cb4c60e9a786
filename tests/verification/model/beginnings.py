"""Creates initial situations: events before the first request, and changes that no event makes."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

from tests.verification.model import coordinator, rights
from tests.verification.model.cluster import MINUTE_MS
from tests.verification.model.events import Event, happen_quietly
from tests.verification.model.image import STATE_TOPIC
from tests.verification.model.logs import Batch
from tests.verification.model.operators import NO_TIMESTAMPS
from tests.verification.model.rights import FULL, Acl, Acls, Rights
from tests.verification.model.world import World

SHOP = "shop-1"
"""String.hashCode is -903152870: with a masked sign bit instead of Utils.abs it has another partition of 3, 5 and 50."""
TWO_PHASE = 2**31 - 1
MANY = 1_100
LARGE_BYTES = 1_000_000


_MANY = Acls(
    (
        *FULL,
        *(
            Acl(resource, f"application-{number}", rights.WRITE, principal="User:other", pattern=pattern)
            for number in range(MANY)
            for resource, pattern in ((rights.TRANSACTIONAL_ID, rights.LITERAL), (rights.TOPIC, rights.PREFIXED))
        ),
    )
)


def do(world: World, *steps: tuple[Any, ...]) -> None:
    for name, *arguments in steps:
        if not happen_quietly(world, Event(name, tuple(arguments))):
            raise AssertionError(f"{name}{tuple(arguments)} cannot happen")


def ongoing(world: World) -> None:
    do(world, ("begin_and_write", "a", "t", 0), ("begin_and_write", "b", "t", 1))


def late_write(world: World, name: str = "a") -> None:
    """A true hang on t-0 at offset 0; its transaction was committed on u-0."""
    do(world, ("begin_and_write", name, "u", 0), ("commit", name), ("send_all_markers", name))
    do(world, ("write_late", name, "t", 0))


def by_offsets(build: Callable[[World], None]) -> Callable[[World], None]:
    """The same, where the exporter may describe the topic t and not read it."""

    def built(world: World) -> None:
        build(world)
        do(world, ("authorize",), ("set_topic_right", "t", "DESCRIBE"))

    return built


def late_write_behind_a_live_one(world: World) -> None:
    """A true hang on t-0 at offset 0, and a live transaction of another producer after it."""
    late_write(world)
    do(world, ("begin_and_write", "b", "t", 0))


def ended_and_live(world: World) -> None:
    """A transaction on t-0 whose marker stands there, and nothing open."""
    do(world, ("begin_and_write", "a", "t", 0), ("commit", "a"), ("send_all_markers", "a"))


def late_write_of_shop(world: World) -> None:
    """The same of an id whose hash is negative."""
    late_write(world, SHOP)


def expired_shop(world: World) -> None:
    late_write(world, SHOP)
    do(world, ("expire_id", SHOP))


def late_write_without_timestamps(world: World) -> None:
    """The same, of a client that writes CreateTime -1: its time does not distinguish what comes later."""
    do(world, ("client_dates", NO_TIMESTAMPS))
    late_write(world)


def late_write_after_an_abort(world: World) -> None:
    """A true hang on t-0 at offset 0; its transaction was aborted on u-0, so that nothing prevents an abort."""
    do(world, ("begin_and_write", "a", "u", 0), ("abort", "a"), ("send_all_markers", "a"))
    do(world, ("write_late", "a", "t", 0))


def late_write_beside_a_live_one(world: World) -> None:
    late_write(world)
    do(world, ("begin_and_write", "b", "t", 1))


def expired(world: World) -> None:
    late_write(world)
    do(world, ("expire_id", "a"))


def rotated(world: World) -> None:
    late_write(world)
    do(world, ("rotate_producer_id", "a"))


def last_epoch(world: World) -> None:
    """Its end gives the producer another id, and markers still have the old one."""
    do(world, ("use_up_epochs", "a"), ("begin_and_write", "a", "t", 0), ("begin_and_write", "a", "u", 0))


def completing_the_last_epoch(world: World) -> None:
    last_epoch(world)
    do(world, ("commit", "a"))


def poisoned_in_the_last_epoch(world: World) -> None:
    last_epoch(world)
    do(world, ("poison_entry", "t", 0), ("commit", "a"), ("send_marker", "a"))


def stale(world: World) -> None:
    late_write(world)
    do(world, ("init", "a"), ("init", "a"), ("begin_and_write", "a", "u", 0), ("add_partition", "a", "t", 0))


def completing(world: World) -> None:
    do(world, ("begin_and_write", "a", "t", 0), ("begin_and_write", "a", "u", 0), ("commit", "a"))


def poisoned(world: World) -> None:
    do(world, ("begin_and_write", "a", "t", 0), ("poison_entry", "t", 0), ("commit", "a"), ("send_marker", "a"))


def poisoned_on_one_of_two(world: World) -> None:
    do(world, ("begin_and_write", "a", "t", 0), ("begin_and_write", "a", "u", 0), ("poison_entry", "t", 0))
    do(world, ("commit", "a"), ("send_marker", "a"))


def poisoned_abort(world: World) -> None:
    do(world, ("begin_and_write", "a", "t", 0), ("poison_entry", "t", 0), ("abort", "a"), ("send_marker", "a"))


def two_hangs(world: World) -> None:
    """On t-0 and t-1, each after an abort of its own producer."""
    late_write_after_an_abort(world)
    do(world, ("begin_and_write", "b", "u", 0), ("abort", "b"), ("send_all_markers", "b"))
    do(world, ("write_late", "b", "t", 1))


def restored_state_log(world: World) -> None:
    """The transaction log is older than the partition: the coordinator completes at an epoch that is refused."""
    do(world, ("init", "a"), ("begin_and_write", "a", "t", 0))
    txn = coordinator.truth_of(world.cluster, "a")
    assert txn is not None
    coordinator.write(world.cluster, txn._replace(epoch=txn.epoch - 1, state="PrepareCommit"))
    do(world, ("send_marker", "a"))


def hang_without_records(world: World) -> None:
    """The hang's record is deleted, and a third replica was made afterwards: it does not know the producer."""
    late_write_after_an_abort(world)
    do(world, ("delete_records", "t", 0), ("add_replica", "t", 0))


def lost_marker_of_deleted_records(world: World) -> None:
    """The leader has lost the marker that its follower has, and the records are deleted."""
    lost_marker(world)
    do(world, ("delete_records", "t", 0))


def foreign_records(world: World) -> None:
    """A hang on a cluster without a transaction log: the records were copied from another one."""
    replica = world.cluster.leader_replica("t", 0)
    assert replica is not None
    world.cluster.append("t", 0, Batch(replica.end, 77, 0, 0, world.cluster.now_ms, "data", 0))


def many_acls(world: World) -> None:
    """Every right, and more rules for other principals than fit into one request; a hang whose id has expired."""
    expired(world)
    grant(world, _MANY)


def lost_marker(world: World) -> None:
    completing(world)
    do(world, ("send_all_markers", "a"), ("leader_loses_marker", "t", 0))


def lost_marker_on_two(world: World) -> None:
    """Leader and first follower have lost it; the second follower has it."""
    completing(world)
    do(world, ("send_all_markers", "a"), ("follower_loses_marker", "t", 0), ("leader_loses_marker", "t", 0))


def follower_lost_marker(world: World) -> None:
    completing(world)
    do(world, ("send_all_markers", "a"), ("follower_loses_marker", "t", 0), ("move_leader", "t", 0))


def cut_off_coordinator(world: World) -> None:
    """Broker 2 still takes itself for the coordinator of `a`, whose transaction began at the new one."""
    do(world, ("cut_off", 2), ("begin_and_write", "a", "t", 0))


def cut_off_coordinator_that_had_it_open(world: World) -> None:
    """Broker 2 still has it ongoing; the new coordinator has aborted it, and the marker was lost at the partition."""
    do(world, ("begin_and_write", "a", "t", 0), ("cut_off", 2), ("abort", "a"), ("send_all_markers", "a"))
    cluster = world.cluster
    do(world, ("leader_loses_marker", "t", 0))
    assert cluster.image.partition("t", 0) is not None


def cut_off_leader(world: World) -> None:
    do(world, ("begin_and_write", "b", "t", 1), ("cut_off", 2))


def cut_off_majority(world: World) -> None:
    do(world, ("cut_off", 2), ("cut_off", 3))


def full_rights(world: World) -> None:
    grant(world, FULL)


def grant(world: World, acls: tuple[Acl, ...], **other: bool) -> None:
    world.cluster.decide(world.cluster.image._replace(rights=Rights(has_authorizer=True, acls=Acls(acls), **other)))


def two_phase_denied(world: World) -> None:
    txn = coordinator.truth_of(world.cluster, "a")
    assert txn is not None
    coordinator.write(world.cluster, txn._replace(timeout_ms=TWO_PHASE))
    do(world, ("begin_and_write", "a", "t", 0))
    grant(world, (*FULL, Acl(rights.TRANSACTIONAL_ID, "a", rights.DESCRIBE, rights.DENY)))


def two_phase(world: World) -> None:
    txn = coordinator.truth_of(world.cluster, "a")
    assert txn is not None
    coordinator.write(world.cluster, txn._replace(timeout_ms=TWO_PHASE))
    do(world, ("begin_and_write", "a", "t", 0))


def limit_unread(world: World) -> None:
    """The limit is an hour, and cannot be read; the id is hidden, and may live for longer than the fallback."""
    txn = coordinator.truth_of(world.cluster, "a")
    assert txn is not None
    coordinator.write(world.cluster, txn._replace(timeout_ms=50 * MINUTE_MS))
    do(world, ("begin_and_write", "a", "t", 0))
    granted = tuple(acl for acl in FULL if acl.operation != rights.DESCRIBE_CONFIGS)
    grant(world, (*granted, Acl(rights.TRANSACTIONAL_ID, "a", rights.DESCRIBE, rights.DENY)))


def visible_by_prefix(world: World) -> None:
    """Every made-up id matches a granted prefix; `~x` does not."""
    do(world, ("begin_and_write", "~x", "t", 0))
    granted = tuple(acl for acl in FULL if acl.resource != rights.TRANSACTIONAL_ID)
    first = string.hexdigits[:16]  # with which made-up ids begin here (`drive.TOKENS`)
    ours = tuple(
        Acl(rights.TRANSACTIONAL_ID, character, rights.DESCRIBE, pattern=rights.PREFIXED) for character in first
    )
    grant(world, granted + ours)


def nothing_granted(world: World) -> None:
    ongoing(world)
    grant(world, ())


def granted_until_revoked(world: World) -> None:
    ongoing(world)
    grant(world, FULL)


def topic_hidden(world: World) -> None:
    """Every right but that on `t`, where a transaction is live: an event gives it."""
    ongoing(world)
    grant(world, FULL)
    do(world, ("set_topic_right", "t", "none"))


def alone_cut_off_and_deleted(world: World) -> None:
    """Only broker 2 runs, is cut off, and does not know that its topic `t` is deleted."""
    expired(world)
    do(world, ("kill", 1), ("kill", 3), ("cut_off", 2), ("delete_topic", "t"))


def no_state_topic_right(world: World) -> None:
    ongoing(world)
    grant(world, (*FULL, Acl(rights.TOPIC, STATE_TOPIC, rights.ALL, rights.DENY)))


def everyone_without_acls(world: World) -> None:
    late_write(world)
    grant(world, (Acl(rights.TRANSACTIONAL_ID, "b", rights.ALL, principal="User:other"),), allow_without_acls=True)


def fence_may_fail(world: World) -> None:
    do(world, ("begin_and_write", "a", "t", 0), ("shrink_in_sync", STATE_TOPIC, 1))


def state_partition_elsewhere_gone(world: World) -> None:
    """The coordinator of `b` is gone with its only replica; the hang is of `a`."""
    late_write(world)
    do(world, ("kill", 4))


def aborted_before(world: World) -> None:
    """One transaction aborted on t-1, the next committed on u-0, and a late record of that on t-0."""
    do(world, ("begin_and_write", "a", "t", 1), ("abort", "a"), ("send_all_markers", "a"))
    late_write(world)


def committed_here_aborted_elsewhere(world: World) -> None:
    """The only COMMIT marker is on the hang's own partition; an older ABORT marker is elsewhere."""
    do(world, ("begin_and_write", "a", "t", 1), ("abort", "a"), ("send_all_markers", "a"))
    do(world, ("begin_and_write", "a", "t", 0), ("commit", "a"), ("send_all_markers", "a"), ("pass_time", 5_000))
    do(world, ("write_late", "a", "t", 0), ("expire_id", "a"))


def next_one_open(world: World) -> None:
    """The hang's transaction was committed on u-0, and the producer's next one is open: only the log of u-0 shows it."""
    late_write(world)
    do(world, ("begin_and_write", "a", "t", 1))


def with_full_rights(build: Callable[[World], None]) -> Callable[[World], None]:
    """The same on a cluster with an authorizer, where every right is granted and can be taken."""

    def build_with_rights(world: World) -> None:
        build(world)
        full_rights(world)

    return build_with_rights


def next_one_aborted(world: World) -> None:
    """The hang's transaction was committed, and the producer's next one aborted, which the coordinator shows."""
    late_write(world)
    do(world, ("begin_and_write", "a", "t", 1), ("abort", "a"), ("send_all_markers", "a"))


def far_on(world: World) -> None:
    """The hang is older than the COMMIT marker on u-0 by 6 MB of other records, and an ABORT marker came last there."""
    do(world, ("begin_and_write", "a", "u", 0), ("commit", "a"), ("client_dates", -MINUTE_MS))
    do(world, ("write_late", "a", "t", 0))
    fill(world, "u", 0)
    do(world, ("pass_time", 5_000), ("send_all_markers", "a"))
    fill(world, "u", 0)
    do(world, ("pass_time", 5_000), ("begin_and_write", "a", "u", 0), ("abort", "a"), ("send_all_markers", "a"))


def fill(world: World, topic: str, index: int) -> None:
    """Large records of other producers."""
    for _ in range(6):
        replica = world.cluster.leader_replica(topic, index)
        assert replica is not None
        large = Batch(replica.end, -1, -1, -1, world.cluster.now_ms, "data", 0, LARGE_BYTES)
        world.cluster.append(topic, index, large)


def idle(_world: World) -> None:
    """Nothing has happened yet."""
