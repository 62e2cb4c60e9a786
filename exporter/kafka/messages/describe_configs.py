"""DescribeConfigs (API key 32): the request, and the settings in its response."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kafka.protocol.admin.configs import DescribeConfigsRequest

from exporter.kafka.errors import ErrorCode

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4


def request(kind: int, resource: str, names: Collection[str]) -> Any:
    """Requests these settings of the resource of this `kind`."""
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=kind, resource_name=resource, configuration_keys=list(names)
            )
        ],
        include_synonyms=False,
        include_documentation=False,
        min_version=1,
    )


def decode(answer: Any) -> tuple[int, dict[str, str]]:
    """(Kafka error code, values)."""
    code = int(ErrorCode.NONE)
    values: dict[str, str] = {}
    for result in answer.results:
        code = code or int(result.error_code)
        values |= {config.name: config.value for config in result.configs if config.value is not None}
    return code, values
