"""Makes the responses of one broker from its own view and its own logs, not from the truth."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from exporter.kafka.errors import BrokerFault, ErrorCode, FaultReason
from tests.verification.model import coordinator, rights, shown, wire
from tests.verification.model.cluster import Broker, Cluster, home_of
from tests.verification.model.image import STATE_TOPIC
from tests.verification.model.logs import Replica
from tests.verification.model.records import records_of

HOST = "broker"
PORT = 9000
CONTROLLER = 3000
FETCH_MS = 500
"""Brokers that know everything ask the controller for more that often."""


class Answers:
    """The responses of all brokers of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._metadata: dict[tuple[object, ...], bytes] = {}

    def of(self, broker: Broker, request: Any) -> Any:
        """The response of `broker`. Raises BrokerFault where none comes."""
        handler = _HANDLERS.get(request.API_KEY)
        if handler is None:
            raise BrokerFault(FaultReason.UNSUPPORTED_API, f"broker {broker.id} does not offer API {request.API_KEY}")
        return handler(self, broker, request)

    def metadata(self, broker: Broker, request: Any) -> Any:
        """From the broker's own view; topics without DESCRIBE are omitted, or refused if they are requested by name."""
        version = request.API_VERSION
        names = wire.read_metadata(wire.body_of(request), version)
        view = broker.view
        key = (view.offset, version, names)
        body = self._metadata.get(key)
        if body is None:
            if self.cluster.kind.gateway:
                view = view.with_topic(STATE_TOPIC, None)
            if names is None:
                topics = [shown.shown(view, name) for name in view.topics if shown.may_describe(view, name)]
            else:
                topics = [shown.asked_topic(view, topic) for topic in names]
            brokers = [(node_id, HOST, PORT + node_id) for node_id in self.cluster.listed_first if node_id in view.live]
            body = wire.metadata(version, self.cluster.cluster_id, brokers, view.live[0] if view.live else -1, topics)
            self._metadata[key] = body
        return wire.answer(body)

    def describe_producers(self, broker: Broker, request: Any) -> Any:
        """From the broker's own log, as leader or as follower: READ comes first, then whether there is a log."""
        wanted = wire.read_producers(wire.body_of(request))
        rows = (
            (name, [(index, *shown.producers(broker, name, index)) for index in indexes]) for name, indexes in wanted
        )
        return wire.answer(wire.producers(rows, len(wanted)))

    def list_offsets(self, broker: Broker, request: Any) -> Any:
        """The end, the stable end, the start, or the first record from a time on, of a partition that the broker leads."""
        isolation, rows = wire.read_offsets(wire.body_of(request))
        topics: dict[str, list[tuple[int, int, int, int]]] = {}
        for row in rows:
            name, index = row.partition
            error, replica, epoch = shown.led(broker, name, index, row.leader_epoch)
            if replica is not None and self._is_end_unknown(replica, row.timestamp_ms):
                error, replica = shown.OFFSET_NOT_AVAILABLE, None
            offset = -1 if replica is None else shown.offset(replica, row.timestamp_ms, stable=bool(isolation))
            topics.setdefault(name, []).append((index, error, offset, epoch))
        return wire.answer(wire.offsets(topics))

    def _is_end_unknown(self, replica: Replica, timestamp_ms: int) -> bool:
        """True while the high watermark of a new leader is below the start of its epoch (KIP-207)."""
        return self.cluster.kind.hides_lagging_ends and replica.high is not None and timestamp_ms == shown.LATEST

    def fetch(self, broker: Broker, request: Any) -> Any:
        """Records from an offset on, as many as fit and one at least."""
        responses = []
        for topic in request.topics:
            partitions = []
            for partition in topic.partitions:
                error, replica, _ = shown.led(broker, topic.topic, partition.partition, -1, operation=rights.READ)
                data, stable, end, start = b"", -1, -1, -1
                if replica is not None and not error and partition.fetch_offset < replica.start:
                    error = ErrorCode.OFFSET_OUT_OF_RANGE
                elif replica is not None and not error:
                    data = records_of(replica.batches, partition.fetch_offset, partition.partition_max_bytes)
                    stable, end, start = replica.stable, replica.high_watermark, replica.start
                partitions.append(
                    SimpleNamespace(
                        partition_index=partition.partition,
                        error_code=error,
                        high_watermark=end,
                        last_stable_offset=stable,
                        log_start_offset=start,
                        aborted_transactions=[],
                        records=data,
                    )
                )
            responses.append(SimpleNamespace(topic=topic.topic, partitions=partitions))
        return SimpleNamespace(throttle_time_ms=0, error_code=0, session_id=0, responses=responses)

    def list_transactions(self, broker: Broker, request: Any) -> Any:
        """The ids that the exporter may describe, of the partitions that the broker has loaded."""
        wanted = wire.read_listing(wire.body_of(request))
        found: list[Any] = []
        if self.cluster.kind.gateway == "knows nothing":
            return wire.answer(wire.listing(0, ()))
        for held in broker.coordinating.values():
            if held.loading and not (held.loading == "unaware" and self.cluster.kind.lists_while_loading):
                return wire.answer(wire.listing(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ()))
            if held.loading:
                continue
            found += [txn for txn in held.transactions.values() if shown.is_listed(broker.view, txn, wanted)]
        return wire.answer(wire.listing(0, ((txn.transactional_id, txn.producer_id, txn.state) for txn in found)))

    def describe_transactions(self, broker: Broker, request: Any) -> Any:
        """Rights come first, then whether the broker coordinates and has loaded, then whether the id exists."""
        rows = [self._described(broker, name) for name in request.transactional_ids]
        return SimpleNamespace(throttle_time_ms=0, transaction_states=rows)

    def _described(self, broker: Broker, name: str) -> Any:
        view = broker.view
        if not rights.allows(view.rights, rights.DESCRIBE, rights.TRANSACTIONAL_ID, name):
            return shown.no_transaction(name, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        state = view.topics.get(STATE_TOPIC)
        held = None if state is None else broker.coordinating.get(home_of(name, len(state.partitions)))
        if held is None or held.loading == "unaware":
            return shown.no_transaction(name, ErrorCode.NOT_COORDINATOR)
        if held.loading:
            return shown.no_transaction(name, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        txn = held.transactions.get(name)
        if txn is None:
            return shown.no_transaction(name, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        by_topic: dict[str, list[int]] = {}
        for topic, index in sorted(txn.partitions):
            if shown.may_describe(view, topic):
                by_topic.setdefault(topic, []).append(index)
        return SimpleNamespace(
            error_code=0,
            transactional_id=name,
            transaction_state=txn.state,
            transaction_timeout_ms=txn.timeout_ms,
            transaction_start_time_ms=txn.start_ms,
            producer_id=txn.producer_id,
            producer_epoch=txn.epoch,
            topics=[SimpleNamespace(topic=topic, partitions=indexes) for topic, indexes in by_topic.items()],
        )

    def describe_configs(self, broker: Broker, request: Any) -> Any:
        """A broker returns its own configuration and refuses any other; authorization comes first."""
        kind = self.cluster.kind
        known = {"transaction.max.timeout.ms": str(kind.max_timeout_ms)}
        if kind.two_phase_commit is not None:
            known["transaction.two.phase.commit.enable"] = str(kind.two_phase_commit).lower()
        results = []
        for resource in request.resources:
            error = ErrorCode.NONE
            if not rights.allows(broker.view.rights, rights.DESCRIBE_CONFIGS, rights.CLUSTER):
                error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            elif resource.resource_name != str(broker.id):
                error = ErrorCode.INVALID_REQUEST
            keys = resource.configuration_keys or tuple(known)
            configs = [SimpleNamespace(name=key, value=known[key]) for key in keys if key in known and not error]
            results.append(
                SimpleNamespace(
                    error_code=error,
                    error_message=None,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=configs,
                )
            )
        return SimpleNamespace(throttle_time_ms=0, results=results)

    def describe_acls(self, broker: Broker, request: Any) -> Any:
        """Every rule that matches the filter, for any principal. It needs DESCRIBE on the cluster."""
        allowed = broker.view.rights
        if not allowed.has_authorizer:
            return SimpleNamespace(error_code=ErrorCode.SECURITY_DISABLED, error_message=None, resources=[])
        if not rights.allows(allowed, rights.DESCRIBE, rights.CLUSTER):
            error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            return SimpleNamespace(error_code=error, error_message=None, resources=[])
        resources = shown.rules(allowed.acls, request)
        return SimpleNamespace(throttle_time_ms=0, error_code=0, error_message=None, resources=resources)

    def describe_quorum(self, broker: Broker, _request: Any) -> Any:
        """Forwarded to the active controller, who goes by the newest image; a broker that is cut off cannot reach it.

        A broker that does not know the last decision had caught up until that was made: a moment ago, perhaps.
        """
        cluster = self.cluster
        if broker.is_cut_off:
            raise BrokerFault(FaultReason.TIMED_OUT, f"broker {broker.id} cannot reach the controller")
        if not rights.allows(cluster.image.rights, rights.DESCRIBE, rights.CLUSTER):
            return SimpleNamespace(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None, topics=[])
        now, end = cluster.now_ms, cluster.image.offset
        observers = []
        for node in cluster.brokers.values():
            fetched_ms = now - now % FETCH_MS
            caught_up_ms = fetched_ms if node.behind_since_ms is None else min(node.behind_since_ms, fetched_ms)
            observers.append(
                shown.quorum_row(
                    node.id, node.view.offset, fetched_ms if node.is_connected else caught_up_ms, caught_up_ms
                )
            )
        partition = SimpleNamespace(
            partition_index=0,
            error_code=0,
            error_message=None,
            leader_id=CONTROLLER,
            leader_epoch=1,
            high_watermark=end,
            current_voters=[shown.quorum_row(CONTROLLER, end, now, now)],
            observers=observers,
        )
        topic = SimpleNamespace(topic_name="__cluster_metadata", partitions=[partition])
        return SimpleNamespace(error_code=0, error_message=None, topics=[topic], nodes=[])

    def list_groups(self, _broker: Broker, _request: Any) -> Any:
        """No group: waiting groups do not affect a verdict."""
        return SimpleNamespace(throttle_time_ms=0, error_code=0, groups=[])

    def write_markers(self, broker: Broker, request: Any) -> Any:
        """An operator's marker: ALTER or CLUSTER_ACTION on the cluster."""
        may = any(
            rights.allows(broker.view.rights, operation, rights.CLUSTER)
            for operation in (rights.ALTER, rights.CLUSTER_ACTION)
        )
        markers = []
        for marker in request.markers:
            topics = []
            for topic in marker.topics:
                rows = []
                for index in topic.partition_indexes:
                    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                    if may:
                        wanted = (
                            marker.producer_id,
                            marker.producer_epoch,
                            marker.coordinator_epoch,
                            marker.transaction_result,
                        )
                        error = coordinator.operators_marker(self.cluster, broker, topic.name, index, wanted)
                    rows.append(SimpleNamespace(partition_index=index, error_code=error))
                topics.append(SimpleNamespace(name=topic.name, partitions=rows))
            markers.append(SimpleNamespace(producer_id=marker.producer_id, topics=topics))
        return SimpleNamespace(markers=markers)

    def init_producer_id(self, broker: Broker, request: Any) -> Any:
        """The fence of `force-terminate`."""
        name = request.transactional_id
        error = ErrorCode.NONE
        now = coordinator.coordinator(self.cluster, name)
        if not rights.allows(broker.view.rights, rights.WRITE, rights.TRANSACTIONAL_ID, name):
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        elif now is None or now[0] is not broker:
            error = ErrorCode.NOT_COORDINATOR
        else:
            timeout_ms = request.transaction_timeout_ms
            error = coordinator.init(self.cluster, name, timeout_ms=timeout_ms, healthy=False)
        return SimpleNamespace(throttle_time_ms=0, error_code=error, producer_id=-1, producer_epoch=-1)


_HANDLERS: dict[int, Callable[[Answers, Broker, Any], Any]] = {
    1: Answers.fetch,
    2: Answers.list_offsets,
    3: Answers.metadata,
    16: Answers.list_groups,
    22: Answers.init_producer_id,
    27: Answers.write_markers,
    29: Answers.describe_acls,
    32: Answers.describe_configs,
    55: Answers.describe_quorum,
    61: Answers.describe_producers,
    65: Answers.describe_transactions,
    66: Answers.list_transactions,
}
