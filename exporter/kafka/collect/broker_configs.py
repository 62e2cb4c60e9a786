"""Reads `transaction.max.timeout.ms` as each broker has it configured: DescribeConfigs (API key 32)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kafka.protocol.admin.configs import DescribeConfigsRequest

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ErrorCode, error_name
from exporter.snapshot import MaxTimeout

NAME = "transaction.max.timeout.ms"
_BROKER_RESOURCE = 4
_INT32_MAX = 2**31 - 1


async def max_timeout(client: ClusterClient, brokers: Iterable[int]) -> MaxTimeout:
    """Query every broker for its own setting: a broker reads it at its start, so brokers may differ."""
    asked = tuple(brokers)
    answers = await client.gather(_ask(client, broker) for broker in asked)
    timeouts_ms = [answer for answer in answers if isinstance(answer, int)]
    return MaxTimeout(
        timeout_ms=max(timeouts_ms, default=None),
        timeout_ms_min=min(timeouts_ms, default=None),
        unread=tuple(
            (broker, answer) for broker, answer in zip(asked, answers, strict=True) if isinstance(answer, str)
        ),
    )


def strangers(limit: MaxTimeout) -> frozenset[int]:
    """Brokers whose address leads to another broker: a broker returns only its own configuration.

    The other broker also responds to DescribeProducers, from its own log, as a follower that may lag, without an error. If
    DESCRIBE_CONFIGS is missing, this is not detected (ConfigHelper: authorization comes first).
    """
    return frozenset(broker for broker, why in limit.unread if why == ErrorCode.INVALID_REQUEST.name)


async def _ask(client: ClusterClient, broker: int) -> int | str:
    """The setting in milliseconds, or why it is unknown."""
    try:
        return await client.request(broker, "DescribeConfigs", request_for(broker, NAME), _value)
    except BrokerFault as fault:
        return str(fault)


def request_for(broker: int, name: str) -> DescribeConfigsRequest:
    """Query a broker for one of its own settings."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE, resource_name=str(broker), configuration_keys=[name]
    )
    return DescribeConfigsRequest(
        resources=[resource], include_synonyms=False, include_documentation=False, min_version=1
    )


def _value(answer: Any) -> int | str:
    for result in answer.results:
        if result.error_code != ErrorCode.NONE:
            return error_name(result.error_code)
        for config in result.configs:
            if config.name == NAME and (timeout_ms := int32(config.value)) is not None:
                return timeout_ms
    return f"the response does not contain {NAME}"


def int32(value: str | None) -> int | None:
    """A non-negative configuration of Kafka's type INT; None for anything else."""
    if value is None or re.fullmatch("[0-9]{1,10}", value) is None or int(value) > _INT32_MAX:
        return None
    return int(value)
