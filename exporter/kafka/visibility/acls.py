"""Requests the ACLs on one type of resource, and finds those that refuse: DescribeAcls (API key 29)."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin.acl import (
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ACLResourceType,
    DescribeAclsRequest,
)

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ErrorCode, MalformedAnswerError, error_name
from exporter.kafka.visibility.acl_probes import Patterns
from exporter.snapshot import Acls, DenyRule, Resource

_NEEDED = {
    ACLResourceType.TOPIC: (
        Resource.TOPIC,
        {ACLOperation.ALL: "All", ACLOperation.READ: "Read", ACLOperation.DESCRIBE: "Describe"},
    ),
    ACLResourceType.GROUP: (Resource.GROUP, {ACLOperation.ALL: "All", ACLOperation.DESCRIBE: "Describe"}),
    ACLResourceType.CLUSTER: (
        Resource.CLUSTER,
        {
            ACLOperation.ALL: "All",
            ACLOperation.DESCRIBE: "Describe",
            ACLOperation.DESCRIBE_CONFIGS: "DescribeConfigs",
        },
    ),
    ACLResourceType.TRANSACTIONAL_ID: (
        Resource.TRANSACTIONAL_ID,
        {ACLOperation.ALL: "All", ACLOperation.DESCRIBE: "Describe"},
    ),
}
"""The operations that the exporter needs on each type of resource, as kafka-acls.sh names them.

A DENY of any other, such as READ on a group, hides nothing from it and must stay.
"""


NOT_LISTED = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNSUPPORTED_VERSION})
"""Responses of an authorizer that cannot list its ACLs: Open Policy Agent's, Keycloak's, custom ones."""
ACLS_NOT_LISTED = "the cluster's authorizer does not list ACLs, so whether it hides any is unknown"


def acls_on(resource_type: int) -> Any:
    """The request for every ACL on resources of this type (`ACLResourceType`)."""
    return DescribeAclsRequest(
        resource_type_filter=resource_type,
        resource_name_filter=None,
        pattern_type_filter=ACLResourcePatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
        min_version=1,  # version 0 has no pattern types, and omits prefixed ACLs
    )


async def read_acls(client: ClusterClient, broker: int) -> Acls:
    """The rules that deny an operation that the exporter needs, to any principal. Never raises BrokerFault."""
    try:
        return await client.request(broker, "DescribeAcls", acls_on(ACLResourceType.ANY), _acls)
    except BrokerFault as fault:
        return Acls(unread=str(fault))


def patterns_in(answer: Any) -> Patterns:
    """Of all resources that some ACL names. Raises MalformedAnswerError."""
    if any(resource.resource_name is None for resource in answer.resources):
        raise MalformedAnswerError("an ACL on a resource without a name")
    return frozenset(
        (resource.pattern_type == ACLResourcePatternType.PREFIXED, resource.resource_name)
        for resource in answer.resources
    )


def _acls(answer: Any) -> Acls:
    if answer.error_code == ErrorCode.SECURITY_DISABLED:
        return Acls(has_authorizer=False)
    if answer.error_code in NOT_LISTED:
        return Acls(unread=ACLS_NOT_LISTED)
    if answer.error_code != ErrorCode.NONE:
        return Acls(unread=error_name(answer.error_code))
    return Acls(
        denied=tuple(
            _rule(resource, acl)
            for resource in answer.resources
            for acl in resource.acls
            if acl.permission_type == ACLPermissionType.DENY
            and resource.resource_type in _NEEDED
            and acl.operation in _NEEDED[resource.resource_type][1]
        )
    )


def _rule(resource: Any, acl: Any) -> DenyRule:
    if resource.resource_name is None or acl.principal is None or acl.host is None:
        raise MalformedAnswerError("an ACL without resource, principal or host")
    kind, operations = _NEEDED[resource.resource_type]
    return DenyRule(
        principal=acl.principal,
        host=acl.host,
        operation=operations[acl.operation],
        resource=kind,
        name=resource.resource_name,
        is_prefixed=resource.pattern_type == ACLResourcePatternType.PREFIXED,
    )
