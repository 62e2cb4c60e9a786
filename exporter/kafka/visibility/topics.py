"""Checks whether every topic is visible: DescribeAcls (API key 29), and requests for names made from the ACLs.

Metadata omits topics without DESCRIBE silently. A request by name is refused, whether the topic exists or not. So with an
authorizer the exporter requests every name and prefix that an ACL has, and a made-up name that none has.
"""

from __future__ import annotations

import secrets
import string
from typing import Any

from kafka.protocol.admin.acl import ACLResourceType

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ClusterUnavailableError, ErrorCode
from exporter.kafka.visibility.acl_probes import probes
from exporter.kafka.visibility.acls import acls_on, denied_in, patterns_in

NAMES_MAX = 1000
_LEGAL = string.ascii_letters + string.digits + "._-"
"""What topic names consist of."""


async def what_hides_topics(client: ClusterClient, broker: int) -> str:
    """Why some topics may not be visible, a sentence; empty if every topic is visible. Never raises BrokerFault."""
    try:
        names = await client.request(broker, "DescribeAcls", acls_on(ACLResourceType.TOPIC), _names)
        if isinstance(names, str):
            return names
        metadata = await client.topology(tuple(names)) if names else None
    except (BrokerFault, ClusterUnavailableError) as error:
        return f"some topics may not be visible: {error}"
    if metadata is not None and ErrorCode.TOPIC_AUTHORIZATION_FAILED in metadata.topic_errors.values():
        return "some topics may not be visible: needs DESCRIBE on every topic"
    return ""


def _names(answer: Any) -> list[str] | str:
    """Names to request, none without an authorizer; or why visibility is unknown."""
    if answer.error_code == ErrorCode.SECURITY_DISABLED:
        return []
    if answer.error_code != ErrorCode.NONE:
        return "some topics may not be visible: needs DESCRIBE on the cluster to read the ACLs"
    denied = denied_in(answer)
    if denied is not None:
        return f"some topics may not be visible: an ACL denies describing {denied}"
    patterns = patterns_in(answer)
    if len(patterns) > NAMES_MAX:
        return "some topics may not be visible: there are too many ACLs to test all of them"
    return [probe for probe in probes(patterns, _made_up) if probe]


def _made_up(prefix: str) -> tuple[str, ...]:
    """If longer prefixes match every legal character, the prefix itself is the only topic that is left."""
    return (*(prefix + first + secrets.token_hex(8) for first in _LEGAL), prefix)
