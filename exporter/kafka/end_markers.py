"""How a producer's transactions ended on other partitions: its COMMIT and ABORT markers there (KIP-98).

A producer that hangs on one partition has often written to others in the same transaction, and there its marker came. The
places are found as an operator would: every partition that remembers the producer id, from the time of the suspect's last
write on, and at the time at which that partition last heard of the producer, which is its marker's when one came last.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from kafka.errors import KafkaError
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.record.memory_records import MemoryRecords

from exporter.kafka.errors import BrokerFault, ErrorCode, FaultReason, MalformedAnswerError, error_name
from exporter.kafka.inquiry import Inquiry
from exporter.kafka.leaders import Entries, scan_leaders
from exporter.kafka.offsets import offset_at_time
from exporter.kafka.replicas import OpenAtLeader
from exporter.kafka.topology import Topology
from exporter.snapshot import EndMarker, EndMarkers

PARTITIONS_MAX = 50
"""Partitions whose logs are read for one answer: suspects are few, and the outcome is the same on each."""
FETCH_BYTES = 1_048_576
FETCHES_MAX = 4
"""For each place: a marker is rarely further from where it is looked for."""
_FETCH_VERSION_MAX = 12
"""Later versions name topics by id."""
_MAGIC_WITH_PRODUCERS = 2


@dataclass(frozen=True, slots=True)
class _Place:
    """Where markers of one producer are looked for."""

    topic: str
    partition: int
    leader: int
    producer_id: int
    times_ms: tuple[int, ...]


async def end_markers(inquiry: Inquiry, topology: Topology, suspects: Collection[OpenAtLeader]) -> EndMarkers:
    """The end markers of the suspects' producers on partitions where they have nothing open."""
    producer_ids = frozenset(it.producer_id for it in suspects)
    scan = await scan_leaders(inquiry, topology, producer_ids=producer_ids)
    places = list(_places(scan.topology, scan.entries(), suspects))
    looked_at = places[:PARTITIONS_MAX]
    answers = await inquiry.gather(_look(inquiry, place) for place in looked_at)
    markers = {marker for found, _ in answers for marker in found}
    failures = [
        (place.producer_id, f"{place.topic}-{place.partition} could not be searched for its end: {failure}")
        for place, (_, failure) in zip(looked_at, answers, strict=True)
        if failure is not None
    ]
    failures += [
        (place.producer_id, f"{place.topic}-{place.partition} was not searched for its end: too many partitions")
        for place in places[PARTITIONS_MAX:]
    ]
    ordered = sorted(markers, key=lambda it: (it.producer_id, it.timestamp_ms, it.topic, it.partition, it.offset))
    return EndMarkers(markers=tuple(ordered), failures=tuple(failures))


def _places(topology: Topology, entries: Entries, suspects: Collection[OpenAtLeader]) -> Iterator[_Place]:
    last_write_ms: dict[int, int] = {}
    for it in suspects:
        last_write_ms[it.producer_id] = min(
            it.last_timestamp_ms, last_write_ms.get(it.producer_id, it.last_timestamp_ms)
        )
    for i in np.flatnonzero(entries.start_offset < 0):
        row, producer_id = int(entries.row[i]), int(entries.producer_id[i])
        last_heard_ms = int(entries.last_timestamp_ms[i])
        yield _Place(
            topic=topology.topics[topology.topic[row]],
            partition=int(topology.partition[row]),
            leader=int(topology.leader[row]),
            producer_id=producer_id,
            times_ms=tuple(sorted({min(last_write_ms[producer_id], last_heard_ms), last_heard_ms})),
        )


async def _look(inquiry: Inquiry, place: _Place) -> tuple[tuple[EndMarker, ...], str | None]:
    """The markers that are found, and why not all places could be read."""
    found: list[EndMarker] = []
    read_to = -1
    try:
        for time_ms in place.times_ms:
            offset = await offset_at_time(inquiry, place.leader, (place.topic, place.partition), time_ms)
            for _ in range(FETCHES_MAX if offset is not None else 0):
                offset = max(offset or 0, read_to)
                read = await _fetch(inquiry, place, offset)
                found += read.markers
                if read.next_offset == offset:
                    break
                offset = read_to = read.next_offset
    except BrokerFault as fault:
        return tuple(found), str(fault)
    return tuple(found), None


@dataclass(frozen=True, slots=True)
class _Read:
    markers: tuple[EndMarker, ...]
    next_offset: int
    """Where the next fetch begins; the same again at the end of the log."""


async def _fetch(inquiry: Inquiry, place: _Place, offset: int) -> _Read:
    read = await inquiry.ask(
        place.leader, "Fetch", _request(place, offset), lambda answer: _read(answer, place, offset)
    )
    if isinstance(read, str):
        raise BrokerFault(FaultReason.REFUSED, f"broker {place.leader} answers {read}")
    return read


def _request(place: _Place, offset: int) -> Any:
    topic_type = FetchRequest.FetchTopic
    partition = topic_type.FetchPartition(
        partition=place.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
    )
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=FETCH_BYTES,
        topics=[topic_type(topic=place.topic, partitions=[partition])],
        forgotten_topics_data=[],
        min_version=4,
        max_version=_FETCH_VERSION_MAX,
    )


def _read(answer: Any, place: _Place, offset: int) -> _Read | str:
    """What is in the answer, or Kafka's name of the error."""
    partitions = [partition for topic in answer.responses for partition in topic.partitions]
    if len(partitions) != 1:
        raise MalformedAnswerError(f"it tells of {len(partitions)} partitions, asked for one")
    (told,) = partitions
    if told.error_code != ErrorCode.NONE:
        return error_name(told.error_code)
    try:
        return _read_records(bytes(told.records or b""), place, offset)
    except (KafkaError, struct.error, ValueError, IndexError) as error:
        raise MalformedAnswerError(f"its records cannot be read: {error}") from error


def _read_records(records: bytes, place: _Place, offset: int) -> _Read:
    markers, next_offset = [], offset
    for batch in _batches(records):
        next_offset = max(next_offset, batch.last_offset + 1)
        if batch.producer_id != place.producer_id or not batch.is_control_batch:
            continue
        if batch.compression_type:  # brokers never do that, and nothing is unpacked that a peer can blow up
            raise MalformedAnswerError("an end marker is compressed")
        markers += [
            EndMarker(
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                topic=place.topic,
                partition=place.partition,
                offset=record.offset,
                timestamp_ms=record.timestamp,
                commit=record.commit,
            )
            for record in batch
            if record.commit or record.abort
        ]
    return _Read(tuple(markers), next_offset)


def _batches(records: bytes) -> Iterable[Any]:
    """Batches that can have a producer; the last one of an answer may be cut short, and is left out then."""
    log = MemoryRecords(records)
    while log.has_next():
        batch = log.next_batch()
        if batch.magic >= _MAGIC_WITH_PRODUCERS:
            yield batch
