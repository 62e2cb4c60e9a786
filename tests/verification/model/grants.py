"""Events of rights: an administrator gives and takes ACLs. Each returns False if it cannot happen."""

from __future__ import annotations

from tests.verification.model import rights
from tests.verification.model.image import STATE_TOPIC
from tests.verification.model.rights import FULL, Acl
from tests.verification.model.world import World

READ, DESCRIBE, NONE, ALL = "READ", "DESCRIBE", "none", "all"
TOPIC_LEVELS = {READ: rights.READ, DESCRIBE: rights.DESCRIBE, NONE: None}
CLUSTER_OPERATIONS = {
    "DESCRIBE": rights.DESCRIBE,
    "DESCRIBE_CONFIGS": rights.DESCRIBE_CONFIGS,
    "ALTER": rights.ALTER,
}
TOPICS = (STATE_TOPIC, "t", "u", "new")
"""All that a situation has, or that an event creates."""


def authorize(world: World) -> bool:
    """The cluster has an authorizer, and the exporter has every right. Only before the first request."""
    image = world.cluster.image
    if world.requests or image.rights.has_authorizer:
        return False
    world.cluster.decide(image._replace(rights=image.rights._replace(has_authorizer=True).with_acls(FULL)))
    return True


def give_everything(world: World) -> bool:
    """Every right of the exporter is given back, and every DENY is gone."""
    others = [acl for acl in world.cluster.image.rights.acls if not acl.is_ours()]
    return _replace(world, (*FULL, *others))


def give_everything_to(world: World, broker: int) -> bool:
    """The same, and one broker learns it first; the others with the next decision, or as `deliver_metadata` says."""
    others = [acl for acl in world.cluster.image.rights.acls if not acl.is_ours()]
    return _replace(world, (*FULL, *others), late=tuple(node for node in world.cluster.brokers if node != broker))


def set_topic_right(world: World, topic: str, level: str) -> bool:
    """The right on one topic, by its name; a grant on `*` becomes one for each topic."""
    kept = [
        acl
        for acl in _by_name(world.cluster.image.rights.acls)
        if not (acl.resource == rights.TOPIC and acl.name == topic and acl.is_ours())
    ]
    operation = TOPIC_LEVELS[level]
    return _replace(world, (*kept, *(() if operation is None else (Acl(rights.TOPIC, topic, operation),))))


def _by_name(acls: tuple[Acl, ...]) -> tuple[Acl, ...]:
    named: list[Acl] = []
    for acl in acls:
        is_grant_on_all = acl.resource == rights.TOPIC and acl.name == "*" and acl.permission == rights.ALLOW
        named += [acl._replace(name=topic) for topic in TOPICS] if is_grant_on_all and acl.is_ours() else [acl]
    return tuple(named)


def set_id_right(world: World, which: str) -> bool:
    """The right to describe all transactional ids, none, or one."""
    kept = [
        acl for acl in world.cluster.image.rights.acls if acl.resource != rights.TRANSACTIONAL_ID or not acl.is_ours()
    ]
    if which == NONE:
        return _replace(world, tuple(kept))
    return _replace(world, (*kept, Acl(rights.TRANSACTIONAL_ID, "*" if which == ALL else which, rights.WRITE)))


def set_cluster_right(world: World, name: str, is_granted: bool) -> bool:  # noqa: FBT001 - an argument of an event
    """One operation on the cluster. ALTER implies DESCRIBE, so without DESCRIBE markers are written by CLUSTER_ACTION."""
    acl = _on_cluster(CLUSTER_OPERATIONS[name])
    kept = [other for other in world.cluster.image.rights.acls if other != acl]
    if name == "DESCRIBE" and not is_granted:
        kept = [_on_cluster(rights.CLUSTER_ACTION) if other == _on_cluster(rights.ALTER) else other for other in kept]
    elif name == "ALTER":
        kept = [other for other in kept if other != _on_cluster(rights.CLUSTER_ACTION)]
    return _replace(world, (*kept, *((acl,) if is_granted else ())))


def _on_cluster(operation: int) -> Acl:
    return Acl(rights.CLUSTER, rights.CLUSTER_NAME, operation)


def _replace(world: World, acls: tuple[Acl, ...], *, late: tuple[int, ...] = ()) -> bool:
    image = world.cluster.image
    if not image.rights.has_authorizer or set(acls) == set(image.rights.acls):
        return False
    world.cluster.decide(image._replace(rights=image.rights.with_acls(acls)), late=late)
    return True
