"""Finds the next record that a group can read, where only a few offsets are left up to the last stable offset.

Those may be end markers and aborted records, which no reader of committed records gets: clients that commit the offset
after their last record (Flink does) stand before them. A Fetch of committed records has the list of aborted transactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ErrorCode
from exporter.kafka.messages import fetch
from exporter.kafka.messages.fetch import AbortedTransaction, Position, fetched, fetched_aborted
from exporter.kafka.messages.log_batches import batches_from
from exporter.kafka.topology import Topology
from exporter.snapshot import NO_LEADER, UNKNOWN_OFFSET, GroupOffset, TopicPartition

OFFSETS_MAX: Final = 1000
"""A group that is further away from the last stable offset has records to read."""
POSITIONS_MAX: Final = 20
"""Positions whose next record a cycle looks for, the nearest to the last stable offset first: a piece of a log each."""

Ends = Mapping[TopicPartition, tuple[int, int]]
"""(last stable offset, high watermark) of each partition."""
_Place = tuple[TopicPartition, int]


async def with_next_offsets(
    client: ClusterClient, topology: Topology, offsets: Iterable[GroupOffset], ends: Ends
) -> tuple[GroupOffset, ...]:
    """Adds the offset of the next record to those that stand shortly before a last stable offset, as far as it was read."""
    offsets = tuple(offsets)
    near = {place: left for each in offsets if 0 < (left := _left(place := _place_of(each), ends)) <= OFFSETS_MAX}
    places = sorted(near, key=lambda place: (near[place], place))[:POSITIONS_MAX]
    read = await client.gather(_next_offset(client, topology, place, ends[place[0]][0]) for place in places)
    found = dict(zip(places, read, strict=True))
    return tuple(replace(each, next_offset=found.get(_place_of(each))) for each in offsets)


def _place_of(offset: GroupOffset) -> _Place:
    return (offset.topic, offset.partition), offset.offset


def _left(place: _Place, ends: Ends) -> int:
    """The number of offsets from a position to the last stable offset, where records wait behind that; else -1."""
    stable, high_watermark = ends.get(place[0], (UNKNOWN_OFFSET, UNKNOWN_OFFSET))
    return stable - place[1] if UNKNOWN_OFFSET < stable < high_watermark and place[1] >= 0 else -1


async def _next_offset(client: ClusterClient, topology: Topology, place: _Place, stable: int) -> int | None:
    """The offset of the next record that a reader of committed records gets; `stable` if none is before it."""
    partition, offset = place
    leader, _ = topology.leader_of(*partition)
    if leader == NO_LEADER:
        return None

    def read(answer: Any) -> int | None:
        error, records, _ = fetched(answer)
        if error != ErrorCode.NONE:
            return None
        return next_committed(records, fetched_aborted(answer), offset, stable)

    request = fetch.request(partition[0], {partition[1]: Position(offset)}, is_committed=True)
    try:
        return await client.request(leader, "Fetch", request, read)
    except BrokerFault:
        return None


def next_committed(records: bytes, aborted: Iterable[AbortedTransaction], offset: int, stable: int) -> int | None:
    """The offset of the first record from `offset` on that is committed, or without a transaction; `stable` if none is.

    None if the piece ends before. The rule is that of Kafka's own consumer (CompletedFetch). Raises MalformedResponseError.
    """
    last_first = sorted(aborted, key=lambda each: -each.first_offset)
    open_now: set[int] = set()
    for batch in batches_from(records, offset):
        while last_first and last_first[-1].first_offset < batch.next_offset:
            open_now.add(last_first.pop().producer_id)
        if batch.base_offset >= stable:
            return stable
        if batch.is_control:
            open_now.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in open_now):
            return max(batch.base_offset, offset)
        offset = batch.next_offset
    return stable if offset >= stable else None
