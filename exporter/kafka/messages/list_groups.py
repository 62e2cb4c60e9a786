"""ListGroups (API key 16): the request for groups of every type, and the groups in its response."""

from __future__ import annotations

from typing import Any, Final

from kafka.protocol.admin.groups import ListGroupsRequest

SHARE: Final = "share"
"""The type of a share group (KIP-932); brokers before Kafka 3.8 name no type."""


def request() -> Any:
    return ListGroupsRequest()


def decode(answer: Any) -> tuple[int, list[tuple[str, str]]]:
    """(Kafka error code, the id and the type of each group)."""
    return answer.error_code, [(group.group_id, group.group_type) for group in answer.groups]
