"""Situations of owners: killed, stopped, gone without an end, silent or writing, and several on one partition."""

from __future__ import annotations

from hangbench.kafka.planting import plant_hang, plant_hang_without_id, write_marker
from hangbench.parties.scene import Scene
from hangbench.parties.words import Cause, Collection, Place, Steps
from hangbench.situations.ground import described, until_closed
from hangbench.situations.steps import Transactions
from hangbench.waiting import until

OWNERS = Collection()


def behind_one(scene: Scene, place: Place, *, records: int = 5, what: str = "group") -> str:
    """Writes records behind the open transaction, and has a group read up to it."""
    scene.records(*place, count=records)
    return scene.reader(place, what=what)


def _killed(scene: Scene, timeout_s: int) -> Steps:
    """The exporter sees some transactions of an owner, and then it dies."""
    place = scene.topic(), 0
    owner = scene.process(place, usual=False, timeout_ms=timeout_s * 1000)
    scene.each_cycle = owner.next_transaction
    for _ in range(2):  # at least three cycles each
        scene.stand_still()
        yield
    scene.each_cycle = None
    owner.kill()
    group = behind_one(scene, place)
    scene.stand_still((group, place, Cause.OWNER_SILENT, scene.name("owner")))
    yield


@OWNERS.add(late=True)
def owner_killed_60_s(scene: Scene) -> Steps:
    """The owner's process dies by SIGKILL after some transactions; its time-out is 60 s."""
    yield from _killed(scene, 60)


@OWNERS.add()
def owner_killed_900_s(scene: Scene) -> Steps:
    """The same with a time-out of 900 s."""
    yield from _killed(scene, 900)


@OWNERS.add()
def owner_killed_7200_s(scene: Scene) -> Steps:
    """The same with a time-out of 7,200 s."""
    yield from _killed(scene, 7200)


@OWNERS.add(quick=True)
def owner_killed_900_s_baseline(scene: Scene) -> Steps:
    """A killed owner with a time-out of 900 s in its first transaction; its id has a baseline."""
    yield from _killed_at_once(scene, 900, usual=True)


@OWNERS.add()
def owner_killed_7200_s_new(scene: Scene) -> Steps:
    """A killed owner with a time-out of 7,200 s in the first transaction of its id, without a baseline."""
    yield from _killed_at_once(scene, 7200, usual=False)


def _killed_at_once(scene: Scene, timeout_s: int, *, usual: bool) -> Steps:
    place = scene.topic(), 0
    scene.process(place, usual=usual, timeout_ms=timeout_s * 1000).kill()
    group = behind_one(scene, place)
    scene.stand_still((group, place, Cause.OWNER_SILENT, scene.name("owner")))
    yield


@OWNERS.add()
def owner_stopped_and_continued(scene: Scene) -> Steps:
    """The owner's process is stopped (SIGSTOP); it continues (SIGCONT) and writes; it commits."""
    place, group = (scene.topic(), 0), scene.name("group")
    owner = scene.process(place)
    owner.stop()
    behind_one(scene, place)
    scene.stand_still((group, place, Cause.OWNER_SILENT, scene.name("owner")))
    yield
    owner.resume()
    scene.each_cycle = owner.write
    scene.stand_still((group, place, Cause.LIVE, scene.name("owner")))
    yield
    scene.each_cycle = None
    owner.commit()
    until_closed(scene.bootstrap, *place)
    scene.stand_still()
    yield


@OWNERS.add(quick=True)
def owner_silent_then_commits(scene: Scene) -> Steps:
    """An owner says nothing, as one that waits for its database; then it commits."""
    place = scene.topic(), 0
    owner = scene.owner(place)
    group = behind_one(scene, place)
    scene.stand_still((group, place, Cause.OWNER_SILENT, scene.name("owner")))
    yield
    owner.end(commit=True)
    until_closed(scene.bootstrap, *place)
    scene.stand_still()
    yield


@OWNERS.add()
def owner_writes(scene: Scene) -> Steps:
    """An owner writes in every cycle, and takes its time."""
    place = scene.topic(), 0
    owner = scene.owner(place)
    scene.each_cycle = owner.write
    group = behind_one(scene, place)
    scene.stand_still((group, place, Cause.LIVE, scene.name("owner")))
    yield


@OWNERS.add()
def owner_writes_elsewhere(scene: Scene) -> Steps:
    """An owner has one record on a partition, and writes to another one of the same transaction: it is not silent."""
    topic = scene.topic(partitions=2)
    owner = scene.owner((topic, 0), (topic, 1))
    group = behind_one(scene, (topic, 0))

    def write() -> None:
        owner.producer.produce(topic, value=b"more", partition=1)
        assert owner.producer.flush(30) == 0

    scene.each_cycle = write
    scene.stand_still((group, (topic, 0), Cause.LIVE, scene.name("owner")))
    yield


@OWNERS.add()
def owner_starts_again(scene: Scene) -> Steps:
    """A killed application starts again with its transactional id, which aborts what was open."""
    place, owner = (scene.topic(), 0), scene.name("owner")
    scene.process(place).kill()
    group = behind_one(scene, place)
    scene.stand_still((group, place, Cause.OWNER_SILENT, owner))
    yield
    Transactions(scene.bootstrap, owner)
    until_closed(scene.bootstrap, *place)
    scene.stand_still()
    yield


@OWNERS.add()
def committer_never_comes(scene: Scene) -> Steps:
    """A pre-committed transaction as of Flink: flushed, its client closed without EndTxn, and no committer comes."""
    place = scene.topic(), 0
    owner = scene.owner(place, timeout_ms=3_600_000)
    del owner
    group = behind_one(scene, place)
    scene.stand_still((group, place, Cause.OWNER_SILENT, scene.name("owner")))
    yield


@OWNERS.add(quick=True)
def hang(scene: Scene) -> Steps:
    """A hang whose id is known to its coordinator; an operator's ABORT marker resolves it."""
    place = scene.topic(), 0
    planted = plant_hang(scene.bootstrap, *place, scene.owner_id())
    group = behind_one(scene, place)
    scene.stand_still((group, place, Cause.HANGING, scene.name("owner")))
    yield
    write_marker(scene.bootstrap, *place, planted.producer_id, planted.producer_epoch)
    until_closed(scene.bootstrap, *place)
    scene.stand_still()
    yield


@OWNERS.add()
def hang_without_an_id(scene: Scene) -> Steps:
    """A hang whose producer id no coordinator knows."""
    place = scene.topic(), 0
    plant_hang_without_id(scene.bootstrap, *place, producer_id=8_400_000_001)
    group = behind_one(scene, place)
    scene.stand_still((group, place, Cause.HANGING, None))
    yield


@OWNERS.add(quick=True)
def hang_behind_a_silent_owner(scene: Scene) -> Steps:
    """A silent owner holds the last stable offset, and a hang is behind it; when the owner commits, the hang holds it."""
    place = scene.topic(), 0
    owner = scene.owner(place)
    plant_hang(scene.bootstrap, *place, scene.owner_id("hang"))
    group = behind_one(scene, place)
    scene.stand_still((group, place, Cause.OWNER_SILENT, scene.name("owner")))
    yield
    owner.end(commit=True)
    until(lambda: (found := described(scene.bootstrap, scene.name("owner"))) and found.state == "CompleteCommit")
    scene.reader(place)
    scene.stand_still((group, place, Cause.HANGING, scene.name("hang")))
    yield


@OWNERS.add()
def silent_owner_behind_a_hang(scene: Scene) -> Steps:
    """A hang holds the last stable offset, and a live transaction with a silent owner is behind it."""
    place = scene.topic(), 0
    plant_hang(scene.bootstrap, *place, scene.owner_id("hang"))
    scene.owner(place)
    group = behind_one(scene, place)
    scene.stand_still((group, place, Cause.HANGING, scene.name("hang")))
    yield


@OWNERS.add(quick=True)
def two_silent_owners_on_one_partition(scene: Scene) -> Steps:
    """Two silent owners on one partition: only the first one holds the last stable offset."""
    place = scene.topic(), 0
    scene.owner(place, what="first")
    scene.owner(place, what="second")
    group = behind_one(scene, place)
    scene.stand_still((group, place, Cause.OWNER_SILENT, scene.name("first")))
    yield


@OWNERS.add(quick=True)
def three_partitions_two_owners(scene: Scene) -> Steps:
    """A group is blocked on three partitions by two owners, one of which writes; a fourth partition is free."""
    topic = scene.topic(partitions=4)
    scene.owner((topic, 0), (topic, 1), what="silent")
    writing = scene.owner((topic, 2), what="writing")
    scene.each_cycle = writing.write
    for partition in range(4):
        scene.records(topic, partition)
    group = scene.reader(*((topic, partition) for partition in range(4)))
    scene.stand_still(
        (group, (topic, 0), Cause.OWNER_SILENT, scene.name("silent")),
        (group, (topic, 1), Cause.OWNER_SILENT, scene.name("silent")),
        (group, (topic, 2), Cause.LIVE, scene.name("writing")),
    )
    yield


@OWNERS.add()
def compacted_topic(scene: Scene) -> Steps:
    """A killed owner on a topic with cleanup.policy=compact."""
    place = scene.topic(config={"cleanup.policy": "compact"}), 0
    scene.process(place).kill()
    group = behind_one(scene, place)
    scene.stand_still((group, place, Cause.OWNER_SILENT, scene.name("owner")))
    yield
