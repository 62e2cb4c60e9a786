"""Makes the parts of responses in `answers`: what one broker shows of topics, logs and transactions."""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from exporter.kafka.errors import ErrorCode
from tests.verification.model import rights, wire
from tests.verification.model.cluster import Broker, Txn
from tests.verification.model.image import NO_LEADER, Image, TopicImage
from tests.verification.model.logs import Entry, Replica

_NO_ENTRIES: dict[int, Entry] = {}
_NOTHING = 0
_UNKNOWN_TOPIC_ID, _FENCED_LEADER_EPOCH, _UNKNOWN_LEADER_EPOCH = 100, 74, 75
OFFSET_NOT_AVAILABLE = 78
LATEST = -1


def may_describe(view: Image, topic: str) -> bool:
    return rights.allows(view.rights, rights.DESCRIBE, rights.TOPIC, topic)


def asked_topic(view: Image, wanted: str | int) -> wire.ShownTopic:
    if isinstance(wanted, int):
        names = [name for name, topic in view.topics.items() if topic.topic_id == wanted and may_describe(view, name)]
        return shown(view, names[0]) if names else wire.ShownTopic(None, wanted, _UNKNOWN_TOPIC_ID)
    if not may_describe(view, wanted):
        return wire.ShownTopic(wanted, 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if wanted not in view.topics:
        return wire.ShownTopic(wanted, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return shown(view, wanted)


def shown(view: Image, name: str) -> wire.ShownTopic:
    topic: TopicImage = view.topics[name]
    partitions = tuple(
        wire.ShownPartition(
            ErrorCode.NONE if partition.leader != NO_LEADER else ErrorCode.LEADER_NOT_AVAILABLE,
            partition.leader,
            partition.leader_epoch,
            partition.replicas,
            partition.in_sync,
            tuple(broker for broker in partition.replicas if broker not in view.live),
        )
        for partition in topic.partitions
    )
    return wire.ShownTopic(name, topic.topic_id, 0, partitions)


def producers(broker: Broker, topic: str, index: int) -> tuple[int, dict[int, Entry]]:
    """(error, entries) of one partition, as its broker has them in its own log."""
    view = broker.view
    if not rights.allows(view.rights, rights.READ, rights.TOPIC, topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, _NO_ENTRIES
    partition = view.partition(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NO_ENTRIES
    replica = broker.logs.get((view.topics[topic].topic_id, index))
    if replica is None or broker.id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, _NO_ENTRIES
    return _NOTHING, replica.entries


def led(
    broker: Broker, topic: str, index: int, asked_epoch: int, *, operation: int = rights.DESCRIBE
) -> tuple[int, Replica | None, int]:
    """(error, log, leader epoch) of a partition that the broker takes itself to lead."""
    view = broker.view
    if not rights.allows(view.rights, operation, rights.TOPIC, topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, -1
    partition = view.partition(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, -1
    if partition.leader != broker.id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, None, -1
    if asked_epoch not in {-1, partition.leader_epoch}:
        is_old = asked_epoch < partition.leader_epoch
        return (_FENCED_LEADER_EPOCH if is_old else _UNKNOWN_LEADER_EPOCH), None, partition.leader_epoch
    return _NOTHING, broker.logs[view.topics[topic].topic_id, index], partition.leader_epoch


def offset(replica: Replica, timestamp_ms: int, *, stable: bool) -> int:
    if timestamp_ms == LATEST:
        return replica.stable if stable else replica.high_watermark
    if timestamp_ms < LATEST:
        return replica.start
    shown = (batch for batch in replica.batches if batch.offset >= replica.start)
    return next((batch.offset for batch in shown if batch.timestamp_ms >= timestamp_ms), -1)


def is_listed(view: Image, txn: Txn, request: Any) -> bool:
    return (
        rights.allows(view.rights, rights.DESCRIBE, rights.TRANSACTIONAL_ID, txn.transactional_id)
        and (not request.state_filters or txn.state in request.state_filters)
        and (not request.producer_id_filters or txn.producer_id in request.producer_id_filters)
    )


def no_transaction(name: str, error: ErrorCode) -> Any:
    return SimpleNamespace(
        error_code=error,
        transactional_id=name,
        transaction_state="",
        transaction_timeout_ms=-1,
        transaction_start_time_ms=-1,
        producer_id=-1,
        producer_epoch=-1,
        topics=[],
    )


def rules(acls: rights.Acls, request: Any) -> list[Any]:
    """The rules that match the filter of DescribeAcls, by resource."""
    wanted = (
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
        request.resource_name_filter,
        request.principal_filter,
    )
    return _rules(acls, *wanted)


@lru_cache(maxsize=1_000)
def _rules(
    acls: rights.Acls,
    resource_type: int,
    pattern_type: int,
    operation: int,
    permission: int,
    name: str | None,
    principal: str | None,
) -> list[Any]:
    """Of a filter, as far as it is used: 1 and None mean any."""
    by_resource: dict[tuple[int, str, int], list[Any]] = {}
    for acl in acls:
        if (
            resource_type in {1, acl.resource}
            and pattern_type in {1, acl.pattern}
            and operation in {1, acl.operation}
            and permission in {1, acl.permission}
            and name in {None, acl.name}
            and principal in {None, acl.principal}
        ):
            by_resource.setdefault((acl.resource, acl.name, acl.pattern), []).append(
                SimpleNamespace(
                    principal=acl.principal, host="*", operation=acl.operation, permission_type=acl.permission
                )
            )
    return [
        SimpleNamespace(resource_type=resource, resource_name=name, pattern_type=pattern, acls=same)
        for (resource, name, pattern), same in by_resource.items()
    ]


def quorum_row(replica: int, end: int, fetched_ms: int, caught_up_ms: int) -> Any:
    return SimpleNamespace(
        replica_id=replica, log_end_offset=end, last_fetch_timestamp=fetched_ms, last_caught_up_timestamp=caught_up_ms
    )
