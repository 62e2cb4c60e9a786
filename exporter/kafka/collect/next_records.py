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
from exporter.snapshot import NO_LEADER, UNKNOWN_OFFSET, GroupOffset, PositionRead, TopicPartition

POSITIONS_MAX: Final = 20
"""Positions from which a cycle reads: new ones first, the nearest to the last stable offset, then those read longest ago,
since compaction may have removed the record that was found."""
POSITIONS_OF_A_COMMAND: Final = 200
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
    earlier: Iterable[PositionRead] = (),
    positions_max: int = POSITIONS_MAX,
    pieces_max: int = PIECES_MAX,
    is_all_stable: bool = False,
) -> tuple[Sequence[GroupOffset], tuple[PositionRead, ...]]:
    """Adds the offset of the next record to those that stand before a last stable offset, as far as it was read.

    By default where something is held back behind that; `is_all_stable`: where it is the end of the log.

    `earlier` are the positions that the cycle before knew: each log is read on from where that ended, and after a few
    cycles all positions are known. Most groups stand at the last stable offset: a cycle may have 50,000 of those, which are
    not copied.
    """
    left_at: dict[_Place, int] = {}
    for each in offsets:
        stable, high_watermark = ends.get((each.topic, each.partition), (UNKNOWN_OFFSET, UNKNOWN_OFFSET))
        if UNKNOWN_OFFSET < each.offset < stable and (stable == high_watermark) is is_all_stable:
            left_at[_place_of(each)] = stable - each.offset
    if not left_at:
        return offsets, ()
    known = {
        _place_of(each): each
        for each in earlier
        if _place_of(each) in left_at and each.topic_id == topology.topic_id_of(each.topic)
    }
    last_read = {place: number for number, place in enumerate(known)}
    unread = [place for place in left_at if place not in known or known[place].read_to < ends[place[0]][0]]
    chosen = nsmallest(positions_max, unread, key=lambda place: (last_read.get(place, -1), left_at[place], place))
    begins = [known.pop(place) if place in known else _not_read_yet(topology, place) for place in chosen]
    read = await client.gather(
        _read_on(client, topology, begin, ends[begin.topic, begin.partition][0], pieces_max) for begin in begins
    )
    known |= {_place_of(each): each for each in read}
    found = {place: _next_offset(each, ends[place[0]][0]) for place, each in known.items()}
    with_next = tuple(
        each if (next_offset := found.get(_place_of(each))) is None else replace(each, next_offset=next_offset)
        for each in offsets
    )
    return with_next, tuple(known.values())


def _place_of(position: GroupOffset | PositionRead) -> _Place:
    return (position.topic, position.partition), position.offset


def _not_read_yet(topology: Topology, place: _Place) -> PositionRead:
    (topic, partition), offset = place
    topic_id = topology.topic_id_of(topic)
    return PositionRead(
        topic=topic, topic_id=topic_id, partition=partition, offset=offset, read_to=offset, has_record=False
    )


def _next_offset(read: PositionRead, stable: int) -> int | None:
    if read.read_to >= stable:
        return stable
    return read.read_to if read.has_record else None


async def _read_on(
    client: ClusterClient, topology: Topology, begin: PositionRead, stable: int, pieces_max: int
) -> PositionRead:
    """Reads the log on from where `begin` ended, to `stable` at most."""
    partition, offset = (begin.topic, begin.partition), begin.read_to
    leader, _ = topology.leader_of(*partition)
    if leader == NO_LEADER:
        return replace(begin, has_record=False)

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
            break
        if found is not None:
            return replace(begin, read_to=found, has_record=found < stable)
        if reached == offset:
            break
        offset = reached
    return replace(begin, read_to=offset, has_record=False)


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
