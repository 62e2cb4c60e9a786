"""Receives responses into buffers that grow with the received bytes, under one memory limit for the process.

kafka-python reserves what a response announces: twenty brokers that announce 100 MB and send nothing would take 2 GB.
"""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress
from typing import Any

import kafka.errors as foreign
from kafka.protocol.frame import KafkaBytes
from kafka.protocol.parser import KafkaProtocol

FRAME_BYTES_MAX = 100 * 1024 * 1024
"""Limit of one response. A partition with 1,000,000 producer entries takes 37 MB; kafka-python's own limit is 1 MB."""
RECEIVE_LIMIT_BYTES = 512_000_000
STEP_BYTES = 256 * 1024
"""Number of bytes by which a buffer grows at a time."""
_ZEROS = memoryview(bytes(STEP_BYTES))
"""Zeros that extend a buffer: made for each step, they cost an eighth of the processor of a scan of 7.4 MB."""
_LENGTH_BYTES = 4


class ReceiveLimitError(foreign.KafkaProtocolError):  # type: ignore[misc]
    """A response cannot be received completely within the memory limit."""


class ReceiveBudget:
    """Counts the bytes of all responses in memory. May be used from any thread.

    One cluster may take all of it. Of several, none takes more than what it leaves free: one that floods gets half, two get
    a third each, and the others can be read meanwhile (the dynamic thresholds of Choudhury and Hahne, as in switches).
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self.shares: weakref.WeakSet[Share] = weakref.WeakSet()
        # The garbage collector may release a buffer at any moment.
        self.lock = threading.RLock()

    def share(self) -> Share:
        """The part of a cluster."""
        with self.lock:
            share = Share(self)
            self.shares.add(share)
            return share


class Share:
    """Share of a budget that the responses of one cluster take."""

    def __init__(self, budget: ReceiveBudget) -> None:
        self._budget = budget
        self._held_bytes = 0

    def take(self, count: int, announced: int) -> None:
        """Reserves `count` bytes for a response that announces `announced` bytes. Raises ReceiveLimitError."""
        budget = self._budget
        with budget.lock:
            free = budget.limit_bytes - budget.held_bytes
            allowed = free if len(budget.shares) < 2 else free - self._held_bytes - count  # noqa: PLR2004 - alone or not
            if count > min(free, allowed):
                raise ReceiveLimitError(
                    f"it announces a response of {announced:,} bytes, and all responses together may take "
                    f"{budget.limit_bytes:,} (scan.receive_limit)"
                )
            budget.held_bytes += count
            self._held_bytes += count

    def give_back(self, count: int) -> None:
        """Releases `count` bytes."""
        with self._budget.lock:
            self._budget.held_bytes -= count
            self._held_bytes -= count

    def end(self) -> None:
        """The cluster is not read any more."""
        with self._budget.lock:
            self._budget.shares.discard(self)


PROCESS = ReceiveBudget(RECEIVE_LIMIT_BYTES)
"""The budget of this process, shared by the clusters of a fleet."""


class GrowingBuffer(KafkaBytes):  # type: ignore[misc]
    """A response that is being received: as large as its buffer so far, not as announced."""

    def __init__(self, announced: int, budget: Share) -> None:
        super().__init__(0)
        self.announced = announced
        self._budget = budget
        self._taken = 0

    def __del__(self) -> None:
        self._budget.give_back(self._taken)

    def let_go(self) -> None:
        """Releases the memory although an exception may still refer to this object."""
        with suppress(BufferError):  # still in use; its memory is released with it
            self.clear()
            self._budget.give_back(self._taken)
            self._taken = 0

    @property
    def missing(self) -> int:
        """Bytes that have not arrived."""
        return self.announced - int(self.tell())

    def grow(self) -> None:
        """Makes room for at least one byte, unless all have arrived. Raises ReceiveLimitError."""
        if self.tell() < len(self) or not self.missing:
            return
        more = min(STEP_BYTES, self.missing)
        self._budget.take(more, self.announced)
        self._taken += more
        self.extend(_ZEROS[:more])


class ResponseParser(KafkaProtocol):  # type: ignore[misc]
    """kafka-python's parser with growing buffers. `tests/kafka/client/test_contract.py` checks the members that it uses."""

    def __init__(self, budget: Share, **config: Any) -> None:
        super().__init__(**config)
        self._budget = budget
        self._rbuffer: GrowingBuffer | None = None

    @property
    def buffer(self) -> GrowingBuffer | None:
        """Missing bytes of the response that is being received."""
        return self._rbuffer

    def drop(self) -> None:
        """Releases a partly received response: the connection has ended."""
        if self._rbuffer is not None:
            self._rbuffer.let_go()
            self._rbuffer = None

    def receive_bytes(self, data: bytes | memoryview) -> list[tuple[int, Any]]:
        """(correlation id, response) of each complete response. Raises KafkaProtocolError and CorrelationIdError."""
        at, responses = 0, []
        while at < len(data):
            if self._rbuffer is None:
                at += self._take_length(data[at : at + _LENGTH_BYTES - self._header.tell()])
            if self._rbuffer is None:
                continue
            buffer = self._rbuffer
            buffer.grow()
            count = min(len(buffer) - buffer.tell(), len(data) - at)
            buffer.write(data[at : at + count])
            at += count
            if not buffer.missing:
                self._rbuffer = None
                buffer.seek(0)
                responses.append(self._process_response(buffer))
        return responses

    def _take_length(self, data: bytes | memoryview) -> int:
        self._header.write(data)
        if self._header.tell() == _LENGTH_BYTES:
            announced = int.from_bytes(self._header, "big", signed=True)
            self._header.seek(0)
            self._validate_frame_size(announced)
            self._rbuffer = GrowingBuffer(announced, self._budget)
        return len(data)
