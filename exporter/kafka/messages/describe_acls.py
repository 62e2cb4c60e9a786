"""DescribeAcls (API key 29): the request, and the patterns and denials in its response."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from kafka.protocol.admin.acl import (
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ACLResourceType,
    DescribeAclsRequest,
)

from exporter.kafka.errors import MalformedResponseError
from exporter.snapshot import DenyRule, Resource

_TYPES: Final = {
    Resource.TOPIC: ACLResourceType.TOPIC,
    Resource.GROUP: ACLResourceType.GROUP,
    Resource.CLUSTER: ACLResourceType.CLUSTER,
    Resource.TRANSACTIONAL_ID: ACLResourceType.TRANSACTIONAL_ID,
}
_RESOURCES: Final = {number: resource for resource, number in _TYPES.items()}
_NAMES: Final = {
    ACLOperation.ALL: "All",
    ACLOperation.READ: "Read",
    ACLOperation.DESCRIBE: "Describe",
    ACLOperation.DESCRIBE_CONFIGS: "DescribeConfigs",
}
"""The names of kafka-acls.sh."""
_NEEDED: Final = {
    Resource.TOPIC: {ACLOperation.ALL, ACLOperation.READ, ACLOperation.DESCRIBE},
    Resource.GROUP: {ACLOperation.ALL, ACLOperation.DESCRIBE},
    Resource.CLUSTER: {ACLOperation.ALL, ACLOperation.DESCRIBE, ACLOperation.DESCRIBE_CONFIGS},
    Resource.TRANSACTIONAL_ID: {ACLOperation.ALL, ACLOperation.DESCRIBE},
}
"""The operations that the exporter needs on each type of resource.

A DENY of any other, such as READ on a group, hides nothing from it and must stay.
"""

Patterns = Collection[tuple[bool, str]]
"""(is prefixed, name) of the resources that some ACL names, each once."""


def request(resource: Resource | None) -> Any:
    """Requests every ACL on resources of this type; None: of any type."""
    return DescribeAclsRequest(
        resource_type_filter=ACLResourceType.ANY if resource is None else _TYPES[resource],
        resource_name_filter=None,
        pattern_type_filter=ACLResourcePatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
        min_version=1,  # version 0 has no pattern types, and omits prefixed ACLs
    )


def error_of(answer: Any) -> int:
    return int(answer.error_code)


def decode_patterns(answer: Any) -> Patterns:
    """The patterns of all resources that some ACL names, in the order of the response. Raises MalformedResponseError."""
    if any(resource.resource_name is None for resource in answer.resources):
        raise MalformedResponseError("an ACL on a resource without a name")
    return tuple(dict.fromkeys((_is_prefixed(resource), resource.resource_name) for resource in answer.resources))


def decode_denials(answer: Any) -> tuple[DenyRule, ...]:
    """The rules that deny an operation that the exporter needs. Raises MalformedResponseError."""
    return tuple(
        _rule(kind, resource, acl)
        for resource in answer.resources
        if (kind := _RESOURCES.get(resource.resource_type)) is not None
        for acl in resource.acls
        if acl.permission_type == ACLPermissionType.DENY and acl.operation in _NEEDED[kind]
    )


def _rule(kind: Resource, resource: Any, acl: Any) -> DenyRule:
    if resource.resource_name is None or acl.principal is None or acl.host is None:
        raise MalformedResponseError("an ACL without resource, principal or host")
    return DenyRule(
        principal=acl.principal,
        host=acl.host,
        operation=_NAMES[acl.operation],
        resource=kind,
        name=resource.resource_name,
        is_prefixed=_is_prefixed(resource),
    )


def _is_prefixed(resource: Any) -> bool:
    return bool(resource.pattern_type == ACLResourcePatternType.PREFIXED)
