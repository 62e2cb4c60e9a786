"""Data on a connection stays complete however it is cut, over TCP and TLS, with other traffic."""

from __future__ import annotations

import random
import socket
import ssl
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exporter.kafka.client.connections import Address, Connections, PendingRequest
from exporter.kafka.client.transport import RECEIVE_BYTES
from hangbench.waiting import until
from tests.certificates import Authority
from tests.kafka.loopback import HOST, Listener, frames
from tests.kafka.talking import (
    API_VERSIONS,
    PATIENCE_S,
    RAW,
    api_versions,
    ask,
    broker,
    client,
    echo,
    end,
    raw_answer,
    raw_request,
)

NOTICED_S = 0.02
"""Between two pieces, so that the first is received before the second is there."""
LONG = random.Random(7).randbytes(3 * RECEIVE_BYTES)
Link = tuple[Callable[[Callable[[socket.socket, int], None]], Listener], dict[str, Any]]
"""Makes a broker from its reaction to a request, and the options of its clients."""


@pytest.fixture(params=["tcp", "tls"])
def link(request: pytest.FixtureRequest, tmp_path: Path) -> Link:
    """A listener of each kind."""
    if request.param == "tcp":
        return lambda serve: broker(lambda connection, number, _: serve(connection, number)), {}
    authority = Authority(tmp_path)
    issued = authority.issue("broker")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)

    def with_tls(serve: Callable[[socket.socket, int], None]) -> Listener:
        def talk(plain: socket.socket) -> None:
            with context.wrap_socket(plain, server_side=True) as connection:
                for frame in frames(connection):
                    api_key, version, number = struct.unpack_from(">hhi", frame)
                    if api_key == API_VERSIONS:
                        connection.sendall(api_versions(number, version, (RAW,)))
                    else:
                        serve(connection, number)

        return Listener(talk)

    return with_tls, {"security_protocol": "SSL", "ssl_cafile": str(authority.path)}


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 13, 14, 1000, RECEIVE_BYTES, 2 * RECEIVE_BYTES + 1, -2, -1])
def test_a_response_is_whole_wherever_it_is_cut(link: Link, cut: int) -> None:
    """Within its length, its header, its body, before its last byte: and the next response is not touched."""
    make, options = link

    def in_two_pieces(connection: socket.socket, number: int) -> None:
        answer = raw_answer(number, LONG)
        connection.sendall(answer[:cut])
        time.sleep(NOTICED_S)
        connection.sendall(answer[cut:])

    with make(in_two_pieces) as listener, client(**options) as connections:
        answers = [bytes(ask(connections, listener).body) for _ in range(2)]

    assert answers == [bytes(4) + LONG] * 2


def test_a_request_that_the_socket_does_not_take_at_once_is_sent_whole() -> None:
    """8 MB to a broker that does not read for a while, and a response that shows what it received."""
    received: list[bytes] = []

    def talk_slowly(connection: socket.socket) -> None:
        for frame in frames(connection):
            api_key, version, number = struct.unpack_from(">hhi", frame)
            if api_key == API_VERSIONS:
                connection.sendall(api_versions(number, version, (RAW,)))
                time.sleep(NOTICED_S)
            else:
                received.append(frame)
                echo(connection, number, frame)

    body = random.Random(8).randbytes(8_000_000)
    with Listener(talk_slowly) as listener, client() as connections:
        assert bytes(ask(connections, listener, raw_request(body)).body[4:]) == b"answered"

    assert received[0].endswith(body)


def ahead(connections: Connections, listener: Listener, body: bytes = b"ahead") -> PendingRequest | None:
    """Send a request ahead, as a reader of a response does: on the client's thread."""

    async def send() -> PendingRequest | None:
        return connections.send_ahead(Address(HOST, listener.port), raw_request(body), timeout_s=PATIENCE_S)

    return connections.run(send)


def test_a_request_sent_ahead_is_answered_like_any_other_and_sent_once() -> None:
    """Its bytes are out before anybody asks for the response, and nothing more goes out then."""
    bodies: list[bytes] = []

    def noted(connection: socket.socket, number: int, frame: bytes) -> None:
        bodies.append(frame[-5:])
        echo(connection, number, frame)

    with broker(noted) as listener, client() as connections:
        ask(connections, listener)
        sent = ahead(connections, listener)
        until(lambda: len(bodies) == 2)
        assert bytes(ask(connections, listener, raw_request(b"ahead"), sent=sent).body[4:]) == b"answered"

    assert bodies == [b"asked", b"ahead"]


def test_nothing_is_sent_ahead_where_no_connection_is_open() -> None:
    """It opens none: that may take long, and fail."""
    with broker(echo) as listener, client() as connections:
        assert ahead(connections, listener) is None
        ask(connections, listener)
        assert ahead(connections, listener) is not None


def test_nothing_is_sent_ahead_while_the_broker_throttles() -> None:
    """KIP-219."""

    def throttling(connection: socket.socket, number: int, _frame: bytes) -> None:
        connection.sendall(raw_answer(number, throttle_time_ms=60_000))

    with broker(throttling) as listener, client() as connections:
        ask(connections, listener)
        assert ahead(connections, listener) is None


def test_a_request_sent_ahead_on_a_connection_that_ends_is_sent_again() -> None:
    """The broker closes instead of responding: as on any idle connection, the request is sent again, once."""
    times = iter((echo, end, echo))

    def by_turns(connection: socket.socket, number: int, frame: bytes) -> None:
        next(times)(connection, number, frame)

    with broker(by_turns) as listener, client() as connections:
        ask(connections, listener)
        sent = ahead(connections, listener)
        assert bytes(ask(connections, listener, sent=sent).body[4:]) == b"answered"
        assert listener.accepted == 2
