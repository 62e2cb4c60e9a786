"""Runs uvicorn with its own event loop in its own thread, on a listener that limits connections.

The only file that uses the server library, for the reasons in docs/decisions/0003-web-server.md.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from exporter.web.auth import Authenticator
from exporter.web.connections import ConnectionLimits, Listener
from exporter.web.listener import WebServerError, listen, url_of
from exporter.web.routes import HEADER_BYTES_MAX, Request, Response, Routes
from exporter.web.tls import RenewingContext, is_allowed

_log = logging.getLogger(__name__)

_SEND_BYTES = 128 * 1024
"""Limit for the buffered part of a response while its peer does not read."""
_GRACE_SECONDS = 0.3
"""Time for responses in flight when the server is closed."""
_START_SECONDS_MAX = 10.0
_SECOND_NET_SECONDS = 4
"""Seconds after which uvicorn cancels requests; by then all connections are dropped."""
_CLOSE_SECONDS_MAX = 8.0

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class WebServer:
    """Serves a site from `start` to `close`, once: one listener, one thread, one event loop."""

    url: str
    """A URL of this server that works on this machine, once it is started."""
    port: int
    """The port in use, also with port 0 in the settings."""
    _listener: Listener | None = None
    _loop: asyncio.AbstractEventLoop
    _server: uvicorn.Server
    _thread: threading.Thread

    def __init__(
        self,
        listen_address: str,
        routes: Routes,
        *,
        limits: ConnectionLimits | None = None,
        tls: ssl.SSLContext | None = None,
        allowed_sans: frozenset[str] = frozenset(),
        guard: Authenticator | None = None,
        option: str = "--publish.listen-address",
    ) -> None:
        """`allowed_sans`: a peer's certificate must have one of these names; empty for any. `option` names the address."""
        self._option = option
        self._tls = tls
        self._allowed_sans = allowed_sans
        self._guard = guard or Authenticator()
        self._listen_address = listen_address
        self._site = routes
        self._limits = limits or ConnectionLimits()
        self._has_started = threading.Event()

    def start(self) -> None:
        """Returns when the server accepts requests. Raises WebServerError with one sentence."""
        assert self._listener is None, "a server is started once"
        listener = self._listener = listen(self._listen_address, self._limits, self._option)
        self.url, self.port = url_of(listener, "http" if self._tls is None else "https"), listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._server = uvicorn.Server(self._configuration())
        self._thread = threading.Thread(target=self._run, name="web", daemon=True)
        self._thread.start()
        if not self._has_started.wait(_START_SECONDS_MAX):
            raise WebServerError(f"The web server on {self._listen_address} did not start.")

    @property
    def connections(self) -> int:
        return self._listening.peers

    def close(self) -> None:
        """Stops listening, waits a moment for responses in flight, drops all connections. Takes less than a second."""
        if self._listener is None:
            return
        if self._thread.is_alive():
            self._server.should_exit = True
            self._loop.call_soon_threadsafe(self._loop.call_later, _GRACE_SECONDS, self._listener.drop_all)
            self._thread.join(_CLOSE_SECONDS_MAX)
            if self._thread.is_alive():
                _log.error("The web server did not stop within %s s.", _CLOSE_SECONDS_MAX)
        self._guard.close()

    def __enter__(self) -> WebServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _listening(self) -> Listener:
        assert self._listener is not None, "the server is not started"
        return self._listener

    def _configuration(self) -> uvicorn.Config:
        tls = self._tls
        return uvicorn.Config(
            self._application,
            interface="asgi3",
            http=type("_Protocol", (_NamedPeers,), {"allowed_sans": self._allowed_sans, "tls": tls}),
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            log_level=logging.CRITICAL,  # any peer can send nonsense: that is no news for the operator
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=32,
            h11_max_incomplete_event_size=HEADER_BYTES_MAX,
            timeout_keep_alive=int(self._limits.idle_seconds),
            timeout_graceful_shutdown=_SECOND_NET_SECONDS,
            timeout_notify=1,
            callback_notify=self._tick,
            ssl_context_factory=None if tls is None else lambda _, __: tls,
        )

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._server.serve(sockets=[self._listening]))
        finally:
            self._listening.close()
            self._loop.close()

    async def _tick(self) -> None:
        """Called once at the start and then once a second."""
        self._has_started.set()
        self._listening.drop_overdue()

    async def _application(self, scope: Scope, _: Receive, send: Send) -> None:
        """An ASGI application for HTTP: a scope becomes a Request, a Response becomes messages."""
        client = scope["client"]
        self._listening.request_begins(client)
        try:
            request = _request(scope, "" if client is None else client[0])
            config = self._guard.current()
            answer = await self._guard.refusal(request, config) or self._site.answer(request)
            await _send_answer(answer, config.headers, send)
        finally:
            self._listening.request_ends(client)


class _NamedPeers(H11Protocol):
    """uvicorn's protocol, which drops a connection whose certificate has none of the allowed names.

    It also drops a connection that was made before certificate files changed: its authority may be removed.
    """

    allowed_sans: frozenset[str] = frozenset()
    tls: ssl.SSLContext | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not is_allowed(transport.get_extra_info("peercert"), self.allowed_sans, now_s=time.time()):
            transport.abort()

    def data_received(self, data: bytes) -> None:
        if isinstance(self.tls, RenewingContext):
            connection: ssl.SSLObject = self.transport.get_extra_info("ssl_object")
            if connection.context is not self.tls.current():
                self.transport.abort()
                return
        super().data_received(data)


def _request(scope: Scope, address: str) -> Request:
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    return Request(
        method=scope["method"],
        path=_path_of(scope["path"]),
        query=scope["query_string"].decode("latin-1"),
        headers=_joined((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers),
        header_bytes=sum(len(name) + len(value) for name, value in headers),
        address=address,
    )


def _path_of(target: str) -> str:
    """Returns the path of a target that is a whole address, too, which a server must accept (RFC 9112, section 3.2.2)."""
    scheme, _, rest = target.partition("://")
    return f"/{rest.partition('/')[2]}" if scheme in ("http", "https") else target


def _joined(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Joins repeated headers to one list (RFC 9110, section 5.3)."""
    joined: dict[str, str] = {}
    for name, value in headers:
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


async def _send_answer(answer: Response, more_headers: Mapping[str, str], send: Send) -> None:
    """Sends pieces, each after the peer has read the previous one. `more_headers` override those of the response."""
    own = {name.lower(): value for name, value in answer.all_headers}
    merged = {**own, **{name.lower(): value for name, value in more_headers.items()}}
    headers = [(name.encode(), value.encode()) for name, value in merged.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    for chunk in answer.chunks:
        for begin in range(0, len(chunk), _SEND_BYTES):
            piece = chunk[begin : begin + _SEND_BYTES]
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
