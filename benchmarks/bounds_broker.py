"""A broker whose large responses are made of columns: `bounds_broker SHAPE SIZE` listens on the loopback.

It prints its port. Everything that is not large is answered by the fake broker of the tests. It lives until its standard
input ends.
"""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.replay import Replay
from exporter.primitives import compact, uvarint
from exporter.snapshot import STATE_TOPIC
from tests.kafka.fake_model import APIS, CLUSTER_ID, Model, Partition, Producer, Transaction
from tests.kafka.loopback import HOST

METADATA: Final = 3
DESCRIBE_PRODUCERS: Final = 61
LIST_TRANSACTIONS: Final = 66
DEAD_BROKER: Final = 2
DEAD_PORT: Final = 1
PARTITIONS_OF_A_TOPIC: Final = 1000
HEADER: Final = b"\0"
NO_THROTTLING: Final = bytes(4)

_PARTITION = np.dtype(
    [
        ("error", ">i2"),
        ("partition", ">i4"),
        ("leader", ">i4"),
        ("epoch", ">i4"),
        ("replicas", "u1"),
        ("replica", ">i4"),
        ("in_sync", "u1"),
        ("in_sync_replica", ">i4"),
        ("offline", "u1"),
        ("tags", "u1"),
    ]
)
_IDLE = np.dtype([("partition", ">i4"), ("error", ">i2"), ("message", "u1"), ("producers", "u1"), ("tags", "u1")])
_ENTRY = np.dtype(
    [
        ("producer_id", ">i8"),
        ("epoch", ">i4"),
        ("sequence", ">i4"),
        ("timestamp", ">i8"),
        ("coordinator_epoch", ">i4"),
        ("start_offset", ">i8"),
        ("tags", "u1"),
    ]
)

Large = dict[int, Callable[[Any], bytes]]
"""API key -> the body of a response to a request, where the model is not asked."""


def metadata(port: int, leaders: npt.NDArray[np.int32], *, topic_size: int, state_leaders: int) -> bytes:
    """All topics: `leaders` of the partitions of topics of `topic_size`, and the coordinators' own topic of broker 1."""
    brokers = ((1, port), (DEAD_BROKER, DEAD_PORT))
    response = [NO_THROTTLING, uvarint(len(brokers) + 1)]
    response += [struct.pack(">i", broker) + compact(HOST) + struct.pack(">i", at) + b"\0\0" for broker, at in brokers]
    parts = [leaders[at : at + topic_size] for at in range(0, len(leaders), topic_size)]
    response += [compact(CLUSTER_ID), struct.pack(">i", 1), uvarint(len(parts) + 2)]
    response += [topic_of(f"topic-{number:05d}", part) for number, part in enumerate(parts)]
    response += [topic_of(STATE_TOPIC, np.ones(state_leaders, dtype=np.int32)), b"\0"]
    return b"".join(response)


def topic_of(name: str, leaders: npt.NDArray[np.int32]) -> bytes:
    """One topic of a Metadata response."""
    rows = np.zeros(len(leaders), dtype=_PARTITION)
    rows["partition"] = np.arange(len(leaders))
    rows["leader"] = rows["replica"] = rows["in_sync_replica"] = leaders
    rows["replicas"] = rows["in_sync"] = 2
    rows["offline"] = 1
    head = struct.pack(">h", 0) + compact(name) + name.encode()[-16:].rjust(16, b"-") + b"\0"
    return head + uvarint(len(rows) + 1) + rows.tobytes() + struct.pack(">i", 0) + b"\0"


def idle_producers(request: Any) -> bytes:
    """Nothing open on whatever is asked for."""
    response = [NO_THROTTLING, uvarint(len(request.topics) + 1)]
    for topic in request.topics:
        rows = np.zeros(len(topic.partition_indexes), dtype=_IDLE)
        rows["partition"] = topic.partition_indexes
        rows["producers"] = 1
        response += [compact(topic.name), uvarint(len(rows) + 1), rows.tobytes(), b"\0"]
    return b"".join([*response, b"\0"])


def open_producers(count: int, partitions: int, now_ms: int) -> Callable[[Any], bytes]:
    """`count` open transactions, as many on each of `partitions` of the first topic; none on others."""
    each = count // partitions

    def response(request: Any) -> bytes:
        parts = [NO_THROTTLING, uvarint(len(request.topics) + 1)]
        for topic in request.topics:
            parts += [compact(topic.name), uvarint(len(topic.partition_indexes) + 1)]
            for partition in topic.partition_indexes:
                rows = np.zeros(0 if topic.name == STATE_TOPIC else each, dtype=_ENTRY)
                rows["producer_id"] = partition * each + np.arange(len(rows)) + 1
                rows["timestamp"] = now_ms - rows["producer_id"]
                rows["start_offset"] = np.arange(len(rows))
                rows["coordinator_epoch"] = -1
                parts += [struct.pack(">ih", partition, 0), b"\0", uvarint(len(rows) + 1), rows.tobytes(), b"\0"]
            parts.append(b"\0")
        return b"".join([*parts, b"\0"])

    return response


def listing(count: int) -> bytes:
    """`count` ongoing transactions, of the producer ids from 1."""
    row = [
        compact(f"team-{number % 100:02d}.some-application-{number:08d}")
        + struct.pack(">q", number)
        + compact("Ongoing")
        + b"\0"
        for number in range(1, count + 1)
    ]
    return b"".join([NO_THROTTLING, struct.pack(">h", 0), uvarint(1), uvarint(count + 1), *row, b"\0"])


class BoundsBroker(Replay):
    """Sends what `large` has for a request, and what the model has for the others."""

    def __init__(self, model: Model, large: Callable[[int], Large]) -> None:
        super().__init__(model)
        self._ports[DEAD_BROKER] = DEAD_PORT
        self._large = large(self.listener.port)

    def _answer(self, frame: bytes) -> bytes:
        api_key, version, _ = struct.unpack_from(">hhi", frame)
        if api_key not in self._large:
            return super()._answer(frame)
        request = APIS[api_key][2].decode(frame, version=version, header=True)
        if api_key == METADATA and request.topics is not None:
            return super()._answer(frame)
        return HEADER + self._large[api_key](request)


def broker_of(shape: str, size: int) -> BoundsBroker:
    """One of the shapes of `bounds.py`."""
    now_ms = time.time_ns() // 1_000_000
    first = "topic-00000"
    state = [Partition(1) for _ in range(size if shape == "state_partitions" else 8)]
    spread = PARTITIONS_OF_A_TOPIC if shape == "open_spread" else 1
    topics = {STATE_TOPIC: state, first: [Partition(1) for _ in range(spread)]}
    model = Model(topics=topics)
    if shape == "half_dead":
        leaders = np.arange(size, dtype=np.int32) % 2 + 1
        return BoundsBroker(
            model,
            lambda port: {
                METADATA: lambda _: metadata(port, leaders, topic_size=PARTITIONS_OF_A_TOPIC, state_leaders=8),
                DESCRIBE_PRODUCERS: idle_producers,
            },
        )
    if shape in {"open", "open_spread", "open_listed"}:
        large: Large = {DESCRIBE_PRODUCERS: open_producers(size, spread, now_ms)}
        if shape == "open_listed":
            response = listing(size)
            large[LIST_TRANSACTIONS] = lambda _: response
        return BoundsBroker(model, lambda _: large)
    model.topics[first][0].producers.append(Producer(1, start_offset=5))
    if shape == "listed":
        model.transactions["application-1"] = Transaction(1, start_ms=now_ms, partitions={(first, 0)})
        response = listing(size)
        return BoundsBroker(model, lambda _: {LIST_TRANSACTIONS: lambda _: response})
    return BoundsBroker(model, lambda _: {})


if __name__ == "__main__":
    with broker_of(sys.argv[1], int(sys.argv[2])).listener as listener:
        print(listener.port, flush=True)
        sys.stdin.read()
