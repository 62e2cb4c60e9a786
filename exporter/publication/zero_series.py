"""Caches the lines of metrics with one series per partition: rendered once, in blocks, and patched.

A block without an open transaction is the same object in every publication, and compressed once. Only blocks with an
open transaction or an unread partition are rendered again.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from exporter.publication.metrics.model import PartitionSeries
from exporter.publication.text import Labels, escape, number
from exporter.snapshot import Int64Column, Partitions

BLOCK_ROWS = 1024
"""About 90 kB of lines, which one open transaction has rendered and compressed again."""
_GZIP_LEVEL = 1
"""Series of one family differ in a few bytes: higher levels cost five times the time for a fifth of the size."""


class Chunk:
    """Bytes of a response; compressed at most once."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    @cached_property
    def deflated(self) -> bytes:
        """Compressed separately and flushed to a whole byte, so that chunks can be joined in any order."""
        compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        return compressor.compress(self.data) + compressor.flush(zlib.Z_SYNC_FLUSH)


# rows          cached block of a family     this publication            Chunk in the response
# 0 to 1023     1,024 lines with value 0 ──▶ nothing open            ──▶ the cached one: compressed once in its life
# 1024 to 2047  1,024 lines with value 0 ──▶ row 1100 has value 7    ──▶ a new one: one line changed, 1,023 copied
# 2048 to 3071  1,024 lines with value 0 ──▶ row 2050 was not read   ──▶ a new one without this line
#
# A block is changed only by the cycle that needs it: the next one begins with the cached block again. Another list of
# partitions, also in another order, drops all blocks.


class ZeroSeriesCache:
    """Keeps a line with value 0 for every partition of one cluster between publications.

    Rendering a hundred thousand of them takes longer than everything else together, and partitions seldom change.
    """

    def __init__(self, fixed: Labels = ()) -> None:
        """`fixed` are the first labels of all lines."""
        self.fixed = fixed
        self._partitions: Partitions | None = None
        self._blocks: dict[str, tuple[Chunk, ...]] = {}

    def patched(self, name: str, labels: Sequence[str], series: PartitionSeries) -> Iterator[Chunk]:
        """The lines of `series`: cached lines, except the few that are not 0 or missing."""
        edges = np.arange(0, len(series.partitions) + BLOCK_ROWS, BLOCK_ROWS)
        ends = np.searchsorted(series.rows, edges).tolist()
        busy = np.flatnonzero(series.values)
        busy_ends = np.searchsorted(busy, ends).tolist()
        for number_, block in enumerate(self._resting(name, labels, series.partitions)):
            begin, end = ends[number_ : number_ + 2]
            first_row = number_ * BLOCK_ROWS
            is_whole = end - begin == min(BLOCK_ROWS, len(series.partitions) - first_row)
            if is_whole and busy_ends[number_] == busy_ends[number_ + 1]:
                yield block
            elif begin < end:
                yield _patched(block, series.rows[begin:end] - first_row, series.values[begin:end], series.divisor)

    def _resting(self, name: str, labels: Sequence[str], partitions: Partitions) -> tuple[Chunk, ...]:
        if not self._knows(partitions):
            self._blocks = {}
        self._partitions = partitions
        if name not in self._blocks:
            self._blocks[name] = tuple(_blocks(name, self.fixed, labels, partitions))
        return self._blocks[name]

    def _knows(self, partitions: Partitions) -> bool:
        known = self._partitions
        return known is partitions or (
            known is not None
            and known.topics == partitions.topics
            and np.array_equal(known.topic, partitions.topic)
            and np.array_equal(known.partition, partitions.partition)
        )


def _blocks(name: str, fixed: Labels, labels: Sequence[str], partitions: Partitions) -> Iterator[Chunk]:
    topic_label, partition_label = labels
    first = "".join(f'{label}="{escape(value)}",' for label, value in fixed)
    heads = [f'{name}{{{first}{topic_label}="{escape(topic)}",{partition_label}="' for topic in partitions.topics]
    for begin in range(0, len(partitions), BLOCK_ROWS):
        rows = slice(begin, begin + BLOCK_ROWS)
        pairs = zip(partitions.topic[rows].tolist(), partitions.partition[rows].tolist(), strict=True)
        lines = "".join([f'{heads[topic]}{partition}"}} 0\n' for topic, partition in pairs])
        # Names come from brokers: invalid text in one of them must not break the whole response.
        yield Chunk(lines.encode("utf-8", "replace"))


def _patched(block: Chunk, rows: npt.NDArray[np.intp], values: Int64Column, divisor: int) -> Chunk:
    """The lines of `rows` of a block, found by line feeds: labels have none."""
    resting = block.data.split(b"\n")
    lines = [resting[row] for row in rows.tolist()]
    for position in np.flatnonzero(values).tolist():
        value = number(int(values[position]) / divisor)
        lines[position] = lines[position][:-1] + value.encode()
    return Chunk(b"\n".join([*lines, b""]))
