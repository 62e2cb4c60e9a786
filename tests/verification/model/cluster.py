"""Models the cluster: a controller, brokers that learn its decisions separately and late, and the replicas' logs.

Everything here is the truth. What a broker believes is in its `view`, its own replicas and its coordinators' memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from tests.verification.model.image import NO_LEADER, STATE_TOPIC, Image, PartitionImage, TopicImage
from tests.verification.model.logs import Batch, Replica, apply

CLUSTER_ID = "model"
START_MS = 1_800_000_000_000
LAST_EPOCH = 2**15 - 2
"""The last one that a client is given: the next one is left for its fence, or for its end in TransactionVersion 2."""
MINUTE_MS = 60_000


class Kind(NamedTuple):
    """What brokers of this cluster do differently from others."""

    transaction_version: int = 2
    fence_may_fail: bool = False
    """3.9.1, 4.0.0: a fence that cannot be written leaves the coordinator Ongoing at epoch + 1."""
    lists_while_loading: bool = True
    """4.3.1: ListTransactions of a broker that has not yet begun to load says NONE with no ids; else it is an error."""
    verifies: bool = False
    """`transaction.partition.verification.enable`."""
    min_in_sync: int = 1
    two_phase_commit: bool | None = False
    """`transaction.two.phase.commit.enable`; None: brokers do not know the setting."""
    max_timeout_ms: int = 15 * MINUTE_MS
    hides_lagging_ends: bool = True
    """KIP-207: a new leader whose high watermark lags behind the start of its epoch returns no end of the log."""
    gateway: str = ""
    """`hides`: what brokers show of the transaction log does not pass; `knows nothing`: nor do their transactions."""


class Txn(NamedTuple):
    """What a coordinator has of one transactional id."""

    transactional_id: str
    producer_id: int
    epoch: int
    state: str = "Empty"
    timeout_ms: int = MINUTE_MS
    start_ms: int = -1
    partitions: frozenset[tuple[str, int]] = frozenset()
    """While preparing: those whose marker is still owed."""
    serial: int = 0
    """Truth: which transaction of all that were ever begun."""
    fence_failed: bool = False
    next_producer_id: int = -1
    """While preparing, where the epochs are used up: the one that it has from its completion on."""
    gave_up: bool = False
    """A marker was refused: the coordinator sends no more until it loads again."""

    @property
    def is_preparing(self) -> bool:
        """True when the outcome is decided and markers are owed."""
        return self.state in {"PrepareCommit", "PrepareAbort"}

    @property
    def is_active(self) -> bool:
        """Ongoing or preparing."""
        return self.state == "Ongoing" or self.is_preparing


class Coordinating:
    """One broker's memory of one partition of the transaction log."""

    __slots__ = ("leader_epoch", "loading", "transactions")

    def __init__(self, leader_epoch: int, transactions: dict[str, Txn], loading: str = "") -> None:
        self.leader_epoch = leader_epoch
        self.transactions = transactions
        self.loading = loading
        """Empty when loaded; `unaware` before loading begins, `loading` meanwhile."""


class Broker:
    """One broker: its view of the cluster, and whether it can be reached."""

    __slots__ = ("behind_since_ms", "coordinating", "id", "is_cut_off", "is_silent", "is_up", "logs", "view")

    def __init__(self, broker: int, view: Image) -> None:
        self.id = broker
        self.view = view
        self.is_up = True
        self.is_silent = False
        self.is_cut_off = False
        """From the controller and its peers, not from clients."""
        self.logs: dict[tuple[int, int], Replica] = {}
        """By (topic id, partition)."""
        self.coordinating: dict[int, Coordinating] = {}
        self.behind_since_ms: int | None = None
        """When the first decision was made that it has not learnt of; None where it knows all."""

    @property
    def is_connected(self) -> bool:
        """Up, and reached by controller and peers."""
        return self.is_up and not self.is_cut_off


class Client(NamedTuple):
    """A producer that follows the protocol: the ids and epochs that it got, and those that it used last."""

    producer_id: int
    epoch: int
    last: tuple[int, int, int] = (-1, -1, 0)
    """(producer id, epoch, serial) of its last transaction: what a late request carries."""
    last_partitions: frozenset[tuple[str, int]] = frozenset()


class Cluster:
    """The whole truth."""

    def __init__(self, kind: Kind, brokers: int) -> None:
        ids = tuple(range(1, brokers + 1))
        self.kind = kind
        self.image = Image(0, {}, ids)
        self.listed_first = ids
        """The order in which Metadata responses list brokers: the exporter asks them in that order."""
        self.brokers = {broker: Broker(broker, self.image) for broker in ids}
        self.transaction_log: dict[int, dict[str, Txn]] = {}
        """What is written, by partition of the transaction log."""
        self.clients: dict[str, Client] = {}
        self.outcomes: dict[int, str] = {}
        """Serial -> `commit` or `abort`, from the moment of the decision."""
        self.decided_ms: dict[int, int] = {}
        """Serial -> when."""
        self.clock_skew_ms: dict[int, int] = {}
        """Broker -> how far its clock is ahead of the controller's, which is the cluster's time."""
        self.begun: dict[int, int] = {}
        """Serial -> producer id."""
        self.now_ms = START_MS
        self.client_skew_ms = 0
        """Of the timestamps that clients write."""
        self.last_producer_id = 1000
        self.last_serial = 0
        self.last_topic_id = 0
        self.cluster_id = CLUSTER_ID
        self.is_second = False
        """It is not the cluster that the exporter was set up for."""
        self.behind: Cluster | None = None
        """The other cluster, to which the same names may lead instead."""

    def create_topic(self, name: str, partitions: list[tuple[int, ...]]) -> Image:
        """The image with a topic whose partitions have these replicas; the first leads."""
        self.last_topic_id += 1
        for index, replicas in enumerate(partitions):
            for broker in replicas:
                self.brokers[broker].logs[self.last_topic_id, index] = Replica()
            if name == STATE_TOPIC:
                self.transaction_log[index] = {}
        images = tuple(PartitionImage(partition, partition, partition[0]) for partition in partitions)
        return self.image.with_topic(name, TopicImage(self.last_topic_id, images))

    def decide(self, image: Image, *, late: tuple[int, ...] = (), slow: bool = False) -> None:
        """The controller's decision; brokers in `late` learn of it by `deliver`. `slow`: coordinators load later."""
        self.image = image._replace(offset=self.image.offset + 1)
        for broker in self.brokers.values():
            if broker.id not in late and broker.is_connected:
                self.deliver(broker, slow=slow)
            elif broker.behind_since_ms is None:
                broker.behind_since_ms = self.now_ms

    def deliver(self, broker: Broker, *, slow: bool = False) -> None:
        """Let a broker learn of everything that was decided, and act on it."""
        old, broker.view = broker.view, self.image
        broker.behind_since_ms = None
        for name, index, partition in self.image.each():
            if broker.id not in partition.replicas:
                continue
            if name == STATE_TOPIC:
                self._resign_or_load(broker, index, partition, slow=slow)
            if partition.leader != broker.id:
                broker.logs[self.image.topics[name].topic_id, index].high = None
                self._follow(broker, name, index, partition)
        if old.topics.get(STATE_TOPIC) is not None and STATE_TOPIC not in self.image.topics:
            broker.coordinating.clear()

    def _resign_or_load(self, broker: Broker, index: int, partition: PartitionImage, *, slow: bool) -> None:
        held = broker.coordinating.get(index)
        if partition.leader != broker.id:
            broker.coordinating.pop(index, None)
        elif held is None or held.leader_epoch != partition.leader_epoch:
            loading = "unaware" if slow else ""
            broker.coordinating[index] = Coordinating(partition.leader_epoch, {}, loading)
            if not slow:
                self.load(broker, index)

    def load(self, broker: Broker, index: int) -> None:
        """Read one partition of the transaction log to its end: what was only in a former leader's memory is gone."""
        held = broker.coordinating[index]
        held.loading = ""
        held.transactions = dict(self.transaction_log[index])

    def _follow(self, broker: Broker, name: str, index: int, partition: PartitionImage) -> None:
        """Truncate to the leader's log and catch up, where the leader can be reached."""
        mine = broker.logs.get((self.image.topics[name].topic_id, index))
        if mine is None or partition.leader == NO_LEADER or not mine.keeps_up:
            return
        leader = self.brokers[partition.leader]
        if leader.is_connected and broker.is_connected:
            theirs = leader.logs[self.image.topics[name].topic_id, index]
            if mine.is_apart_from(theirs):
                mine.copy_of(theirs)

    def leader_replica(self, topic: str, index: int) -> Replica | None:
        """The log of the partition's leader, as the controller has it; None where there is no partition or no leader."""
        partition = self.image.partition(topic, index)
        if partition is None or partition.leader == NO_LEADER:
            return None
        return self.brokers[partition.leader].logs[self.image.topics[topic].topic_id, index]

    def leads(self, broker: Broker, topic: str, index: int) -> bool:
        """True when the broker is the leader, can be reached by its peers, and knows it."""
        now, believed = self.image.partition(topic, index), broker.view.partition(topic, index)
        return (
            now is not None
            and believed is not None
            and now.leader == broker.id == believed.leader
            and self._knows_leader(broker, topic, index)
            and broker.is_connected
        )

    def is_writable(self, topic: str, index: int, *, acknowledged: bool = True) -> bool:
        """True when the leader takes a write now, and all in-sync replicas follow where it is to be acknowledged."""
        partition = self.image.partition(topic, index)
        if partition is None or partition.leader == NO_LEADER:
            return False
        return (
            self.leads(self.brokers[partition.leader], topic, index)
            and len(partition.in_sync) >= self.kind.min_in_sync
            and all(self.brokers[node_id].is_connected for node_id in partition.in_sync)
            and (not acknowledged or self._all_keep_up(topic, index, partition))
        )

    def _all_keep_up(self, topic: str, index: int, partition: PartitionImage) -> bool:
        topic_id = self.image.topics[topic].topic_id
        return all(
            self.brokers[node_id].logs[topic_id, index].keeps_up
            and self._knows_leader(self.brokers[node_id], topic, index)
            for node_id in partition.in_sync
        )

    def _knows_leader(self, broker: Broker, topic: str, index: int) -> bool:
        """True if it fetches from the leader: one that does not know the last decision follows itself or another."""
        now, believed = self.image.partition(topic, index), broker.view.partition(topic, index)
        return (
            now is not None
            and believed is not None
            and now.leader_epoch == believed.leader_epoch
            and self.image.topics[topic].topic_id == broker.view.topics[topic].topic_id
        )

    def append(self, topic: str, index: int, batch: Batch) -> None:
        """Write to the leader and to every follower that keeps up."""
        partition = self.image.partition(topic, index)
        assert partition is not None
        topic_id = self.image.topics[topic].topic_id
        leader = self.brokers[partition.leader].logs[topic_id, index]
        batch = batch._replace(leader_epoch=partition.leader_epoch)
        self.brokers[partition.leader].logs[topic_id, index].high = None
        following = [
            self.brokers[node_id].logs[topic_id, index]
            for node_id in partition.replicas
            if node_id != partition.leader
            and self.brokers[node_id].is_connected
            and self._knows_leader(self.brokers[node_id], topic, index)
        ]
        apart = [replica for replica in following if replica.keeps_up and replica.is_apart_from(leader)]
        apply(leader, batch)
        for replica in following:
            if replica in apart:
                replica.copy_of(leader)
            elif replica.keeps_up:
                apply(replica, batch)

    def open_entries(self) -> Iterator[tuple[str, int, int, int, Replica]]:
        """(topic, partition, topic id, producer id, the log that counts) of each open transaction."""
        for name, topic in self.image.topics.items():
            if name == STATE_TOPIC:
                continue
            for index, partition in enumerate(topic.partitions):
                replica = self.brokers[partition.authority].logs[topic.topic_id, index]
                for producer_id, entry in replica.entries.items():
                    if entry.start_offset >= 0:
                        yield name, index, topic.topic_id, producer_id, replica

    def new_producer_id(self) -> int:
        """Never given out before."""
        self.last_producer_id += 1
        return self.last_producer_id


def java_hash(text: str) -> int:
    """String.hashCode of a string in the Basic Multilingual Plane: 32 bits with a sign."""
    code = 0
    for character in text:
        code = (31 * code + ord(character) + 2**31) % 2**32 - 2**31
    return code


@lru_cache(maxsize=10_000)
def home_of(transactional_id: str, partitions: int) -> int:
    """The partition of the transaction log that owns an id: Utils.abs(hashCode) % partitions.

    Math.abs of the smallest int is negative, and Utils.abs makes it 0.
    """
    code = java_hash(transactional_id)
    if code == -(2**31):
        return 0
    return (code if code > 0 else -code) % partitions
