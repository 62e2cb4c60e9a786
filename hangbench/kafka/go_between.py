"""A loopback proxy in front of one broker that lets something happen just before a request of a chosen API passes.

What happens between two questions of a tool decides whether its answer is right: here it happens at a known moment.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hangbench.kafka.broker import HOST

BACKLOG: Final = 16
PATIENCE_S: Final = 30.0
RETRY_PAUSE_S: Final = 0.002


@dataclass(slots=True)
class Moment:
    """Just before the `nth` request of the API with this key, counted from when it is awaited."""

    api_key: int
    nth: int
    action: Callable[[], None]
    failure: BaseException | None = None
    has_come: bool = False


class GoBetween:
    """Listens from the start; `lead_to` says where, once that is known."""

    def __init__(self) -> None:
        self._server = socket.create_server((HOST, 0), backlog=BACKLOG)
        self._target: tuple[str, int] | None = None
        self._moment: Moment | None = None
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._closed = False
        threading.Thread(target=self._accept, name="go-between", daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._server.getsockname()[1]
        return port

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def lead_to(self, port: int) -> None:
        self._target = (HOST, port)

    @property
    def target(self) -> tuple[str, int]:
        assert self._target is not None
        return self._target

    def await_moment(self, moment: Moment) -> None:
        """From now on, wait for this moment; it comes once."""
        with self._lock:
            self._moment = moment

    def close(self) -> None:
        """New connections are refused, also one that is just being made."""
        with self._lock:
            self._closed = True
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._server.close()
        for end in self._sockets:
            hang_up(end)
            end.close()

    def _keeps(self, end: socket.socket) -> bool:
        """Closes it instead once this is closed."""
        with self._lock:
            if self._closed:
                end.close()
            else:
                self._sockets.append(end)
            return not self._closed

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            if not self._keeps(client):
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        broker = self._reach_broker()
        if broker is None:
            hang_up(client)
            return
        if not self._keeps(broker):
            return
        threading.Thread(target=_answers, args=(broker, client), daemon=True).start()
        self._requests(client, broker)

    def _reach_broker(self) -> socket.socket | None:
        """A connection as soon as the broker takes one: while it restarts its clients wait here, first in the queue."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                return socket.create_connection(self.target)
            except OSError:
                time.sleep(RETRY_PAUSE_S)
        return None

    def _requests(self, client: socket.socket, broker: socket.socket) -> None:
        try:
            while True:
                size = exactly(client, 4)
                frame = exactly(client, *struct.unpack(">i", size))
                self._passing(*struct.unpack(">h", frame[:2]))
                broker.sendall(size + frame)
        except OSError:
            hang_up(broker)

    def _passing(self, api_key: int) -> None:
        with self._lock:
            moment = self._moment
            if moment is None or moment.has_come or moment.api_key != api_key:
                return
            moment.nth -= 1
            if moment.nth > 0:
                return
            moment.has_come = True
        try:
            moment.action()
        except Exception as failure:  # noqa: BLE001 - belongs to whoever awaited the moment
            moment.failure = failure


def _answers(broker: socket.socket, client: socket.socket) -> None:
    with suppress(OSError):
        while piece := broker.recv(65536):
            client.sendall(piece)
    hang_up(client)


def hang_up(end: socket.socket) -> None:
    """End the connection in both directions."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


def exactly(source: socket.socket, size: int) -> bytes:
    """The next `size` bytes. Raises ConnectionResetError at the end."""
    received = bytearray()
    while len(received) < size:
        piece = source.recv(size - len(received))
        if not piece:
            raise ConnectionResetError
        received += piece
    return bytes(received)
