"""A proxy in front of one real broker that drops the responses of one API: the request arrives, the connection ends."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from types import TracebackType


class LosingProxy:
    """Listens on `port` and forwards to `target_port`; while `losing` is an API key, its responses are never delivered."""

    def __init__(self, port: int, target_port: int) -> None:
        self.losing: int | None = None
        self.lost = 0
        self._target_port = target_port
        self._server = socket.create_server(("127.0.0.1", port))
        self._sockets: list[socket.socket] = [self._server]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> LosingProxy:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self._target_port))
            except OSError:
                client.close()
                return
            self._sockets += [client, broker]
            threading.Thread(target=self._forward_requests, args=(client, broker), daemon=True).start()
            threading.Thread(target=self._forward_answers, args=(broker, client), daemon=True).start()

    def _forward_requests(self, client: socket.socket, broker: socket.socket) -> None:
        with contextlib.suppress(OSError), client, broker:
            while frame := _frame(client):
                (api_key,) = struct.unpack_from(">h", frame, 4)
                if api_key == self.losing:
                    self.lost += 1
                    client.shutdown(socket.SHUT_WR)  # the client sees the connection end; the broker sees the request
                    broker.sendall(frame)
                    _frame(broker)  # the broker has carried it out
                    return
                broker.sendall(frame)

    @staticmethod
    def _forward_answers(broker: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := broker.recv(65536):
                client.sendall(data)


def _frame(sock: socket.socket) -> bytes:
    """One whole frame with its length; empty at the end."""
    head = _exactly(sock, 4)
    return head and head + _exactly(sock, struct.unpack(">i", head)[0])


def _exactly(sock: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        data = sock.recv(size - len(received))
        if not data:
            return b""
        received += data
    return received
