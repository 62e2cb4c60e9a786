"""Reads the records of `__transaction_state` with confluent-kafka, from an instant on, and how far they are read.

Partitions are assigned, not subscribed to, and no offset is committed: the exporter writes nothing to the cluster.
librdkafka still looks up the coordinator of its group; if the cluster has had no consumer group so far, its brokers then
create `__consumer_offsets`, unless the principal is not authorized for the group.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from exporter.config.kafka_section import KafkaSettings
from exporter.kafka.client.credentials import CredentialsError, librdkafka_properties
from exporter.kafka.client.logins import logins_of
from exporter.snapshot import STATE_TOPIC

BATCH_RECORDS_MAX = 2000
QUEUED_KILOBYTES_MAX = 8 * 1024
"""librdkafka's own default of 64 MB for records fetched ahead would double the memory of the process."""
STATISTICS_INTERVAL_MS = 1000
HEARD_WITHIN_US = 5_000_000
"""A fetch gets a response within half a second, also an empty one: after a longer silence the leader's end is unknown."""
PLACE_AGAIN_SECONDS = 5.0
LOGIN_CHECK_SECONDS = 0.5
RECONNECT_MS = 1000
"""Longer than the time in which a refused login is noticed; librdkafka's 100 ms are up to ten logins a second."""
_UNKNOWN = -1
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]


class LogUnreadableError(Exception):
    """The log cannot be read at all now; the sentence says why."""


class LogLoginError(LogUnreadableError):
    """The brokers refused the credentials, or did so a moment ago: no login is sent during a pause that grows."""


class LogRecord(NamedTuple):
    partition: int
    offset: int
    written_at_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Batch:
    """Result of one reading."""

    records: tuple[LogRecord, ...]
    gaps: tuple[int, ...] = ()
    """Partitions whose position no longer exists: truncated by a new leader, or removed by retention."""


class StateLog:
    """Reads every partition of the log. Belongs to one thread; `close` it."""

    def __init__(
        self,
        kafka: KafkaSettings,
        *,
        since_ms: int,
        positions: Mapping[int, int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """From `positions` on, and without a position from the first record written at `since_ms` or later.

        Raises LogUnreadableError.
        """
        if kafka.allowed_hosts is not None:
            raise LogUnreadableError("librdkafka cannot be limited to the hosts of kafka.allowed.hosts")
        self._logins = logins_of(kafka)
        if (pause := self._logins.pause()) is not None:
            raise LogLoginError(pause)
        self._login_failure: str | None = None
        self._clock = clock
        self._since_ms = since_ms
        self._timeout_s = kafka.request_timeout_ms / 1000
        self._ends: dict[int, int] = {}
        self._failure: str | None = None
        self._opened_at = clock()
        self.failures: dict[int, str] = {}
        """Why a partition is not read, in Kafka's words."""
        self.positions: dict[int, int] = dict(positions)
        """By partition: the offset to be read next."""
        try:
            properties = librdkafka_properties(kafka)
            self._properties = properties
            self._consumer = Consumer({**properties, **self._own_properties(kafka.client_id)})
        except (CredentialsError, KafkaException) as error:
            raise LogUnreadableError(_words(error)) from error
        try:
            self.cluster_id, self.partitions = self._describe()
            self._place_again_at = self._clock() + PLACE_AGAIN_SECONDS
            self._unplaced = set(self.partitions)
            self._place()
        except BaseException:
            self.close()
            raise

    def read(self, timeout_s: float) -> Batch:
        """The records that have arrived, at the latest after `seconds`. Raises LogUnreadableError."""
        self._check_login()
        if self._unplaced and self._clock() >= self._place_again_at:
            self._place()
        try:
            messages = self._consumer.consume(BATCH_RECORDS_MAX, timeout_s)
        except KafkaException as error:
            raise LogUnreadableError(_words(error)) from error
        records: list[LogRecord] = []
        gaps: list[int] = []
        for message in messages:
            failure = message.error()
            if failure is not None:
                gaps += self._not_a_record(message, failure)
                continue
            partition, offset = message.partition(), message.offset()
            records.append(LogRecord(partition, offset, message.timestamp()[1], message.key(), message.value()))  # type: ignore[arg-type]
            self.positions[partition] = offset + 1  # type: ignore[index, operator]
            if self.failures:
                self.failures.pop(partition, None)  # type: ignore[arg-type]
        return Batch(tuple(records), tuple(gaps))

    @property
    def ends(self) -> Mapping[int, int]:
        """By partition: the offset of the next record to be written, if the partition is read and its leader responds."""
        return {
            partition: end
            for partition, end in self._ends.items()
            if partition not in self.failures and partition not in self._unplaced
        }

    @property
    def failure(self) -> str | None:
        """The failure of the client as a whole; None while brokers respond, or may still respond."""
        if self._ends:
            return None
        # A busy leader may take as long for its first response as for any other.
        is_young = self._clock() - self._opened_at < max(self._timeout_s, HEARD_WITHIN_US / 1_000_000)
        return self._failure or (None if is_young else f"no leader of a partition of {STATE_TOPIC} responds")

    def close(self) -> None:
        """End the connections."""
        with suppress(KafkaException, RuntimeError):
            self._consumer.close()

    def _check_login(self) -> None:
        """Give up after a refused login, which librdkafka would retry several times a second."""
        if self._login_failure is not None:
            self._logins.refused(STATE_TOPIC, self._login_failure)
            raise LogLoginError(self._login_failure)

    def _own_properties(self, client_id: str) -> dict[str, Any]:
        return {
            "group.id": client_id,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_uncommitted",
            "queued.max.messages.kbytes": QUEUED_KILOBYTES_MAX,
            "statistics.interval.ms": STATISTICS_INTERVAL_MS,
            "stats_cb": self._on_statistics,
            "error_cb": self._on_error,
            "log_level": 0,
            "reconnect.backoff.ms": RECONNECT_MS,
        }

    def _describe(self) -> tuple[str, tuple[int, ...]]:
        metadata = self._metadata()
        self._logins.accepted(STATE_TOPIC)
        topic = metadata.topics[STATE_TOPIC]
        if topic.error is not None and topic.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise LogUnreadableError(f"{STATE_TOPIC} is not visible: grant DESCRIBE and READ on it")
        if topic.error is not None or not topic.partitions:
            raise LogUnreadableError(f"topic {STATE_TOPIC} does not exist yet: no client has used a transactional id")
        return str(metadata.cluster_id), tuple(sorted(topic.partitions))

    def _metadata(self) -> Any:
        """In short steps, between which librdkafka reports a refused login."""
        gives_up_at = self._clock() + self._timeout_s
        while True:
            try:
                return self._consumer.list_topics(STATE_TOPIC, timeout=min(LOGIN_CHECK_SECONDS, self._timeout_s))
            except KafkaException as error:
                self._consumer.poll(0)
                self._check_login()
                if self._clock() >= gives_up_at:
                    raise LogUnreadableError(self._failure or _words(error)) from error

    def _place(self) -> None:
        """Assign the unassigned partitions; those without a position begin by time, once their leader responds."""
        self._place_again_at = self._clock() + PLACE_AGAIN_SECONDS
        # In this order: a record written between the two responses is found by its time.
        ends = self._offsets(self._unplaced - self.positions.keys(), _LATEST)
        since = self._offsets(ends, OffsetSpec.for_timestamp(self._since_ms))
        for partition, offset in since.items():
            self.positions[partition] = ends[partition] if offset == _UNKNOWN else offset
        placed = sorted(self._unplaced & self.positions.keys())
        self._unplaced.difference_update(placed)
        if placed:
            self._consumer.incremental_assign(
                [TopicPartition(STATE_TOPIC, partition, self.positions[partition]) for partition in placed]
            )

    def _unplace(self, partition: int) -> None:
        """Assign it again later: nothing else shows whether its error is over."""
        self._consumer.incremental_unassign([TopicPartition(STATE_TOPIC, partition)])
        self._unplaced.add(partition)

    def _offsets(self, partitions: Iterable[int], spec: OffsetSpec) -> dict[int, int]:
        """Those with a result; `failures` has the reason for the others."""
        asked = {TopicPartition(STATE_TOPIC, partition): spec for partition in partitions}
        if not asked:
            return {}
        found = {}
        # Not needed between two lookups, and it has a thread and a connection for each broker.
        admin = AdminClient({**self._properties, "log_level": 0})
        for partition, future in admin.list_offsets(asked, request_timeout=self._timeout_s).items():
            try:
                found[partition.partition] = future.result().offset
                self.failures.pop(partition.partition, None)
            except KafkaException as error:
                self.failures[partition.partition] = _words(error)
        return found

    def _not_a_record(self, message: Message, error: KafkaError) -> tuple[int, ...]:
        partition = message.partition()
        if message.topic() is None or partition is None:
            if (
                error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED
            ):  # librdkafka needs the group, the exporter does not
                self._failure = error.str()
            return ()
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own codes are named so
            self.failures.pop(partition, None)
            return ()
        self._unplace(partition)
        if error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
            self._jump(partition)
            return (partition,)
        self.failures[partition] = error.str()
        return ()

    def _jump(self, partition: int) -> None:
        """The position does not exist in this partition any more: continue at its beginning or end, whichever is nearer."""
        first = self._offsets((partition,), _EARLIEST).get(partition)
        last = self._offsets((partition,), _LATEST).get(partition)
        if first is not None and last is not None:
            self.positions[partition] = min(max(self.positions[partition], first), last)

    def _on_statistics(self, written: str) -> None:
        document = json.loads(written)
        heard = {
            broker["nodeid"]
            for broker in document["brokers"].values()
            if broker["state"] == "UP" and 0 <= broker.get("rxidle", _UNKNOWN) <= HEARD_WITHIN_US
        }
        partitions = document["topics"].get(STATE_TOPIC, {}).get("partitions", {})
        self._ends = {
            int(number): partition["hi_offset"]
            for number, partition in partitions.items()
            if int(number) >= 0 and partition["leader"] in heard and partition["hi_offset"] >= 0
        }

    def _on_error(self, error: KafkaError) -> None:
        self._failure = error.str()
        if error.code() == KafkaError._AUTHENTICATION:  # noqa: SLF001
            self._login_failure = error.str()


def _words(error: Exception) -> str:
    """The text of an error, without the wrapping of the exception."""
    first = error.args[0] if error.args else error
    return first.str() if isinstance(first, KafkaError) else str(error)
