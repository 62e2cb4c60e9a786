"""A proxy in front of an object store that makes faults: slow, refused, cut in mid-upload, silent."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

HOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Fault:
    """What becomes of one request."""

    delay_s: float = 0
    refusal: tuple[int, str] | None = None
    """Status and S3's code, in place of the store's response."""
    is_cut: bool = False
    """Half of the body goes to the store, then both connections end."""
    is_response_lost: bool = False
    """The store does it, and the client never hears of that."""


Weather = Callable[[str, str], Fault | None]
"""By method and path with query; None for no fault."""


def fair(_method: str, _path: str) -> Fault | None:
    return None


class FaultProxy:
    """`with FaultProxy(port) as proxy:` listens on `proxy.port`; `proxy.weather` may change at any time."""

    def __init__(self, target_port: int) -> None:
        self.weather: Weather = fair
        self.requests: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                outer._serve(self, target_port)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815 - the names of http.server

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Server((HOST, 0), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> FaultProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, request: BaseHTTPRequestHandler, target_port: int) -> None:
        body = _body_of(request)
        self.requests.append(f"{request.command} {request.path}")
        fault = self.weather(request.command, request.path) or Fault()
        time.sleep(fault.delay_s)
        with suppress(OSError):
            if fault.refusal is not None:
                _refuse(request, *fault.refusal)
                return
            with closing(http.client.HTTPConnection(HOST, target_port, timeout=60)) as store:
                store.putrequest(request.command, request.path, skip_host=True, skip_accept_encoding=True)
                for name, value in request.headers.items():
                    if name.lower() != "expect":
                        store.putheader(name, value)
                store.endheaders(body[: len(body) // 2] if fault.is_cut else body)
                if fault.is_cut or _answer(request, store.getresponse(), is_lost=fault.is_response_lost):
                    request.close_connection = True
                    request.connection.close()


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that is killed is no error of the proxy."""


def _body_of(request: BaseHTTPRequestHandler) -> bytes:
    """As it was sent: of a chunked one with the frames."""
    if request.headers.get("Transfer-Encoding", "").lower() != "chunked":
        return request.rfile.read(int(request.headers.get("Content-Length") or 0))
    frames = []
    while True:
        frames.append(request.rfile.readline())
        length = int(frames[-1], 16)
        frames.append(request.rfile.read(length + 2) if length else request.rfile.readline())
        if not length:
            return b"".join(frames)


def _refuse(request: BaseHTTPRequestHandler, status: int, code: str) -> None:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
    request.send_response(status)
    request.send_header("Content-Type", "application/xml")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)


def _answer(request: BaseHTTPRequestHandler, response: http.client.HTTPResponse, *, is_lost: bool) -> bool:
    """True if the connection must end."""
    body = response.read()
    if is_lost:
        return True
    request.send_response_only(response.status, response.reason)
    for name, value in response.getheaders():
        if name.lower() not in {"transfer-encoding", "connection", "content-length"}:
            request.send_header(name, value)
    length = response.getheader("Content-Length") if request.command == "HEAD" else str(len(body))
    request.send_header("Content-Length", length or "0")
    request.end_headers()
    request.wfile.write(body)
    return False
