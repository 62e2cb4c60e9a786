"""Makes hanging transactions on real brokers as the real thing makes them, one function for each cause."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError  # before Python 3.11 not the built-in one
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Final

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from examples.workload.producers import OpenTransaction, produce, producer_configuration, run_transaction
from exporter.explain.causes import Cause
from exporter.kafka.state_partitions import state_partition
from exporter.snapshot import CLOCKS_AGREE_WITHIN_MS, STATE_TOPIC
from hangbench.kafka.broker import HOST
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.coordinators import described
from hangbench.kafka.go_between import GoBetween, Moment
from hangbench.kafka.planting import (
    HANGS_CAN_BE_PLANTED,
    init_producer_id,
    plant_hang,
    plant_hang_without_id,
    write_marker,
)
from hangbench.kafka.wire import BrokerRefused
from hangbench.situations.ground import leader_ids
from tests.watching import Watch, rows_on

PRODUCE: Final = 0
STATE_PARTITIONS: Final = 5
NEWER_COORDINATOR_EPOCH: Final = 50
EXPIRY_MS: Final = 3000
GIVES_UP_MS: Final = 1500
"""delivery.timeout.ms of a client that gives a record up early."""
WAIT_S: Final = 60.0
_numbers: Final = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A transaction that was made to hang, or that lives."""

    bootstrap: str
    topic: str
    start_offset: int
    cause: Cause | None
    """The one that was made; None for a transaction that does not hang."""


def fresh(stem: str) -> str:
    return f"{stem}-{next(_numbers)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delayed:
    """A record that the network holds back; its transaction is aborted."""

    cluster: KafkaCluster
    topic: str
    log_end: int
    arrive: Callable[[], None]


@contextmanager
def delayed(version: str, properties: Mapping[str, str]) -> Iterator[Delayed]:
    """A client that has written well before, and gives the delayed record up."""
    door, arrives = GoBetween(), threading.Event()

    def hold() -> None:
        assert arrives.wait(WAIT_S)

    cluster = KafkaCluster(
        version, properties={**properties, "advertised.listeners": f"PLAINTEXT://{HOST}:{door.port}"}
    )
    door.lead_to(cluster.brokers[0].port)
    with ExitStack() as stack:
        stack.callback(door.close)
        stack.enter_context(cluster)
        stack.callback(arrives.set)
        topic = cluster.topics.create(fresh("late"))
        impatient: dict[str, object] = {"message.timeout.ms": GIVES_UP_MS}
        client = Producer({**producer_configuration(cluster.bootstrap, fresh("app"), timeout_ms=60_000), **impatient})
        client.init_transactions(30)
        client.begin_transaction()
        for _ in range(3):
            produce(client, [(topic, 0)], 1)
        client.commit_transaction(30)
        client.begin_transaction()
        door.await_moment(Moment(PRODUCE, 1, hold))
        client.produce(topic, b"late", partition=0, headers={"trace-id": b"secret"})
        assert client.flush(WAIT_S) == 0  # it has given the record up
        client.abort_transaction(30)
        end = log_end(cluster.bootstrap, topic)
        yield Delayed(cluster=cluster, topic=topic, log_end=end, arrive=arrives.set)


@contextmanager
def late_write(version: str) -> Iterator[Made]:
    """A client's request is held back by the network until its transaction has been aborted."""
    with delayed(version, HANGS_CAN_BE_PLANTED) as record:
        record.arrive()
        until(lambda: log_end(record.cluster.bootstrap, record.topic) > record.log_end, "the late record is in the log")
        yield Made(
            bootstrap=record.cluster.bootstrap, topic=record.topic, start_offset=record.log_end, cause=Cause.LATE_WRITE
        )


@contextmanager
def not_added(version: str, properties: Mapping[str, str] = HANGS_CAN_BE_PLANTED) -> Iterator[Made]:
    """A client whose library writes without AddPartitionsToTxn. Raises BrokerRefused where the brokers verify."""
    with KafkaCluster(version, properties=properties) as cluster:
        topic = cluster.topics.create(fresh("unadded"))
        hang = plant_hang(cluster.bootstrap, topic, 0, fresh("app"))
        yield Made(bootstrap=cluster.bootstrap, topic=topic, start_offset=hang.start_offset, cause=Cause.NOT_ADDED)


@contextmanager
def written_after_expiry(version: str, properties: Mapping[str, str] = HANGS_CAN_BE_PLANTED) -> Iterator[Made]:
    """A client that slept for longer than its id is kept, and writes on. Raises BrokerRefused where the brokers verify."""
    settings: dict[str, str | int] = {
        **properties,
        "transactional.id.expiration.ms": EXPIRY_MS,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 500,
    }
    with KafkaCluster(version, properties=settings) as cluster:
        topic, name = cluster.topics.create(fresh("slept")), fresh("app")
        producer_id, epoch = init_producer_id(cluster.bootstrap, name)
        until(lambda: state_of(cluster, name) is None, "the id has expired")
        time.sleep(2)  # the client wakes up later than the clock's uncertainty after the expiry
        commit_one(cluster, fresh("other"), topic)
        hang = plant_hang_without_id(cluster.bootstrap, topic, 0, producer_id=producer_id, producer_epoch=epoch)
        yield Made(
            bootstrap=cluster.bootstrap, topic=topic, start_offset=hang.start_offset, cause=Cause.WRITTEN_AFTER_EXPIRY
        )


@contextmanager
def epoch_adopted(version: str) -> Iterator[Made]:
    """A record of an old producer hangs; the application restarts, and its new producer writes to the same partition."""
    with KafkaCluster(version, properties=HANGS_CAN_BE_PLANTED) as cluster:
        topic, name = cluster.topics.create(fresh("adopted")), fresh("app")
        hang = plant_hang(cluster.bootstrap, topic, 0, name)
        with OpenTransaction(cluster.bootstrap, name, [(topic, 0)]):
            yield Made(
                bootstrap=cluster.bootstrap, topic=topic, start_offset=hang.start_offset, cause=Cause.EPOCH_ADOPTED
            )


@contextmanager
def marker_by_hand(version: str) -> Iterator[Made]:
    """An operator writes a marker with a coordinator epoch that no coordinator has; then the application commits."""
    with KafkaCluster(version, properties=HANGS_CAN_BE_PLANTED) as cluster:
        topic, name = cluster.topics.create(fresh("by-hand")), fresh("app")
        client = Producer(producer_configuration(cluster.bootstrap, name, timeout_ms=60_000))
        client.init_transactions(30)
        client.begin_transaction()
        produce(client, [(topic, 0)], 1)
        producer_id, epoch = producer_of(cluster, topic)
        write_marker(cluster.bootstrap, topic, 0, producer_id, epoch, coordinator_epoch=NEWER_COORDINATOR_EPOCH)
        end = log_end(cluster.bootstrap, topic)
        produce(client, [(topic, 0)], 1)
        with suppress(KafkaException):  # it does not come to an end
            client.commit_transaction(3)
        yield Made(bootstrap=cluster.bootstrap, topic=topic, start_offset=end, cause=Cause.MARKER_BY_HAND)


@contextmanager
def coordinator_log_lost(version: str, *, nodes: int = 1) -> Iterator[Made]:
    """The disk of the coordinator is replaced while a transaction is open; with one node it has the only replica."""
    with KafkaCluster(version, nodes=nodes, properties=HANGS_CAN_BE_PLANTED) as cluster:
        topic = cluster.topics.create(fresh("forgotten"))
        owned = (fresh("app") for _ in count())
        kept = next(owned)
        kept_on = state_partition(kept, STATE_PARTITIONS)
        lost = next(name for name in owned if state_partition(name, STATE_PARTITIONS) != kept_on)
        commit_one(cluster, kept, topic)
        commit_one(cluster, lost, topic)
        end = log_end(cluster.bootstrap, topic)
        client = Producer(producer_configuration(cluster.bootstrap, lost, timeout_ms=60_000))
        client.init_transactions(30)
        client.begin_transaction()
        produce(client, [(topic, 0)], 1)
        lost_from = state_partition(lost, STATE_PARTITIONS)
        broker = cluster.broker(leader_ids(cluster.bootstrap, STATE_TOPIC)[lost_from])
        broker.kill()
        shutil.rmtree(broker.directory / "data" / f"{STATE_TOPIC}-{lost_from}")
        broker.start()
        cluster.wait_until_serving()
        yield Made(bootstrap=cluster.bootstrap, topic=topic, start_offset=end, cause=Cause.COORDINATOR_LOG_LOST)


@contextmanager
def coordinator_log_truncated(version: str) -> Iterator[Made]:
    """The coordinator crashes, and a replica that lacks its latest decisions becomes leader: an unclean election."""
    settings: dict[str, str | int] = {
        **HANGS_CAN_BE_PLANTED,
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.replication.factor": 2,
        "unclean.leader.election.interval.ms": "1000",
    }
    with KafkaCluster(version, nodes=3, properties=settings) as cluster:
        first, name = cluster.topics.create_on(fresh("first"), [1]), fresh("app")
        commit_one(cluster, name, first)
        cluster.topics.configure(STATE_TOPIC, {"unclean.leader.election.enable": "true"})
        leader, follower = state_replicas(cluster)
        (other,) = {1, 2, 3} - {leader, follower}
        topic = cluster.topics.create_on(fresh("truncated"), [other])
        client = Producer(producer_configuration(cluster.bootstrap, name, timeout_ms=60_000))
        client.init_transactions(30)
        cluster.broker(follower).kill()
        # The marker of one epoch that is nearer to a known decision than brokers' clocks may be apart proves nothing.
        time.sleep(CLOCKS_AGREE_WITHIN_MS / 1000 + 1)
        client.begin_transaction()
        produce(client, [(topic, 0)], 1)
        client.commit_transaction(60)
        until(lambda: state_of(cluster, name) == "CompleteCommit", "every marker is written")
        end = log_end(cluster.bootstrap, topic)
        client.begin_transaction()
        produce(client, [(topic, 0)], 1)
        cluster.broker(leader).kill()
        cluster.broker(follower).launch()
        until(lambda: is_known(cluster, name), "the follower is coordinator")
        yield Made(bootstrap=cluster.bootstrap, topic=topic, start_offset=end, cause=Cause.COORDINATOR_LOG_LOST)


def state_replicas(cluster: KafkaCluster) -> tuple[int, int]:
    """(leader, follower) of the only partition of `__transaction_state`."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    partition = admin.list_topics(STATE_TOPIC, timeout=30).topics[STATE_TOPIC].partitions[0]
    (follower,) = set(partition.replicas) - {partition.leader}
    return partition.leader, follower


def is_known(cluster: KafkaCluster, name: str) -> bool:
    try:
        return state_of(cluster, name) is not None
    except (OSError, BrokerRefused):
        return False


@contextmanager
def marker_lost(version: str, *, unclean: bool = True) -> Iterator[Made]:
    """The leader crashes with the marker, and a follower that never had it becomes leader, if elections may be unclean.

    Otherwise the old leader comes back.
    """
    settings = {**HANGS_CAN_BE_PLANTED, "unclean.leader.election.interval.ms": "1000"}
    with KafkaCluster(version, nodes=3, properties=settings) as cluster:
        topic, name = fresh("unclean"), fresh("app")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        new = NewTopic(
            topic,
            num_partitions=1,
            replica_assignment=[[1, 2]],
            config={"min.insync.replicas": "1", "unclean.leader.election.enable": str(unclean).lower()},
        )
        admin.create_topics([new])[topic].result(30)
        client = Producer(producer_configuration(cluster.bootstrap, name, timeout_ms=60_000))
        client.init_transactions(30)
        client.begin_transaction()
        produce(client, [(topic, 0)], 1)
        client.commit_transaction(30)
        until(lambda: state_of(cluster, name) == "CompleteCommit", "every marker is written")
        end = log_end(cluster.bootstrap, topic)
        client.begin_transaction()
        produce(client, [(topic, 0)], 1)
        cluster.broker(2).kill()
        client.commit_transaction(60)
        until(lambda: state_of(cluster, name) == "CompleteCommit", "every marker is written")
        cluster.broker(1).kill()
        cluster.broker(2).launch()
        if not unclean:
            cluster.broker(2).wait_until_serving({2, 3})
            assert log_end_or_none(cluster, topic) is None
            cluster.broker(1).launch()
        until(lambda: log_end_or_none(cluster, topic) is not None, "the partition has a leader")
        yield Made(bootstrap=cluster.bootstrap, topic=topic, start_offset=end, cause=Cause.MARKER_LOST)


@contextmanager
def committed_while_leaderless(version: str) -> Iterator[Made]:
    """A client commits while the only replica is down: Kafka 4.3 skips the marker (KAFKA-20734), others wait with it."""
    settings: dict[str, str | int] = {**HANGS_CAN_BE_PLANTED, "transaction.state.log.num.partitions": 1}
    with KafkaCluster(version, nodes=3, properties=settings) as cluster:
        name = fresh("app")
        commit_one(cluster, name, cluster.topics.create_on(fresh("first"), [1]))
        coordinator = leader_ids(cluster.bootstrap, STATE_TOPIC)[0]
        other = next(broker for broker in (1, 2, 3) if broker != coordinator)
        topic = cluster.topics.create_on(fresh("leaderless"), [other])
        client = Producer(producer_configuration(cluster.bootstrap, name, timeout_ms=60_000))
        client.init_transactions(30)
        client.begin_transaction()
        produce(client, [(topic, 0)], 1)
        cluster.broker(other).kill()
        until(lambda: cluster.topics.in_sync(topic, 0)[0] == -1, "the partition has no leader")
        client.commit_transaction(30)
        time.sleep(3)
        has_waited = state_of(cluster, name) == "PrepareCommit"
        cluster.broker(other).start()
        until(lambda: state_of(cluster, name) == "CompleteCommit", "every marker is written")
        until(lambda: log_end_or_none(cluster, topic) is not None, "the partition has a leader")
        cause = None if has_waited else Cause.MARKER_LOST
        yield Made(bootstrap=cluster.bootstrap, topic=topic, start_offset=0, cause=cause)


@contextmanager
def foreign_records(version: str) -> Iterator[Made]:
    """The files of a partition are restored from another cluster's disk, in which a transaction was open."""
    with ExitStack() as stack:
        source = stack.enter_context(KafkaCluster(version, properties=HANGS_CAN_BE_PLANTED))
        target = stack.enter_context(KafkaCluster(version, properties=HANGS_CAN_BE_PLANTED))
        topic = fresh("restored")
        for cluster in (source, target):
            cluster.topics.create(topic)
        for _ in range(3):  # each start is an election
            source.broker(1).stop()
            source.broker(1).start()
        commit_one(source, fresh("app"), topic)
        end = log_end(source.bootstrap, topic)
        client = Producer(producer_configuration(source.bootstrap, fresh("app"), timeout_ms=60_000))
        client.init_transactions(30)
        client.begin_transaction()
        produce(client, [(topic, 0)], 1)
        for cluster in (source, target):
            cluster.broker(1).stop()
        there, here = (cluster.broker(1).directory / "data" / f"{topic}-0" for cluster in (source, target))
        for path in here.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for path in there.iterdir():
            if path.name != "partition.metadata":
                shutil.copy(path, here / path.name)
        target.broker(1).start()
        yield Made(bootstrap=target.bootstrap, topic=topic, start_offset=end, cause=Cause.FOREIGN_RECORDS)


@contextmanager
def alive(version: str) -> Iterator[Made]:
    """An ordinary transaction that is open."""
    with KafkaCluster(version, properties=HANGS_CAN_BE_PLANTED) as cluster:
        topic = cluster.topics.create(fresh("alive"))
        with OpenTransaction(cluster.bootstrap, fresh("app"), [(topic, 0)]):
            yield Made(bootstrap=cluster.bootstrap, topic=topic, start_offset=0, cause=None)


@contextmanager
def event_time(version: str) -> Iterator[Made]:
    """A client that does not add partitions, whose records carry the time of an event: inside of its last transaction."""
    with KafkaCluster(version, properties=HANGS_CAN_BE_PLANTED) as cluster:
        topic, name = cluster.topics.create(fresh("events")), fresh("app")
        with OpenTransaction(cluster.bootstrap, name, [(topic, 0)]):
            producer_id, epoch = producer_of(cluster, topic)
            within_ms = int(time.time() * 1000)
            time.sleep(0.3)
        until(lambda: state_of(cluster, name) == "CompleteCommit", "every marker is written")
        yield planted(cluster, topic, producer_id, epoch, within_ms, Cause.NOT_ADDED)


@contextmanager
def aborted_by_hand_before(version: str) -> Iterator[Made]:
    """A second hang of a client that does not add partitions: an operator has aborted the first one."""
    with KafkaCluster(version, properties=HANGS_CAN_BE_PLANTED) as cluster:
        topic, name = cluster.topics.create(fresh("again")), fresh("app")
        hang = plant_hang(cluster.bootstrap, topic, 0, name)
        write_marker(cluster.bootstrap, topic, 0, hang.producer_id, hang.producer_epoch, coordinator_epoch=0)
        yield planted(cluster, topic, hang.producer_id, hang.producer_epoch, None, Cause.NOT_ADDED)


@contextmanager
def unknown_id_aborted_by_hand_before(version: str) -> Iterator[Made]:
    """A second hang of a producer whose id no coordinator knows: an operator has aborted the first one."""
    with KafkaCluster(version, properties=HANGS_CAN_BE_PLANTED) as cluster:
        topic = cluster.topics.create(fresh("again"))
        commit_one(cluster, fresh("app"), topic)
        hang = plant_hang_without_id(cluster.bootstrap, topic, 0)
        write_marker(cluster.bootstrap, topic, 0, hang.producer_id, hang.producer_epoch, coordinator_epoch=0)
        yield planted(cluster, topic, hang.producer_id, hang.producer_epoch, None, Cause.UNKNOWN)


@contextmanager
def coordinator_restarted(version: str) -> Iterator[Made]:
    """A client that does not add partitions, and a coordinator with one replica that has started again since."""
    with KafkaCluster(version, properties=HANGS_CAN_BE_PLANTED) as cluster:
        topic = cluster.topics.create(fresh("restart"))
        hang = plant_hang(cluster.bootstrap, topic, 0, fresh("app"))
        cluster.broker(1).stop()
        cluster.broker(1).start()
        yield Made(bootstrap=cluster.bootstrap, topic=topic, start_offset=hang.start_offset, cause=Cause.NOT_ADDED)


@contextmanager
def expired_later(version: str) -> Iterator[Made]:
    """A client that does not add partitions; its id expires after the write."""
    settings: dict[str, str | int] = {
        **HANGS_CAN_BE_PLANTED,
        "transactional.id.expiration.ms": EXPIRY_MS,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 500,
    }
    with KafkaCluster(version, properties=settings) as cluster:
        topic, name = cluster.topics.create(fresh("later")), fresh("app")
        hang = plant_hang(cluster.bootstrap, topic, 0, name)
        until(lambda: state_of(cluster, name) is None, "the id has expired")
        yield Made(bootstrap=cluster.bootstrap, topic=topic, start_offset=hang.start_offset, cause=Cause.NOT_ADDED)


def planted(
    cluster: KafkaCluster, topic: str, producer_id: int, epoch: int, timestamp_ms: int | None, cause: Cause
) -> Made:
    """One more record of a producer, outside of any transaction."""
    hang = plant_hang_without_id(
        cluster.bootstrap,
        topic,
        0,
        producer_id=producer_id,
        producer_epoch=epoch,
        timestamp_ms=timestamp_ms,
        sequence=1,
    )
    return Made(bootstrap=cluster.bootstrap, topic=topic, start_offset=hang.start_offset, cause=cause)


CAUSES: Final = {
    scene.__name__: scene
    for scene in (
        late_write,
        not_added,
        written_after_expiry,
        epoch_adopted,
        marker_by_hand,
        coordinator_log_lost,
        marker_lost,
        foreign_records,
    )
}
"""Each is named after the cause that it makes."""
MORE: Final = {coordinator_log_truncated.__name__: coordinator_log_truncated}
"""A second way to a cause."""
TRAPS: Final = {
    scene.__name__: scene
    for scene in (
        alive,
        event_time,
        aborted_by_hand_before,
        unknown_id_aborted_by_hand_before,
        coordinator_restarted,
        expired_later,
    )
}
"""What looks like another cause, or does not hang."""
SCENES: Final = {**CAUSES, **MORE, **TRAPS}


def commit_one(cluster: KafkaCluster, name: str, topic: str) -> None:
    """A transaction of one record; its marker is written on return."""
    run_transaction(cluster.bootstrap, name, [(topic, 0)])
    until(lambda: state_of(cluster, name) == "CompleteCommit", "every marker is written")


def until(seen: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not seen():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def log_end(bootstrap: str, topic: str, *, wait_s: float = 30) -> int:
    """The offset of the next record."""
    partition = TopicPartition(topic, 0)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    offset: int = admin.list_offsets({partition: latest})[partition].result(wait_s).offset
    return offset


def log_end_or_none(cluster: KafkaCluster, topic: str) -> int | None:
    try:
        return log_end(cluster.bootstrap, topic, wait_s=3)
    except (KafkaException, TimeoutError, FutureTimeoutError):
        return None


def producer_of(cluster: KafkaCluster, topic: str) -> tuple[int, int]:
    """(producer id, epoch) of the only open transaction of the partition."""
    with Watch(cluster.bootstrap) as watch:
        row = rows_on(watch.cycle(describe_all=True), topic)[0]
    return row.producer_id, row.producer_epoch


def state_of(cluster: KafkaCluster, name: str) -> str | None:
    """The coordinator's state of the id; None if it does not know the id."""
    found = described(cluster.bootstrap, name)
    return None if found is None else str(found.transaction_state)
