"""Makes a hostile cluster: the tests' fake cluster, with some of its bytes replaced.

Whatever a shape does not replace stays right: the cluster is that of `tests/kafka/scene.py`, with hangs that can be proved
and transactions that live, so a false verdict shows.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np
from kafka.protocol.schemas.fields.codecs.types import Int64

from tests.kafka.fake_broker import FakeCluster
from tests.kafka.fake_model import Producer
from tests.kafka.loopback import framed
from tests.kafka.scene import scene

MARK: Final = 0x4D61726B4D61726B
"""Producer id of the entry in whose place `many_producers` puts its own."""
LIST_COUNT_AT: Final = 16
"""Where ListTransactions version 1 has its count: length, header, throttle time, error, no unknown filters."""
MANY_FROM: Final = 10_000_000
"""First producer id of what is made by the thousand."""

_PRODUCER: Final = np.dtype(
    [
        ("id", ">i8"),
        ("epoch", ">i4"),
        ("sequence", ">i4"),
        ("at", ">i8"),
        ("coordinator", ">i4"),
        ("start", ">i8"),
        ("tags", "u1"),
    ]
)

Replace = Callable[[bytes], "Iterable[bytes] | None"]


class Peer(FakeCluster):
    """The fake cluster that counts every request, and replaces frames by API."""

    def __init__(self, *, nodes: int = 2) -> None:
        super().__init__(scene(), nodes=nodes)
        self.replace: dict[str, Replace] = {}
        self.requests = 0
        """Of all connections, ApiVersions included."""
        self._counting = threading.Lock()
        self.on_frame = self._replaced

    def __enter__(self) -> Peer:
        return self

    def _replaced(self, _node: int, api: str, frame: bytes) -> Iterable[bytes] | None:
        with self._counting:
            self.requests += 1
        replace = self.replace.get(api)
        return None if replace is None else replace(frame)


def varint(number: int) -> bytes:
    """Kafka's unsigned variable-length integer."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def announced(size: int) -> Replace:
    """A frame of so many bytes is announced, a few of them come, and no more."""
    return lambda frame: [struct.pack(">i", size) + frame[4:12]]


def dripping(gap_s: float) -> Replace:
    """One byte at a time."""

    def drip(frame: bytes) -> Iterator[bytes]:
        for byte in frame:
            yield bytes([byte])
            time.sleep(gap_s)

    return drip


def substituted(old: bytes, new: bytes) -> Replace:
    """Other bytes of the same number."""
    assert len(old) == len(new)
    return lambda frame: [frame.replace(old, new)]


def marked() -> Producer:
    """The entry that `many_producers` looks for."""
    return Producer(MARK, 0)


def many_producers(count: int) -> Replace:
    """`count` open transactions in the place of the entry that is `marked()`, the only one of its partition."""
    rows = np.zeros(count, _PRODUCER)
    rows["id"] = np.arange(count) + MANY_FROM
    rows["start"] = np.arange(count)
    rows["at"] = 1_700_000_000_000
    rows["coordinator"] = -1
    mark = varint(2) + struct.pack(">q", MARK)
    many = varint(count + 1) + rows.tobytes()

    def replace(frame: bytes) -> list[bytes] | None:
        at = frame.find(mark)
        if at < 0:
            return None
        return [framed(frame[4:at] + many + frame[at + 1 + _PRODUCER.itemsize :])]

    return replace


def many_listed(count: int, name_bytes: int = 20) -> Replace:
    """`count` transactional ids before those that are listed as it should be."""
    before, state = varint(name_bytes + 1), varint(len("Ongoing") + 1) + b"Ongoing\0"
    many = b"".join(
        before + str(number).zfill(name_bytes).encode() + struct.pack(">q", MANY_FROM + number) + state
        for number in range(count)
    )

    def replace(frame: bytes) -> list[bytes]:
        listed, size = _count_of(frame)
        return [framed(frame[4:LIST_COUNT_AT] + varint(listed + count + 1) + many + frame[LIST_COUNT_AT + size :])]

    return replace


def _count_of(frame: bytes) -> tuple[int, int]:
    """How many transactions a ListTransactions response has, and how many bytes say so."""
    count = shift = size = 0
    for byte in frame[LIST_COUNT_AT:]:
        count |= (byte & 0x7F) << shift
        shift, size = shift + 7, size + 1
        if byte < 0x80:
            break
    return count - 1, size


def without_header_tags(frame: bytes) -> list[bytes]:
    """A flexible response as an older version has it: without the tagged fields of its header."""
    return [framed(frame[4:8] + frame[9:])]


def set_int64(message: Any, value: int) -> None:
    """Every int64 of a response, at every depth."""
    for name, kind in message._struct.fields.items():
        held = getattr(message, name)
        if getattr(kind, "_type", None) is Int64:
            setattr(message, name, value)
        for inner in held if isinstance(held, list) else ():
            if hasattr(inner, "_struct"):
                set_int64(inner, value)


def set_everywhere(message: Any, field: str, value: object) -> None:
    """One field of a response, wherever it is."""
    for name in message._struct.fields:
        held = getattr(message, name)
        if name == field:
            setattr(message, name, value)
        for inner in held if isinstance(held, list) else ():
            if hasattr(inner, "_struct"):
                set_everywhere(inner, field, value)
