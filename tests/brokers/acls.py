"""ACLs of a test cluster, as a whole."""

from __future__ import annotations

from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType, ResourcePatternType, ResourceType


def every_acl() -> AclBindingFilter:
    """Matches all of them."""
    any_name: str = None  # type: ignore[assignment]  # None matches every name; the stub does not say so
    return AclBindingFilter(
        ResourceType.ANY,
        any_name,
        ResourcePatternType.ANY,
        any_name,
        any_name,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
