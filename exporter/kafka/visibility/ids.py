"""Checks whether every transactional id is visible: DescribeAcls (API key 29), and probes with ids made from the ACLs.

A made-up id that is visible proves nothing about other ids: it may match a granted prefix by chance, and with
`allow.everyone.if.no.acl.found` exactly those ids are hidden that some ACL names for others. So the exporter reads the
ACLs, and probes an id for each of their patterns (`acl_probes.py`). If all of these are visible, so is every id, for a
super user, a literal `*`, or many prefixes.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ErrorCode, FaultReason, error_name
from exporter.kafka.messages import describe_acls, describe_transactions
from exporter.kafka.messages.describe_acls import Patterns
from exporter.kafka.visibility.acl_probes import probes
from exporter.kafka.visibility.acls import NOT_LISTED
from exporter.snapshot import IdVisibility, Resource

IDS_IN_A_REQUEST = 1000
_BEGINNINGS = ("", *"~|}{^`@?>=<;:/,+($#! ")
"""Transactional ids may contain any character: if patterns match all usual ones, one of these is left."""


async def id_visibility(client: ClusterClient, brokers: Iterable[int]) -> IdVisibility:
    """The worst result of these coordinators: each has its own view of the ACLs."""
    found = await client.gather(_at(client, broker) for broker in brokers)
    worst_first = (
        IdVisibility.NOT_ANSWERED,
        IdVisibility.ACLS_NOT_LISTED,
        IdVisibility.ACLS_UNREAD,
        IdVisibility.BY_NAME_ONLY,
    )
    return next((visibility for visibility in worst_first if visibility in found), IdVisibility.ALL)


async def _at(client: ClusterClient, broker: int) -> IdVisibility:
    try:
        patterns = await client.request(
            broker, "DescribeAcls", describe_acls.request(Resource.TRANSACTIONAL_ID), _patterns
        )
        if isinstance(patterns, IdVisibility):
            return patterns
        ids = _probed(client, patterns) if patterns is not _NO_AUTHORIZER else ()
        known = [transactional_id for transactional_id in ids if transactional_id is not None]
        if len(known) < len(ids) or not await _are_visible(client, broker, known):
            return IdVisibility.BY_NAME_ONLY
    except BrokerFault as fault:
        is_offered = fault.reason is not FaultReason.UNSUPPORTED_API
        return IdVisibility.NOT_ANSWERED if is_offered else IdVisibility.ACLS_NOT_LISTED
    return IdVisibility.ALL


_NO_AUTHORIZER: Patterns = ((False, ""),)
_REFUSED: Final = (None, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.name)


def _patterns(answer: Any) -> Patterns | IdVisibility:
    """The patterns of the ACLs, or why they are unknown. Raises BrokerFault."""
    if answer.error_code == ErrorCode.SECURITY_DISABLED:
        return _NO_AUTHORIZER
    if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return IdVisibility.ACLS_UNREAD
    if answer.error_code in NOT_LISTED:
        return IdVisibility.ACLS_NOT_LISTED
    if answer.error_code != ErrorCode.NONE:
        raise BrokerFault(FaultReason.REFUSED, f"the response to DescribeAcls is {error_name(answer.error_code)}")
    return describe_acls.decode_patterns(answer)


def _probed(client: ClusterClient, patterns: Patterns) -> tuple[str | None, ...]:
    def make(random: Callable[[], str]) -> tuple[str | None, ...]:
        return tuple(probes(patterns, partial(_made_up, random)))

    return make(random_id) if client.acl_probes is None else client.acl_probes(make)


def random_id() -> str:
    """Makes up the part of an id that no other id has: 32 characters."""
    return secrets.token_urlsafe(24)


def _made_up(random: Callable[[], str], prefix: str) -> Iterator[str]:
    return (prefix + beginning + random() for beginning in _BEGINNINGS)


async def _are_visible(client: ClusterClient, broker: int, ids: Sequence[str]) -> bool:
    """True if none of `ids` is refused; authorization comes before coordination and existence. Raises BrokerFault."""
    for first in range(0, len(ids), IDS_IN_A_REQUEST):
        requested = ids[first : first + IDS_IN_A_REQUEST]
        request, decode = describe_transactions.request(requested), partial(describe_transactions.decode, broker)
        found = await client.request(broker, "DescribeTransactions", request, decode)
        if any(found.get(transactional_id) in _REFUSED for transactional_id in requested):
            return False
    return True
