"""The listener's limits and deadlines, independent of any web server."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator

import pytest

from exporter.web.connections import AcceptedConnection, ConnectionLimits, Listener

PATIENCE_SECONDS = 30


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as sockets:
        yield sockets


def _listener(stack: contextlib.ExitStack, **limits: float) -> Listener:
    listener = stack.enter_context(Listener(socket.AF_INET, ConnectionLimits(**limits)))  # type: ignore[arg-type]  # one is an int
    listener.bind(("127.0.0.1", 0))
    listener.listen(10)
    listener.settimeout(PATIENCE_SECONDS)
    return listener


def _connect(listener: Listener, stack: contextlib.ExitStack) -> socket.socket:
    return stack.enter_context(socket.create_connection(listener.getsockname(), timeout=PATIENCE_SECONDS))


def _connect_from(address: str, listener: Listener, stack: contextlib.ExitStack) -> socket.socket:
    client = stack.enter_context(
        socket.create_connection(listener.getsockname(), timeout=PATIENCE_SECONDS, source_address=(address, 0))
    )
    stack.enter_context(listener.accept()[0])
    return client


def _pair(listener: Listener, stack: contextlib.ExitStack) -> tuple[socket.socket, AcceptedConnection]:
    client = _connect(listener, stack)
    peer, _ = listener.accept()
    return client, stack.enter_context(peer)


def test_the_peer_that_has_waited_or_been_served_longest_makes_room(stack: contextlib.ExitStack) -> None:
    """A scraper is served for milliseconds and comes again; who does not read is served for ever."""
    listener = _listener(stack, connections_max=2)
    (first, waiting), (second, _), (third, _) = _pair(listener, stack), _pair(listener, stack), _pair(listener, stack)
    assert first.recv(1) == b""
    assert listener.peers == 2
    listener.request_begins(second.getsockname())
    fourth, _ = _pair(listener, stack)
    assert third.recv(1) == b"", "it has waited for longer than the other has been served"
    listener.request_begins(fourth.getsockname())
    fifth, _ = _pair(listener, stack)
    assert second.recv(1) == b"", "it is served longest"
    assert listener.peers == 2
    assert waiting.fileno() != -1, "its holder closes it, not the listener"
    fifth.close()


def test_an_address_that_takes_every_place_loses_its_own(stack: contextlib.ExitStack) -> None:
    """A peer of another address keeps its connection, however long it waits."""
    listener = _listener(stack, connections_max=3)
    scraper = _connect_from("127.0.0.2", listener, stack)
    taken = [_pair(listener, stack)[0] for _ in range(6)]
    assert [connection.recv(1) for connection in taken[:4]] == [b""] * 4
    probe = _connect_from("127.0.0.3", listener, stack)
    assert taken[4].recv(1) == b""
    assert listener.peers == 3
    for connection in (scraper, probe, taken[5]):
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(1)


def test_a_closed_connection_frees_its_place(stack: contextlib.ExitStack) -> None:
    """One close by either owner is enough, and a second one changes nothing."""
    listener = _listener(stack)
    _, peer = _pair(listener, stack)
    assert listener.peers == 1
    peer.close()
    peer.close()
    assert listener.peers == 0


@pytest.mark.parametrize("overdue", ["first_request_seconds", "answer_seconds", "idle_seconds"])
def test_each_state_has_its_own_deadline(stack: contextlib.ExitStack, overdue: str) -> None:
    """Only the state whose time is over costs the connection."""
    limits = {"first_request_seconds": 60.0, "answer_seconds": 60.0, "idle_seconds": 60.0} | {overdue: -1.0}
    listener = _listener(stack, **limits)
    client, _ = _pair(listener, stack)
    left = []
    for change in (lambda _: None, listener.request_begins, listener.request_ends):
        change(client.getsockname())
        listener.drop_overdue()
        left.append(listener.peers)
    assert left == {"first_request_seconds": [0, 0, 0], "answer_seconds": [1, 0, 0], "idle_seconds": [1, 1, 0]}[overdue]
    assert client.recv(1) == b""


def test_a_peer_that_left_is_not_an_error(stack: contextlib.ExitStack) -> None:
    """Deadlines, ends of requests and dropping all may meet a connection that is gone."""
    listener = _listener(stack)
    client, peer = _pair(listener, stack)
    client.close()
    listener.drop_all()
    assert listener.peers == 0
    listener.request_begins(("192.0.2.1", 1))
    listener.request_ends(("192.0.2.1", 1))
    listener.request_begins(None)
    listener.request_ends(None)
    peer.close()
    peer.drop()


def test_without_a_descriptor_a_connection_is_dropped_and_one_line_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Instead of a traceback for each attempt; without a connection to drop, asyncio waits for a second."""
    with Listener(socket.AF_INET, ConnectionLimits()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        with socket.create_connection(listener.getsockname()) as first, listener.accept()[0]:

            def refuses(_: socket.socket) -> None:
                raise OSError(errno.EMFILE, "Too many open files")

            monkeypatch.setattr(socket.socket, "accept", refuses)
            with pytest.raises(BlockingIOError):
                listener.accept()
            assert first.recv(1) == b"", "the only connection was dropped"
            for _ in range(100):
                with pytest.raises(OSError, match="Too many open files"):
                    listener.accept()
    assert caplog.text.count("no descriptor is left") == 1
