"""A fake Kafka cluster on real loopback sockets, with responses from the model in `fake_model.py`.

What it simplifies: see there; and requests are answered in the order in which they come, one thread for each connection.

`FakeCluster.on_request` sees every request before it is answered. It may change the model, and return a fault: a `Fault`,
or a Kafka error code that the response shall carry. `on_response` sees the response as well, and may change it. `on_frame`
sees the bytes of every response, ApiVersions included, and may have others sent in their place.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from types import MappingProxyType
from typing import Any

from kafka.protocol.metadata import ApiVersionsResponse

from tests.kafka.fake_model import APIS, Answers, Model, carry
from tests.kafka.loopback import Listener, ends_within, framed, frames, wait_for_end

API_VERSIONS = 18
FETCH = {"Fetch": 12}
EVERYTHING = {name: newest for name, newest, *_ in APIS.values() if name not in FETCH}
"""API -> newest version, of a node as it is at first: its partitions have offsets, and no records to fetch."""


class Fault(Enum):
    """The fault of one request, instead of its response."""

    CLOSED = auto()
    """The connection is closed without a response."""
    CUT = auto()
    """It is closed in the middle of the response."""
    CLOSED_AFTER = auto()
    """It is closed right after the response."""
    SILENT = auto()
    """Nothing comes any more."""
    GARBAGE = auto()
    """Random bytes come in place of the response's body."""
    EMPTIED = auto()
    """Zeros come in place of the body: null where arrays and names must be."""
    RESET = auto()
    """The connection is reset without a response."""
    TRICKLED = auto()
    """One byte comes, and another a second later, and so on."""
    TRUNCATED = auto()
    """The body lacks its last bytes, and its length says so."""
    EXTENDED = auto()
    """There is more in the frame than the response."""
    OTHER_ID = auto()
    """It responds to a request that was not sent."""
    LENGTH_ZERO = auto()
    """A frame of no bytes comes first."""
    LENGTH_HUGE = auto()
    """A frame is announced of 2^31 - 1 bytes."""
    LENGTH_NEGATIVE = auto()
    """A frame is announced of -1 bytes."""


SILENCES = frozenset({Fault.SILENT, Fault.TRICKLED})
"""Only a time-out ends these."""


@dataclass(frozen=True)
class Received:
    """One request as it arrived; `number` counts those of the cluster from 1, without ApiVersions."""

    number: int
    node: int
    api: str
    request: Any


OnRequest = Callable[[Received], "Fault | int | None"]
"""A number is a Kafka error code."""
OnResponse = Callable[[Received, Any], None]
OnFrame = Callable[[int, str, bytes], "Iterable[bytes] | None"]
"""(node, API, framed response) -> the pieces that are sent in its place; None: it is sent as it is."""


class FakeCluster:
    """`with FakeCluster(model, nodes=2) as cluster:` listens on one port for each node, ids from 1."""

    def __init__(self, model: Model, *, nodes: int = 1) -> None:
        self.model = model
        self.on_request: OnRequest = lambda _: None
        self.on_response: OnResponse = lambda _received, _answer: None
        self.on_frame: OnFrame = lambda _node, _api, _frame: None
        self.received: list[Received] = []
        self.fetch_wait_s = 0.05
        """Before a response to Fetch without records; a real broker waits as long as the request says."""
        self.offered = {node: dict(EVERYTHING) for node in range(1, nodes + 1)}
        """Node -> API -> newest version. A request for another ends its connection, as a real broker ends it."""
        self.oldest: dict[int, dict[str, int]] = {node: {} for node in self.offered}
        """Node -> API -> oldest version, 0 where it is not here."""
        self._lock = threading.Lock()
        self._listeners = {node: Listener(partial(self._talk, node)) for node in range(1, nodes + 1)}
        self.ports = {node: listener.port for node, listener in self._listeners.items()}
        self.hosts: dict[int, str] = {}
        """Node -> the name under which it advertises itself, if that is not the loopback's address."""
        self.answers = Answers(model, self.ports, self.hosts)

    def __enter__(self) -> FakeCluster:
        return self

    def __exit__(self, *_: object) -> None:
        for listener in self._listeners.values():
            listener.close()

    def stop(self, node: int) -> None:
        """From now on it does not listen, and metadata no longer names it."""
        del self.ports[node]
        self._listeners[node].close()

    def move(self, node: int, host: str, port: int) -> None:
        """From now on it listens there; its connections end, and metadata knows no other host than before."""
        self._listeners[node].close()
        self._listeners[node] = Listener(partial(self._talk, node), host, port)
        self.ports[node] = port

    def exchange(self, node: int, new: int, host: str, port: int) -> None:
        """Another broker listens there in its place, under another id."""
        self._listeners.pop(node).close()
        for of_node in (self.ports, self.offered, self.oldest):
            of_node[new] = of_node.pop(node)  # type: ignore[assignment]
        self.hosts.pop(node, None)
        self.ports[new], self.hosts[new] = port, host
        self._listeners[new] = Listener(partial(self._talk, new), host, port)

    def cut(self) -> None:
        """Cut every open connection, as a restart of all nodes would."""
        for listener in self._listeners.values():
            listener.cut()

    def restart_numbers(self) -> None:
        """Forget the requests so far."""
        with self._lock:
            self.received = []

    def _talk(self, node: int, connection: socket.socket) -> None:
        for frame in frames(connection):
            api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
            if api_key == API_VERSIONS:
                api, response, fault = (
                    "ApiVersions",
                    _api_versions(version, self.offered[node], self.oldest[node]),
                    None,
                )
            elif api_key not in APIS:
                return
            else:
                api, _, request_class, answer_with = APIS[api_key]
                if not self.oldest[node].get(api, 0) <= version <= self.offered[node].get(api, -1):
                    return
                request = request_class.decode(frame, version=version, header=True)
                with self._lock:
                    received = Received(len(self.received) + 1, node, api, request)
                    self.received.append(received)
                    fault = self.on_request(received)
                    response = answer_with(self.answers, node, request, version)
                    self.on_response(received, response)
            if (
                api == "Fetch"
                and self.fetch_wait_s
                and not any(row.records for topic in response.responses for row in topic.partitions)
            ):
                ends_within(connection, self.fetch_wait_s)
            if isinstance(fault, int):
                carry(response, fault)
                fault = None
            response.with_header(correlation_id=correlation_id)
            whole = bytes(response.encode(header=True, framed=True))
            pieces = self.on_frame(node, api, whole)
            if pieces is not None:
                for piece in pieces:
                    connection.sendall(piece)
            elif not _send(connection, whole, fault):
                return


def _api_versions(version: int, offered: Mapping[str, int], oldest: Mapping[str, int] = MappingProxyType({})) -> Any:
    version_type = ApiVersionsResponse.ApiVersion
    ranges = {API_VERSIONS: (0, 4)} | {
        key: (oldest.get(name, 0), offered[name]) for key, (name, *_) in APIS.items() if name in offered
    }
    return ApiVersionsResponse(
        version=version,
        error_code=0,
        api_keys=[
            version_type(version=version, api_key=key, min_version=min_version, max_version=max_version)
            for key, (min_version, max_version) in ranges.items()
        ],
    )


def _send(connection: socket.socket, answer: bytes, fault: Fault | None) -> bool:
    """False when the connection is to be closed."""
    if fault is Fault.SILENT:
        wait_for_end(connection)
    if fault is Fault.TRICKLED:
        for byte in answer:
            connection.sendall(bytes([byte]))
            if ends_within(connection, TRICKLE_S):
                break
    if fault is Fault.RESET:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if fault in {*SILENCES, Fault.CLOSED, Fault.RESET}:
        return False
    if fault is Fault.CUT:
        connection.sendall(answer[: len(answer) // 2])
        return False
    connection.sendall(_damaged(answer, fault))
    return fault not in {Fault.CLOSED_AFTER, *_LENGTHS}


TRICKLE_S = 1.0
_LENGTHS = {Fault.LENGTH_ZERO: 0, Fault.LENGTH_HUGE: 2**31 - 1, Fault.LENGTH_NEGATIVE: -1}


def _damaged(answer: bytes, fault: Fault | None) -> bytes:
    """The frame as it comes: length, header (correlation id, tagged fields), body."""
    if fault in _LENGTHS:
        return struct.pack(">i", _LENGTHS[fault]) + answer[4:]
    if fault is Fault.GARBAGE:
        # Header as it should be; seeded, so that a failure can be seen again.
        return framed(answer[4:9] + random.Random(len(answer)).randbytes(len(answer)))
    if fault is Fault.EMPTIED:
        return framed(answer[4:9] + bytes(len(answer)))
    if fault is Fault.TRUNCATED:
        return framed(answer[4:-3])
    if fault is Fault.EXTENDED:
        return framed(answer[4:] + b"more!")
    if fault is Fault.OTHER_ID:
        return answer[:4] + struct.pack(">i", 2**31 - 7) + answer[8:]
    return answer
