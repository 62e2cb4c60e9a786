"""Reads the settings that prevent hanging transactions: features, settings of brokers and of `__transaction_state`."""

from __future__ import annotations

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.broker_configs import read_configs
from exporter.kafka.errors import BrokerFault, ErrorCode, error_name
from exporter.kafka.messages import api_versions
from exporter.kafka.messages.describe_configs import BROKER_RESOURCE, TOPIC_RESOURCE
from exporter.kafka.topology import Topology
from exporter.snapshot import STATE_TOPIC
from exporter.snapshot.origin import Protection

BROKER_CONFIGS = (
    "transaction.partition.verification.enable",
    "unclean.leader.election.enable",
    "transactional.id.expiration.ms",
    "transaction.max.timeout.ms",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
)
STATE_TOPIC_CONFIGS = ("unclean.leader.election.enable", "min.insync.replicas", "cleanup.policy")


async def read_protection(client: ClusterClient, topology: Topology | None = None) -> Protection:
    """Faults are in the result; raises ClusterUnavailableError if it has to read the metadata, and no broker responds."""
    topology = topology or await client.topology()
    asked = tuple(sorted(topology.brokers))
    unread: list[str] = []

    async def configs(broker: int, kind: int, name: str, keys: tuple[str, ...]) -> dict[str, str]:
        try:
            code, values = await read_configs(client, broker, kind, name, keys)
        except BrokerFault as fault:
            unread.append(str(fault))
            return {}
        if code != ErrorCode.NONE:
            unread.append(_missing(broker, kind, name, code))
        return values

    by_broker = await client.gather(configs(broker, BROKER_RESOURCE, str(broker), BROKER_CONFIGS) for broker in asked)
    topic = await configs(asked[0], TOPIC_RESOURCE, STATE_TOPIC, STATE_TOPIC_CONFIGS) if asked else {}
    features: dict[str, int] = {}
    if asked:
        try:
            features = await client.request(asked[0], "ApiVersions", api_versions.request(), api_versions.decode)
        except BrokerFault as fault:
            unread.append(f"features: {fault}")
    rows = topology.rows_of(STATE_TOPIC)
    return Protection(
        features=features,
        broker_configs={broker: values for broker, values in zip(asked, by_broker, strict=True) if values},
        releases={broker: client.release_at(topology.brokers[broker]) for broker in asked},
        state_topic_replicas=min((len(topology.replicas.of(row)) for row in rows), default=None),
        state_topic_lagging=sum(len(topology.in_sync.of(row)) < len(topology.replicas.of(row)) for row in rows)
        if rows
        else None,
        state_topic_configs=topic,
        is_state_topic_refused=_missing(0, TOPIC_RESOURCE, STATE_TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED) in unread,
        unread=tuple(dict.fromkeys(unread)),
    )


def _missing(broker: int, kind: int, name: str, code: int) -> str:
    """Returns the sentence for settings that a broker refuses: the missing right, or its error."""
    of_brokers = kind == BROKER_RESOURCE
    what = "broker settings" if of_brokers else f"settings of {name}"
    if code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
        where = "the cluster" if of_brokers else f"topic {name}"
        return f"{what}: not authorized, needs DESCRIBE_CONFIGS on {where}"
    return f"{what}: broker {broker} responded with {error_name(code)}"
