"""Searches for the COMMIT and ABORT markers of a producer on every partition that remembers it (KIP-98).

A producer that hangs on one partition has often written to others in the same transaction, and there its marker was
written. It may also be on the partition itself, before a late record opened the transaction again. Each of these logs is
read near the times at which a marker is likely, and if that shows no commit, from its start to its end: clocks of clients
may be wrong, so no part is skipped because of its time. What is not read, and what no log has any more, is reported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.broker_configs import producers_kept_ms
from exporter.kafka.collect.log_reader import LogBudget, LogReader
from exporter.kafka.collect.replicas import OpenAtLeader
from exporter.kafka.collect.scan import Entries, LeaderScan, scan_leaders
from exporter.kafka.errors import BrokerFault, ClusterUnavailableError
from exporter.kafka.leadership.confirm import Claim, unconfirmed
from exporter.kafka.messages.fetch import MEGABYTE
from exporter.kafka.messages.log_batches import Stretch
from exporter.kafka.offsets import LOG_START, offset_at_time
from exporter.kafka.topology import Topology
from exporter.kafka.visibility.topics import what_hides_topics
from exporter.snapshot import EndMarker, EndMarkers, was_read

FETCHES_NEAR_MAX = 4
"""Near each likely time: a marker is rarely further away."""
PLACE_BYTES_MAX = 64 * MEGABYTE
"""Limit for one partition's log, from its start."""
BYTES_MAX = 256 * MEGABYTE
"""Limit for all logs in one search, which also ends when half of the remaining time of the cycle is over."""
SCANS_MAX = 3
"""The first one of every topic, the others of topics that became visible during the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerPlace:
    """A partition that remembers a producer whose markers are searched for."""

    topic: str
    partition: int
    leader: int
    producer_id: int
    epochs: frozenset[int]
    """Epochs of the transactions whose end is searched for."""
    newest: tuple[int, int]
    """(epoch, timestamp in ms) of the producer's newest batch here."""
    times_ms: tuple[int, ...]
    """Times at which a marker is likely."""

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    def stretch(self) -> Stretch:
        return Stretch(self.topic, self.partition, self.producer_id, self.newest)

    def is_settled_by(self, marker: EndMarker) -> bool:
        """True if the marker is the commit of every transaction of the search, whatever else is in the log.

        A commit at the same epoch as the records may belong to the previous epoch; the records that it ended must be seen.
        """
        return marker.commit and all(
            marker.may_end(epoch) and (marker.ended_epoch is not None or marker.producer_epoch > epoch)
            for epoch in self.epochs
        )


@dataclass(slots=True)
class _Search:
    """The state of one search over all places."""

    client: ClusterClient
    deadline: float
    budget: LogBudget = field(default_factory=lambda: LogBudget(BYTES_MAX))
    committed: set[int] = field(default_factory=set)
    """Producer ids whose commit is found: they need no further search."""
    markers: list[EndMarker] = field(default_factory=list)
    unread: list[tuple[int, str]] = field(default_factory=list)
    lost: list[tuple[int, str]] = field(default_factory=list)

    def reader(self, place: MarkerPlace, offset: int, stretch: Stretch) -> LogReader:
        return LogReader(self.client, place.leader, (place.topic, place.partition), offset, stretch.take, self.budget)


async def end_markers(client: ClusterClient, topology: Topology, suspects: Collection[OpenAtLeader]) -> EndMarkers:
    """The end markers of the suspects' producers on every partition that remembers them.

    `topology` is searched first, then topics that became visible meanwhile: somebody may be creating topics all the time.
    """
    producer_ids = frozenset(suspect.entry.producer_id for suspect in suspects)
    search = _Search(client, deadline=client.clock() + client.remaining_s() / 2)
    scans: list[LeaderScan] = []
    now, wanted = topology, None
    while True:
        scan = await scan_leaders(client, now, wanted=wanted, producer_ids=producer_ids)
        await _look_at_places(search, scan, suspects)
        scans.append(scan)
        # A command is a fresh process: a topic that it has never seen may have the COMMIT marker, so it always asks.
        hidden = await what_hides_topics(client, sorted(scan.topology.brokers))
        now, late, unknown = await _became_visible(client, scans)
        if not late or len(scans) == SCANS_MAX:
            break
        wanted = np.isin(now.topic, [now.topics.index(topic) for topic in late])
    unread = [*map(_unread_partitions, scans), hidden, unknown]
    if late:
        unread.append(f"topic {late[0]}{_and_more(len(late))} became visible during the search, and was not searched")
    if producer_ids - search.committed:
        unread += [await _unconfirmed_leaders(client, scan) for scan in scans]
    search.unread += [(producer_id, why) for producer_id in sorted(producer_ids) for why in unread if why]
    return EndMarkers(
        markers=tuple(
            sorted(search.markers, key=attrgetter("producer_id", "timestamp_ms", "topic", "partition", "offset"))
        ),
        unread=tuple(search.unread),
        lost=tuple(search.lost),
        producers_kept_ms=await producers_kept_ms(client, sorted(scans[0].topology.brokers)),
    )


async def _look_at_places(search: _Search, scan: LeaderScan, suspects: Collection[OpenAtLeader]) -> None:
    by_leader: dict[int, list[MarkerPlace]] = defaultdict(list)
    for place in _places(scan.topology, scan.entries(), suspects):
        by_leader[place.leader].append(place)
    await search.client.gather(_look_at_all(search, places) for places in by_leader.values())


def _and_more(count: int) -> str:
    """Returns what follows the name of the first of `count`."""
    return f" and {count - 1} more" if count > 1 else ""


def _unread_partitions(scan: LeaderScan) -> str:
    """Reasons why some partition may remember the producers unseen; empty if every partition responded."""
    rows = np.flatnonzero(~was_read(scan.answer) & scan.is_subject())
    if not len(rows):
        return ""
    first = int(rows[0])
    topic, partition = scan.topology.name(first)
    return (
        f"{topic}-{partition}{_and_more(len(rows))} could not be read ({scan.reason[first]}), so their logs were not "
        "searched for the transaction's marker"
    )


async def _became_visible(client: ClusterClient, scans: Sequence[LeaderScan]) -> tuple[Topology, tuple[str, ...], str]:
    """Returns the topology now that no topic is hidden, its topics that no scan has read, and why it is unknown or ""."""
    try:
        now = await client.topology()
    except ClusterUnavailableError as error:
        return scans[-1].topology, (), f"whether topics became visible during the search is unknown: {error}"
    return now, tuple(topic for topic in now.topics if all(topic not in scan.topology.first_row for scan in scans)), ""


async def _unconfirmed_leaders(client: ClusterClient, scan: LeaderScan) -> str:
    """Reasons why some partition was not read at its leader; empty if all were.

    The logs of a broker that is cut off may be read to their ends while the commit is at the new leaders.
    """
    topology = scan.topology
    rows = np.flatnonzero(was_read(scan.answer)).tolist()
    against = await unconfirmed(client, [Claim.of(topology, *topology.name(row)) for row in rows])
    if not against:
        return ""
    (topic, partition), why = next(iter(against.items()))
    return f"{topic}-{partition}{_and_more(len(against))} may have been searched at a former leader: {why}"


def _places(topology: Topology, entries: Entries, suspects: Collection[OpenAtLeader]) -> Iterator[MarkerPlace]:
    last_write_ms: dict[int, int] = {}
    epochs: dict[int, set[int]] = defaultdict(set)
    for _, entry in suspects:
        epochs[entry.producer_id].add(entry.producer_epoch)
        last_write_ms[entry.producer_id] = min(
            entry.last_timestamp, last_write_ms.get(entry.producer_id, entry.last_timestamp)
        )
    for i in range(len(entries)):
        row, producer_id = int(entries.row[i]), int(entries.producer_id[i])
        last_heard_ms = int(entries.last_timestamp[i])
        topic, partition = topology.name(row)
        yield MarkerPlace(
            topic=topic,
            partition=partition,
            leader=int(topology.leader[row]),
            producer_id=producer_id,
            epochs=frozenset(epochs[producer_id]),
            newest=(int(entries.producer_epoch[i]), last_heard_ms),
            times_ms=tuple(sorted({min(last_write_ms[producer_id], last_heard_ms), last_heard_ms})),
        )


async def _look_at_all(search: _Search, places: list[MarkerPlace]) -> None:
    """Reads one place after the other: they are at one broker."""
    for place in places:
        if place.producer_id in search.committed:
            continue
        if spent := _spent(search):
            search.unread.append((place.producer_id, f"{place} was not searched: {spent}"))
            continue
        found: dict[int, EndMarker] = {}
        try:
            await _look_near(search, place, found)
            if not _is_settled(search, place, found):
                await _look_from_the_start(search, place, found)
                _is_settled(search, place, found)
        except BrokerFault as fault:
            search.unread.append(
                (place.producer_id, f"{place} could not be searched for the transaction's marker: {fault}")
            )
        search.markers += found.values()


def _is_settled(search: _Search, place: MarkerPlace, found: dict[int, EndMarker]) -> bool:
    is_settled = any(place.is_settled_by(marker) for marker in found.values())
    if is_settled:
        search.committed.add(place.producer_id)
    return is_settled


async def _look_near(search: _Search, place: MarkerPlace, found: dict[int, EndMarker]) -> None:
    """Reads a few megabytes from each likely time on. Raises BrokerFault."""
    stretch = place.stretch()
    reader: LogReader | None = None
    for time_ms in place.times_ms:
        if time_ms < 0:
            continue  # a record without a timestamp: to ListOffsets these are words, such as the end of the log
        offset = await offset_at_time(search.client, place.leader, (place.topic, place.partition), time_ms)
        if offset is None:
            continue
        if reader is None or offset > reader.next_offset:
            stretch = place.stretch()
            reader = search.reader(place, offset, stretch)
        for _ in range(FETCHES_NEAR_MAX):
            if _spent(search):
                return
            before = reader.next_offset
            await reader.read_piece()
            found.update(stretch.markers)
            if reader.next_offset == before:
                break


async def _look_from_the_start(search: _Search, place: MarkerPlace, found: dict[int, EndMarker]) -> None:
    """Reads the whole log, or until the commit is found; notes what is unread or lost. Raises BrokerFault."""
    start = await offset_at_time(search.client, place.leader, (place.topic, place.partition), LOG_START)
    stretch = place.stretch()
    reader = search.reader(place, start or 0, stretch)

    def is_settled() -> bool:
        found.update(stretch.markers)
        return any(place.is_settled_by(marker) for marker in stretch.markers.values())

    cut = await reader.read_to_end(lambda: _limit(search, reader), is_settled)
    if is_settled():
        return
    if cut:
        search.unread.append((place.producer_id, f"{place} was not searched to its end: {cut}"))
    else:
        search.lost += [(place.producer_id, f"{place} {loss}") for loss in _losses(place, stretch, start or 0)]


def _limit(search: _Search, reader: LogReader) -> str:
    """Returns why the search stops here; empty while it may continue."""
    if reader.size >= PLACE_BYTES_MAX:
        return f"only its first {PLACE_BYTES_MAX // MEGABYTE} MB were read"
    return _spent(search)


def _spent(search: _Search) -> str:
    """Returns why the whole search stops; empty while it may continue."""
    if search.budget.bytes_left <= 0:
        return f"{BYTES_MAX // MEGABYTE} MB of logs were read in total"
    if search.client.clock() >= search.deadline:
        return "the time limit was reached"
    return ""


def _losses(place: MarkerPlace, stretch: Stretch, start: int) -> list[str]:
    """Returns, in phrases, which of the place's markers may be missing from its log, which was read completely."""
    losses = []
    is_older_there = stretch.oldest_epoch is not None and stretch.oldest_epoch < min(place.epochs)
    if start > 0 and not is_older_there:
        losses.append(f"has no records before offset {start} any more")
    if stretch.has_gaps or stretch.has_empty_marker:
        losses.append("is compacted: records are gone from its log")
    if not stretch.has_newest:
        losses.append("remembers a write of the producer that is not in its log")
    return losses
