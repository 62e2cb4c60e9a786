"""Finds the next record that a group can read, where offsets are left up to the last stable offset.

Those may be end markers and aborted records, which no reader of committed records gets: clients that commit the offset
after their last record (librdkafka and Flink do) stand before them. A Fetch of committed records has the list of aborted
transactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from heapq import nsmallest
from typing import Any, Final

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ErrorCode
from exporter.kafka.messages import fetch
from exporter.kafka.messages.fetch import AbortedTransaction, Position, fetched, fetched_aborted
from exporter.kafka.messages.log_batches import batches_from
from exporter.kafka.offsets import Ends
from exporter.kafka.topology import Topology
from exporter.snapshot import NO_LEADER, UNKNOWN_OFFSET, GroupOffset, TopicPartition

POSITIONS_MAX: Final = 20
"""Positions whose next record is looked for, the nearest to the last stable offset first."""
PIECES_MAX: Final = 4
"""Pieces of a log that a cycle reads from one position on, half a megabyte: most have a committed record in the first."""
PIECES_OF_A_COMMAND: Final = 80

_Place = tuple[TopicPartition, int]


async def with_next_offsets(
    client: ClusterClient,
    topology: Topology,
    offsets: Sequence[GroupOffset],
    ends: Ends,
    *,
    pieces_max: int = PIECES_MAX,
) -> Sequence[GroupOffset]:
    """Adds the offset of the next record to those that stand before a last stable offset, as far as it was read.

    Most groups stand at it: a cycle may have 50,000 positions, which are not copied.
    """
    left_at: dict[_Place, int] = {}
    for each in offsets:
        stable, high_watermark = ends.get((each.topic, each.partition), (UNKNOWN_OFFSET, UNKNOWN_OFFSET))
        if UNKNOWN_OFFSET < each.offset < stable < high_watermark:
            left_at[_place_of(each)] = stable - each.offset
    if not left_at:
        return offsets
    places = nsmallest(POSITIONS_MAX, left_at, key=lambda place: (left_at[place], place))
    read = await client.gather(_next_offset(client, topology, place, ends[place[0]][0], pieces_max) for place in places)
    found = {place: offset for place, offset in zip(places, read, strict=True) if offset is not None}
    return tuple(
        replace(each, next_offset=found[place]) if (place := _place_of(each)) in found else each for each in offsets
    )


def _place_of(offset: GroupOffset) -> _Place:
    return (offset.topic, offset.partition), offset.offset


async def _next_offset(
    client: ClusterClient, topology: Topology, place: _Place, stable: int, pieces_max: int
) -> int | None:
    """The offset of the next record that a reader of committed records gets; `stable` if none is before it."""
    partition, offset = place
    leader, _ = topology.leader_of(*partition)
    if leader == NO_LEADER:
        return None

    def read(answer: Any) -> tuple[int | None, int]:
        error, records, _ = fetched(answer)
        if error != ErrorCode.NONE:
            return None, offset
        return next_committed(records, fetched_aborted(answer), offset, stable)

    for _ in range(pieces_max):
        request = fetch.request(partition[0], {partition[1]: Position(offset)}, is_committed=True)
        try:
            found, reached = await client.request(leader, "Fetch", request, read)
        except BrokerFault:
            return None
        if found is not None or reached == offset:
            return found
        offset = reached
    return None


def next_committed(
    records: bytes, aborted: Iterable[AbortedTransaction], offset: int, stable: int
) -> tuple[int | None, int]:
    """Returns the offset of the next record that is committed, or without a transaction, and how far the piece was read.

    The former is `stable` if there is none before it, and None if the piece ends before. The rule is that of Kafka's own
    consumer (CompletedFetch). Raises MalformedResponseError.
    """
    last_first = sorted(aborted, key=lambda each: -each.first_offset)
    open_now: set[int] = set()
    for batch in batches_from(records, offset):
        while last_first and last_first[-1].first_offset < batch.next_offset:
            open_now.add(last_first.pop().producer_id)
        if batch.base_offset >= stable:
            return stable, stable
        if batch.is_control:
            open_now.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in open_now):
            return max(batch.base_offset, offset), offset
        offset = batch.next_offset
    return (stable if offset >= stable else None), offset
