"""A small model of a fake cluster that a test may change, and the responses that it gives.

What it simplifies against real brokers (`test_fake_broker.py` holds its responses to a real one's):

- all nodes answer from one model at once: metadata never lags, and a move of a leader is seen everywhere immediately;
- only a partition's leader answers DescribeProducers, and the followers that it has, which show what it shows (a real
  follower shows its own log);
- every node is in touch with the controller, unless the model says otherwise;
- no producer runs: offsets are those of the model, the last stable offset is the first open start offset;
- a state partition in `unloaded` is left out of ListTransactions without an error, as by a 4.3.1 broker that has just
  restarted; to see ListTransactions refused while loading, have the response carry that error;
- authorisation is a few switches of the model; quotas, TLS and SASL are not there.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import NAMESPACE_DNS, UUID, uuid5

from kafka.protocol.admin.acl import DescribeAclsRequest, DescribeAclsResponse
from kafka.protocol.admin.cluster import DescribeQuorumRequest, DescribeQuorumResponse
from kafka.protocol.admin.configs import DescribeConfigsRequest, DescribeConfigsResponse
from kafka.protocol.admin.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.consumer.offsets import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.producer.transaction import WriteTxnMarkersRequest, WriteTxnMarkersResponse

from exporter.kafka.collect.broker_configs import MAX_TIMEOUT
from exporter.kafka.errors import ErrorCode
from exporter.kafka.offsets import LATEST, LOG_START
from exporter.kafka.state_partitions import state_partition
from exporter.snapshot import STATE_TOPIC
from tests.kafka.loopback import HOST

CLUSTER_ID = "fake-cluster"
CONTROLLER_ID = 1


@dataclass(frozen=True)
class Acl:
    """As the protocol numbers them."""

    operation: int
    permission: int
    name: str = "id"
    pattern: int = 3
    resource: int = 5
    """A transactional id."""


DENY_DESCRIBE = Acl(8, 2)
ALLOW_DESCRIBE_ALL = Acl(8, 3, "*")


@dataclass
class QuorumState:
    """The active controller's view of the brokers."""

    clock_ahead_ms: int = 0
    """Of this machine's."""
    behind_ms: dict[int, int] = field(default_factory=dict)
    """Node -> how long ago it had caught up with the metadata log."""


@dataclass
class Producer:
    """An entry of DescribeProducers."""

    producer_id: int
    start_offset: int = -1
    epoch: int = 0
    last_sequence: int = 0
    last_timestamp_ms: int = 1_700_000_000_000
    coordinator_epoch: int = -1


@dataclass
class Partition:
    leader: int
    leader_epoch: int = 0
    followers: tuple[int, ...] = ()
    """In-sync replicas besides the leader."""
    high_watermark: int = 100
    producers: list[Producer] = field(default_factory=list)
    log: bytes = b""
    """Its batches, which a fetch of any offset below the high watermark returns."""
    log_start_offset: int = 0
    diverges_at: int = -1
    """For a fetch with the leader epoch of a former record; -1: nowhere."""

    @property
    def last_stable_offset(self) -> int:
        return min((p.start_offset for p in self.producers if p.start_offset >= 0), default=self.high_watermark)


@dataclass
class Transaction:
    """The coordinator's state of a transactional id."""

    producer_id: int
    state: str = "Ongoing"
    epoch: int = 0
    timeout_ms: int = 60_000
    start_ms: int = 1_700_000_000_000
    partitions: set[tuple[str, int]] = field(default_factory=set)


@dataclass
class Model:
    """The cluster as it is; a test changes it as it likes, also from `on_request`."""

    topics: dict[str, list[Partition]] = field(default_factory=dict)
    transactions: dict[str, Transaction] = field(default_factory=dict)
    unloaded: set[int] = field(default_factory=set)
    """Partitions of __transaction_state that their leader has not loaded."""
    max_timeout_ms: int | None = 900_000
    """None: DescribeConfigs is refused."""
    may_describe_ids: bool = True
    hidden_ids: set[str] = field(default_factory=set)
    """Transactional ids with a DENY of their own."""
    unreadable_topics: set[str] = field(default_factory=set)
    hidden_topics: set[tuple[int, str]] = field(default_factory=set)
    """(node, topic) without DESCRIBE."""
    acls: list[Acl] | int = ErrorCode.SECURITY_DISABLED
    """Rules, or the error that DescribeAcls answers."""
    topic_ids: dict[str, UUID] = field(default_factory=dict)
    """Where they are not made of the name."""
    cluster_id: str = CLUSTER_ID
    quorum: QuorumState | int = field(default_factory=QuorumState)
    """The response to DescribeQuorum, or its error."""

    coordinator_without_topic: int = -1
    """Node that coordinates every id where there is no __transaction_state."""
    does_any_node_list: bool = False
    """Each node lists the transactions of all coordinators."""

    def coordinator_of(self, transactional_id: str) -> tuple[int, int]:
        """(partition of __transaction_state, node)."""
        if STATE_TOPIC not in self.topics:
            return 0, self.coordinator_without_topic
        partition = state_partition(transactional_id, len(self.topics[STATE_TOPIC]))
        return partition, self.topics[STATE_TOPIC][partition].leader


class Answers:
    """The response of each API, as a node of the cluster gives it: `(node, request, version) -> response`."""

    def __init__(self, model: Model, ports: Mapping[int, int], hosts: Mapping[int, str]) -> None:
        """`ports` and `hosts`: node -> where clients are to come to; those that live, and may change."""
        self.model = model
        self.ports = ports
        self.hosts = hosts

    def metadata(self, node: int, request: Any, version: int) -> Any:
        """By name, an unknown topic is an error; a hidden one too, and left out of a list of all."""
        every = request.topics is None
        names = list(self.model.topics) if every else [topic.name for topic in request.topics]
        if every:
            names = [name for name in names if (node, name) not in self.model.hidden_topics]
        return MetadataResponse(
            version=version,
            cluster_id=self.model.cluster_id,
            controller_id=1,
            brokers=[
                MetadataResponse.MetadataResponseBroker(
                    version=version, node_id=live, host=self.hosts.get(live, HOST), port=port
                )
                for live, port in self.ports.items()
            ],
            topics=[self._described(node, name, version) for name in names],
        )

    def _described(self, node: int, name: str, version: int) -> Any:
        topic_type = MetadataResponse.MetadataResponseTopic
        partition_type = topic_type.MetadataResponsePartition
        if (node, name) in self.model.hidden_topics:
            return topic_type(version=version, name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if name not in self.model.topics:
            return topic_type(version=version, name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partitions = [
            partition_type(
                version=version,
                error_code=ErrorCode.NONE if partition.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=[node_id for node_id in (partition.leader, *partition.followers) if node_id >= 0],
                isr_nodes=[node_id for node_id in (partition.leader, *partition.followers) if node_id >= 0],
            )
            for index, partition in enumerate(self.model.topics[name])
        ]
        topic_id = self.model.topic_ids.get(name, uuid5(NAMESPACE_DNS, name))
        return topic_type(version=version, name=name, topic_id=topic_id, partitions=partitions)

    def describe_producers(self, node: int, request: Any, version: int) -> Any:
        """READ on the topic comes first, then existence, then leadership."""
        topic_type = DescribeProducersResponse.TopicResponse
        topics = [
            topic_type(
                version=version,
                name=topic.name,
                partitions=[self._producers(node, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
        return DescribeProducersResponse(version=version, topics=topics)

    def _producers(self, node: int, topic: str, index: int) -> Any:
        partition_type = DescribeProducersResponse.TopicResponse.PartitionResponse
        answer = partition_type(version=0, partition_index=index, error_code=0, error_message=None)
        partitions = self.model.topics.get(topic, [])
        if topic in self.model.unreadable_topics:
            answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif index >= len(partitions):
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif node not in {partitions[index].leader, *partitions[index].followers}:
            answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            answer.active_producers = [
                partition_type.ProducerState(
                    version=0,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    last_sequence=producer.last_sequence,
                    last_timestamp=producer.last_timestamp_ms,
                    coordinator_epoch=producer.coordinator_epoch,
                    current_txn_start_offset=producer.start_offset,
                )
                for producer in partitions[index].producers
            ]
        return answer

    def list_transactions(self, node: int, request: Any, version: int) -> Any:
        """Hidden ids and unloaded partitions are left out without a word."""
        wanted = [
            (transactional_id, transaction)
            for transactional_id, transaction in self.model.transactions.items()
            if self._is_visible(transactional_id)
            and (self.model.does_any_node_list or self.model.coordinator_of(transactional_id)[1] == node)
            and self.model.coordinator_of(transactional_id)[0] not in self.model.unloaded
            and (not request.state_filters or transaction.state in request.state_filters)
            and (not request.producer_id_filters or transaction.producer_id in request.producer_id_filters)
        ]
        state_type = ListTransactionsResponse.TransactionState
        return ListTransactionsResponse(
            version=version,
            error_code=0,
            transaction_states=[
                state_type(version=version, transactional_id=name, producer_id=t.producer_id, transaction_state=t.state)
                for name, t in wanted
            ],
        )

    def _is_visible(self, transactional_id: str) -> bool:
        return self.model.may_describe_ids and transactional_id not in self.model.hidden_ids

    def describe_transactions(self, node: int, request: Any, version: int) -> Any:
        """Authorisation comes first, then coordination, loading, existence."""
        states = [self._described_transaction(node, name) for name in request.transactional_ids]
        return DescribeTransactionsResponse(version=version, transaction_states=states)

    def _described_transaction(self, node: int, transactional_id: str) -> Any:
        state_type = DescribeTransactionsResponse.TransactionState
        answer = state_type(version=0, error_code=0, transactional_id=transactional_id, topics=[])
        partition, coordinator = self.model.coordinator_of(transactional_id)
        transaction = self.model.transactions.get(transactional_id)
        if not self._is_visible(transactional_id):
            answer.error_code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        elif coordinator != node:
            answer.error_code = ErrorCode.NOT_COORDINATOR
        elif partition in self.model.unloaded:
            answer.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        elif transaction is None:
            answer.error_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        else:
            answer.transaction_state = transaction.state
            answer.transaction_timeout_ms = transaction.timeout_ms
            answer.transaction_start_time_ms = transaction.start_ms
            answer.producer_id = transaction.producer_id
            answer.producer_epoch = transaction.epoch
            shown = [(topic, i) for topic, i in transaction.partitions if (node, topic) not in self.model.hidden_topics]
            answer.topics = [
                state_type.TopicData(version=0, topic=topic, partitions=indexes) for topic, indexes in _by_topic(shown)
            ]
        return answer

    def describe_configs(self, node: int, request: Any, version: int) -> Any:
        result_type = DescribeConfigsResponse.DescribeConfigsResult
        config_type = result_type.DescribeConfigsResourceResult
        (resource,) = request.resources
        known = self.model.max_timeout_ms is not None
        values = {MAX_TIMEOUT: str(self.model.max_timeout_ms)}
        configs = [
            config_type(version=version, name=name, value=values[name])
            for name in resource.configuration_keys
            if values.get(name) is not None
        ]
        refused = ErrorCode.INVALID_REQUEST if known else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        result = result_type(
            version=version,
            error_code=ErrorCode.NONE if known and resource.resource_name == str(node) else refused,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=configs if known else [],
        )
        return DescribeConfigsResponse(version=version, results=[result])

    def describe_acls(self, _node: int, request: Any, version: int) -> Any:
        answer = DescribeAclsResponse(version=version, error_code=0, error_message=None, resources=[])
        if isinstance(self.model.acls, int):
            answer.error_code = self.model.acls
            return answer
        resource_type = DescribeAclsResponse.DescribeAclsResource
        answer.resources = [
            resource_type(
                version=version,
                resource_type=acl.resource,
                resource_name=acl.name,
                pattern_type=acl.pattern,
                acls=[
                    resource_type.AclDescription(
                        version=version,
                        principal="User:x",
                        host="*",
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                ],
            )
            for acl in self.model.acls
            if request.resource_type_filter in {1, acl.resource}  # 1 is any
        ]
        return answer

    def describe_quorum(self, _node: int, _request: Any, version: int) -> Any:
        quorum = self.model.quorum
        if isinstance(quorum, int):
            return DescribeQuorumResponse(version=version, error_code=quorum, topics=[])
        topic_type = DescribeQuorumResponse.TopicData
        partition_type = topic_type.PartitionData
        now_ms = time.time_ns() // 1_000_000 + quorum.clock_ahead_ms
        states = {
            node: partition_type.ReplicaState(
                version=version,
                replica_id=node,
                log_end_offset=100,
                last_fetch_timestamp=now_ms - quorum.behind_ms.get(node, 0),
                last_caught_up_timestamp=now_ms - quorum.behind_ms.get(node, 0),
            )
            for node in self.ports
        }
        controller = states.pop(CONTROLLER_ID, None) or next(iter(states.values()))
        partition = partition_type(
            version=version,
            partition_index=0,
            error_code=0,
            leader_id=controller.replica_id,
            leader_epoch=1,
            high_watermark=100,
            current_voters=[controller],
            observers=list(states.values()),
        )
        topic = topic_type(version=version, topic_name="__cluster_metadata", partitions=[partition])
        return DescribeQuorumResponse(version=version, error_code=0, topics=[topic])

    def list_offsets(self, node: int, request: Any, version: int) -> Any:
        topic_type = ListOffsetsResponse.ListOffsetsTopicResponse
        partition_type = topic_type.ListOffsetsPartitionResponse

        def row(topic: str, wanted: Any) -> Any:
            answer = partition_type(version=version, partition_index=wanted.partition_index, timestamp=-1)
            partition = self.model.topics[topic][wanted.partition_index]
            answer.error_code = 0 if partition.leader == node else ErrorCode.NOT_LEADER_OR_FOLLOWER
            if wanted.timestamp == LATEST:
                answer.leader_epoch = partition.leader_epoch
                answer.offset = partition.last_stable_offset if request.isolation_level else partition.high_watermark
            else:  # all records are of now
                answer.offset = partition.log_start_offset if partition.log or wanted.timestamp == LOG_START else -1
            return answer

        return ListOffsetsResponse(
            version=version,
            topics=[
                topic_type(
                    version=version,
                    name=topic.name,
                    partitions=[row(topic.name, wanted) for wanted in topic.partitions],
                )
                for topic in request.topics
            ],
        )

    def fetch(self, node: int, request: Any, version: int) -> Any:
        """Without waiting: see `FakeCluster`."""
        topic_type = FetchResponse.FetchableTopicResponse
        partition_type = topic_type.PartitionData

        def row(topic: str, wanted: Any) -> Any:
            partition = self.model.topics[topic][wanted.partition]
            answer = partition_type(version=version, partition_index=wanted.partition, error_code=0, records=b"")
            answer.high_watermark = answer.last_stable_offset = partition.high_watermark
            if topic in self.model.unreadable_topics:
                answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif partition.leader != node:
                answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif wanted.last_fetched_epoch >= 0 and (
                partition.diverges_at >= 0 or wanted.fetch_offset > partition.high_watermark
            ):
                end_offset = partition.diverges_at if partition.diverges_at >= 0 else partition.high_watermark
                answer.diverging_epoch = partition_type.EpochEndOffset(version=version, epoch=0, end_offset=end_offset)
            elif not partition.log_start_offset <= wanted.fetch_offset <= partition.high_watermark:
                answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            elif wanted.fetch_offset < partition.high_watermark:
                answer.records = partition.log
            return answer

        return FetchResponse(
            version=version,
            error_code=0,
            responses=[
                topic_type(
                    version=version, topic=topic.topic, partitions=[row(topic.topic, p) for p in topic.partitions]
                )
                for topic in request.topics
            ],
        )

    def write_markers(self, _node: int, request: Any, version: int) -> Any:
        """Any marker closes the open transaction of its producer there."""
        marker_type = WriteTxnMarkersResponse.WritableTxnMarkerResult
        topic_type = marker_type.WritableTxnMarkerTopicResult
        partition_type = topic_type.WritableTxnMarkerPartitionResult

        def closed(producer_id: int, topic: str, index: int) -> Any:
            for producer in self.model.topics[topic][index].producers:
                if producer.producer_id == producer_id:
                    producer.start_offset = -1
            return partition_type(version=version, partition_index=index, error_code=0)

        markers = [
            marker_type(
                version=version,
                producer_id=marker.producer_id,
                topics=[
                    topic_type(
                        version=version,
                        name=named.name,
                        partitions=[closed(marker.producer_id, named.name, index) for index in named.partition_indexes],
                    )
                    for named in marker.topics
                ],
            )
            for marker in request.markers
        ]
        return WriteTxnMarkersResponse(version=version, markers=markers)


APIS: dict[int, tuple[str, int, Any, Callable[[Answers, int, Any, int], Any]]] = {
    1: ("Fetch", 12, FetchRequest, Answers.fetch),
    2: ("ListOffsets", 8, ListOffsetsRequest, Answers.list_offsets),
    3: ("Metadata", 12, MetadataRequest, Answers.metadata),
    27: ("WriteTxnMarkers", 1, WriteTxnMarkersRequest, Answers.write_markers),
    29: ("DescribeAcls", 3, DescribeAclsRequest, Answers.describe_acls),
    55: ("DescribeQuorum", 1, DescribeQuorumRequest, Answers.describe_quorum),
    32: ("DescribeConfigs", 4, DescribeConfigsRequest, Answers.describe_configs),
    61: ("DescribeProducers", 0, DescribeProducersRequest, Answers.describe_producers),
    65: ("DescribeTransactions", 0, DescribeTransactionsRequest, Answers.describe_transactions),
    66: ("ListTransactions", 1, ListTransactionsRequest, Answers.list_transactions),
}
"""API key -> (name, newest version, request, answer)."""


def carry(answer: Any, error: int) -> None:
    """Put `error` wherever the response has place for one: at its top, or in each of its innermost rows."""
    if isinstance(answer, ListTransactionsResponse | DescribeTransactionsResponse.TransactionState):
        answer.error_code = error
        return
    rows = [row for name in _ROWS for row in getattr(answer, name, None) or ()]
    for row in rows:
        carry(row, error)
    if not rows and "error_code" in answer._struct.fields:
        answer.error_code = error


_ROWS = ("topics", "partitions", "results", "transaction_states")


def _by_topic(partitions: Iterable[tuple[str, int]]) -> Iterator[tuple[str, list[int]]]:
    for topic, group in itertools.groupby(sorted(partitions), key=lambda partition: partition[0]):
        yield topic, [index for _, index in group]
