"""Progress on each partition of `__transaction_state`: its position, what is missing of it, and why it is not read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from exporter.kafka.errors import MalformedResponseError
from exporter.kafka.messages.fetch import Position
from exporter.kafka.messages.log_batches import batches_from, records_in
from exporter.snapshot import STATE_TOPIC

COMPRESSED = f"its records are compressed, and are skipped: set compression.type of {STATE_TOPIC} to uncompressed"


class LogRecord(NamedTuple):
    partition: int
    offset: int
    written_at_ms: int
    key: bytes | None
    value: bytes | None


class LogProgress:
    """Holds the progress on each partition; every response changes it."""

    def __init__(self, positions: Mapping[int, int]) -> None:
        self.positions = dict(positions)
        """Offset to be read next, by partition."""
        self.failures: dict[int, str] = {}
        """Reason why a partition is not read, a sentence without its full stop."""
        self._epochs: dict[int, int] = {}
        """Leader epoch of the last batch before the position, by partition."""
        self._compressed: set[int] = set()
        """Partitions whose last batch was compressed."""
        self._gaps: list[int] = []

    def position(self, partition: int) -> Position:
        return Position(self.positions[partition], self._epochs.get(partition, -1))

    def records_in(self, partition: int, records: bytes) -> Iterator[LogRecord]:
        """Yields the records of a response from the position on, which goes on with them. Raises MalformedResponseError."""
        begin = self.positions[partition]
        for batch in batches_from(records, begin):
            if batch.is_compressed:
                # The records between them are missing, so nothing before may be believed: once, not for each batch.
                if partition not in self._compressed:
                    self._gaps.append(partition)
                self._compressed.add(partition)
                self.failures[partition] = COMPRESSED
            elif not batch.is_control:
                self._compressed.discard(partition)
                self.failures.pop(partition, None)
                for record in records_in(batch, records):
                    if record.offset >= begin:
                        self.positions[partition] = record.offset + 1
                        yield LogRecord(partition, *record)
            self.positions[partition] = batch.next_offset
            self._epochs[partition] = batch.leader_epoch
        if self.positions[partition] == begin:
            raise MalformedResponseError(f"the records of partition {partition} end before offset {begin}")

    def at_end(self, partition: int) -> None:
        """A response without records is no failure; compressed ones stay one until others follow."""
        if partition not in self._compressed:
            self.failures.pop(partition, None)

    def jump(self, partition: int, offset: int) -> None:
        """Continues there: the records before it are missing, or are others now."""
        self.positions[partition] = offset
        self._epochs.pop(partition, None)
        self._gaps.append(partition)

    def start_again(self) -> None:
        """Starts again: every offset of before belongs to another topic."""
        self._gaps += sorted(self.positions)
        self.positions.clear()
        self._epochs.clear()

    def take_gaps(self) -> tuple[int, ...]:
        """Returns the partitions of which records were found missing since the last call."""
        gaps, self._gaps = tuple(self._gaps), []
        return gaps
