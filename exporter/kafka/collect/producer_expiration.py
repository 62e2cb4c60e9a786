"""Reads how long partitions remember a producer that does not write: `producer.id.expiration.ms` (DescribeConfigs)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.broker_configs import int32, request_for
from exporter.kafka.errors import BrokerFault, ErrorCode

NAME = "producer.id.expiration.ms"


async def producers_kept_ms(client: ClusterClient, brokers: Iterable[int]) -> int | None:
    """The shortest of all brokers; None if one does not return it (needs DESCRIBE_CONFIGS on the cluster, Kafka 3.5+)."""
    responses = await client.gather(_ask(client, broker) for broker in brokers)
    known = [response for response in responses if response is not None]
    return min(known) if known and len(known) == len(responses) else None


async def _ask(client: ClusterClient, broker: int) -> int | None:
    try:
        return await client.request(broker, "DescribeConfigs", request_for(broker, NAME), _value)
    except BrokerFault:
        return None


def _value(answer: Any) -> int | None:
    values = [
        config.value
        for result in answer.results
        if result.error_code == ErrorCode.NONE
        for config in result.configs
        if config.name == NAME
    ]
    return int32(values[0]) if len(values) == 1 else None
