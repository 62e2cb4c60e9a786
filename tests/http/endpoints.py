"""HTTP servers that misbehave, as a `talk` of `tests.kafka.loopback.Listener`."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from typing import Final

DRIP_S: Final = 0.05
ended = threading.Event()


def _request(connection: socket.socket) -> None:
    connection.recv(65536)


def _drip(head: bytes, byte: bytes) -> Callable[[socket.socket], None]:
    def talk(connection: socket.socket) -> None:
        _request(connection)
        connection.sendall(head)
        while not ended.wait(DRIP_S):
            connection.sendall(byte)

    return talk


def _flood(connection: socket.socket) -> None:
    _request(connection)
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)


def _once(response: bytes) -> Callable[[socket.socket], None]:
    def talk(connection: socket.socket) -> None:
        _request(connection)
        connection.sendall(response)

    return talk


ENDLESS: Final[Mapping[str, Callable[[socket.socket], None]]] = {
    "a body that drips": _drip(b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n", b" "),
    "a body without length that drips": _drip(b"HTTP/1.1 200 OK\r\n\r\n", b" "),
    "a header that drips": _drip(b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    "a status line that drips": _drip(b"HTTP/1.1 200 ", b"O"),
    "100 Continue that drips": _drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "100 Continue that floods": _flood,
}
"""What never exceeds the time-out of one operation."""
STRANGE: Final[Mapping[str, tuple[Callable[[socket.socket], None], str]]] = {
    "SSH": (_once(b"SSH-2.0-OpenSSH_9.6\r\n"), "SSH-2.0-OpenSSH_9.6"),
    "a long header": (_once(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n"), "more than 65536 bytes"),
    "many headers": (_once(b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 200 + b"\r\n"), "more than 100 headers"),
    "deep JSON": (_once(b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 200_000), "its response is not JSON"),
    "no response": (_once(b""), "closed connection without response"),
    "a redirect": (
        _once(b"HTTP/1.1 302 Found\r\nLocation: ftp://127.0.0.1:1/x\r\n\r\n"),
        "it responded with 302 Found",
    ),
    "a broken chunk": (_once(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), "IncompleteRead"),
}
"""What is not an HTTP response with JSON, and words of the sentence about it."""
