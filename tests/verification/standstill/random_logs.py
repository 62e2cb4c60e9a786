"""Random logs on a real broker, and what a consumer of committed records reads from them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from examples.workload.producers import transactional_producer
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.groups import END_OF_PARTITION
from hangbench.kafka.planting import plant_hang

TOPICS: Final = 12
PARTITIONS: Final = 3
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}
COMPACTED_EVERY: Final = 4
EVENTS_MAX: Final = 12
RECORDS_MAX: Final = 6
CODECS: Final = ("none", "gzip", "lz4", "zstd", "snappy")
OWNER_IDS: Final = ("owner-0", "owner-1", "owner-2")
OWNER_KEY: Final = "of the owner"
TIMEOUT_MS: Final = 600_000
WAIT_S: Final = 30
WAYS: Final = ("live", "live", "hang", "both", "none")
WAYS_COMPACTED: Final = ("live", "live", "none")
"""The planted record of a hang has no key."""

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Log:
    """The log of a partition, as clients see it."""

    begins_at: int
    last_stable_offset: int
    high_watermark: int
    committed: tuple[int, ...]
    """Offsets of the records that a consumer of committed records gets."""
    of_owner: tuple[int, ...] = ()
    of_hang: tuple[int, ...] = ()
    """Offsets of the records of the owner whose transaction is open until the end, and of a planted hang."""

    def stand(self, offset: int) -> str | None:
        """`at`, `before` or `beyond`, as in the answer; None where nothing is held back from a group at `offset`."""
        if offset >= self.high_watermark or self.last_stable_offset >= self.high_watermark:
            return None
        if offset > self.last_stable_offset:
            return "beyond"
        return "before" if any(record >= offset for record in self.committed) else "at"


class Writers:
    """Producers that write random things to a partition."""

    def __init__(self, bootstrap: str, chance: random.Random) -> None:
        self._chance = chance
        self._plain = [Producer({**client_of(bootstrap), "compression.type": codec}) for codec in CODECS]
        self._transactional = [transactional_producer(bootstrap, f"writer-{number}") for number in range(3)]

    def write(self, place: Place, events: int) -> None:
        kinds: Sequence[Callable[[Place], None]] = (self._records, self._whole, self._whole, self._interleaved)
        for _ in range(self._chance.randint(0, events)):
            self._chance.choice(kinds)(place)

    def _records(self, place: Place) -> None:
        self._produce(self._chance.choice(self._plain), place)

    def _whole(self, place: Place) -> None:
        producer = self._chance.choice(self._transactional)
        producer.begin_transaction()
        self._produce(producer, place)
        self._end(producer)

    def _interleaved(self, place: Place) -> None:
        both = self._chance.sample(self._transactional, 2)
        for producer in both:
            producer.begin_transaction()
            self._produce(producer, place)
        self._records(place)
        self._chance.shuffle(both)
        for producer in both:
            self._end(producer)

    def _produce(self, producer: Producer, place: Place) -> None:
        for _ in range(self._chance.randint(1, RECORDS_MAX)):
            write_one(producer, place, str(self._chance.randint(0, 3)))
            if self._chance.random() < 0.3:  # another batch
                producer.flush(WAIT_S)
        assert producer.flush(WAIT_S) == 0

    def _end(self, producer: Producer) -> None:
        if self._chance.random() < 0.5:
            producer.commit_transaction(WAIT_S)
        else:
            producer.abort_transaction(WAIT_S)


def client_of(bootstrap: str) -> dict[str, Any]:
    return {"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0}


def write_one(producer: Producer, place: Place, key: str) -> None:
    producer.produce(place[0], partition=place[1], key=key.encode(), value=b"value")


def write_logs(cluster: KafkaCluster, chance: random.Random, open_: ExitStack) -> Sequence[Place]:
    """Logs of all kinds; on most of them a transaction is open until the end of `open_` or hangs, with more behind it."""
    writers = Writers(cluster.bootstrap, chance)
    ways: dict[Place, str] = {}
    compacted: set[str] = set()
    for number in range(TOPICS):
        topic = cluster.topics.create(f"random-{number}", partitions=PARTITIONS)
        if number % COMPACTED_EVERY == COMPACTED_EVERY - 1:
            compacted.add(topic)
            cluster.topics.configure(topic, COMPACTED)
        for partition in range(PARTITIONS):
            ways[topic, partition] = chance.choice(WAYS_COMPACTED if topic in compacted else WAYS)
    for place in ways:
        writers.write(place, EVENTS_MAX)
    _open(cluster, [place for place, way in ways.items() if way in {"live", "both"}], chance, open_)
    for place, way in ways.items():
        writers.write(place, 2)
        if way in {"hang", "both"}:
            plant_hang(cluster.bootstrap, *place, f"hang-{place[0]}-{place[1]}")
        writers.write(place, 3)
    can_lose = [place for place in ways if place[0] not in compacted and chance.random() < 0.25]
    _delete_beginnings(cluster.bootstrap, can_lose, chance)
    return tuple(ways)


def _open(cluster: KafkaCluster, places: Sequence[Place], chance: random.Random, open_: ExitStack) -> None:
    owners = [transactional_producer(cluster.bootstrap, owner, timeout_ms=TIMEOUT_MS) for owner in OWNER_IDS]
    open_.callback(owners.clear)  # without them the transactions would end
    for owner in owners:
        owner.begin_transaction()
    for place in places:
        owner = chance.choice(owners)
        for _ in range(chance.randint(1, RECORDS_MAX)):
            write_one(owner, place, OWNER_KEY)
    for owner in owners:
        assert owner.flush(WAIT_S) == 0


def _delete_beginnings(bootstrap: str, places: Sequence[Place], chance: random.Random) -> None:
    logs = read_logs(bootstrap, places)
    upto = [TopicPartition(*place, chance.randint(0, log.last_stable_offset)) for place, log in logs.items()]
    admin = AdminClient(client_of(bootstrap))
    for deleted in admin.delete_records(upto).values() if upto else ():
        deleted.result(WAIT_S)


def _ends(bootstrap: str, places: Sequence[Place], spec: OffsetSpec, level: IsolationLevel) -> dict[Place, int]:
    asked = {TopicPartition(*place): spec for place in places}
    admin = AdminClient(client_of(bootstrap))  # kept until the responses are there
    found = admin.list_offsets(asked, isolation_level=level)
    return {(one.topic, one.partition): future.result(WAIT_S).offset for one, future in found.items()}


def read_logs(bootstrap: str, places: Sequence[Place]) -> Mapping[Place, Log]:
    """Reads each partition to its end, as a consumer of committed records and as one of all."""
    if not places:
        return {}
    latest, earliest = OffsetSpec.latest(), OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    begins = _ends(bootstrap, places, earliest, IsolationLevel.READ_UNCOMMITTED)
    stable = _ends(bootstrap, places, latest, IsolationLevel.READ_COMMITTED)
    ends = _ends(bootstrap, places, latest, IsolationLevel.READ_UNCOMMITTED)
    read = {place: [offset for offset, _ in rows] for place, rows in _records(bootstrap, begins, "committed").items()}
    keys = _records(bootstrap, begins, "uncommitted")

    def offsets(place: Place, key: bytes | None) -> tuple[int, ...]:
        return tuple(offset for offset, of_record in keys[place] if of_record == key)

    return {
        place: Log(
            begins[place],
            stable[place],
            ends[place],
            tuple(sorted(read[place])),
            of_owner=offsets(place, OWNER_KEY.encode()),
            of_hang=offsets(place, None),
        )
        for place in places
    }


def _records(bootstrap: str, begins: Mapping[Place, int], level: str) -> dict[Place, list[tuple[int, bytes | None]]]:
    """Reads each partition to its end: offsets and keys."""
    options = {"group.id": "oracle", "isolation.level": f"read_{level}", "enable.partition.eof": True}
    consumer = Consumer({**client_of(bootstrap), **options, "enable.auto.commit": False})
    consumer.assign([TopicPartition(*place, offset) for place, offset in begins.items()])
    found: dict[Place, list[tuple[int, bytes | None]]] = {place: [] for place in begins}
    unread = set(begins)
    while unread:
        message = consumer.poll(WAIT_S)
        assert message is not None
        place, error = (str(message.topic()), int(message.partition() or 0)), message.error()
        if error is None:
            found[place].append((int(message.offset() or 0), message.key()))
        else:
            assert error.code() == END_OF_PARTITION, error
            unread.discard(place)
    consumer.close()
    return found
