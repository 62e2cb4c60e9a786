"""Says what prevents the next hang of the same cause, in order of effect, and which of it is in place already."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.evaluation.humanize import humanize_duration
from exporter.evaluation.protection import CHECKS, NOT_READ, Measure, number_of
from exporter.explain.causes import Cause
from exporter.snapshot.origin import Protection


def prevention(protection: Protection, cause: Cause | None, connection: str) -> tuple[Measure, ...]:
    """Returns the measures against the cause; the general ones if it is unknown, and none if nothing hangs.

    Their advice has its commands in full: `connection` has the options of Kafka's own tools that name the cluster.
    """
    if cause is None:
        return ()
    checks = {**CHECKS, _EXPIRATION: _expiration}
    measures = (one if isinstance(one, Measure) else checks[one](protection) for one in _MEASURES[cause])
    return tuple(one.on(connection) for one in measures)


def _expiration(protection: Protection) -> Measure:
    values = {number_of(settings.get(_EXPIRATION)) for settings in protection.broker_configs.values()}
    lengths = sorted(value for value in values if value is not None)
    return Measure(
        name=_EXPIRATION,
        found=" and ".join(map(humanize_duration, lengths)) or NOT_READ,
        advice="make it longer than the longest pause of any application with a transactional id",
    )


_EXPIRATION = "transactional.id.expiration.ms"
_CLIENT_TIMEOUTS = Measure(
    name="delivery.timeout.ms",
    found="not known here, the client has it",
    advice="keep it below transaction.timeout.ms, so that the client gives up a record before its transaction is ended",
)
_CLIENT_ADDS = Measure(
    name="client library",
    found="not known here, the client has its version",
    advice="use one that adds each partition before it writes (AddPartitionsToTxn, or Produce version 12)",
)
_TOOLS = Measure(
    name="markers by hand",
    found="a matter of who may write them (CLUSTER_ACTION or ALTER on the cluster)",
    advice="write markers with `abort` or `complete` of this program, which take the epochs from the partition",
)
_COPIES = Measure(
    name="copied logs",
    found="a matter of how data comes into the cluster",
    advice="copy records with a client that reads committed ones (MirrorMaker 2 with read_committed), not files; after a "
    "restore or a failover by Cluster Linking run find-hanging and abort what it proves",
)
_ONE_PRODUCER = Measure(
    name="abort before the next commit",
    found="a matter of minutes",
    advice="abort the hanging transaction before the newer producer commits, as its COMMIT makes the old records visible; "
    "while the newer one is open, force-terminate of its id ends both",
)
_SKIPPED = Measure(
    name="KAFKA-20734",
    found="not known here, a coordinator does not say which markers it has skipped",
    advice="use a release in which it is mended: coordinators of Kafka 4.3 skip the marker of a partition whose leader is "
    "not there, as after a broker has crashed",
)

_LATE: tuple[Measure | str, ...] = ("transaction_version", "partition_verification", _CLIENT_TIMEOUTS)
_MEASURES: Mapping[Cause, tuple[Measure | str, ...]] = {
    Cause.LATE_WRITE: _LATE,
    Cause.NOT_ADDED: ("partition_verification", _CLIENT_ADDS, "transaction_version"),
    Cause.WRITTEN_AFTER_EXPIRY: ("partition_verification", _EXPIRATION),
    Cause.MARKER_LOST: ("unclean_election", _SKIPPED),
    Cause.EPOCH_ADOPTED: (_ONE_PRODUCER, *_LATE),
    Cause.MARKER_BY_HAND: (_TOOLS,),
    Cause.COORDINATOR_LOG_LOST: (
        "state_topic_unclean_election",
        "state_topic_replicas",
        "state_topic_min_in_sync",
        "state_topic_cleanup",
    ),
    Cause.FOREIGN_RECORDS: (_COPIES,),
    Cause.UNKNOWN: (
        "partition_verification",
        "transaction_version",
        "state_topic_unclean_election",
        "state_topic_replicas",
    ),
}
"""A text is the name of a check of the cluster."""
