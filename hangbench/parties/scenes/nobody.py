"""Situations in which no transaction holds anybody: who lags does so for other reasons, or the transaction has ended."""

from __future__ import annotations

import threading

from confluent_kafka import TopicPartition

from hangbench.kafka.planting import plant_hang
from hangbench.parties.scene import Scene
from hangbench.parties.words import Collection, Steps
from hangbench.situations.ground import until_closed
from hangbench.situations.steps import Transactions

NOBODY_HELD = Collection()


@NOBODY_HELD.add(quick=True)
def slow_consumer(scene: Scene) -> Steps:
    """A group lags far behind, and has not come to the silent owner at the end of the partition."""
    place = scene.topic(), 0
    scene.records(*place, count=20)
    scene.owner(place)
    scene.records(*place)
    scene.position(place, 5)
    yield


@NOBODY_HELD.add(quick=True)
def slow_consumer_one_record_before(scene: Scene) -> Steps:
    """A group is one record before the silent owner's first one: it has that to read, and an aborted one before it."""
    place = scene.topic(records=0), 0
    scene.transaction(*place, commit=False)
    scene.records(*place, count=1)
    scene.owner(place)
    scene.records(*place)
    scene.position(place, 0)
    scene.position(place, 2, what="next")
    scene.stand_still()
    yield


@NOBODY_HELD.add()
def slow_consumer_before_a_hang(scene: Scene) -> Steps:
    """The same before a hang: the hang is a suspect, and this group does not stand still behind it."""
    place = scene.topic(), 0
    scene.records(*place, count=20)
    plant_hang(scene.bootstrap, *place, scene.owner_id("hang"))
    scene.records(*place)
    scene.position(place, 18)
    yield


@NOBODY_HELD.add()
def paused_consumer(scene: Scene) -> Steps:
    """A member has paused its partition, and new committed records arrive."""
    place = scene.topic(), 0
    consumer = scene.member(place[0])
    consumer.pause([TopicPartition(*place)])
    scene.transaction(*place, records=5)
    yield


@NOBODY_HELD.add()
def lag_without_a_transaction(scene: Scene) -> Steps:
    """A group lags on a topic without any transaction."""
    place = scene.topic(), 0
    scene.records(*place, count=20)
    scene.position(place, 3)
    yield


@NOBODY_HELD.add()
def group_without_members_at_an_old_offset(scene: Scene) -> Steps:
    """A group that nobody uses any more stands at offset 0 of a partition with a silent owner."""
    place = scene.topic(), 0
    scene.transaction(*place, records=3)
    scene.owner(place)
    scene.records(*place)
    scene.position(place, 0)
    yield


@NOBODY_HELD.add(quick=True)
def log_ends_in_markers(scene: Scene) -> Steps:
    """The last offsets of the log are markers and aborted records, which a reader counts as lag for ever."""
    place = scene.topic(), 0
    scene.transaction(*place, commit=False, records=3)
    scene.transaction(*place, commit=False)
    scene.reader(place)
    yield


@NOBODY_HELD.add()
def deleted_topic(scene: Scene) -> Steps:
    """The topic of a silent owner is deleted, while a group stands behind it."""
    place = scene.topic(), 0
    scene.owner(place)
    scene.records(*place)
    scene.reader(place)
    scene.cluster.topics.delete(place[0])
    scene.is_moving = True  # nothing is there to be read
    yield


@NOBODY_HELD.add()
def uncommitted_reader_at_the_end(scene: Scene) -> Steps:
    """A group of all records is at the end of a partition with a silent owner."""
    place = scene.topic(), 0
    scene.owner(place)
    scene.records(*place)
    scene.reader(place, isolation="read_uncommitted")
    yield


@NOBODY_HELD.add(patient=True, quick=True, late=True)
def transaction_ends_in_time(scene: Scene) -> Steps:
    """A transaction is open for less than the least duration that counts (ten minutes here), and its owner commits."""
    place = scene.topic(), 0
    owner = scene.owner(place)
    scene.records(*place)
    scene.reader(place)
    scene.is_moving = True  # the group does stand still, for less than the setting
    scene.stand_still()
    yield
    owner.end(commit=True)
    until_closed(scene.bootstrap, *place)
    scene.is_moving = False
    scene.stand_still()
    yield


@NOBODY_HELD.add()
def group_beyond_the_last_stable_offset(scene: Scene) -> Steps:
    """A group of all records has passed the owner's first record, and is not at the end yet."""
    place = scene.topic(records=5), 0
    scene.owner(place)
    scene.records(*place)
    scene.position(place, 7)
    yield


@NOBODY_HELD.add()
def group_without_offsets(scene: Scene) -> Steps:
    """A member waits behind a silent owner and has never committed: where it stands, no request can see."""
    place = scene.topic(), 0
    scene.owner(place)
    scene.records(*place)
    scene.member(place[0], commits=False)
    yield


@NOBODY_HELD.add(patient=True)
def many_short_transactions(scene: Scene) -> Steps:
    """A producer commits one short transaction after another, and a group follows it."""
    place = scene.topic(), 0
    owner = Transactions(scene.bootstrap, scene.owner_id(), [place])
    consumer, is_over = scene.member(place[0], commits=False), threading.Event()

    def work() -> None:
        while not is_over.is_set():
            owner.run(commit=True)
            if (message := consumer.poll(0.01)) is not None and message.error() is None:
                consumer.commit(message=message, asynchronous=False)

    scene.is_moving = True
    worker = threading.Thread(target=work)
    worker.start()
    scene.stack.callback(worker.join)
    scene.stack.callback(is_over.set)
    yield


@NOBODY_HELD.add()
def transaction_without_records(scene: Scene) -> Steps:
    """A transaction has begun and has written nothing: no partition has it."""
    place = scene.topic(), 0
    owner = Transactions(scene.bootstrap, scene.owner_id())
    owner.begin()
    scene.stack.callback(lambda: owner)
    scene.records(*place)
    scene.position(place, 2)
    yield


@NOBODY_HELD.add(late=True)
def ended_by_its_time_out(scene: Scene) -> Steps:
    """The coordinator has aborted the transaction of a killed owner by its time-out."""
    place = scene.topic(), 0
    scene.process(place, timeout_ms=1000).kill()
    scene.records(*place)
    scene.reader(place)
    until_closed(scene.bootstrap, *place)
    yield


@NOBODY_HELD.add()
def aborted_by_its_owner(scene: Scene) -> Steps:
    """The owner has aborted its transaction, and a group stands where it was held."""
    place = scene.topic(), 0
    owner = scene.owner(place)
    scene.records(*place)
    scene.reader(place)
    owner.end(commit=False)
    until_closed(scene.bootstrap, *place)
    yield


@NOBODY_HELD.add()
def caught_up(scene: Scene) -> Steps:
    """A group has read everything, and a silent owner is open on another partition of the topic."""
    topic = scene.topic(partitions=2)
    scene.owner((topic, 1))
    scene.records(topic, 1)
    scene.records(topic, 0)
    scene.reader((topic, 0))
    yield
