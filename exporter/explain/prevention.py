"""Says what prevents the next hang of the same cause, in order of effect, and which of it is in place already."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from exporter.evaluation.humanize import humanize_duration
from exporter.explain.causes import Cause
from exporter.explain.facts import Facts

REPLICAS_MIN = 3
IN_SYNC_MIN = 2
TRANSACTION_VERSION = 2


class Protected(Enum):
    """Whether a measure is in place."""

    GOOD = "good"
    EXPOSED = "exposed"
    UNKNOWN = "unknown"
    """It could not be read, or is not a setting of the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One thing to change, or one that is right already."""

    name: str
    state: Protected
    found: str
    """What is set now, as a phrase."""
    advice: str
    """What to do, and why it helps."""


def prevention(facts: Facts, cause: Cause | None) -> tuple[Measure, ...]:
    """Of the cause; of every cause that is possible if it is unknown. None if nothing hangs."""
    if cause is None:
        return ()
    return tuple(one if isinstance(one, Measure) else one(facts) for one in _MEASURES[cause])


def _transaction_version(facts: Facts) -> Measure:
    level = facts.protection.features.get("transaction.version")
    is_read = bool(facts.protection.features)
    state = (
        Protected.UNKNOWN
        if not is_read
        else Protected.GOOD
        if (level or 0) >= TRANSACTION_VERSION
        else Protected.EXPOSED
    )
    return Measure(
        name="transaction.version",
        state=state,
        found="not read" if not is_read else "not finalized" if level is None else f"finalized at {level}",
        advice="with version 2 (Kafka 4.0, KIP-890) every transaction has an epoch of its own, so a partition refuses a "
        "late record; clients need the protocol too (Java 4.0, others as their notes say): "
        "kafka-features.sh upgrade --feature transaction.version=2",
    )


def _verification(facts: Facts) -> Measure:
    name = "transaction.partition.verification.enable"
    values = facts.protection.broker_configs.get(name, {})
    return Measure(
        name=name,
        state=_all(values, lambda value: value == "true"),
        found=_values(values),
        advice="with it (Kafka 3.6, KIP-890) a leader asks the coordinator before the first record of a transaction, and "
        "refuses one that belongs to none",
    )


_CLIENT_TIMEOUTS = Measure(
    name="delivery.timeout.ms",
    state=Protected.UNKNOWN,
    found="a setting of the client",
    advice="keep it below transaction.timeout.ms, so that the client gives up a record before its transaction is ended",
)


_CLIENT_ADDS = Measure(
    name="client library",
    state=Protected.UNKNOWN,
    found="a version of the client",
    advice="use one that adds each partition before it writes (AddPartitionsToTxn, or Produce version 12)",
)


def _expiration(facts: Facts) -> Measure:
    name = "transactional.id.expiration.ms"
    values = facts.protection.broker_configs.get(name, {})
    lengths = sorted({int(value) for value in values.values() if value.isdigit()})
    return Measure(
        name=name,
        state=Protected.UNKNOWN,
        found=" and ".join(map(humanize_duration, lengths)) or "not read",
        advice="make it longer than the longest pause of any application with a transactional id",
    )


def _unclean(facts: Facts) -> Measure:
    name = "unclean.leader.election.enable"
    value = facts.protection.state_topic_configs.get(name)
    return Measure(
        name=f"{name} of __transaction_state",
        state=Protected.UNKNOWN if value is None else Protected.GOOD if value == "false" else Protected.EXPOSED,
        found=value or "not read",
        advice="with false only a replica that has every decision can become coordinator",
    )


def _unclean_partitions(facts: Facts) -> Measure:
    name = "unclean.leader.election.enable"
    values = facts.protection.broker_configs.get(name, {})
    return Measure(
        name=name,
        state=_all(values, lambda value: value == "false"),
        found=_values(values),
        advice="with false, for the topic too, only a replica that has every marker can become leader",
    )


def _replicas(facts: Facts) -> Measure:
    count = facts.state_topic_replicas
    return Measure(
        name="replicas of __transaction_state",
        state=Protected.UNKNOWN if count <= 0 else Protected.GOOD if count >= REPLICAS_MIN else Protected.EXPOSED,
        found="not read" if count <= 0 else str(count),
        advice=f"{REPLICAS_MIN} or more: the log of a coordinator is lost with the disk of its last replica",
    )


def _in_sync(facts: Facts) -> Measure:
    value = facts.protection.state_topic_configs.get("min.insync.replicas", "")
    is_read = value.isdigit()
    state = Protected.UNKNOWN if not is_read else Protected.GOOD if int(value) >= IN_SYNC_MIN else Protected.EXPOSED
    return Measure(
        name="min.insync.replicas of __transaction_state",
        state=state,
        found=value if is_read else "not read",
        advice=f"{IN_SYNC_MIN} or more: a decision is then on two disks before it counts",
    )


_TOOLS = Measure(
    name="markers by hand",
    state=Protected.UNKNOWN,
    found="a matter of who may write them (CLUSTER_ACTION or ALTER on the cluster)",
    advice="write markers with `abort` or `complete` of this program, which take the epochs from the partition",
)


_COPIES = Measure(
    name="copied logs",
    state=Protected.UNKNOWN,
    found="a matter of how data comes into the cluster",
    advice="copy records with a client that reads committed ones (MirrorMaker 2 with read_committed), not files; after "
    "a restore or a failover by Cluster Linking run find-hanging and abort what it proves",
)


_ONE_PRODUCER = Measure(
    name="abort before the next commit",
    state=Protected.UNKNOWN,
    found="a matter of minutes",
    advice="abort the hanging transaction before the newer producer commits: its COMMIT makes the old records visible",
)


_LATE: tuple[Measure | Callable[[Facts], Measure], ...] = (_transaction_version, _verification, _CLIENT_TIMEOUTS)
_COORDINATOR = (_unclean, _replicas, _in_sync)
_MEASURES: Mapping[Cause, tuple[Measure | Callable[[Facts], Measure], ...]] = {
    Cause.LATE_WRITE: _LATE,
    Cause.NOT_ADDED: (_verification, _CLIENT_ADDS, _transaction_version),
    Cause.WRITTEN_AFTER_EXPIRY: (_verification, _expiration),
    Cause.MARKER_LOST: (_unclean_partitions,),
    Cause.EPOCH_ADOPTED: (_ONE_PRODUCER, *_LATE),
    Cause.MARKER_BY_HAND: (_TOOLS,),
    Cause.COORDINATOR_LOG_LOST: _COORDINATOR,
    Cause.FOREIGN_RECORDS: (_COPIES,),
    Cause.UNKNOWN: (_verification, _transaction_version, _unclean, _replicas),
}


def _all(values: Mapping[int, str], is_good: Callable[[str], bool]) -> Protected:
    if not values:
        return Protected.UNKNOWN
    return Protected.GOOD if all(map(is_good, values.values())) else Protected.EXPOSED


def _values(values: Mapping[int, str]) -> str:
    """`true`, or with brokers where they differ."""
    different = sorted(set(values.values()))
    if len(different) == 1:
        return different[0]
    return ", ".join(f"broker {broker}: {value}" for broker, value in sorted(values.items())) or "not read"
