"""A TCP connection to one node of a test cluster that can delay, drop, refuse and cut data."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from enum import Enum
from typing import Final

HOST: Final = "127.0.0.1"
SLOW_CHUNK_BYTES: Final = 512
SLOW_PAUSE_S: Final = 0.02
LOOK_S: Final = 0.05


class Weather(Enum):
    """What becomes of bytes."""

    FAIR = "fair"
    HOLE = "black hole"
    """They are taken and never delivered; connections are made."""
    SLOW = "slow"
    REFUSED = "refused"
    """Connections end as soon as they are made."""
    CUT = "cut in mid-frame"
    """Half of what the broker says next comes, then the connection is reset."""


class Link:
    """Listens on `port` of a loopback address and forwards to `target_port` of 127.0.0.1."""

    def __init__(self, port: int, target_port: int, *, host: str = HOST) -> None:
        self.port = port
        self.weather = Weather.FAIR
        self._target_port = target_port
        self._server = socket.create_server((host, port))
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """For good."""
        self._server.close()
        self.reset()

    def reset(self) -> None:
        """End every connection with a reset."""
        with self._lock:
            doomed, self._open = self._open, set()
        for it in doomed:
            _reset(it)

    def _is_hole(self) -> bool:
        return self.weather is Weather.HOLE

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            if self.weather is Weather.REFUSED:
                _reset(client)
                continue
            try:
                broker = socket.create_connection((HOST, self._target_port))
            except OSError:
                _reset(client)
                continue
            for end in (client, broker):  # otherwise the second write of a frame waits 40 ms
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open |= {client, broker}
            for source, sink, is_answer in ((client, broker, False), (broker, client, True)):
                threading.Thread(target=self._pump, args=(source, sink, is_answer), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:  # noqa: FBT001
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self.weather is Weather.CUT and is_answer:
                    sink.sendall(data[: len(data) // 2])
                    break
                if self._is_hole():
                    while self._is_hole():
                        time.sleep(LOOK_S)
                    break  # what was lost is lost
                if self.weather is Weather.SLOW:
                    for start in range(0, len(data), SLOW_CHUNK_BYTES):
                        sink.sendall(data[start : start + SLOW_CHUNK_BYTES])
                        time.sleep(SLOW_PAUSE_S)
                else:
                    sink.sendall(data)
        with self._lock:
            self._open -= {source, sink}
        _reset(source)
        _reset(sink)


def _reset(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
