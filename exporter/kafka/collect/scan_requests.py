"""Makes the requests of a scan: cuts partitions into chunks by the expected response size, and caches the requests.

The cache belongs to one set of partitions, and is cleared when it changes. Leaders may change: a request names partitions,
whichever broker it is sent to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from exporter.kafka.messages import describe_producers
from exporter.kafka.messages.producers_layout import ENTRY_BYTES, PARTITION_BYTES, Layout
from exporter.kafka.messages.raw_request import RawRequest
from exporter.kafka.topology import Topology
from exporter.snapshot import Int32Column

Rows = npt.NDArray[np.int64]
"""Row numbers of a Topology."""

CHUNK_PARTITIONS_MAX = 2000
CHUNK_BYTES_MAX = 1_000_000
"""Maximum of the expected response. One response of 7.4 MB costs a broker 1.6 times ten of 0.74 MB."""


@dataclass(slots=True)
class ScanRequest:
    """A request for the partitions of `rows`, ready to be sent."""

    rows: Rows
    request: RawRequest
    layout: Layout | None = None
    """Layout of the last response."""


class ScanRequests:
    """Makes requests, and caches those of the last two rounds: they seldom change between cycles."""

    def __init__(self) -> None:
        self._topic: Int32Column | None = None
        self._partition: Int32Column | None = None
        self._ready: dict[bytes, ScanRequest] = {}
        self._before: dict[bytes, ScanRequest] = {}

    def begin(self, topology: Topology) -> None:
        """Begins a round: drops what the previous one did not use, and everything if the partitions changed."""
        known = topology.topic is self._topic and topology.partition is self._partition
        self._before = self._ready if known else {}
        self._ready = {}
        self._topic, self._partition = topology.topic, topology.partition

    def of(self, topology: Topology, rows: Rows) -> ScanRequest:
        """The request for `rows` of the topology of this round."""
        assert topology.topic is self._topic
        key = rows.tobytes()
        request = self._ready.get(key) or self._before.get(key)
        if request is None:
            request = ScanRequest(rows, describe_producers.request(topology.by_topic(rows)))
        self._ready[key] = request
        return request


def chunks(rows: Rows, expected_producers: Int32Column | None) -> Iterator[Rows]:
    """Cuts `rows` (ascending) so that no request expects a response above the limit.

    A partition that is expected to exceed the limit alone gets its own request.
    """
    entries = np.zeros(len(rows), dtype=np.int64) if expected_producers is None else expected_producers[rows]
    expected_bytes = np.cumsum(PARTITION_BYTES + entries.astype(np.int64) * ENTRY_BYTES)
    start = before = 0
    while start < len(rows):
        fitting = int(np.searchsorted(expected_bytes, before + CHUNK_BYTES_MAX, side="right"))
        end = min(max(fitting, start + 1), start + CHUNK_PARTITIONS_MAX, len(rows))
        yield rows[start:end]
        start, before = end, int(expected_bytes[end - 1])
