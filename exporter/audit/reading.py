"""Reads ranges of partitions' logs at their leaders (Fetch, as a reader of uncommitted records), and plans them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, Final

from exporter.audit.log_transactions import LogTransaction, RangeOfLog
from exporter.config.kafka_section import KafkaSettings
from exporter.kafka.client.connections import Connections
from exporter.kafka.client.credentials import bootstrap_of, client_options
from exporter.kafka.client.logins import logins_of
from exporter.kafka.client.oauth import tokens_of
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.disk import disk_space
from exporter.kafka.collect.topic_filter import TopicFilter
from exporter.kafka.errors import (
    BrokerFault,
    ClusterUnavailableError,
    ErrorCode,
    FaultReason,
    MalformedResponseError,
    error_name,
    refusal_of,
)
from exporter.kafka.messages import fetch
from exporter.kafka.messages.fetch import MEGABYTE, Fetched, Position, fetched_of_topic, is_throttled
from exporter.kafka.messages.log_batches import batches_from
from exporter.kafka.offsets import LATEST, LOG_START, offsets_at
from exporter.snapshot import NO_LEADER, STATE_TOPIC, TopicPartition

PIECE_BYTES: Final = 2 * MEGABYTE
"""Larger ones take longer for each byte, here and for other clients of the broker."""
RANGE_BYTES: Final = 128 * MEGABYTE
"""Estimated size of a range, so that one huge partition is many tasks."""
RANGE_OFFSETS: Final = 1_000_000
"""Offsets of a range where the size of its partition is unknown."""
ATTEMPTS: Final = 8
PAUSE_S: Final = 0.5
"""Attempts to continue after a leader has moved, and the pause before each."""
HOUR_S: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """Offsets of a partition, from `first` to before `end`."""

    topic: str
    topic_id: str
    partition: int
    first: int
    end: int
    leader_epoch: int = -1
    """Epoch of the record before, -1 if it is unknown: a leader whose log has another one there refuses."""
    replica: int | None = None
    """Broker whose copy is read; None for the leader's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogExtent:
    """The log of a partition when the audit begins."""

    topic_id: str
    log_start: int
    """First offset of the log; where no run has read it before, the one from which it is read."""
    high_watermark: int
    size_bytes: int | None
    """Size at the leader; None if it does not say."""
    followers: tuple[int, ...] = ()
    """Other brokers with a copy, those that were in sync."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogListing:
    """All partitions that are to be audited."""

    cluster_id: str
    at_ms: int
    """Instant of the request for their ends, by this machine's clock."""
    ends: Mapping[TopicPartition, LogExtent]
    failures: Mapping[TopicPartition, str]
    excluded: frozenset[TopicPartition]
    leaders: int = 1
    """Number of brokers that lead one of them."""
    log_topic_id: str = ""
    """Topic id of `__transaction_state`; empty if it is not known."""
    log_ends: Mapping[int, int] = field(default_factory=dict)
    """High watermark by partition of it, where a leader responds."""


class LogReadError(Exception):
    """The brokers cannot be read at all; the message is the reason."""


@contextmanager
def connected(kafka: KafkaSettings) -> Iterator[Callable[..., Any]]:
    """Gives a function that runs coroutines of a client of these settings. Raises LogReadError."""
    try:
        options = client_options(kafka)
    except ClusterUnavailableError as error:
        raise LogReadError(str(error)) from error
    connections = Connections(options, client_id=f"{kafka.client_id}-audit", logins=logins_of(kafka))
    tokens = tokens_of(options)
    timeout_s = kafka.request_timeout_ms / 1000
    client = ClusterClient(
        connections=connections,
        bootstrap=bootstrap_of(kafka),
        request_timeout_s=timeout_s,
        deadline=time.monotonic() + HOUR_S,
    )

    def run(coroutine: Callable[..., Any], *arguments: Any) -> Any:
        if tokens is not None:
            tokens.refresh(timeout_s)
        client.deadline = time.monotonic() + HOUR_S
        client.silent.clear()
        return connections.run(coroutine, client, *arguments)

    try:
        yield run
    finally:
        connections.close()


def list_partitions(kafka: KafkaSettings, topics: TopicFilter) -> LogListing:
    """Lists the partitions whose topics are not excluded. Raises LogReadError."""
    listing: LogListing = _asked(kafka, _listed, topics)
    return listing


def _asked(kafka: KafkaSettings, coroutine: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the result of a coroutine of a client. Raises LogReadError."""
    with connected(kafka) as run:
        try:
            return run(coroutine, *arguments)
        except (BrokerFault, ClusterUnavailableError) as error:
            raise LogReadError(str(error)) from error


async def _listed(client: ClusterClient, topics: TopicFilter) -> LogListing:
    topology = await client.topology()
    there = [topology.name(row) for row in range(len(topology)) if row not in topology.rows_of(STATE_TOPIC)]
    excluded = frozenset(partition for partition in there if topics.excludes(partition[0]))
    leaders = {partition: topology.leader_of(*partition)[0] for partition in there if partition not in excluded}
    in_sync = {topology.name(row): topology.in_sync.of(row) for row in range(len(topology))}
    at_ms = int(time.time() * 1000)
    starts, failed = await offsets_at(client, leaders, LOG_START)
    latest, failed_too = await offsets_at(client, leaders, LATEST)
    state_log = {topology.name(row): int(topology.leader[row]) for row in topology.rows_of(STATE_TOPIC)}
    log_ends, _ = await offsets_at(client, state_log, LATEST)
    space = await disk_space(client, topology, leaders.keys(), at_ms, None)
    sizes = {} if space is None else space.sizes
    return LogListing(
        cluster_id=topology.cluster_id,
        at_ms=at_ms,
        ends={
            partition: LogExtent(
                topic_id=topology.topic_id_of(partition[0]),
                log_start=start,
                high_watermark=latest[partition],
                size_bytes=sizes[partition].size_bytes if partition in sizes else None,
                followers=tuple(each for each in in_sync[partition] if each != leaders[partition]),
            )
            for partition, start in starts.items()
            if partition in latest
        },
        failures={partition: str(fault) for partition, fault in {**failed, **failed_too}.items()},
        excluded=excluded,
        leaders=max(len(set(leaders.values()) - {NO_LEADER}), 1),
        log_topic_id=topology.topic_id_of(STATE_TOPIC),
        log_ends={number: end for (_, number), end in log_ends.items()},
    )


def begin_at(
    kafka: KafkaSettings, listing: LogListing, partitions: Collection[TopicPartition], since_ms: int
) -> LogListing:
    """The listing with these logs from their first record of that time on: decisions of before are not looked at.

    Raises LogReadError.
    """
    found = offsets_since(kafka, partitions, since_ms)
    ends = dict(listing.ends)
    for partition in partitions:
        known = ends[partition]
        offset = found.get(partition, known.log_start)
        # Without such a record there is none to read.
        first = known.high_watermark if offset < 0 else max(offset, known.log_start)
        first = min(first, known.high_watermark)
        ends[partition] = replace(
            known, log_start=first, size_bytes=estimated_bytes(known, first, known.high_watermark)
        )
    return replace(listing, ends=ends)


def offsets_since(
    kafka: KafkaSettings, partitions: Collection[TopicPartition], since_ms: int
) -> Mapping[TopicPartition, int]:
    """Returns the offset of each partition's first record of that time or later, -1 without one, of leaders that respond.

    Raises LogReadError.
    """
    found: Mapping[TopicPartition, int] = _asked(kafka, _offsets_since, partitions, since_ms) if partitions else {}
    return found


async def _offsets_since(
    client: ClusterClient, partitions: Collection[TopicPartition], since_ms: int
) -> Mapping[TopicPartition, int]:
    topology = await client.topology(tuple(sorted({topic for topic, _ in partitions})))
    found, _ = await offsets_at(client, {each: topology.leader_of(*each)[0] for each in partitions}, since_ms)
    return found


def estimated_bytes(extent: LogExtent, first: int, end: int) -> int | None:
    """Returns the size of these offsets if all records are of one size; None if that of the log is not known."""
    of_log = max(extent.high_watermark - extent.log_start, 1)
    return None if extent.size_bytes is None else round(extent.size_bytes * min((end - first) / of_log, 1.0))


def ranges_of(
    partition: TopicPartition,
    ends: LogExtent,
    first: int,
    *,
    end: int | None = None,
    leader_epoch: int = -1,
    range_bytes: int = RANGE_BYTES,
) -> list[LogRange]:
    """Ranges from `first` to `end`, by default the high watermark, of about `range_bytes` each; none if nothing is new."""
    offsets = (ends.high_watermark if end is None else end) - first
    if offsets <= 0:
        return []
    size = estimated_bytes(ends, first, first + offsets)
    count = ceil(offsets / RANGE_OFFSETS) if size is None else ceil(size / range_bytes)
    count = max(min(count, offsets), 1)
    cuts = [first + offsets * number // count for number in range(count + 1)]
    return [
        LogRange(
            topic=partition[0],
            topic_id=ends.topic_id,
            partition=partition[1],
            first=cut,
            end=cuts[number + 1],
            leader_epoch=leader_epoch if number == 0 else -1,
        )
        for number, cut in enumerate(cuts[:-1])
    ]


@dataclass(slots=True)
class RangeResult:
    """Result of reading a range."""

    log: RangeOfLog
    failure: str | None = None
    """Reason why it was not read to its end."""
    diverges_at: int | None = None
    """Offset at which the log was cut off since it was read before: an unclean election."""


def read_ranges(
    kafka: KafkaSettings,
    ranges: Iterable[LogRange],
    *,
    bytes_per_second: float = float("inf"),
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[LogTransaction | RangeResult]:
    """Yields the transactions of each range, and then what was read of it. Raises LogReadError without a client."""
    began, size, unresponsive = clock(), 0, set[int]()

    def keep_pace(log: RangeOfLog) -> None:
        ahead_s = (size + log.size_bytes) / bytes_per_second - (clock() - began)
        if ahead_s > 0:
            time.sleep(ahead_s)

    with connected(kafka) as run:
        for wanted in ranges:
            log = RangeOfLog(
                wanted.topic, wanted.topic_id, wanted.partition, wanted.first, wanted.end, replica=wanted.replica
            )
            result = RangeResult(log)
            yield from _read_range(run, _Place(wanted, unresponsive), result, keep_pace)
            size += log.size_bytes
            yield from log.rest()
            yield result


def _read_range(
    run: Callable[..., Any], place: _Place, result: RangeResult, keep_pace: Callable[[RangeOfLog], None]
) -> Iterator[LogTransaction]:
    """Yields the transactions that the range ends; a failure is in the result."""
    log = result.log
    while not log.is_read:
        try:
            answer: Fetched | None = run(place.fetch, log.next_offset)
            if answer is None:
                log.skip_to(place.skips_to)
                continue
            if answer.diverges_at is not None:
                result.diverges_at = answer.diverges_at
                result.failure = f"its log was cut off at offset {answer.diverges_at}"
                return
            for batch in batches_from(answer.records, log.next_offset):
                yield from log.take(batch, answer.records)
        except (BrokerFault, ClusterUnavailableError, MalformedResponseError) as error:
            result.failure = str(error)
            return
        keep_pace(log)


@dataclass(slots=True)
class _Place:
    """Place of a range: its leader, which may move, or one replica."""

    wanted: LogRange
    unresponsive: set[int]
    """Brokers that have responded to no attempt for another range: they get one for each of the next ones."""
    broker: int | None = None
    skips_to: int = 0

    async def fetch(self, client: ClusterClient, offset: int) -> Fetched | None:
        """The piece at `offset`; None if the log begins later, at `skips_to`. Raises BrokerFault."""
        partition = (self.wanted.topic, self.wanted.partition)
        why = BrokerFault(FaultReason.TIMED_OUT, "it has no leader")
        for attempt in range(ATTEMPTS):
            if attempt:
                await client.pause(PAUSE_S)
                client.silent.clear()
                self.broker = None
            try:
                broker = await self._broker(client)
                answer = await self._response(client, broker, offset)
                self.unresponsive.discard(broker)
                if answer.error == ErrorCode.OFFSET_OUT_OF_RANGE:
                    starts, _ = await offsets_at(client, {partition: broker}, LOG_START)
                    start = starts.get(partition, -1)
                    if start > offset:
                        self.skips_to = start
                        return None
                if answer.error == ErrorCode.NONE and (answer.records or answer.diverges_at is not None):
                    return answer
                said = "no record" if answer.error == ErrorCode.NONE else error_name(answer.error)
                why = BrokerFault(FaultReason.TIMED_OUT, f"broker {broker} responded with {said} at offset {offset}")
            except BrokerFault as fault:
                if fault.is_lasting or self.broker in self.unresponsive:
                    raise
                why = fault
        if self.broker is not None:
            self.unresponsive.add(self.broker)
        raise why

    async def _response(self, client: ClusterClient, broker: int, offset: int) -> Fetched:
        """Waits for the response as long as a quota demands. Raises BrokerFault, REFUSED without the right."""
        topic, number = self.wanted.topic, self.wanted.partition
        position = Position(offset, self.wanted.leader_epoch if offset == self.wanted.first else -1)
        request = fetch.request(topic, {number: position}, bytes_max=PIECE_BYTES)

        def read(body: Any) -> Fetched | None:
            if is_throttled(body):
                return None
            found = fetched_of_topic(body, topic, [number])
            if number not in found:
                raise MalformedResponseError(f"it does not have {topic}-{number}, which was requested")
            return found[number]

        while (answer := await client.request(broker, "Fetch", request, read)) is None:
            await client.pause(PAUSE_S)
        if answer.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise BrokerFault(FaultReason.REFUSED, refusal_of(broker, topic, answer.error))
        return answer

    async def _broker(self, client: ClusterClient) -> int:
        """The replica, or the leader. Raises BrokerFault if there is none, or if the topic was made again."""
        if self.broker is None:
            topology = await client.topology((self.wanted.topic,))
            topic_id = topology.topic_id_of(self.wanted.topic)
            if not topic_id:  # or the broker has just started
                raise BrokerFault(FaultReason.TIMED_OUT, "its topic was deleted")
            if topic_id != self.wanted.topic_id:
                raise BrokerFault(FaultReason.REFUSED, "its topic was made again")
            leader = topology.leader_of(self.wanted.topic, self.wanted.partition)[0]
            self.broker = leader if self.wanted.replica is None else self.wanted.replica
        return self.broker
