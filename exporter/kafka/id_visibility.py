"""Whether every transactional id is visible to us: DescribeAcls (API key 29), and probes that the ACLs themselves suggest.

A made-up id that is visible proves nothing about other ids: it may match a granted prefix by chance, and with
`allow.everyone.if.no.acl.found` exactly those ids are hidden that some ACL names for others. So the ACLs are read, and
for each pattern that they name an id is tried that no longer pattern matches, and one more that none matches. When all of
these are visible, so is every id, whether we are a super user, have a literal `*`, or many prefixes (StandardAuthorizer).
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from kafka.protocol.admin.acl import (
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ACLResourceType,
)
from kafka.protocol.admin.transactions import DescribeTransactionsRequest

from exporter.kafka.acls import acls_on
from exporter.kafka.errors import BrokerFault, ErrorCode
from exporter.kafka.inquiry import Inquiry
from exporter.snapshot import IdVisibility

PATTERNS_MAX = 1000
"""More patterns than these are not tried, and nothing is proved then."""
WILDCARD = "*"
_HIDING_OPERATIONS = frozenset({ACLOperation.ALL, ACLOperation.DESCRIBE})
_BEGINNINGS = (
    "",
    "~",
    "|",
    "}",
    "{",
    "^",
    "`",
    "@",
    "?",
    ">",
    "=",
    "<",
    ";",
    ":",
    "/",
    ",",
    "+",
    "(",
    "$",
    "#",
    "!",
    " ",
)
"""Transactional ids may hold any character: where patterns take all the usual ones, one of these is left."""


async def id_visibility(inquiry: Inquiry, brokers: Iterable[int]) -> IdVisibility:
    """The worst of what these coordinators let us see: each has its own view of the ACLs."""
    found = await inquiry.gather(_at(inquiry, broker) for broker in brokers)
    if all(it is IdVisibility.ALL for it in found):
        return IdVisibility.ALL
    return IdVisibility.DENY_POSSIBLE if IdVisibility.DENY_POSSIBLE in found else IdVisibility.BY_NAME_ONLY


async def _at(inquiry: Inquiry, broker: int) -> IdVisibility:
    try:
        patterns = await inquiry.ask(broker, "DescribeAcls", acls_on(ACLResourceType.TRANSACTIONAL_ID), _patterns)
        if patterns is None or len(patterns) > PATTERNS_MAX:
            return IdVisibility.DENY_POSSIBLE
        probes = tuple(_probes(patterns)) if patterns is not _NO_AUTHORIZER else ()
        if None in probes or not await _are_visible(inquiry, broker, [it for it in probes if it is not None]):
            return IdVisibility.BY_NAME_ONLY
    except BrokerFault:
        return IdVisibility.DENY_POSSIBLE
    return IdVisibility.ALL


_Patterns = frozenset[tuple[bool, str]]
"""(is prefixed, name) of the resources that some ACL names."""
_NO_AUTHORIZER: _Patterns = frozenset({(False, "")})


def _patterns(answer: Any) -> _Patterns | None:
    """None where the ACLs cannot be read, or hold a DENY on describing ids, whoever it is for: ours are not known."""
    if answer.error_code == ErrorCode.SECURITY_DISABLED:
        return _NO_AUTHORIZER
    if answer.error_code != ErrorCode.NONE:
        return None
    found = set()
    for resource in answer.resources:
        for acl in resource.acls:
            if acl.permission_type == ACLPermissionType.DENY and acl.operation in _HIDING_OPERATIONS:
                return None
        found.add((resource.pattern_type == ACLResourcePatternType.PREFIXED, resource.resource_name))
    return frozenset(found)


def _probes(patterns: _Patterns) -> Iterator[str | None]:
    """An id for each pattern and one for none; None where every id that was tried matches a longer pattern."""
    prefixes = {name for is_prefixed, name in patterns if is_prefixed}
    for is_prefixed, name in [(True, ""), *patterns]:
        if is_prefixed:
            yield _outside(name, {it for it in prefixes if len(it) > len(name) and it.startswith(name)})
        elif name != WILDCARD:
            yield name


def _outside(prefix: str, longer: Collection[str]) -> str | None:
    candidates = (prefix + beginning + secrets.token_urlsafe(24) for beginning in _BEGINNINGS)
    return next((it for it in candidates if not any(it.startswith(other) for other in longer)), None)


async def _are_visible(inquiry: Inquiry, broker: int, ids: Collection[str]) -> bool:
    """True when none of `ids` is refused; authorization comes before coordination and existence."""
    if not ids:
        return True
    request = DescribeTransactionsRequest(transactional_ids=sorted(ids))

    def refused(answer: Any) -> set[str]:
        told = {it.transactional_id: it.error_code for it in answer.transaction_states}
        return {it for it in ids if told.get(it) in {None, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}}

    return not await inquiry.ask(broker, "DescribeTransactions", request, refused)
