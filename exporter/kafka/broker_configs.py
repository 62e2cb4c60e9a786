"""How long a transaction may be open, as each broker has it configured: DescribeConfigs (API key 32)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin.configs import DescribeConfigsRequest

from exporter.kafka.errors import BrokerFault, ErrorCode, error_name
from exporter.kafka.inquiry import Inquiry
from exporter.snapshot import MaxTimeout

NAME = "transaction.max.timeout.ms"
TWO_PHASE_COMMIT = "transaction.two.phase.commit.enable"
"""KIP-939; brokers before Kafka 4.1 do not have it, and leave it out of the response."""
_BROKER_RESOURCE = 4


async def max_timeout(inquiry: Inquiry, brokers: Iterable[int]) -> MaxTimeout:
    """Ask every broker for its own setting: it is read at a broker's start, so brokers may differ."""
    asked = tuple(brokers)
    answers = await inquiry.gather(_ask(inquiry, broker) for broker in asked)
    limits = [answer.timeout_ms for answer in answers if isinstance(answer, _Limits)]
    return MaxTimeout(
        timeout_ms=max(limits, default=None),
        timeout_ms_min=min(limits, default=None),
        unread=tuple(
            (broker, answer) for broker, answer in zip(asked, answers, strict=True) if isinstance(answer, str)
        ),
        two_phase_commit=any(isinstance(answer, _Limits) and answer.two_phase_commit for answer in answers),
    )


@dataclass(frozen=True, slots=True)
class _Limits:
    timeout_ms: int
    two_phase_commit: bool


def strangers(limit: MaxTimeout) -> frozenset[int]:
    """Brokers whose address leads to another broker: a broker tells its own configuration and refuses any other's.

    The other one answers DescribeProducers as well, from its own log, as a follower that may lag; it does not say so. A
    broker that lets us see no configuration is not found out (ConfigHelper: authorization comes first).
    """
    return frozenset(broker for broker, why in limit.unread if why == ErrorCode.INVALID_REQUEST.name)


async def _ask(inquiry: Inquiry, broker: int) -> _Limits | str:
    """The broker's settings, or why they are not known."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=_BROKER_RESOURCE, resource_name=str(broker), configuration_keys=[NAME, TWO_PHASE_COMMIT]
            )
        ],
        include_synonyms=False,
        include_documentation=False,
        min_version=1,
    )
    try:
        return await inquiry.ask(broker, "DescribeConfigs", request, _limits)
    except BrokerFault as fault:
        return str(fault)


def _limits(answer: Any) -> _Limits | str:
    for result in answer.results:
        if result.error_code != ErrorCode.NONE:
            return error_name(result.error_code)
        values = {config.name: config.value for config in result.configs}
        limit = values.get(NAME)
        if limit is not None and limit.isdigit():
            return _Limits(int(limit), two_phase_commit=values.get(TWO_PHASE_COMMIT, "false") != "false")
    return f"the response does not hold {NAME}"
