"""One plain socket to one broker, asking one request at a time with kafka-python's message classes.

The planting of abnormal states needs requests that no client sends by itself, so it goes below every client.
No TLS, no SASL, no retries: this talks to brokers on the loopback that the tests and the demo started.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse

CLIENT_ID: Final = "planting"
TIMEOUT_S: Final = 10.0
FRAME_BYTES_MAX: Final = 64 * 1024 * 1024

LEADER_ERRORS: Final = frozenset({3, 5, 6})  # unknown topic, leader not available, not leader: just created or moving
COORDINATOR_ERRORS: Final = frozenset({14, 15, 16, 51})  # loading, not available, moved, concurrent: ask again soon
RETRY_PAUSE_S: Final = 0.05

Answer = TypeVar("Answer")


class BrokerRefused(Exception):
    """The broker answered with an error code (numbers as in Apache Kafka's Errors.java)."""

    def __init__(self, api: str, error_code: int) -> None:
        super().__init__(f"{api} was refused with error code {error_code}")
        self.error_code = error_code


class Wire:
    """A connection to one broker; versions are negotiated once, on opening."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0
        try:
            answer = self._exchange(ApiVersionsRequest(version=0), ApiVersionsResponse)
        except BaseException:
            self._socket.close()
            raise
        self.version_max: dict[int, int] = {api.api_key: api.max_version for api in answer.api_keys}

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request_class: Any, response_class: Any, *, version_cap: int, **fields: Any) -> Any:
        """Send one request at the newest version that both sides and `version_cap` allow, return its answer."""
        version_broker = self.version_max.get(request_class.API_KEY)
        if version_broker is None:
            raise BrokerRefused(request_class.name, 35)  # UNSUPPORTED_VERSION
        version = min(version_broker, request_class.max_version, version_cap)
        return self._exchange(request_class(version=version, **fields), response_class)

    def ask_in_bytes(self, api_key: int, version: int, body: bytes) -> bytes:
        """Sends a request of a flexible version that kafka-python does not know; returns the response with its header."""
        self._correlation_id += 1
        client_id = CLIENT_ID.encode()
        header = struct.pack(
            f">hhih{len(client_id)}sx", api_key, version, self._correlation_id, len(client_id), client_id
        )
        self._socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        return self._frame()

    def timeout(self, seconds: float) -> None:
        """How long to wait for any part of an answer from now on."""
        self._socket.settimeout(seconds)

    def _exchange(self, request: Any, response_class: Any) -> Any:
        self._correlation_id += 1
        request.with_header(correlation_id=self._correlation_id, client_id=CLIENT_ID)
        self._socket.sendall(request.encode(header=True, framed=True))
        frame = self._frame()
        answer = response_class.decode(frame, version=request.API_VERSION, header=True)
        assert answer.header.correlation_id == self._correlation_id
        return answer

    def _frame(self) -> bytes:
        """Receives a whole response, with its header."""
        return self._receive(*struct.unpack(">i", self._receive(4)))

    def _receive(self, size: int) -> bytes:
        assert 0 < size <= FRAME_BYTES_MAX
        received = bytearray()
        while len(received) < size:
            piece = self._socket.recv(size - len(received))
            if not piece:
                raise ConnectionResetError("the broker closed the connection")
            received += piece
        return bytes(received)


def first_address(bootstrap: str) -> tuple[str, int]:
    """The first address of a `host:port,host:port` list."""
    host, _, port = bootstrap.split(",", maxsplit=1)[0].rpartition(":")
    return host, int(port)


def open_wire(bootstrap: str) -> Wire:
    """A connection to the first broker of the list that accepts one."""
    failure: OSError | None = None
    for address in bootstrap.split(","):
        try:
            return Wire(*first_address(address))
        except OSError as error:
            failure = error
    raise ConnectionError(f"none of {bootstrap} accepts a connection") from failure


def metadata(wire: Wire, topics: list[str] | None) -> Any:
    """What this broker knows of the cluster; `None` asks for all topics, an empty list for none."""
    asked = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    return wire.ask(MetadataRequest, MetadataResponse, version_cap=9, topics=asked, allow_auto_topic_creation=False)


def leaders(bootstrap: str, topic: str) -> dict[int, tuple[str, int]]:
    """The address of every partition's leader; refused with the broker's code where one has none."""
    with open_wire(bootstrap) as wire:
        answer = metadata(wire, [topic])
    addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
    described = answer.topics[0]
    for error_code in (described.error_code, *(partition.error_code for partition in described.partitions)):
        if error_code:
            raise BrokerRefused("Metadata", error_code)
    return {partition.partition_index: addresses[partition.leader_id] for partition in described.partitions}


def until_answered(attempt: Callable[[], Answer], passing: frozenset[int], *, timeout_s: float = 30.0) -> Answer:
    """Repeat `attempt` while it is refused with an error code that passes by itself."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return attempt()
        except BrokerRefused as refusal:
            if refusal.error_code not in passing or time.monotonic() > deadline:
                raise
        time.sleep(RETRY_PAUSE_S)
