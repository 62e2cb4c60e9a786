"""Models a replica's log and its producer states, by the rules of ProducerStateManager and ProducerAppendInfo."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from exporter.kafka.errors import ErrorCode

NOTHING_OPEN = -1
NO_EPOCH = -1


class Batch(NamedTuple):
    """One batch of one record: data, or a control marker."""

    offset: int
    producer_id: int
    epoch: int
    sequence: int
    timestamp_ms: int
    kind: str
    """`data`, `commit` or `abort`."""
    serial: int
    """Truth that no broker knows: the transaction that the record was sent in, or that the marker ends; 0 for none."""
    weight: int = 100
    """Bytes that it counts for when a Fetch is bounded."""
    coordinator_epoch: int = NO_EPOCH
    """Of a marker."""
    leader_epoch: int = NO_EPOCH
    """In which it was appended."""


class Entry(NamedTuple):
    """What a replica remembers of one producer."""

    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int = NO_EPOCH
    start_offset: int = NOTHING_OPEN


class Replica:
    """One broker's copy of one partition."""

    __slots__ = ("batches", "end", "entries", "followed_from", "high", "is_astray", "keeps_up", "start")

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        """Also those before `start`, which are deleted: the truth needs them, and no broker shows them."""
        self.entries: dict[int, Entry] = {}
        self.end = 0
        """The log end offset."""
        self.high: int | None = None
        """The high watermark of a leader that has just been elected, where it lags; None: the end."""
        self.start = 0
        """The log start offset: after DeleteRecords or retention not 0."""
        self.followed_from = 0
        """The first offset that it has seen: a replica that was made later knows no producer from before."""
        self.is_astray = False
        """A former leader has appended records that no other replica has."""
        self.keeps_up = True
        """False: a follower that has stopped fetching."""

    def copy_of(self, other: Replica) -> None:
        """Become what `other` is: a follower that has truncated and caught up. It may know fewer producers."""
        if self.end < other.start:
            self.rebuild_from(other)
            return
        self.batches = list(other.batches)
        self.entries = dict(other.entries) if not self.followed_from else dict(self._known_entries(other))
        self.end, self.start = other.end, other.start
        self.is_astray = False

    def _known_entries(self, other: Replica) -> Iterator[tuple[int, Entry]]:
        for producer_id, entry in other.entries.items():
            seen = [b for b in other.batches if b.producer_id == producer_id and b.offset >= self.followed_from]
            if not seen:
                continue
            opened = next((b.offset for b in seen if b.kind == "data" and b.offset >= entry.start_offset), NOTHING_OPEN)
            yield producer_id, entry if entry.start_offset < 0 else entry._replace(start_offset=opened)

    def rebuild_from(self, leader: Replica) -> None:
        """Begin as an empty log at the leader's log start, and follow from there on."""
        self.batches, self.entries, self.is_astray = [], {}, False
        self.start = self.followed_from = leader.start
        for batch in leader.batches:
            if batch.offset >= leader.start:
                apply(self, batch)
        self.end = leader.end

    def is_apart_from(self, leader: Replica) -> bool:
        """True where this follower has to truncate to the leader's log, or to catch up with it.

        What each has in another leader epoch at the same offset; a lost marker does not change an epoch.
        """
        if self.end != leader.end or self.is_astray:
            return True
        theirs = {batch.offset: batch.leader_epoch for batch in leader.batches}
        return any(theirs.get(batch.offset, batch.leader_epoch) != batch.leader_epoch for batch in self.batches)

    @property
    def stable(self) -> int:
        """The last stable offset."""
        starts = [entry.start_offset for entry in self.entries.values() if entry.start_offset >= 0]
        starts += self._starts_of_unreplicated()
        return max(min([*starts, self.high_watermark]), self.start)

    @property
    def high_watermark(self) -> int:
        """The end of what is known to be replicated."""
        return self.end if self.high is None else min(self.high, self.end)

    def _starts_of_unreplicated(self) -> Iterator[int]:
        """Where the transactions begin whose marker is not below the high watermark."""
        for marker in self.batches if self.high is not None else ():
            if marker.kind == "data" or marker.offset < self.high_watermark:
                continue
            own = [b for b in self.batches if b.producer_id == marker.producer_id and b.offset < marker.offset]
            earlier = [b.offset for b in own if b.kind != "data"]
            yield from (b.offset for b in own[:1] if not earlier)
            yield from (b.offset for b in own if earlier and b.offset > earlier[-1])

    def open_batches(self, producer_id: int) -> tuple[Batch, ...]:
        """The data of the producer since its open transaction's start."""
        entry = self.entries.get(producer_id)
        if entry is None or entry.start_offset < 0:
            return ()
        return tuple(
            batch
            for batch in self.batches
            if batch.producer_id == producer_id and batch.kind == "data" and batch.offset >= entry.start_offset
        )


def data_error(replica: Replica, producer_id: int, epoch: int) -> ErrorCode:
    """Whether the leader takes a batch of that producer epoch."""
    entry = replica.entries.get(producer_id)
    return ErrorCode.INVALID_PRODUCER_EPOCH if entry is not None and epoch < entry.epoch else ErrorCode.NONE


def next_data(replica: Replica, producer_id: int, epoch: int, timestamp_ms: int, serial: int) -> Batch:
    """The batch that such a producer would append."""
    entry = replica.entries.get(producer_id)
    sequence = entry.last_sequence + 1 if entry is not None and entry.epoch == epoch else 0
    return Batch(replica.end, producer_id, epoch, sequence, timestamp_ms, "data", serial)


def marker_error(replica: Replica, producer_id: int, epoch: int, coordinator_epoch: int, version: int) -> ErrorCode:
    """Whether the leader takes a marker (KIP-1228: of TransactionVersion 2 only above the open epoch)."""
    entry = replica.entries.get(producer_id)
    if entry is None:
        return ErrorCode.NONE
    is_strict = version >= 2 and entry.start_offset >= 0
    if epoch < entry.epoch or (is_strict and epoch == entry.epoch):
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if entry.coordinator_epoch > coordinator_epoch:
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED
    return ErrorCode.NONE


def apply(replica: Replica, batch: Batch) -> None:
    """Append `batch`, which was found right."""
    entry = replica.entries.get(batch.producer_id)
    if batch.producer_id < 0:
        pass  # of a client that is neither idempotent nor transactional
    elif batch.kind == "data":
        start = entry.start_offset if entry is not None and entry.start_offset >= 0 else batch.offset
        known = entry.coordinator_epoch if entry is not None else NO_EPOCH
        replica.entries[batch.producer_id] = Entry(batch.epoch, batch.sequence, batch.timestamp_ms, known, start)
    else:
        same = entry is not None and entry.epoch == batch.epoch
        sequence = entry.last_sequence if entry is not None and same else -1
        replica.entries[batch.producer_id] = Entry(batch.epoch, sequence, batch.timestamp_ms, batch.coordinator_epoch)
    replica.batches.append(batch)
    replica.end = batch.offset + 1


def lose_last_marker(replica: Replica, producer_id: int) -> bool:
    """Undo the producer's last marker, where nothing of it came afterwards: a restored disk, a lost race of compaction."""
    mine = [batch for batch in replica.batches if batch.producer_id == producer_id]
    if len(mine) < 2 or mine[-1].kind == "data" or mine[-2].kind != "data":
        return False
    kept = [batch for batch in replica.batches if batch is not mine[-1]]
    remembered = replica.entries.keys()
    replica.batches, replica.entries = [], {}
    end = replica.end
    for batch in kept:
        apply(replica, batch)
    replica.entries = {key: entry for key, entry in replica.entries.items() if key in remembered}
    replica.end = end
    return True
