"""Checks whether every topic is visible: DescribeAcls (API key 29), and requests for names made from the ACLs.

Metadata omits topics without DESCRIBE silently. A request by name is refused, whether the topic exists or not. So with an
authorizer the exporter requests every name and prefix that an ACL has, and a made-up name that none has.
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Iterable, Iterator
from typing import Any

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ClusterUnavailableError, ErrorCode, error_name
from exporter.kafka.messages import describe_acls
from exporter.kafka.visibility.acl_probes import probes
from exporter.kafka.visibility.acls import ACLS_NOT_LISTED, NOT_LISTED
from exporter.snapshot import Resource

NAMES_IN_A_REQUEST = 1000
_LEGAL = string.ascii_letters + string.digits + "._-"
"""Legal characters of topic names."""


async def what_hides_topics(client: ClusterClient, brokers: Iterable[int]) -> str:
    """Returns why some topics may not be visible, a sentence; empty if every topic is visible. Never raises BrokerFault.

    The first of `brokers` that responds shows the ACLs.
    """
    why = "no broker is known"
    for broker in brokers:
        try:
            names = await client.request(broker, "DescribeAcls", describe_acls.request(Resource.TOPIC), _names)
            return (
                f"some topics may not be visible: {names}" if isinstance(names, str) else await _refused(client, names)
            )
        except (BrokerFault, ClusterUnavailableError) as error:
            why = str(error)
    return f"some topics may not be visible: {why}"


async def what_hides_topics_here(client: ClusterClient) -> str:
    """Returns the same for a command, which may ask any broker, and may not have asked for them yet.

    Raises ClusterUnavailableError.
    """
    brokers = client.brokers or (await client.topology(())).brokers
    return await what_hides_topics(client, sorted(brokers))


async def may_hide_topics(client: ClusterClient) -> bool:
    """True unless the ACLs, or that there is no authorizer, show that this login sees every topic."""
    return bool(await what_hides_topics_here(client))


async def _refused(client: ClusterClient, names: list[str]) -> str:
    for first in range(0, len(names), NAMES_IN_A_REQUEST):
        metadata = await client.topology(tuple(names[first : first + NAMES_IN_A_REQUEST]))
        if ErrorCode.TOPIC_AUTHORIZATION_FAILED in metadata.topic_errors.values():
            return "some topics may not be visible: needs DESCRIBE on every topic"
    return ""


def _names(answer: Any) -> list[str] | str:
    """Names to request, none without an authorizer; or why visibility is unknown."""
    if answer.error_code == ErrorCode.SECURITY_DISABLED:
        return []
    if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return "needs DESCRIBE on the cluster to read the ACLs"
    if answer.error_code in NOT_LISTED:
        return ACLS_NOT_LISTED
    if answer.error_code != ErrorCode.NONE:
        return f"the ACLs could not be read ({error_name(answer.error_code)})"
    return [name for name in probes(describe_acls.decode_patterns(answer), _made_up) if name]


def _made_up(prefix: str) -> Iterator[str]:
    """Yields made-up names with the prefix.

    If longer prefixes match every legal character, the prefix itself is the only topic that is left.
    """
    yield from (prefix + first + secrets.token_hex(8) for first in _LEGAL)
    if prefix:
        yield prefix
