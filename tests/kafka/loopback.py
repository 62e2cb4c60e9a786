"""A listener on the loopback that runs a test's function for each connection, in its own thread."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

HOST = "127.0.0.1"

Talk = Callable[[socket.socket], None]
"""Serves one connection; it is closed when this returns or raises OSError."""


class Listener:
    """`with Listener(talk) as listener:` accepts on `listener.port` until it is closed."""

    def __init__(self, talk: Talk, host: str = HOST, port: int = 0) -> None:
        self._talk = talk
        self._socket = socket.create_server((host, port))
        self.port: int = self._socket.getsockname()[1]
        self.accepted = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Refuse new connections, end the open ones, and wait until no thread serves any more."""
        with self._lock:
            self._closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._socket.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive(), "a connection of the test is served for ever"

    def cut(self) -> None:
        """Cut all open connections; new ones are still accepted."""
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:
                return
            with self._lock:
                if self._closed:
                    connection.close()
                    return
                self.accepted += 1
                self._open.add(connection)
                thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with suppress(OSError):
                self._talk(connection)
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()


def frames(connection: socket.socket) -> Iterator[bytes]:
    """The frames that arrive, without their lengths, until the other side closes."""
    with connection.makefile("rb") as stream:
        while len(size := stream.read(4)) == 4:
            yield stream.read(*struct.unpack(">i", size))


def framed(payload: bytes) -> bytes:
    """`payload` behind its length."""
    return struct.pack(">i", len(payload)) + payload


def wait_for_end(connection: socket.socket) -> None:
    """Swallow whatever comes, answer nothing, until the other side (or the test) closes."""
    while connection.recv(65536):
        pass


def ends_within(connection: socket.socket, seconds: float) -> bool:
    """Swallow whatever comes, for so long; True when the other side (or the test) closed."""
    connection.settimeout(seconds)
    try:
        wait_for_end(connection)
    except TimeoutError:
        return False
    finally:
        connection.settimeout(None)
    return True
