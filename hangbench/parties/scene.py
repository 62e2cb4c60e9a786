"""Holds one situation on one cluster: its topics, clients and groups, the written truth, and the steps to make them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.groups import END_OF_PARTITION, commit_when_ready
from hangbench.parties.child import OwnerProcess
from hangbench.parties.words import NOBODY, Cause, Place, Situation, Standstill, Standstills
from hangbench.situations.ground import until_closed
from hangbench.situations.steps import Transactions
from hangbench.waiting import until

LONG_MS: Final = 600_000
"""A time-out that no play outlives."""


@dataclass(slots=True)
class Scene:
    """A situation is made here; everything that it makes has a name that no other scene has."""

    situation: Situation
    cluster: KafkaCluster
    plain: Producer
    """A producer without transactions, which all scenes share."""
    stack: ExitStack = field(default_factory=ExitStack)
    truth: Standstills = NOBODY
    groups: dict[str, bool] = field(default_factory=dict)
    """Group -> whether its position can be read as a committed offset."""
    owners: set[str] = field(default_factory=set)
    usual_ids: set[str] = field(default_factory=set)
    """Transactional ids whose transactions are short as a rule, for detectors that can be given that."""
    each_cycle: Callable[[], object] | None = None
    """A step before each cycle."""
    places: set[Place] = field(default_factory=set)
    is_moving: bool = False
    """True if a client works all the time, so that no two reads of the brokers are of one moment."""
    steps: Generator[None, None, None] | None = None

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    def name(self, what: str = "") -> str:
        """Returns a name that begins with the name of the situation."""
        return "-".join(part for part in (self.situation.name.replace(" ", "-"), what) if part)

    def is_own(self, standstill: Standstill) -> bool:
        """True if the party or the partition is of this scene."""
        return standstill.party in self.groups or standstill.party in self.owners or standstill.place in self.places

    # The truth

    def stand_still(self, *parties: tuple[str, Place, Cause, str | None]) -> None:
        """Writes down everybody who stands still from now on; nobody if it is empty."""
        self.truth = frozenset(Standstill(*party) for party in parties)

    # Topics and records

    def topic(
        self, what: str = "", *, partitions: int = 1, config: dict[str, str] | None = None, records: int = 3
    ) -> str:
        """Creates a topic with some records on each partition: a client of librdkafka that reads none commits nothing."""
        name = self.cluster.topics.create(self.name(what), partitions=partitions, config=config)
        for number in range(partitions):
            self.places.add((name, number))
            self.records(name, number, records)
        return name

    def records(self, topic: str, partition: int = 0, count: int = 5) -> None:
        """Writes records without a transaction."""
        for number in range(count):
            self.plain.produce(topic, key=b"key", value=str(number).encode(), partition=partition)
        assert self.plain.flush(30) == 0

    def transaction(self, topic: str, partition: int = 0, *, commit: bool = True, records: int = 1) -> None:
        """Runs a complete transaction of another producer, until its marker is there and nothing is open on the partition.

        The client gets its response before: the next record would be before the marker.
        """
        Transactions(self.bootstrap, self.name("other"), [(topic, partition)]).run(commit=commit, records=records)
        until_closed(self.bootstrap, topic, partition)

    # Owners of open transactions

    def owner_id(self, what: str = "owner", *, usual: bool = True) -> str:
        """Returns a transactional id. `usual`: its transactions are short as a rule."""
        name = self.name(what)
        self.owners.add(name)
        if usual:
            self.usual_ids.add(name)
        return name

    def owner(self, *places: Place, what: str = "owner", usual: bool = True, timeout_ms: int = LONG_MS) -> Transactions:
        """Opens a transaction in this process, with a record on each place; it stays open."""
        owner = Transactions(self.bootstrap, self.owner_id(what, usual=usual), places, timeout_ms=timeout_ms)
        owner.begin()
        return owner

    def process(
        self, *places: Place, what: str = "owner", usual: bool = True, timeout_ms: int = LONG_MS
    ) -> OwnerProcess:
        """Opens a transaction in a process of its own, which ends with the scene."""
        made = OwnerProcess(self.bootstrap, self.owner_id(what, usual=usual), places, timeout_ms=timeout_ms)
        self.stack.callback(made.kill)
        return made

    # Groups

    def group(self, what: str = "group", *, has_position: bool = True) -> str:
        """Returns the name of a group, which `why` is asked for."""
        name = self.name(what)
        self.groups[name] = has_position
        return name

    def reader(self, *places: Place, what: str = "group", isolation: str = "read_committed") -> str:
        """A consumer reads these partitions to their end for its isolation level, commits and goes."""
        group = self.group(what)
        consumer = self.consumer(group, isolation)
        consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in places])
        _read_to_the_end(consumer, len(places))
        consumer.close()
        return group

    def member(
        self, topic: str, *, partitions: int = 1, what: str = "group", protocol: str = "classic", commits: bool = True
    ) -> Consumer:
        """A member of a group reads a topic to the end of its committed records, and stays."""
        consumer = self.consumer(self.group(what), "read_committed", {"group.protocol": protocol})
        consumer.subscribe([topic])
        _read_to_the_end(consumer, partitions, commits=commits)
        self.stack.callback(consumer.close)
        return consumer

    def position(self, place: Place, offset: int, *, what: str = "group") -> str:
        """Commits this offset for a group, as Flink and other clients do that count for themselves."""
        group = self.group(what)
        consumer = self.consumer(group, "read_committed")
        commit_when_ready(consumer, offsets=[TopicPartition(*place, offset)])
        consumer.close()
        return group

    def consumer(self, group: str, isolation: str, more: dict[str, str] | None = None) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "isolation.level": isolation,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
                "log_level": 0,
                **(more or {}),
            }
        )


def _read_to_the_end(consumer: Consumer, partitions: int, *, commits: bool = True) -> None:
    """Polls until the consumer is at the end of so many partitions, and commits what it has read."""
    ends: set[Place] = set()

    def is_at_the_end() -> bool:
        message = consumer.poll(1)
        error = None if message is None else message.error()
        if message is not None and error is not None:
            assert error.code() == END_OF_PARTITION, error
            ends.add((str(message.topic()), int(message.partition() or 0)))
        return len(ends) == partitions

    until(is_at_the_end, status=lambda: f"at the end of {sorted(ends)}")
    if commits:
        commit_when_ready(consumer)
