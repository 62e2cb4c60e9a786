"""Declares initial situations: clusters that are one or two events away from a difficult case."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tests.verification.model import beginnings, coordinator
from tests.verification.model.cluster import MINUTE_MS, Cluster, Kind
from tests.verification.model.image import STATE_TOPIC
from tests.verification.model.world import World

TV0, TV2 = Kind(transaction_version=0), Kind(transaction_version=2)
OLD = Kind(transaction_version=0, fence_may_fail=True, lists_while_loading=False, min_in_sync=2, two_phase_commit=None)
WRITES = frozenset({"abort", "plan", "complete", "terminate"})
"""Scripts that write a marker or a fence."""
IDS = ("a", "b")
"""Their homes are partitions 1 and 0 of the transaction log."""


class Situation(NamedTuple):
    """The beginning of a schedule, and the exporter's task."""

    name: str
    build: Callable[[World], None]
    kind: Kind = TV0
    ids: tuple[str, ...] = IDS
    cycles: int = 2
    """Of the script, before anything is written."""
    script: str = "cycles"
    """`cycles`, `find` (with logs searched), `abort`, `plan` (`abort --plan-file`), `complete` or `terminate`."""
    weights: Mapping[str, float] = {}
    """How often a kind of event is drawn, where that is not 1."""
    kinds: tuple[str, ...] | None = None
    """The only kinds of events that are drawn; None: all."""
    places: tuple[str, ...] | None = None
    """The only moments at which they are drawn; None: all."""
    share: float = 1.0
    """How often it is drawn: less where its schedules take long."""
    bootstrap: tuple[int, ...] = (1, 2, 3)
    brokers: int = 3
    partitions: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = (
        (STATE_TOPIC, ((1, 2), (2, 3))),
        ("t", ((1, 2), (2, 3))),
        ("u", ((3, 1),)),
    )


def make(situation: Situation, world_of: Callable[[Cluster], World]) -> World:
    """The world of a situation, before the first request; each situation is built once."""
    key = situation.name, situation.kind, situation.ids, situation.partitions
    built = _BUILT.get(key)
    if built is None:
        world = _built(situation, world_of)
        _BUILT[key] = pickle.dumps(world.cluster, -1), world.running_s
        return world
    world = world_of(pickle.loads(built[0]))  # noqa: S301 - our own
    world.running_s = built[1]
    return world


_BUILT: dict[tuple[object, ...], tuple[bytes, float]] = {}


def _built(situation: Situation, world_of: Callable[[Cluster], World]) -> World:
    cluster = Cluster(situation.kind, situation.brokers)
    cluster.listed_first = (
        *situation.bootstrap,
        *(node for node in cluster.brokers if node not in situation.bootstrap),
    )
    for name, partitions in situation.partitions:
        cluster.decide(cluster.create_topic(name, list(partitions)))
    world = world_of(cluster)
    for name in situation.ids:
        coordinator.init(cluster, name)
    situation.build(world)
    world.moments.clear()
    world.note()
    return world


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
_UNTOLD = {
    "move_leader_untold": 6.0,
    "silence": 6.0,
    "cut_off": 5.0,
    "reconnect_untold": 6.0,
    "deliver_metadata": 2.0,
    **_PRODUCER,
}
_RIGHTS = {"set_topic_right": 6.0, "set_id_right": 2.0, "set_cluster_right": 2.0, "give_everything": 4.0, **_PRODUCER}
_DELETED = {
    "delete_records": 5.0,
    "delete_first_record": 4.0,
    "add_replica": 5.0,
    "rebuild_replica": 5.0,
    "move_leader_to_last": 5.0,
    **_PRODUCER,
}
_ELSEWHERE = {"lead_elsewhere": 12.0, "lead_back": 8.0, "restart_exporter": 4.0, **_PRODUCER}
_FOUR = (
    (STATE_TOPIC, ((4,), (2, 3))),
    ("t", ((1, 2), (2, 3))),
    ("u", ((3, 1),)),
)
_THREE = (
    (STATE_TOPIC, ((1, 2, 3), (2, 3, 1))),
    ("t", ((1, 2, 3), (2, 3, 1))),
    ("u", ((3, 1, 2),)),
)
_SHOP_IDS = (*IDS, beginnings.SHOP)


def _with_state_partitions(count: int) -> tuple[tuple[str, tuple[tuple[int, ...], ...]], ...]:
    """2 divides 2^32, so that with two partitions a wrong hash may be right for every id."""
    replicas = tuple((1 + index % 3, 1 + (index + 1) % 3) for index in range(count))
    return ((STATE_TOPIC, replicas), ("t", ((1, 2), (2, 3))), ("u", ((3, 1),)))


_SINGLE = (
    (STATE_TOPIC, ((1, 2), (2, 3))),
    ("t", ((1,), (2, 3))),
    ("u", ((3, 1),)),
)

SITUATIONS: tuple[Situation, ...] = (
    Situation("idle", beginnings.idle),
    Situation("ongoing", beginnings.ongoing, weights=_PRODUCER),
    Situation("ongoing, TransactionVersion 2", beginnings.ongoing, TV2, weights=_PRODUCER),
    Situation("late write", beginnings.late_write, weights={**_PRODUCER, "recreate_topic": 4.0}),
    Situation(
        "late write at the beginning of a topic", beginnings.late_write, weights={"recreate_topic": 6.0, **_PRODUCER}
    ),
    Situation(
        "late write without timestamps",
        beginnings.late_write_without_timestamps,
        weights={"recreate_topic": 6.0, **_PRODUCER},
    ),
    Situation("late write, TransactionVersion 2", beginnings.late_write, TV2, weights=_PRODUCER),
    Situation("late write beside a live one", beginnings.late_write_beside_a_live_one, TV2),
    Situation("expired id", beginnings.expired),
    Situation("rotated producer id", beginnings.rotated, TV2),
    Situation("last epoch", beginnings.last_epoch, TV2, weights={"use_up_epochs": 4.0, **_PRODUCER}),
    Situation(
        "last epoch, completing", beginnings.completing_the_last_epoch, TV2, weights={"write_late": 6.0, **_PRODUCER}
    ),
    Situation("last epoch, without the bump", beginnings.last_epoch, TV0, weights={**_PRODUCER, "time_out": 4.0}),
    Situation("stale epoch", beginnings.stale),
    Situation("stale epoch, TransactionVersion 2", beginnings.stale, TV2),
    Situation("completing", beginnings.completing, TV2),
    Situation(
        "completing for some cycles",
        beginnings.completing,
        cycles=5,
        weights={"recreate_topic": 6.0, "pass_time": 4.0, **_PRODUCER},
    ),
    Situation("poisoned entry", beginnings.poisoned, weights={"pass_time": 4.0}),
    Situation("restored transaction log", beginnings.restored_state_log, weights={"pass_time": 4.0}),
    Situation("lost marker", beginnings.lost_marker, weights={"silence": 5.0, "expire_producers": 3.0}),
    Situation("follower lost the marker", beginnings.follower_lost_marker, TV2, weights={"silence": 5.0}),
    Situation(
        "lost marker, three replicas",
        beginnings.lost_marker_on_two,
        weights={"silence": 3.0, "expire_producers": 3.0, "move_leader_to_last": 3.0},
        partitions=_THREE,
    ),
    Situation(
        "late write, three replicas",
        beginnings.late_write_beside_a_live_one,
        weights={"move_leader_to_last": 4.0, **_LEADERS},
        bootstrap=(2, 1, 3),
        partitions=_THREE,
    ),
    Situation(
        "three partitions of the transaction log",
        beginnings.late_write_of_shop,
        ids=_SHOP_IDS,
        weights=_PRODUCER,
        partitions=_with_state_partitions(3),
    ),
    Situation(
        "five partitions of the transaction log",
        beginnings.expired_shop,
        ids=_SHOP_IDS,
        weights=_PRODUCER,
        partitions=_with_state_partitions(5),
    ),
    Situation(
        "fifty partitions of the transaction log",
        beginnings.late_write_of_shop,
        ids=_SHOP_IDS,
        weights=_PRODUCER,
        kinds=(
            *_PRODUCER,
            *("expire_id", "pass_time", "kill(2)", "start(2)", "silence(2)", "speak(2)", "cut_off(2)", "reconnect(2)"),
            *(f"{kind}({STATE_TOPIC}, 20)" for kind in ("move_leader", "move_leader_untold", "move_leader_slowly")),
        ),
        partitions=_with_state_partitions(50),
    ),
    Situation("deleted records", beginnings.late_write_beside_a_live_one, weights=_DELETED),
    Situation("deleted records, a new replica", beginnings.hang_without_records, weights=_DELETED),
    Situation("deleted records, lost marker", beginnings.lost_marker_of_deleted_records, weights=_DELETED),
    Situation("another cluster", beginnings.late_write, weights=_ELSEWHERE),
    Situation("another cluster, where all is live", beginnings.ongoing, weights=_ELSEWHERE),
    Situation("no transaction log", beginnings.foreign_records, ids=(), partitions=_with_state_partitions(0)[1:]),
    Situation("transaction log deleted", beginnings.ongoing, weights={"delete_state_topic": 6.0, **_PRODUCER}),
    Situation(
        "behind a gateway",
        beginnings.ongoing,
        TV2._replace(gateway="hides"),
        weights={"move_leader_slowly": 6.0, **_PRODUCER},
    ),
    Situation("on a platform without coordinators", beginnings.ongoing, TV2._replace(gateway="knows nothing")),
    Situation("many ACLs", beginnings.many_acls, share=0.1),
    Situation("decided within a cycle", beginnings.ongoing, cycles=4, weights={"pass_time": 8.0, "commit": 6.0}),
    Situation(
        "leaders move before anything is open",
        beginnings.idle,
        weights=_LEADERS,
        bootstrap=(2, 1, 3),
        partitions=_SINGLE,
    ),
    Situation("leaders move", beginnings.late_write_beside_a_live_one, weights=_LEADERS, bootstrap=(2, 1, 3)),
    Situation("cut-off coordinator", beginnings.cut_off_coordinator, weights=_LEADERS, bootstrap=(2, 1, 3)),
    Situation(
        "cut-off coordinator that had it open",
        beginnings.cut_off_coordinator_that_had_it_open,
        weights=_LEADERS,
        bootstrap=(2, 1, 3),
        partitions=_SINGLE,
    ),
    Situation("cut-off leader", beginnings.cut_off_leader, weights=_LEADERS, bootstrap=(2, 3, 1)),
    Situation("cut-off majority", beginnings.cut_off_majority, weights=_LEADERS, bootstrap=(2, 3, 1)),
    Situation(
        "leaders that nobody was told of", beginnings.late_write_beside_a_live_one, weights=_UNTOLD, bootstrap=(2, 1, 3)
    ),
    Situation(
        "leaders that do not answer",
        beginnings.ongoing,
        weights=_UNTOLD,
        kinds=tuple(_UNTOLD),
        bootstrap=(2, 1, 3),
    ),
    Situation("full rights", beginnings.full_rights, weights=_PRODUCER),
    Situation("two-phase commit", beginnings.two_phase, TV2._replace(two_phase_commit=True)),
    Situation(
        "two-phase commit denied",
        beginnings.two_phase_denied,
        TV2._replace(two_phase_commit=True),
        weights={"pass_time": 6.0},
    ),
    Situation(
        "limit unread and id denied",
        beginnings.limit_unread,
        Kind(max_timeout_ms=60 * MINUTE_MS, two_phase_commit=None),
        weights={"pass_time": 6.0},
    ),
    Situation("visible by prefix", beginnings.visible_by_prefix, TV2, ids=("a", "b", "~x"), weights={"pass_time": 6.0}),
    Situation("nothing granted", beginnings.nothing_granted),
    Situation(
        "rights are taken", beginnings.granted_until_revoked, weights={"deny_topic": 6.0, "deny_state_topic": 6.0}
    ),
    Situation(
        "a right that one broker learns first",
        beginnings.topic_hidden,
        script="find",
        weights={"give_everything_to": 8.0, "deliver_metadata": 4.0, **_RIGHTS},
        partitions=_SINGLE,
    ),
    Situation("alone, cut off, and the topic deleted", beginnings.alone_cut_off_and_deleted, bootstrap=(2, 1, 3)),
    Situation("transaction log hidden", beginnings.no_state_topic_right),
    Situation("allowed without ACLs", beginnings.everyone_without_acls),
    Situation(
        "a fence may fail", beginnings.fence_may_fail, OLD, weights={"init": 6.0, "pass_time": 3.0, "time_out": 3.0}
    ),
    Situation("slow loading", beginnings.late_write, OLD._replace(min_in_sync=1), weights={"move_leader_slowly": 6.0}),
    Situation("clocks", beginnings.ongoing, weights={"step_clock": 8.0, "pass_time": 6.0}),
    Situation("another coordinator is gone", beginnings.state_partition_elsewhere_gone, partitions=_FOUR, brokers=4),
    Situation("logs are searched", beginnings.aborted_before, script="find", weights=_PRODUCER),
    Situation("committed here", beginnings.committed_here_aborted_elsewhere, script="find", weights=_PRODUCER),
    Situation(
        "the next one aborted", beginnings.next_one_aborted, script="find", weights={"kill": 4.0, "silence": 4.0}
    ),
    Situation("the marker is far on", beginnings.far_on, script="find"),
    Situation(
        "abort at the beginning of a topic",
        beginnings.late_write_after_an_abort,
        script="abort",
        weights={"recreate_topic": 6.0, **_PRODUCER},
    ),
    Situation("abort", beginnings.late_write_after_an_abort, script="abort", weights=_PRODUCER),
    Situation(
        "abort of an expired id", beginnings.expired, script="abort", weights={**_PRODUCER, "recreate_topic": 4.0}
    ),
    Situation("abort of what was aborted", beginnings.next_one_aborted, script="abort", weights=_PRODUCER),
    Situation("abort of what was committed elsewhere", beginnings.next_one_open, script="abort", weights=_PRODUCER),
    Situation(
        "abort of what was committed elsewhere, with rights that change",
        beginnings.with_full_rights(beginnings.next_one_open),
        script="abort",
        weights=_RIGHTS,
    ),
    Situation(
        "abort, with rights that change",
        beginnings.with_full_rights(beginnings.late_write_after_an_abort),
        script="abort",
        weights=_RIGHTS,
    ),
    Situation(
        "abort by a plan, with rights that change",
        beginnings.with_full_rights(beginnings.two_hangs),
        script="plan",
        weights=_RIGHTS,
    ),
    Situation(
        "complete, with rights that change",
        beginnings.with_full_rights(beginnings.poisoned),
        script="complete",
        weights=_RIGHTS,
    ),
    Situation(
        "force-terminate, with rights that change",
        beginnings.with_full_rights(beginnings.ongoing),
        script="terminate",
        weights=_RIGHTS,
    ),
    Situation("abort of deleted records", beginnings.hang_without_records, script="abort", weights=_DELETED),
    Situation("abort beside deleted records", beginnings.late_write_after_an_abort, script="abort", weights=_DELETED),
    Situation("abort at another cluster", beginnings.late_write_after_an_abort, script="abort", weights=_ELSEWHERE),
    Situation("abort by a plan at another cluster", beginnings.two_hangs, script="plan", weights=_ELSEWHERE),
    Situation("complete at another cluster", beginnings.poisoned, script="complete", weights=_ELSEWHERE),
    Situation("force-terminate at another cluster", beginnings.ongoing, script="terminate", weights=_ELSEWHERE),
    Situation(
        "abort of a lost marker, three replicas",
        beginnings.lost_marker_on_two,
        script="abort",
        weights={"silence": 3.0, "move_leader_to_last": 3.0, **_PRODUCER},
        partitions=_THREE,
    ),
    Situation(
        "abort beside a cut-off broker",
        beginnings.late_write_after_an_abort,
        script="abort",
        weights=_LEADERS,
        bootstrap=(2, 1, 3),
    ),
    Situation("abort through a cut-off broker", beginnings.cut_off_coordinator, script="abort", bootstrap=(2, 1, 3)),
    Situation("abort by a plan", beginnings.two_hangs, script="plan", weights={**_PRODUCER, "recreate_topic": 4.0}),
    Situation(
        "abort by a plan beside a cut-off broker",
        beginnings.two_hangs,
        script="plan",
        weights=_UNTOLD,
        bootstrap=(2, 1, 3),
    ),
    Situation("complete", beginnings.poisoned, script="complete", weights=_PRODUCER),
    Situation(
        "complete, TransactionVersion 2", beginnings.poisoned_on_one_of_two, TV2, script="complete", weights=_PRODUCER
    ),
    Situation(
        "complete the last epoch",
        beginnings.poisoned_in_the_last_epoch,
        TV2,
        script="complete",
        weights={"use_up_epochs": 4.0, **_PRODUCER},
    ),
    Situation(
        "complete an abort", beginnings.poisoned_abort, script="complete", weights={**_PRODUCER, "recreate_topic": 4.0}
    ),
    Situation(
        "complete what may be another one's", beginnings.restored_state_log, script="complete", weights=_PRODUCER
    ),
    Situation(
        "complete beside a cut-off broker", beginnings.poisoned, script="complete", weights=_UNTOLD, bootstrap=(2, 1, 3)
    ),
    Situation("restarted", beginnings.stale, weights={"restart_exporter": 20.0, "step_clock": 4.0, "pass_time": 4.0}),
    Situation("restarted while completing", beginnings.poisoned, weights={"restart_exporter": 20.0, "step_clock": 8.0}),
    Situation("brokers' clocks", beginnings.ongoing, weights={"skew_broker": 12.0, "pass_time": 6.0, **_PRODUCER}),
    Situation("force-terminate", beginnings.ongoing, script="terminate", weights=_PRODUCER),
    *(
        Situation(f"offsets alone: {name}", beginnings.by_offsets(build), kind, cycles=cycles, weights=weights)
        for name, build, kind, cycles, weights in (
            ("ongoing", beginnings.ongoing, TV0, 4, _PRODUCER),
            ("ongoing, TransactionVersion 2", beginnings.ongoing, TV2, 4, _PRODUCER),
            ("late write", beginnings.late_write, TV0, 3, {"recreate_topic": 4.0, **_PRODUCER}),
            ("behind a live one", beginnings.late_write_behind_a_live_one, TV0, 5, _PRODUCER),
            ("behind a live one, TransactionVersion 2", beginnings.late_write_behind_a_live_one, TV2, 5, _PRODUCER),
            ("leaders move", beginnings.ongoing, TV0, 4, {"move_leader_lagging": 4.0, **_LEADERS}),
            ("untold", beginnings.late_write_behind_a_live_one, TV2, 4, _UNTOLD),
            ("deleted records", beginnings.late_write_behind_a_live_one, TV0, 4, _DELETED),
            ("rights", beginnings.ongoing, TV0, 4, _RIGHTS),
            ("new leader", beginnings.ended_and_live, TV0, 3, {"move_leader_lagging": 8.0, **_PRODUCER}),
        )
    ),
)
BY_NAME = {situation.name: situation for situation in SITUATIONS}
