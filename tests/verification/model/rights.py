"""Models ACLs as StandardAuthorizer does: ALLOW and DENY, by literal name, prefix and wildcard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache
from typing import NamedTuple

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
LITERAL, PREFIXED = 3, 4
ALL, READ, WRITE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS = 2, 3, 4, 6, 7, 8, 9, 10
DENY, ALLOW = 2, 3
PRINCIPAL = "User:exporter"
CLUSTER_NAME = "kafka-cluster"

_IMPLIES_DESCRIBE = frozenset({READ, WRITE, DELETE, ALTER})


class Acl(NamedTuple):
    """One rule, by default for every principal, otherwise for `PRINCIPAL`."""

    resource: int
    name: str
    operation: int
    permission: int = ALLOW
    pattern: int = LITERAL
    principal: str = PRINCIPAL

    def is_ours(self) -> bool:
        """True when the rule is for the exporter's principal."""
        return self.principal in {PRINCIPAL, "User:*"}


class Acls(tuple[Acl, ...]):  # noqa: SLOT001 - a tuple has no room for slots
    """Rules in order; their hash is computed once, because there may be thousands."""

    _hash: int

    @cached_property
    def by_name(self) -> Mapping[tuple[int, int, str], list[Acl]]:
        """(resource, pattern, name) -> its rules, in order."""
        found: dict[tuple[int, int, str], list[Acl]] = {}
        for acl in self:
            found.setdefault((acl.resource, acl.pattern, acl.name), []).append(acl)
        return found

    def that_cover(self, resource: int, name: str) -> list[Acl]:
        """Literal, `*` and prefixed ones."""
        names = [(LITERAL, name), (LITERAL, "*")] if name != "*" else [(LITERAL, name)]
        names += [(PREFIXED, name[:length]) for length in range(len(name) + 1)]
        return [acl for pattern, key in names for acl in self.by_name.get((resource, pattern, key), ())]

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash = super().__hash__()
            return self._hash

    def __reduce__(self) -> tuple[Callable[[int], Acls], tuple[int]]:
        """A number in this process: equal rules have equal bytes, and few."""
        number = _NUMBERS.setdefault(self, len(_NUMBERS))
        _BY_NUMBER[number] = self
        return _numbered, (number,)


_NUMBERS: dict[Acls, int] = {}
_BY_NUMBER: dict[int, Acls] = {}


def _numbered(number: int) -> Acls:
    return _BY_NUMBER[number]


class Rights(NamedTuple):
    """The authorizer and its rules."""

    has_authorizer: bool = False
    is_super_user: bool = False
    allow_without_acls: bool = False
    """`allow.everyone.if.no.acl.found`."""
    acls: Acls = Acls()

    def with_acls(self, acls: Iterable[Acl]) -> Rights:
        """With these rules instead."""
        return self._replace(acls=Acls(acls))


NO_AUTHORIZER = Rights()
FULL = (
    Acl(TOPIC, "*", READ),
    Acl(TRANSACTIONAL_ID, "*", WRITE),
    Acl(GROUP, "*", DESCRIBE),
    Acl(CLUSTER, CLUSTER_NAME, DESCRIBE),
    Acl(CLUSTER, CLUSTER_NAME, DESCRIBE_CONFIGS),
    Acl(CLUSTER, CLUSTER_NAME, ALTER),
)
"""Everything that the exporter and its commands need, by rules."""


@lru_cache(maxsize=100_000)
def allows(rights: Rights, operation: int, resource: int, name: str = CLUSTER_NAME) -> bool:
    """Whether the principal may do `operation` on the resource: a DENY beats every ALLOW."""
    if not rights.has_authorizer or rights.is_super_user:
        return True
    found = rights.acls.that_cover(resource, name)
    ours = [acl for acl in found if acl.is_ours()]
    if any(acl.permission == DENY and acl.operation in {operation, ALL} for acl in ours):
        return False
    granting = {operation, ALL} | (_IMPLIES_DESCRIBE if operation == DESCRIBE else frozenset())
    if any(acl.permission == ALLOW and acl.operation in granting for acl in ours):
        return True
    return rights.allow_without_acls and not found


def may_read(rights: Rights, topic: str) -> bool:
    """True if the producers of a topic are shown."""
    return allows(rights, READ, TOPIC, topic)


def describes_everything(rights: Rights, topics: tuple[str, ...]) -> bool:
    """True if every topic, every id and the cluster can be described, and this can be known from the rules."""
    if not rights.has_authorizer or rights.is_super_user:
        return True
    if any(acl.permission == DENY for acl in rights.acls):
        return False
    needed = [acl for acl in FULL if acl.resource != TOPIC]
    return all(acl in rights.acls for acl in needed) and all(allows(rights, DESCRIBE, TOPIC, each) for each in topics)


def sees_everything(rights: Rights) -> bool:
    """True when every topic, every id and the cluster can be read, and this can be known from the rules."""
    if not rights.has_authorizer or rights.is_super_user:
        return True
    if any(acl.permission == DENY for acl in rights.acls):
        return False
    return all(acl in rights.acls for acl in FULL)
