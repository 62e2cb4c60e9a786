"""Situations of missing grants: one broker with the StandardAuthorizer, and a user for each situation.

All users look at the same transactions, and differ in their grants alone. What a user is not granted it cannot do.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from hangbench.detector import Detector
from hangbench.kafka.acls import every_acl
from hangbench.kafka.coordinators import GROUP
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, PlantedTransaction, plant_hang, plant_hang_without_id
from hangbench.kafka.second_door import GuardedCluster
from hangbench.play import Performance, Play
from hangbench.play import perform as perform_stage
from hangbench.situations.ground import coordinator_address, until
from hangbench.situations.scene import Scene
from hangbench.situations.steps import STATE_TOPIC, Client
from hangbench.situations.words import Collection, Lacking, Truth

GRANTED = Collection("guarded")
DENIED = Collection("guarded")
"""With a DENY on one transactional id, which is made after the others were scanned: a DENY is a doubt for its principal."""

CLUSTER = ResourceType.BROKER  # librdkafka's word for the resource that Kafka calls Cluster
TOPIC, ID = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID
DESCRIBE, READ = AclOperation.DESCRIBE, AclOperation.READ
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
OFFSETS = "__consumer_offsets"

Grant = tuple[ResourceType, str, ResourcePatternType, AclOperation]
Granted = Sequence[Grant]

ALL_TOPICS: Granted = [(TOPIC, "*", LITERAL, READ)]
ALL_IDS: Granted = [(ID, "*", LITERAL, DESCRIBE)]
CLUSTER_TOO: Granted = [
    (CLUSTER, "kafka-cluster", LITERAL, DESCRIBE),
    (CLUSTER, "kafka-cluster", LITERAL, AclOperation.DESCRIBE_CONFIGS),
]
SHOWN: Granted = [(TOPIC, "shown-", PREFIXED, READ)]
INTERNAL: Granted = [(TOPIC, OFFSETS, LITERAL, READ), (TOPIC, STATE_TOPIC, LITERAL, READ)]


@dataclass(frozen=True, slots=True)
class Planted:
    """What all users look at."""

    live: PlantedTransaction
    """Of an id that begins with `kept-`, as that of `hang`."""
    other: PlantedTransaction
    """Live, of an id that begins with `other-`."""
    hang: PlantedTransaction
    unknown: PlantedTransaction
    """Hanging, of a producer id that no coordinator knows."""
    apart: PlantedTransaction
    """Hanging, on a topic whose name does not begin with `shown-`."""
    offsets: PlantedTransaction
    """Hanging on `__consumer_offsets`."""


def plant_all(scene: Scene) -> Planted:
    """Made by the super user who comes by the plain listener; once for each broker."""
    return _plant_all(scene.cluster)


@functools.lru_cache(maxsize=1)
def _plant_all(cluster: GuardedCluster) -> Planted:
    bootstrap = cluster.bootstrap
    shown = cluster.topics.create("shown-topic", partitions=4)
    apart = cluster.topics.create("apart-topic")
    coordinator_address(bootstrap, "group", GROUP)  # makes __consumer_offsets
    return Planted(
        live=Client.begin(bootstrap, "kept-live").open(shown, 0),
        other=Client.begin(bootstrap, "other-live").open(shown, 1),
        hang=plant_hang(bootstrap, shown, 2, "kept-hang"),
        unknown=plant_hang_without_id(bootstrap, shown, 3, producer_id=8_300_000_001),
        apart=plant_hang(bootstrap, apart, 0, "kept-apart"),
        offsets=Client.begin(bootstrap, "kept-offsets").commit_offset_unheard("group", shown),
    )


def all_right(scene: Scene, planted: Planted, *, but: Iterable[PlantedTransaction] = ()) -> None:
    """What full sight shows, for all but these."""
    left_out = [p.start_offset for p in but], [(p.topic, p.partition) for p in but]
    for transaction in (planted.live, planted.other):
        if (transaction.topic, transaction.partition) not in left_out[1]:
            scene.live(transaction)
    for transaction in (planted.hang, planted.apart, planted.offsets):
        if (transaction.topic, transaction.partition) not in left_out[1]:
            scene.hanging(transaction)
    if (planted.unknown.topic, planted.unknown.partition) not in left_out[1]:
        scene.hanging(planted.unknown)


def doubtful(scene: Scene, truth: Truth, reason: Lacking, *transactions: PlantedTransaction) -> None:
    for transaction in transactions:
        scene.expect(transaction, truth, [reason])


@GRANTED.add()
def full_grants(scene: Scene) -> None:
    """READ on all topics, DESCRIBE on all ids and on the cluster: everything is seen, nothing may be written."""
    all_right(scene, plant_all(scene))


@GRANTED.add()
def no_describe_on_ids(scene: Scene) -> None:
    """Without DESCRIBE on transactional ids."""
    p = plant_all(scene)
    doubtful(scene, Truth.LIVE, Lacking.TRANSACTIONAL_IDS_HIDDEN, p.live, p.other)
    doubtful(scene, Truth.HANGING, Lacking.TRANSACTIONAL_IDS_HIDDEN, p.hang, p.unknown, p.apart, p.offsets)


@GRANTED.add()
def ids_by_prefix(scene: Scene) -> None:
    """With DESCRIBE on the ids of one prefix only; a live transaction's id has another one."""
    p = plant_all(scene)
    scene.live(p.live)
    doubtful(scene, Truth.LIVE, Lacking.TRANSACTIONAL_IDS_HIDDEN, p.other)
    doubtful(scene, Truth.HANGING, Lacking.TRANSACTIONAL_IDS_HIDDEN, p.hang, p.unknown, p.apart, p.offsets)


@GRANTED.add()
def no_read_on_one_topic(scene: Scene) -> None:
    """Without READ on one topic that has a hang (DESCRIBE is there); all other topics may be read."""
    p = plant_all(scene)
    all_right(scene, p, but=[p.apart])
    scene.expect(p.apart, Truth.HANGING, [Lacking.READ_DENIED])


@GRANTED.add()
def no_read_on_consumer_offsets(scene: Scene) -> None:
    """Without READ on `__consumer_offsets`, which has a hang (DESCRIBE is there)."""
    p = plant_all(scene)
    all_right(scene, p, but=[p.offsets])
    scene.expect(p.offsets, Truth.HANGING, [Lacking.READ_DENIED])


@GRANTED.add()
def no_describe_on_one_topic(scene: Scene) -> None:
    """Without DESCRIBE on one topic that has a hang: brokers do not show that it exists."""
    p = plant_all(scene)
    all_right(scene, p, but=[p.apart])
    scene.expect(p.apart, Truth.HANGING, [Lacking.TOPIC_HIDDEN])


@GRANTED.add()
def no_describe_on_the_state_topic(scene: Scene) -> None:
    """Without DESCRIBE on `__transaction_state`: brokers do not show the coordinators."""
    p = plant_all(scene)
    scene.live(p.live)
    scene.live(p.other)
    reason = Lacking.TRANSACTION_STATE_HIDDEN
    doubtful(scene, Truth.HANGING, reason, p.hang, p.unknown, p.apart, p.offsets)


@GRANTED.add()
def no_describe_on_the_cluster(scene: Scene) -> None:
    """Without DESCRIBE on the cluster: a DENY that hides an id cannot be ruled out."""
    p = plant_all(scene)
    all_right(scene, p, but=[p.unknown])
    doubtful(scene, Truth.HANGING, Lacking.IDS_MAY_BE_DENIED, p.unknown)


@GRANTED.add()
def ids_by_every_usual_prefix(scene: Scene) -> None:
    """DESCRIBE on the ids of every letter, digit, - and _: made-up ids are visible, the live ~live is not."""
    p = plant_all(scene)
    all_right(scene, p, but=[p.unknown])
    topic = scene.topic()
    tilde = Client.begin(scene.bootstrap, "~live").open(topic, 0)
    doubtful(scene, Truth.LIVE, Lacking.IDS_VISIBLE_BY_NAME_ONLY, tilde)
    doubtful(scene, Truth.HANGING, Lacking.IDS_VISIBLE_BY_NAME_ONLY, p.unknown)


@GRANTED.add()
def more_than_a_thousand_acls(scene: Scene) -> None:
    """1,100 ACLs on ids and prefixes of applications: each has its probe, and hides nothing."""
    all_right(scene, plant_all(scene))


@GRANTED.add()
def no_grant(scene: Scene) -> None:
    """Without any grant: no topic is visible, and no result may look healthy."""
    p = plant_all(scene)
    scene.must_be_incomplete = True
    for transaction in (p.live, p.other):
        scene.expect(transaction, Truth.LIVE, [Lacking.TOPIC_HIDDEN])
    for transaction in (p.hang, p.unknown, p.apart, p.offsets):
        scene.expect(transaction, Truth.HANGING, [Lacking.TOPIC_HIDDEN])


@DENIED.add()
def deny_on_one_id_and_limits_hidden(scene: Scene) -> None:
    """A DENY on the id of a live transaction, watched for longer than the fallback limit, which no broker returned."""
    denied(scene, Lacking.IDS_MAY_BE_DENIED)


@GRANTED.add()
def nothing_but_the_topics(scene: Scene) -> None:
    """READ on all topics and no other grant."""
    no_describe_on_ids(scene)


@DENIED.add()
def deny_on_one_id(scene: Scene) -> None:
    """A DENY on the very id of a live transaction: made-up ids are visible, and this one is not."""
    denied(scene, Lacking.IDS_VISIBLE_BY_NAME_ONLY)


def denied(scene: Scene, reason: Lacking) -> None:
    """The live transaction whose id is denied, and the hang without an id: this reason; the others as ever."""
    p = plant_all(scene)
    all_right(scene, p, but=[p.other, p.unknown])
    doubtful(scene, Truth.LIVE, reason, p.other)
    doubtful(scene, Truth.HANGING, reason, p.unknown)


@DENIED.add()
def deny_on_one_id_for_somebody_else(scene: Scene) -> None:
    """A DENY on one id for another user: that id is visible to the detector's user, so it hides nothing from this one."""
    all_right(scene, plant_all(scene))


@DENIED.add()
def deny_on_one_id_and_acls_hidden(scene: Scene) -> None:
    """A DENY on the id of a live transaction, and without DESCRIBE on the cluster the ACLs cannot be read."""
    denied(scene, Lacking.IDS_MAY_BE_DENIED)


GRANTS: Mapping[str, Granted] = {
    "full grants": [*ALL_TOPICS, *ALL_IDS, *CLUSTER_TOO],
    "no describe on ids": [*ALL_TOPICS, *CLUSTER_TOO],
    "ids by prefix": [*ALL_TOPICS, *CLUSTER_TOO, (ID, "kept-", PREFIXED, DESCRIBE)],
    "no read on one topic": [*SHOWN, *INTERNAL, (TOPIC, "*", LITERAL, DESCRIBE), *ALL_IDS, *CLUSTER_TOO],
    "no read on consumer offsets": [
        *SHOWN,
        *[(TOPIC, name, LITERAL, READ) for name in ("apart-topic", STATE_TOPIC)],
        *[(TOPIC, "*", LITERAL, DESCRIBE), *ALL_IDS, *CLUSTER_TOO],
    ],
    "no describe on one topic": [*SHOWN, *INTERNAL, *ALL_IDS, *CLUSTER_TOO],
    "no describe on the state topic": [
        *SHOWN,
        *[(TOPIC, name, LITERAL, READ) for name in ("apart-topic", OFFSETS)],
        *[*ALL_IDS, *CLUSTER_TOO],
    ],
    "no describe on the cluster": [*ALL_TOPICS, *ALL_IDS],
    "nothing but the topics": ALL_TOPICS,
    "ids by every usual prefix": [
        *ALL_TOPICS,
        *CLUSTER_TOO,
        *[(ID, character, PREFIXED, DESCRIBE) for character in string.ascii_letters + string.digits + "-_"],
    ],
    "more than a thousand acls": [*ALL_TOPICS, *ALL_IDS, *CLUSTER_TOO],
    "no grant": [],
    "deny on one id": [*ALL_TOPICS, *ALL_IDS, *CLUSTER_TOO],
    "deny on one id for somebody else": [*ALL_TOPICS, *ALL_IDS, *CLUSTER_TOO],
    "deny on one id and acls hidden": [*ALL_TOPICS, *ALL_IDS],
    "deny on one id and limits hidden": [*ALL_TOPICS, *ALL_IDS],
}
DENIED_ID = "other-live"
APPLICATIONS = 1_100
"""With an ACL each, on their own transactional ids."""
DENIED_USERS = ("deny on one id", "deny on one id and acls hidden", "deny on one id and limits hidden")


def user_of(name: str) -> str:
    return name.replace(" ", "-")


def make(admin: AdminClient, bindings: Iterable[AclBinding]) -> None:
    """Make ACLs, and wait until the broker's authorizer has all of them."""
    wanted = list(bindings)
    for made in admin.create_acls(wanted).values():
        made.result(30)
    until(lambda: set(wanted) <= set(admin.describe_acls(every_acl()).result(30)), "the authorizer has the ACLs")


def acl(name: str, grant: Grant, permission: AclPermissionType = AclPermissionType.ALLOW) -> AclBinding:
    resource, resource_name, pattern, operation = grant
    return AclBinding(resource, resource_name, pattern, f"User:{user_of(name)}", "*", operation, permission)


def look(play: Play, scenes: Iterable[Scene]) -> None:
    """Each scene with its user's grants."""
    assert isinstance(play.cluster, GuardedCluster)
    door = play.cluster.door
    users = {user_of(scene.situation.name): scene for scene in scenes}
    for user, scene in users.items():
        play.ask([scene], bootstrap=door, user=user)


def timeline(play: Play) -> None:
    """Grants, then the transactions, then the looks; scenes with a DENY come last."""
    admin = AdminClient({"bootstrap.servers": play.cluster.bootstrap})
    make(admin, (acl(name, grant) for name, grants in GRANTS.items() for grant in grants))
    patterns = ((ID, f"app-{number}", LITERAL if number % 2 else PREFIXED, DESCRIBE) for number in range(APPLICATIONS))
    make(admin, (acl("application", grant) for grant in patterns))
    granted, denied = play.some(GRANTED.situations), play.some(DENIED.situations)
    play.plant([*granted, *denied])
    look(play, granted)
    deny = (ID, DENIED_ID, LITERAL, DESCRIBE)
    make(admin, (acl(name, deny, AclPermissionType.DENY) for name in DENIED_USERS))
    look(play, denied)
    play.verify([*granted, *denied])


def perform(version: str, detectors: Sequence[Detector]) -> Performance:
    situations = [*GRANTED.situations, *DENIED.situations]
    cluster = GuardedCluster(version, users=map(user_of, GRANTS), properties=HANGS_CAN_BE_PLANTED)
    return perform_stage(cluster, situations, detectors, timeline)
