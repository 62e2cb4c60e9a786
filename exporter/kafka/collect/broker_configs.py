"""Reads settings as each broker has them: DescribeConfigs (API key 32)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from exporter.kafka.client.connections import Address
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ErrorCode, error_name
from exporter.kafka.messages import describe_configs
from exporter.kafka.messages.describe_configs import BROKER_RESOURCE
from exporter.snapshot import MaxTimeout

MAX_TIMEOUT = "transaction.max.timeout.ms"
EXPIRATION = "producer.id.expiration.ms"
_INT32_MAX = 2**31 - 1


async def max_timeout(client: ClusterClient, brokers: Iterable[int]) -> MaxTimeout:
    """`transaction.max.timeout.ms` of every broker: a broker reads it at its start, so brokers may differ."""
    asked = tuple(brokers)
    answers = await client.gather(_number(client, broker, MAX_TIMEOUT) for broker in asked)
    timeouts_ms = [answer for answer in answers if isinstance(answer, int)]
    return MaxTimeout(
        timeout_ms=max(timeouts_ms, default=None),
        timeout_ms_min=min(timeouts_ms, default=None),
        unread=tuple(
            (broker, answer) for broker, answer in zip(asked, answers, strict=True) if isinstance(answer, str)
        ),
    )


def strangers(limit: MaxTimeout, brokers: Mapping[int, Address]) -> frozenset[int]:
    """Brokers whose address leads to another broker: a broker returns only its own configuration.

    Also those that share an address. The other broker responds to DescribeProducers, too, from its own log, as a follower
    that may lag, without an error. If DESCRIBE_CONFIGS is missing, only shared addresses are detected (ConfigHelper:
    authorization comes first).
    """
    count = Counter(brokers.values())
    shared = {broker for broker, address in brokers.items() if count[address] > 1}
    return frozenset(shared | {broker for broker, why in limit.unread if why == ErrorCode.INVALID_REQUEST.name})


async def producers_kept_ms(client: ClusterClient, brokers: Iterable[int]) -> int | None:
    """Returns how long partitions remember a producer that does not write, the shortest of all brokers.

    None if one does not return it (needs DESCRIBE_CONFIGS on the cluster, Kafka 3.5+).
    """
    responses = await client.gather(_number(client, broker, EXPIRATION) for broker in brokers)
    known = [response for response in responses if isinstance(response, int)]
    return min(known) if known and len(known) == len(responses) else None


async def _number(client: ClusterClient, broker: int, name: str) -> int | str:
    """Returns one of the broker's own settings, or why it is unknown."""
    try:
        code, values = await read_configs(client, broker, BROKER_RESOURCE, str(broker), [name])
    except BrokerFault as fault:
        return str(fault)
    if code != ErrorCode.NONE:
        return error_name(code)
    number = _int32(values.get(name))
    return f"the response does not contain {name}" if number is None else number


async def read_configs(
    client: ClusterClient, broker: int, kind: int, resource: str, names: Collection[str]
) -> tuple[int, dict[str, str]]:
    """(Kafka error code, values) of the resource of this `kind` as `broker` has it. Raises BrokerFault."""
    request = describe_configs.request(kind, resource, names)
    return await client.request(broker, "DescribeConfigs", request, describe_configs.decode)


def _int32(value: str | None) -> int | None:
    """A non-negative configuration of Kafka's type INT; None for anything else."""
    if value is None or re.fullmatch("[0-9]{1,10}", value) is None or int(value) > _INT32_MAX:
        return None
    return int(value)
