"""Talks to one broker of the test through `Connections`: this file responds to ApiVersions, the test to the rest."""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest
from kafka.protocol.metadata import ApiVersionsResponse
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from exporter.kafka.client.connections import Address, Connections
from exporter.kafka.errors import BrokerFault
from exporter.kafka.messages.raw_request import RawRequest
from exporter.kafka.messages.versions import DESCRIBE_PRODUCERS, Api
from tests.kafka.loopback import HOST, Listener, framed, frames, wait_for_end

API_VERSIONS, FETCH, METADATA, SASL_HANDSHAKE, SASL_AUTHENTICATE, RAW = 18, 1, 3, 17, 36, 61
SASL_AUTHENTICATION_FAILED = 58
PATIENCE_S = 60.0
"""Longer than any test may take: where it is given, the time-out must not be what ends a request."""
SOON_S = 0.3
"""A time-out that the test waits for."""

Offered = Mapping[int, tuple[int, int]]
"""API key -> (oldest version, newest version)."""
Serve = Callable[[socket.socket, int, bytes], None]
"""Answers one request: (connection, correlation id, frame). Closes the connection by raising ConnectionError."""


def raw_request(body: bytes = b"asked", api: Api = DESCRIBE_PRODUCERS) -> RawRequest:
    return RawRequest(api, body)


def raw_answer(correlation_id: int, body: bytes = b"", *, throttle_time_ms: int = 0) -> bytes:
    """A frame with response header v1, throttle time, and `body`."""
    return framed(struct.pack(">ibi", correlation_id, 0, throttle_time_ms) + body)


def broker(
    serve: Serve,
    *,
    apis: tuple[int, ...] = (METADATA, SASL_HANDSHAKE, SASL_AUTHENTICATE, RAW),
    offered: Offered = MappingProxyType({}),
) -> Listener:
    """A listener that answers ApiVersions, and leaves every other request to `serve`."""

    def talk(connection: socket.socket) -> None:
        for frame in frames(connection):
            api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
            if api_key == API_VERSIONS:
                connection.sendall(api_versions(correlation_id, version, apis, offered))
            else:
                serve(connection, correlation_id, frame)

    return Listener(talk)


def api_versions(
    correlation_id: int, version: int, apis: tuple[int, ...], offered: Offered = MappingProxyType({})
) -> bytes:
    # From Fetch kafka-python concludes that the broker is newer than 2.0, and leaves throttling to the client.
    usual = {API_VERSIONS: 4, FETCH: 12, METADATA: 12, SASL_HANDSHAKE: 1, SASL_AUTHENTICATE: 2}
    version_type = ApiVersionsResponse.ApiVersion
    ranges = {key: (0, usual.get(key, 0)) for key in (API_VERSIONS, FETCH, *apis)} | dict(offered)
    keys = [
        version_type(version=version, api_key=key, min_version=oldest, max_version=newest)
        for key, (oldest, newest) in ranges.items()
    ]
    answer = ApiVersionsResponse(version=version, error_code=0, api_keys=keys)
    answer.with_header(correlation_id=correlation_id)
    return bytes(answer.encode(header=True, framed=True))


@contextmanager
def client(**options: Any) -> Iterator[Connections]:
    """Connections that are closed at the end."""
    connections = Connections(options, client_id="contract")
    try:
        yield connections
    finally:
        connections.close()


async def answered(
    connections: Connections,
    address: Address,
    request: Any,
    *,
    read: Callable[[Any], Any] = lambda answer: answer,
    **more: Any,
) -> Any:
    """What `read` makes of the response."""
    return connections.decode(await connections.receive(address, request, **more), read)


def ask(
    connections: Connections, listener: Listener, request: Any = None, *, timeout_s: float = PATIENCE_S, **more: Any
) -> Any:
    """The response to `request` (by default a raw one), sent from this thread."""
    return connections.run(
        partial(
            answered,
            connections,
            Address(HOST, listener.port),
            raw_request() if request is None else request,
            api="Contract",
            timeout_s=timeout_s,
            **more,
        )
    )


def fault_of(connections: Connections, listener: Listener, request: Any = None, **more: Any) -> BrokerFault:
    with pytest.raises(BrokerFault) as raised:
        ask(connections, listener, request, **more)
    return raised.value


def echo(connection: socket.socket, correlation_id: int, _frame: bytes) -> None:
    connection.sendall(raw_answer(correlation_id, b"answered"))


def hang(connection: socket.socket, _correlation_id: int, _frame: bytes) -> None:
    wait_for_end(connection)
    raise ConnectionResetError


def end(_connection: socket.socket, _correlation_id: int, _frame: bytes) -> None:
    raise ConnectionResetError


class RefusingLogins:
    """Serves logins with PLAIN, responds to each with the next error code, closes after an error, and counts them."""

    def __init__(
        self, codes: Iterable[int] = itertools.repeat(SASL_AUTHENTICATION_FAILED), sentence: str = "no"
    ) -> None:
        self.logins = 0
        self._codes = iter(codes)
        self._sentence = sentence
        self._lock = threading.Lock()

    def __call__(self, connection: socket.socket, correlation_id: int, frame: bytes) -> None:
        api_key, version = struct.unpack_from(">hh", frame)
        if api_key == SASL_HANDSHAKE:
            answer = SaslHandshakeResponse(version=version, error_code=0, mechanisms=["PLAIN"])
        elif api_key == SASL_AUTHENTICATE:
            with self._lock:
                self.logins += 1
                code = next(self._codes)
            answer = SaslAuthenticateResponse(
                version=version, error_code=code, error_message=self._sentence, auth_bytes=b""
            )
        else:
            echo(connection, correlation_id, frame)
            return
        answer.with_header(correlation_id=correlation_id)
        connection.sendall(bytes(answer.encode(header=True, framed=True)))
        if answer.error_code:
            connection.shutdown(socket.SHUT_RDWR)
