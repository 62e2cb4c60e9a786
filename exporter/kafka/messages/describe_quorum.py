"""DescribeQuorum (API key 55, KIP-836): the request, and the progress of brokers and controllers in its response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin.cluster import DescribeQuorumRequest

from exporter.kafka.errors import ErrorCode

_CLUSTER_METADATA = "__cluster_metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumResponse:
    """The metadata log's partition, as its leader, the active controller, has it."""

    error: int
    leader_id: int = -1
    voters: tuple[int, ...] = ()
    caught_up_ms: Mapping[int, int] = field(default_factory=dict)
    """Time at which each voter and observer caught up; -1 if it is unknown."""


def request() -> Any:
    topic_type = DescribeQuorumRequest.TopicData
    partitions = [topic_type.PartitionData(partition_index=0)]
    return DescribeQuorumRequest(topics=[topic_type(topic_name=_CLUSTER_METADATA, partitions=partitions)])


def decode(answer: Any) -> QuorumResponse:
    parts = [partition for topic in answer.topics for partition in topic.partitions]
    error = answer.error_code or (parts[0].error_code if parts else ErrorCode.INVALID_REQUEST)
    if error != ErrorCode.NONE:
        return QuorumResponse(error=int(error))
    caught_up_ms: dict[int, int] = {}
    for replica in (*parts[0].observers, *parts[0].current_voters):
        # Twice if its directory was created again: the old one stays among the observers for minutes.
        instant_ms = -1 if replica.last_caught_up_timestamp is None else replica.last_caught_up_timestamp
        caught_up_ms[replica.replica_id] = max(instant_ms, caught_up_ms.get(replica.replica_id, -1))
    voters = tuple(voter.replica_id for voter in parts[0].current_voters)
    return QuorumResponse(error=0, leader_id=parts[0].leader_id, voters=voters, caught_up_ms=caught_up_ms)
