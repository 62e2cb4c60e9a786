"""ApiVersions (API key 18): the request, and the finalized features in its response."""

from __future__ import annotations

from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest


def request() -> Any:
    return ApiVersionsRequest(client_software_name="kafka-transaction-exporter", client_software_version="1")


def decode(answer: Any) -> dict[str, int]:
    """Feature -> its finalized level."""
    return {feature.name: int(feature.max_version_level) for feature in answer.finalized_features or ()}
