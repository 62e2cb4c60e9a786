"""Connections end without a rest: at a time-out, closed from another thread, refused at login."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from exporter.kafka.client.connections import IDLE_SECONDS_MAX, Address, Connections
from exporter.kafka.errors import BrokerFault, ClientClosedError, FaultReason
from hangbench.waiting import until
from tests.kafka.loopback import HOST, Listener, frames, wait_for_end
from tests.kafka.talking import (
    API_VERSIONS,
    PATIENCE_S,
    RAW,
    SASL_AUTHENTICATION_FAILED,
    SOON_S,
    RefusingLogins,
    Serve,
    answered,
    api_versions,
    ask,
    broker,
    client,
    echo,
    fault_of,
    hang,
    raw_answer,
    raw_request,
)


@contextmanager
def full_backlog() -> Iterator[int]:
    """A port that neither takes nor refuses connections: its queue is full."""
    with socket.create_server((HOST, 0), backlog=0) as server:
        port = server.getsockname()[1]
        waiting = []
        try:
            for _ in range(8):
                pending = socket.socket()
                waiting.append(pending)
                pending.settimeout(SOON_S)
                try:
                    pending.connect((HOST, port))
                except TimeoutError:
                    break
            else:
                pytest.fail("the kernel takes every connection")
            yield port
        finally:
            for pending in waiting:
                pending.close()


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_broker_that_never_takes_the_connection_leaves_no_socket(protocol: str) -> None:
    """A connection attempt without a response is cut at the time-out."""
    with full_backlog() as port, client(security_protocol=protocol, ssl_check_hostname=False) as connections:
        before = open_descriptors()
        with pytest.raises(BrokerFault) as raised:
            connections.run(
                partial(answered, connections, Address(HOST, port), raw_request(), api="Contract", timeout_s=SOON_S)
            )
        until(lambda: open_descriptors() == before)

    assert raised.value.reason is FaultReason.TIMED_OUT


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", "SASL_SSL"])
def test_a_silent_peer_is_cut_at_the_timeout_and_leaves_no_socket(protocol: str) -> None:
    """A TLS handshake, or an ApiVersions, that is never answered ends in time, again and again, without a leak."""
    with Listener(wait_for_end) as listener, client(security_protocol=protocol) as connections:
        before = open_descriptors()
        for _ in range(3):
            assert fault_of(connections, listener, timeout_s=SOON_S).reason is FaultReason.TIMED_OUT
        until(lambda: open_descriptors() == before)
        assert connections._opening == {}
        assert connections._connections == {}


def test_a_peer_that_does_not_speak_tls_is_reported_as_such() -> None:
    """Plain text instead of a handshake is reported at once, and leaves no socket."""

    def talk(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        wait_for_end(connection)

    with Listener(talk) as listener, client(security_protocol="SSL") as connections:
        before = open_descriptors()
        fault = fault_of(connections, listener)
        until(lambda: open_descriptors() == before)

    assert fault.reason is FaultReason.TLS_FAILED


def test_a_refused_login_is_tried_again_after_its_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong password is reported as such, and not for ever: the mistake may be the broker's.

    Brokers close right after the refusal: the report must not be the end of the connection.
    """
    monkeypatch.setattr("exporter.kafka.client.logins.PAUSE_SECONDS", 0)
    refused = 20
    serve = RefusingLogins([*[SASL_AUTHENTICATION_FAILED] * refused, 0], "who are you")
    login = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "u", "sasl_plain_password": "p"}
    with broker(serve) as listener, client(security_protocol="SASL_PLAINTEXT", **login) as connections:
        faults = [fault_of(connections, listener) for _ in range(refused)]
        answer = ask(connections, listener)

    assert {fault.reason for fault in faults} == {FaultReason.AUTHENTICATION_FAILED}
    assert "who are you" in faults[0].sentence
    assert bytes(answer.body).endswith(b"answered")


def throttle(connection: socket.socket, correlation_id: int, _frame: bytes) -> None:
    connection.sendall(raw_answer(correlation_id, throttle_time_ms=3_600_000))


@pytest.mark.parametrize(
    ("first", "then", "protocol"),
    [
        (None, hang, "PLAINTEXT"),
        (echo, hang, "PLAINTEXT"),
        (throttle, hang, "PLAINTEXT"),
        (None, None, "PLAINTEXT"),
        (None, None, "SSL"),
    ],
    ids=["first answer", "later answer", "throttled", "ApiVersions", "TLS handshake"],
)
def test_close_from_another_thread_ends_a_run_that_waits(
    first: Serve | None, then: Serve | None, protocol: str
) -> None:
    """Every wait ends with ClientClosedError and not with a fault of the broker, within a second."""
    serve_next = iter([first, then] if first else [then])
    waiting = threading.Event()

    def serve(connection: socket.socket, correlation_id: int, frame: bytes) -> None:
        step = next(serve_next)
        assert step is not None
        if step is hang:
            waiting.set()
        step(connection, correlation_id, frame)

    def silent(connection: socket.socket) -> None:
        waiting.set()
        wait_for_end(connection)

    ended: list[float] = []
    outcome: list[object] = []

    def wait(connections: Connections, listener: Listener) -> None:
        try:
            outcome.append(ask(connections, listener))
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            outcome.append(error)
        ended.append(time.monotonic())

    with (
        Listener(silent) if then is None else broker(serve) as listener,
        client(security_protocol=protocol) as connections,
    ):
        if first is not None:
            ask(connections, listener)
        if first is throttle:
            waiting.set()
        thread = threading.Thread(target=wait, args=(connections, listener))
        thread.start()
        assert waiting.wait(PATIENCE_S)
        time.sleep(0.05)
        began = time.monotonic()
        connections.close()
        thread.join(PATIENCE_S)

        assert [type(result) for result in outcome] == [ClientClosedError]
        assert ended[0] - began < 1
        with pytest.raises(ClientClosedError):
            ask(connections, listener)
        connections.close()


def test_close_does_not_wait_for_a_busy_client() -> None:
    """Where the client's thread is held up (by a name that does not resolve), close returns all the same."""
    held, release = threading.Event(), threading.Event()
    outcome: list[object] = []

    async def hold() -> None:
        held.set()
        assert release.wait(PATIENCE_S)

    def wait(connections: Connections) -> None:
        try:
            connections.run(hold)
        except ClientClosedError as error:
            outcome.append(error)

    with client() as connections:
        thread = threading.Thread(target=wait, args=(connections,))
        thread.start()
        assert held.wait(PATIENCE_S)
        (client_thread,) = [t for t in threading.enumerate() if "contract" in t.name and t.is_alive()]
        try:
            connections.close()
            thread.join(PATIENCE_S)
            assert [type(error) for error in outcome] == [ClientClosedError]
        finally:
            release.set()
            client_thread.join(PATIENCE_S)
            for left in (connections._net._wakeup_r, connections._net._wakeup_w, connections._net._selector):
                left.close()  # in a program that ends, the end of the process does this


def test_nothing_is_left_after_close() -> None:
    """The client's thread and its sockets are gone, after a response and after a fault."""
    threads, descriptors = set(threading.enumerate()), open_descriptors()
    with broker(echo) as listener:
        with client() as connections:
            ask(connections, listener)
        until(lambda: not {t for t in set(threading.enumerate()) - threads if "contract" in t.name})
    until(lambda: open_descriptors() == descriptors)
    assert set(threading.enumerate()) == threads


def test_a_connection_that_nobody_uses_ends() -> None:
    """Brokers that the metadata no longer name would hold a descriptor each; one that is in use stays."""
    ahead_s = 0.0
    open_now: set[str] = set()

    def counted(name: str) -> Listener:
        def talk(connection: socket.socket) -> None:
            open_now.add(name)
            for frame in frames(connection):
                key, version, number = struct.unpack_from(">hhi", frame)
                if key == API_VERSIONS:
                    connection.sendall(api_versions(number, version, (RAW,)))
                else:
                    echo(connection, number, frame)
            open_now.remove(name)

        return Listener(talk)

    connections = Connections({}, client_id="contract", clock=lambda: time.monotonic() + ahead_s)
    with counted("left") as left, counted("used") as used, counted("new") as new:
        try:
            ask(connections, left)
            ask(connections, used)
            ahead_s += IDLE_SECONDS_MAX + 1
            ask(connections, used)
            assert open_now == {"left", "used"}
            ask(connections, new)
            until(lambda: open_now == {"used", "new"}, patience_s=PATIENCE_S)
        finally:
            connections.close()
