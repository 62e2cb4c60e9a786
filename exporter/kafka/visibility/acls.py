"""Requests the ACLs on one type of resource: DescribeAcls (API key 29)."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin.acl import (
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    DescribeAclsRequest,
)


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
