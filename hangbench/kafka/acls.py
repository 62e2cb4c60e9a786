"""Creates ACLs of a test cluster, and matches all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

_WAIT_S = 10


@contextmanager
def acls_until_the_end(bootstrap: str) -> Iterator[Callable[[Iterable[AclBinding]], None]]:
    """A function that creates ACLs; at the end every ACL of the cluster is deleted."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(bindings: Iterable[AclBinding]) -> None:
        wanted = list(bindings)
        for created in admin.create_acls(wanted).values() if wanted else ():
            created.result(_WAIT_S)

    try:
        yield create
    finally:
        for deleted in admin.delete_acls([every_acl()]).values():
            deleted.result(_WAIT_S)


def allow(user: str, resource: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    """Makes the rule that lets a user do this with the resource of this name, `*` for all."""
    literal, host = ResourcePatternType.LITERAL, "*"
    return AclBinding(resource, name, literal, f"User:{user}", host, operation, AclPermissionType.ALLOW)


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
