"""What a recovery needs of one partition: who is open on it, how far it is stable, and one marker written."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from exporter.kafka.errors import BrokerFault, ClusterUnavailableError
from exporter.kafka.inquiry import Inquiry
from exporter.kafka.markers import Marker, MarkerAnswer, MarkerOutcome, write_marker
from exporter.kafka.offsets import latest_offsets
from exporter.kafka.questions import ProducerEntry, RefusedError, leader_of, producers_of
from exporter.snapshot import UNKNOWN_OFFSET

T = TypeVar("T")


class Asks(Protocol):
    """What is needed of a Collector."""

    def inquire(self, question: Callable[[Inquiry], Coroutine[Any, Any, T]]) -> T: ...


class Partition(Protocol):
    """One partition, asked at whichever broker leads it at that moment."""

    def producers(self) -> tuple[ProducerEntry, ...]:
        """Its producer entries. Raises BrokerFault, RefusedError and ClusterUnavailableError."""

    def last_stable_offset(self) -> int:
        """UNKNOWN_OFFSET where nobody told. Never raises those."""

    def write(self, marker: Marker) -> MarkerAnswer:
        """Have one marker written, never tried twice. Never raises those."""


class PartitionOnBrokers:
    """The partition of a real cluster."""

    def __init__(self, asks: Asks, topic: str, partition: int) -> None:
        self._asks = asks
        self._topic = topic
        self._partition = partition

    def producers(self) -> tuple[ProducerEntry, ...]:
        """As `Partition.producers`."""
        return self._asks.inquire(lambda inquiry: producers_of(inquiry, self._topic, self._partition))

    def last_stable_offset(self) -> int:
        """As `Partition.last_stable_offset`."""
        return self._asks.inquire(self._ask_last_stable_offset)

    def write(self, marker: Marker) -> MarkerAnswer:
        """As `Partition.write`."""
        assert (marker.topic, marker.partition) == (self._topic, self._partition)
        return self._asks.inquire(lambda inquiry: _write(inquiry, marker))

    async def _ask_last_stable_offset(self, inquiry: Inquiry) -> int:
        partition = (self._topic, self._partition)
        try:
            leader = await leader_of(inquiry, *partition)
        except (BrokerFault, RefusedError, ClusterUnavailableError):
            return UNKNOWN_OFFSET
        offsets = await latest_offsets(inquiry, {partition: leader})
        return offsets[partition][0]


async def _write(inquiry: Inquiry, marker: Marker) -> MarkerAnswer:
    try:
        leader = await leader_of(inquiry, marker.topic, marker.partition)
    except (BrokerFault, RefusedError, ClusterUnavailableError) as error:
        return MarkerAnswer(MarkerOutcome.REFUSED, str(error))
    return await write_marker(inquiry, leader, marker)
