"""ListGroups (API key 16): the request, and the groups in its response."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin.groups import ListGroupsRequest


def request() -> Any:
    return ListGroupsRequest()


def decode(answer: Any) -> tuple[int, list[str]]:
    """(Kafka error code, group ids)."""
    return answer.error_code, [group.group_id for group in answer.groups]
