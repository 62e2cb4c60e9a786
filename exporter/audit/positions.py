"""Keeps how far the logs of partitions are read: what a run has to read, what it has read, and the state after it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from exporter.audit.decision_rows import LogFacts, VerdictCounts
from exporter.audit.reading import RANGE_OFFSETS, LogExtent, LogListing, LogRange, estimated_bytes, ranges_of
from exporter.audit.tables import AuditState, PartitionPosition
from exporter.audit.verdicts import AuditVerdict, NotRead, PartitionRead
from exporter.evaluation.humanize import humanize_bytes, humanize_count, humanize_duration
from exporter.snapshot import TopicPartition

GAPS_MAX: Final = 8
"""Stretches with missing records that are kept of a partition; the nearest ones are joined."""


def new_ranges(listing: LogListing, state: AuditState) -> list[LogRange]:
    ranges: list[LogRange] = []
    for partition, ends in sorted(listing.ends.items()):
        known = state.position_of(partition, ends.topic_id)
        if known is None:
            ranges += ranges_of(partition, ends, ends.log_start)
        else:
            ranges += ranges_of(partition, ends, known.next_offset, leader_epoch=known.leader_epoch)
    return ranges


def unknown_partitions(listing: LogListing, state: AuditState) -> frozenset[TopicPartition]:
    """The partitions of which no run has read anything."""
    return frozenset(
        partition for partition, ends in listing.ends.items() if state.position_of(partition, ends.topic_id) is None
    )


def copies_of(listing: LogListing, ranges: Sequence[LogRange]) -> list[LogRange]:
    """Returns the same ranges of all in-sync followers."""
    return [
        replace(each, replica=replica, leader_epoch=-1)
        for each in ranges
        for replica in listing.ends[each.topic, each.partition].followers
    ]


def plan_of(
    listing: LogListing, ranges: Sequence[LogRange], copies: Sequence[LogRange], bytes_per_second: float
) -> str:
    """Returns a sentence about what will be read, and for how long at least."""
    partitions = {(each.topic, each.partition) for each in ranges}
    offsets = sum(each.end - each.first for each in ranges)
    sizes = [
        estimated_bytes(listing.ends[each.topic, each.partition], each.first, each.end) for each in (*ranges, *copies)
    ]
    size = sum(each for each in sizes if each is not None)
    seconds = size / (bytes_per_second * listing.leaders)
    return (
        f"audit: new records on {len(partitions):,} of {humanize_count(len(listing.ends), 'partition')}: reads "
        f"{humanize_count(offsets, 'offset')}, in {humanize_count(len(ranges), 'range')}"
        + (f", and {humanize_count(len(copies), 'range')} of replicas" if copies else "")
        + (f": about {humanize_bytes(size)}" if size else "")
        + (", and logs of unknown size" if None in sizes else "")
        + (f"; --max-rate makes that {humanize_duration(round(seconds * 1000))} at least" if seconds >= 1 else "")
    )


def why_another_log(listing: LogListing, state: AuditState, offsets: Mapping[int, int]) -> str | None:
    """Returns why `transaction_log` is of another log than the one that is there now; None if it seems to be the same."""
    if state.log_topic_id and listing.log_topic_id and state.log_topic_id != listing.log_topic_id:
        return "the run before has seen another topic id of it"
    beyond = [number for number, newest in offsets.items() if newest >= listing.log_ends.get(number, newest + 1)]
    if beyond:
        number = min(beyond)
        return f"its partition {number} ends at offset {listing.log_ends[number]}, and the table has {offsets[number]}"
    return None


def rate_of_task(bytes_per_second: float, leaders: int, at_once: int) -> float:
    """Returns the bytes a second of each of so many tasks that a broker sends no more on average, if leaders are even.

    One task never gets more from a broker.
    """
    return bytes_per_second * min(leaders / at_once, 1.0)


def shares_of(ranges: Sequence[LogRange], tasks: int) -> list[list[LogRange]]:
    """Shares the ranges among at most so many tasks, or one for each `RANGE_OFFSETS`, with about as many offsets each."""
    offsets = sum(each.end - each.first for each in ranges)
    limit = min(offsets / tasks, RANGE_OFFSETS)
    shares: list[list[LogRange]] = []
    size = limit
    for each in ranges:
        if size >= limit:
            shares.append([])
            size = 0
        shares[-1].append(each)
        size += each.end - each.first
    return shares


@dataclass(slots=True)
class PartitionRange:
    """Range of a partition's log that a run has read."""

    first: int
    next_offset: int
    leader_epoch: int
    read_bytes: int
    batches: int
    gaps: list[tuple[int, int]]
    failure: str | None
    diverges_at: int | None


def ranges_read(
    rows: Iterable[Any],
) -> tuple[dict[TopicPartition, PartitionRange], dict[tuple[str, int, int], PartitionRange]]:
    """Returns what was read of leaders, and of replicas by topic, partition and broker."""
    by_copy: dict[tuple[str, int, int | None], list[Any]] = defaultdict(list)
    for row in rows:
        by_copy[row.topic, row.partition, row.replica].append(row)
    leaders: dict[TopicPartition, PartitionRange] = {}
    copies: dict[tuple[str, int, int], PartitionRange] = {}
    for (topic, number, replica), own in by_copy.items():
        own.sort(key=lambda row: row.range_first)
        found = PartitionRange(
            first=own[0].range_first,
            next_offset=max(row.read_to for row in own),
            leader_epoch=next((row.leader_epoch for row in reversed(own) if row.leader_epoch >= 0), -1),
            read_bytes=sum(row.read_bytes for row in own),
            batches=sum(row.batches for row in own),
            gaps=[(row.first_gap, row.last_gap) for row in own if row.first_gap is not None],
            failure=next((row.failure for row in own if row.failure is not None), None),
            diverges_at=next((row.diverges_at for row in own if row.diverges_at is not None), None),
        )
        if replica is None:
            leaders[topic, number] = found
        else:
            copies[topic, number, replica] = found
    return leaders, copies


def partition_reads(
    listing: LogListing, state: AuditState, read: Mapping[TopicPartition, PartitionRange]
) -> dict[TopicPartition, PartitionRead | NotRead]:
    """Every partition that exists, with what was read of it or why it was not read."""
    found: dict[TopicPartition, PartitionRead | NotRead] = {
        **dict.fromkeys(listing.failures, NotRead.FAILED),
        **dict.fromkeys(listing.excluded, NotRead.LEFT_OUT),
    }
    for partition, ends in listing.ends.items():
        known, now = state.position_of(partition, ends.topic_id), read.get(partition)
        if now is not None and now.failure is not None:
            found[partition] = NotRead.FAILED
            continue
        found[partition] = PartitionRead(
            topic_id=ends.topic_id,
            judged={} if known is None else state.judged(known),
            read_from_ms=None if known is None else known.read_from_ms,
            read_from=0 if known is None else known.read_from,
            gaps=_joined_gaps([*(() if known is None else known.gaps), *(() if now is None else now.gaps)]),
        )
    return found


def judged_before(
    state: AuditState, partitions: Mapping[TopicPartition, PartitionRead | NotRead]
) -> dict[TopicPartition, Mapping[int, int]]:
    """Partitions that this run could not read, with the decisions that were compared with each (`AuditState.judged`).

    One that was never read is left out: it is read from now on.
    """
    return {
        partition: state.judged(position)
        for partition, known in partitions.items()
        if known is NotRead.FAILED and (position := state.positions.get(partition)) is not None
    }


def _joined_gaps(gaps: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Returns at most `GAPS_MAX` stretches, with all of these in them."""
    joined = sorted(gaps)
    while len(joined) > GAPS_MAX:
        nearest = min(range(len(joined) - 1), key=lambda number: joined[number + 1][0] - joined[number][1])
        first, second = joined[nearest : nearest + 2]
        joined[nearest : nearest + 2] = [(first[0], max(first[1], second[1]))]
    return tuple(joined)


def state_after(
    state: AuditState,
    listing: LogListing,
    read: Mapping[TopicPartition, PartitionRange],
    partitions: Mapping[TopicPartition, PartitionRead | NotRead],
    facts: LogFacts,
    counts: VerdictCounts,
    records_from_ms: int,
) -> AuditState:
    run = state.run + 1
    # What is not there any more, or hidden, is a new partition when it comes back: what waited for it is dropped.
    positions = {partition: known for partition, known in state.positions.items() if partition in partitions}
    coverage: list[dict[str, Any]] = []
    for partition, known in partitions.items():
        ends, now, before = listing.ends.get(partition), read.get(partition), positions.get(partition)
        if partition in listing.failures or now is not None or partition in counts.on_partitions:
            row = _coverage_row(partition, ends, now, listing.failures.get(partition))
            verdicts = {
                verdict.value: counts.on_partitions.get(partition, {}).get(verdict.value, 0) for verdict in AuditVerdict
            }
            coverage.append({"audited_at": listing.at_ms, **row, **verdicts})
        if isinstance(known, PartitionRead) and ends is not None:
            same = state.position_of(partition, ends.topic_id)
            positions[partition] = _position_after(known, ends, now, same, at_ms=listing.at_ms, run=run)
        elif now is not None and now.diverges_at is not None and before is not None:
            # What an unclean election has cut off is read again from there, and nothing follows from its absence.
            positions[partition] = replace(
                before, next_offset=now.diverges_at, leader_epoch=-1, read_from_ms=None, read_from=0
            )
    named = {position.judged_in for position in positions.values()}
    return AuditState(
        run=run,
        positions=positions,
        settled={**{number: each for number, each in state.settled.items() if number in named}, run: facts.settled},
        log_offsets=facts.offsets,
        log_complete_from_ms=facts.complete_from_ms,
        log_topic_id=listing.log_topic_id or state.log_topic_id,
        records_from_ms=records_from_ms,
        coverage=tuple(coverage),
    )


def _position_after(
    known: PartitionRead,
    ends: LogExtent,
    now: PartitionRange | None,
    before: PartitionPosition | None,
    *,
    at_ms: int,
    run: int,
) -> PartitionPosition:
    if now is not None:
        next_offset, leader_epoch = now.next_offset, now.leader_epoch
    elif before is not None:
        next_offset, leader_epoch = before.next_offset, before.leader_epoch
    else:
        next_offset, leader_epoch = ends.log_start, -1
    is_first = known.read_from_ms is None
    return PartitionPosition(
        topic_id=known.topic_id,
        next_offset=next_offset,
        leader_epoch=leader_epoch,
        read_from_ms=at_ms if is_first else known.read_from_ms,
        read_from=next_offset if is_first else known.read_from,
        gaps=known.gaps,
        judged_in=run,
    )


def _coverage_row(
    partition: TopicPartition, ends: LogExtent | None, now: PartitionRange | None, failure: str | None
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "topic": partition[0],
        "topic_id": None if ends is None else ends.topic_id,
        "partition": partition[1],
        "read_bytes": 0,
        "batches": 0,
        "failure": failure,
    }
    if now is None:
        return row
    return {
        **row,
        "from_offset": now.first,
        "to_offset": now.next_offset,
        "read_bytes": now.read_bytes,
        "batches": now.batches,
        "first_missing": min((gap[0] for gap in now.gaps), default=None),
        "last_missing": max((gap[1] for gap in now.gaps), default=None),
        "failure": failure or now.failure,
    }
