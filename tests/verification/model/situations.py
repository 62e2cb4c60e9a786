"""Initial situations: clusters on which something interesting is one or two events away."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.verification.model import coordinator, rights
from tests.verification.model.cluster import MINUTE_MS, Cluster, Kind
from tests.verification.model.events import Event, happen_quietly
from tests.verification.model.image import STATE_TOPIC
from tests.verification.model.logs import Batch
from tests.verification.model.rights import FULL, Acl, Rights
from tests.verification.model.world import World

TV0, TV2 = Kind(transaction_version=0), Kind(transaction_version=2)
OLD = Kind(transaction_version=0, fence_may_fail=True, lists_while_loading=False, min_in_sync=2, two_phase_commit=None)
TWO_PHASE = 2**31 - 1
LARGE_BYTES = 1_000_000
IDS = ("a", "b")
"""Their homes are partitions 1 and 0 of the transaction log."""


class Situation(NamedTuple):
    """Where a schedule begins, and what the exporter is asked to do."""

    name: str
    build: Callable[[World], None]
    kind: Kind = TV0
    ids: tuple[str, ...] = IDS
    script: str = "cycles"
    """`cycles`, `find` (with logs searched), `abort` or `terminate`."""
    weights: Mapping[str, float] = {}
    """How often a kind of event is drawn, where that is not 1."""
    kinds: tuple[str, ...] | None = None
    """The only kinds of events that are drawn; None: all."""
    places: tuple[str, ...] | None = None
    """The only moments at which they are drawn; None: all."""
    bootstrap: tuple[int, ...] = (1, 2, 3)
    brokers: int = 3
    partitions: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = (
        (STATE_TOPIC, ((1, 2), (2, 3))),
        ("t", ((1, 2), (2, 3))),
        ("u", ((3, 1),)),
    )


def make(situation: Situation, world_of: Callable[[Cluster], World]) -> World:
    """The world of a situation, before the first request."""
    cluster = Cluster(situation.kind, situation.brokers)
    cluster.told_first = (*situation.bootstrap, *(it for it in cluster.brokers if it not in situation.bootstrap))
    for name, partitions in situation.partitions:
        cluster.decide(cluster.create_topic(name, list(partitions)))
    world = world_of(cluster)
    for name in situation.ids:
        coordinator.init(cluster, name)
    situation.build(world)
    world.moments.clear()
    world.note()
    return world


def _do(world: World, *steps: tuple[Any, ...]) -> None:
    for name, *arguments in steps:
        if not happen_quietly(world, Event(name, tuple(arguments))):
            raise AssertionError(f"{name}{tuple(arguments)} cannot happen")


def _ongoing(world: World) -> None:
    _do(world, ("begin_and_write", "a", "t", 0), ("begin_and_write", "b", "t", 1))


def _after_a_commit(world: World) -> None:
    _do(world, ("begin_and_write", "a", "u", 0), ("commit", "a"), ("send_all_markers", "a"))


def _late_write(world: World) -> None:
    """A true hang on t-0 at offset 0; its transaction was committed on u-0."""
    _after_a_commit(world)
    _do(world, ("write_late", "a", "t", 0))


def _late_write_after_an_abort(world: World) -> None:
    """A true hang on t-0 at offset 0; its transaction was aborted on u-0, so that nothing stands against an abort."""
    _do(world, ("begin_and_write", "a", "u", 0), ("abort", "a"), ("send_all_markers", "a"))
    _do(world, ("write_late", "a", "t", 0))


def _late_write_beside_a_live_one(world: World) -> None:
    _late_write(world)
    _do(world, ("begin_and_write", "b", "t", 1))


def _expired(world: World) -> None:
    _late_write(world)
    _do(world, ("expire_id", "a"))


def _rotated(world: World) -> None:
    _late_write(world)
    _do(world, ("rotate_producer_id", "a"))


def _stale(world: World) -> None:
    _late_write(world)
    _do(world, ("init", "a"), ("init", "a"), ("begin_and_write", "a", "u", 0), ("add_partition", "a", "t", 0))


def _completing(world: World) -> None:
    _do(world, ("begin_and_write", "a", "t", 0), ("begin_and_write", "a", "u", 0), ("commit", "a"))


def _poisoned(world: World) -> None:
    _do(world, ("begin_and_write", "a", "t", 0), ("poison_entry", "t", 0), ("commit", "a"), ("send_marker", "a"))


def _restored_state_log(world: World) -> None:
    """The transaction log is older than the partition: the coordinator completes at an epoch that is refused."""
    _do(world, ("init", "a"), ("begin_and_write", "a", "t", 0))
    txn = coordinator.truth_of(world.cluster, "a")
    assert txn is not None
    coordinator.write(world.cluster, txn._replace(epoch=txn.epoch - 1, state="PrepareCommit"))
    _do(world, ("send_marker", "a"))


def _lost_marker(world: World) -> None:
    _completing(world)
    _do(world, ("send_all_markers", "a"), ("leader_loses_marker", "t", 0))


def _follower_lost_marker(world: World) -> None:
    _completing(world)
    _do(world, ("send_all_markers", "a"), ("follower_loses_marker", "t", 0), ("move_leader", "t", 0))


def _cut_off_coordinator(world: World) -> None:
    """Broker 2 still takes itself for the coordinator of `a`, whose transaction began at the new one."""
    _do(world, ("cut_off", 2), ("begin_and_write", "a", "t", 0))


def _cut_off_coordinator_that_had_it_open(world: World) -> None:
    """Broker 2 still has it ongoing; the new coordinator has aborted it, and the marker was lost at the partition."""
    _do(world, ("begin_and_write", "a", "t", 0), ("cut_off", 2), ("abort", "a"), ("send_all_markers", "a"))
    cluster = world.cluster
    _do(world, ("leader_loses_marker", "t", 0))
    assert cluster.image.partition("t", 0) is not None


def _cut_off_leader(world: World) -> None:
    _do(world, ("begin_and_write", "b", "t", 1), ("cut_off", 2))


def _cut_off_majority(world: World) -> None:
    _do(world, ("cut_off", 2), ("cut_off", 3))


def _full_rights(world: World) -> None:
    _grant(world, FULL)


def _grant(world: World, acls: tuple[Acl, ...], **other: bool) -> None:
    world.cluster.decide(world.cluster.image._replace(rights=Rights(has_authorizer=True, acls=acls, **other)))


def _two_phase_denied(world: World) -> None:
    txn = coordinator.truth_of(world.cluster, "a")
    assert txn is not None
    coordinator.write(world.cluster, txn._replace(timeout_ms=TWO_PHASE))
    _do(world, ("begin_and_write", "a", "t", 0))
    _grant(world, (*FULL, Acl(rights.TRANSACTIONAL_ID, "a", rights.DESCRIBE, rights.DENY)))


def _two_phase(world: World) -> None:
    txn = coordinator.truth_of(world.cluster, "a")
    assert txn is not None
    coordinator.write(world.cluster, txn._replace(timeout_ms=TWO_PHASE))
    _do(world, ("begin_and_write", "a", "t", 0))


def _limit_unread(world: World) -> None:
    """The limit is an hour, and cannot be read; the id is hidden, and may live for longer than the fallback."""
    txn = coordinator.truth_of(world.cluster, "a")
    assert txn is not None
    coordinator.write(world.cluster, txn._replace(timeout_ms=50 * MINUTE_MS))
    _do(world, ("begin_and_write", "a", "t", 0))
    granted = tuple(it for it in FULL if it.operation != rights.DESCRIBE_CONFIGS)
    _grant(world, (*granted, Acl(rights.TRANSACTIONAL_ID, "a", rights.DESCRIBE, rights.DENY)))


def _visible_by_prefix(world: World) -> None:
    """Every made-up id matches a granted prefix; `~x` does not."""
    _do(world, ("begin_and_write", "~x", "t", 0))
    granted = tuple(it for it in FULL if it.resource != rights.TRANSACTIONAL_ID)
    first = string.hexdigits[:16]  # with which made-up ids begin here (`drive.TOKENS`)
    ours = tuple(Acl(rights.TRANSACTIONAL_ID, it, rights.DESCRIBE, pattern=rights.PREFIXED) for it in first)
    _grant(world, granted + ours)


def _nothing_granted(world: World) -> None:
    _ongoing(world)
    _grant(world, ())


def _granted_until_revoked(world: World) -> None:
    _ongoing(world)
    _grant(world, FULL)


def _no_state_topic_right(world: World) -> None:
    _ongoing(world)
    _grant(world, (*FULL, Acl(rights.TOPIC, STATE_TOPIC, rights.ALL, rights.DENY)))


def _everyone_without_acls(world: World) -> None:
    _late_write(world)
    _grant(world, (Acl(rights.TRANSACTIONAL_ID, "b", rights.ALL, principal="User:other"),), allow_without_acls=True)


def _fence_may_fail(world: World) -> None:
    _do(world, ("begin_and_write", "a", "t", 0), ("shrink_in_sync", STATE_TOPIC, 1))


def _state_partition_elsewhere_gone(world: World) -> None:
    """The coordinator of `b` is gone with its only replica; the hang is of `a`."""
    _late_write(world)
    _do(world, ("kill", 4))


def _aborted_before(world: World) -> None:
    """One transaction aborted on t-1, the next committed on u-0, and a late record of that on t-0."""
    _do(world, ("begin_and_write", "a", "t", 1), ("abort", "a"), ("send_all_markers", "a"))
    _late_write(world)


def _committed_here_aborted_elsewhere(world: World) -> None:
    """The only COMMIT marker is on the hang's own partition; an older ABORT marker is elsewhere."""
    _do(world, ("begin_and_write", "a", "t", 1), ("abort", "a"), ("send_all_markers", "a"))
    _do(world, ("begin_and_write", "a", "t", 0), ("commit", "a"), ("send_all_markers", "a"), ("pass_time", 5_000))
    _do(world, ("write_late", "a", "t", 0), ("expire_id", "a"))


def _next_one_aborted(world: World) -> None:
    """The hang's transaction was committed, and the producer's next one aborted: the coordinator tells of that."""
    _late_write(world)
    _do(world, ("begin_and_write", "a", "t", 1), ("abort", "a"), ("send_all_markers", "a"))


def _far_on(world: World) -> None:
    """The hang is older than the COMMIT marker on u-0 by 6 MB of other records, and an ABORT marker came last there."""
    _do(world, ("begin_and_write", "a", "u", 0), ("commit", "a"), ("client_dates", -MINUTE_MS))
    _do(world, ("write_late", "a", "t", 0))
    _fill(world, "u", 0)
    _do(world, ("pass_time", 5_000), ("send_all_markers", "a"))
    _fill(world, "u", 0)
    _do(world, ("pass_time", 5_000), ("begin_and_write", "a", "u", 0), ("abort", "a"), ("send_all_markers", "a"))


def _fill(world: World, topic: str, index: int) -> None:
    """Large records of nobody's."""
    for _ in range(6):
        replica = world.cluster.leader_replica(topic, index)
        assert replica is not None
        large = Batch(replica.end, -1, -1, -1, world.cluster.now_ms, "data", 0, LARGE_BYTES)
        world.cluster.append(topic, index, large)


def _idle(_world: World) -> None:
    """Nothing has happened yet."""


_PRODUCER = {
    "begin_and_write": 4.0,
    "write": 3.0,
    "write_late": 3.0,
    "commit": 3.0,
    "abort": 2.0,
    "send_all_markers": 3.0,
    "send_marker": 2.0,
    "add_partition": 2.0,
    "init": 2.0,
}
_LEADERS = {"cut_off": 5.0, "move_leader": 3.0, "move_leader_untold": 4.0, "deliver_metadata": 3.0, **_PRODUCER}
_FOUR = (
    (STATE_TOPIC, ((4,), (2, 3))),
    ("t", ((1, 2), (2, 3))),
    ("u", ((3, 1),)),
)
_SINGLE = (
    (STATE_TOPIC, ((1, 2), (2, 3))),
    ("t", ((1,), (2, 3))),
    ("u", ((3, 1),)),
)

SITUATIONS: tuple[Situation, ...] = (
    Situation("idle", _idle),
    Situation("ongoing", _ongoing, weights=_PRODUCER),
    Situation("ongoing, TransactionVersion 2", _ongoing, TV2, weights=_PRODUCER),
    Situation("late write", _late_write, weights={**_PRODUCER, "recreate_topic": 4.0}),
    Situation("late write at the beginning of a topic", _late_write, weights={"recreate_topic": 6.0, **_PRODUCER}),
    Situation("late write, TransactionVersion 2", _late_write, TV2, weights=_PRODUCER),
    Situation("late write beside a live one", _late_write_beside_a_live_one, TV2),
    Situation("expired id", _expired),
    Situation("rotated producer id", _rotated, TV2),
    Situation("stale epoch", _stale),
    Situation("stale epoch, TransactionVersion 2", _stale, TV2),
    Situation("completing", _completing, TV2),
    Situation("poisoned entry", _poisoned, weights={"pass_time": 4.0}),
    Situation("restored transaction log", _restored_state_log, weights={"pass_time": 4.0}),
    Situation("lost marker", _lost_marker, weights={"silence": 5.0, "expire_producers": 3.0}),
    Situation("follower lost the marker", _follower_lost_marker, TV2, weights={"silence": 5.0}),
    Situation("leaders move", _late_write_beside_a_live_one, weights=_LEADERS, bootstrap=(2, 1, 3)),
    Situation("cut-off coordinator", _cut_off_coordinator, weights=_LEADERS, bootstrap=(2, 1, 3)),
    Situation(
        "cut-off coordinator that had it open",
        _cut_off_coordinator_that_had_it_open,
        weights=_LEADERS,
        bootstrap=(2, 1, 3),
        partitions=_SINGLE,
    ),
    Situation("cut-off leader", _cut_off_leader, weights=_LEADERS, bootstrap=(2, 3, 1)),
    Situation("cut-off majority", _cut_off_majority, weights=_LEADERS, bootstrap=(2, 3, 1)),
    Situation("full rights", _full_rights, weights=_PRODUCER),
    Situation("two-phase commit", _two_phase, TV2._replace(two_phase_commit=True)),
    Situation(
        "two-phase commit denied", _two_phase_denied, TV2._replace(two_phase_commit=True), weights={"pass_time": 6.0}
    ),
    Situation(
        "limit unread and id denied",
        _limit_unread,
        Kind(max_timeout_ms=60 * MINUTE_MS, two_phase_commit=None),
        weights={"pass_time": 6.0},
    ),
    Situation("visible by prefix", _visible_by_prefix, TV2, ids=("a", "b", "~x"), weights={"pass_time": 6.0}),
    Situation("nothing granted", _nothing_granted),
    Situation("rights are taken", _granted_until_revoked, weights={"deny_topic": 6.0, "deny_state_topic": 6.0}),
    Situation("transaction log hidden", _no_state_topic_right),
    Situation("allowed without ACLs", _everyone_without_acls),
    Situation("a fence may fail", _fence_may_fail, OLD, weights={"init": 6.0, "pass_time": 3.0, "time_out": 3.0}),
    Situation("slow loading", _late_write, OLD._replace(min_in_sync=1), weights={"move_leader_slowly": 6.0}),
    Situation("clocks", _ongoing, weights={"step_clock": 8.0, "pass_time": 6.0}),
    Situation("another coordinator is gone", _state_partition_elsewhere_gone, partitions=_FOUR, brokers=4),
    Situation("logs are searched", _aborted_before, script="find", weights=_PRODUCER),
    Situation("committed here", _committed_here_aborted_elsewhere, script="find", weights=_PRODUCER),
    Situation("the next one aborted", _next_one_aborted, script="find", weights={"kill": 4.0, "silence": 4.0}),
    Situation("the marker is far on", _far_on, script="find"),
    Situation(
        "abort at the beginning of a topic",
        _late_write_after_an_abort,
        script="abort",
        weights={"recreate_topic": 6.0, **_PRODUCER},
    ),
    Situation("abort", _late_write_after_an_abort, script="abort", weights=_PRODUCER),
    Situation("abort of an expired id", _expired, script="abort", weights={**_PRODUCER, "recreate_topic": 4.0}),
    Situation("abort of what was aborted", _next_one_aborted, script="abort", weights=_PRODUCER),
    Situation(
        "abort beside a cut-off broker",
        _late_write_after_an_abort,
        script="abort",
        weights=_LEADERS,
        bootstrap=(2, 1, 3),
    ),
    Situation("abort through a cut-off broker", _cut_off_coordinator, script="abort", bootstrap=(2, 1, 3)),
    Situation("force-terminate", _ongoing, script="terminate", weights=_PRODUCER),
)
BY_NAME = {it.name: it for it in SITUATIONS}
