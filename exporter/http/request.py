"""Sends one HTTP request and reads its response, within a total time whatever the other side does.

Python's time-out is for one operation of a socket: a server that sends a byte a second never exceeds it, and a lookup
of a name has none. So a daemon thread does the work, and at the end of the time its socket is shut down, which ends
the thread as well. A lookup cannot be ended; its thread stays until the resolver gives up, and the process does not
wait for it.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from exporter.http.tls import system_context

SCHEMES: Final = frozenset({"http", "https"})
REFUSAL_BYTES_MAX: Final = 4096
END_SECONDS: Final = 0.1
"""The wait for a thread whose socket was shut down."""


class HttpError(Exception):
    """The text says why there is no response that can be used, without its full stop."""

    status: int | None = None
    """The response's status where it was not a success."""
    body: str = ""
    """The beginning of that response."""


class Exchange:
    """One request, and its response once `wait` returns."""

    def __init__(
        self,
        url: str,
        *,
        bytes_max: int,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        tls: Callable[[], ssl.SSLContext] = system_context,
        decode: Callable[[bytes], Any] = json.loads,
    ) -> None:
        """`tls` and `decode` are called in the thread, and may raise OSError and ValueError."""
        self._url = url
        self._bytes_max = bytes_max
        self._data = data
        self._headers = dict(headers or {})
        self._tls = tls
        self._decode = decode
        self._response: Any = None
        self._failure: HttpError | None = None
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._is_over = False
        self._timeout_s = 0.0
        self._too_late = ""
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def wait(self, total_s: float) -> Any:
        """Sends the request; returns the decoded body of its response within the time. Raises HttpError."""
        ends_at = time.monotonic() + total_s
        self._timeout_s = total_s
        self._too_late = f"it timed out: its response was not complete after {total_s:.3g} s"
        self._thread.start()
        self._thread.join(max(ends_at - time.monotonic(), 0))
        if self._thread.is_alive():
            self._end()
            raise HttpError(self._too_late)
        if self._failure is not None:
            raise self._failure
        return self._response

    @property
    def is_running(self) -> bool:
        """The thread has not ended, although the time is over: it waits for the resolver."""
        return self._thread.is_alive()

    def _end(self) -> None:
        with self._lock:
            self._is_over = True
            for each in self._sockets:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        self._thread.join(END_SECONDS)

    def _run(self) -> None:
        try:
            self._response = self._read()
        except Exception as error:  # noqa: BLE001 - whatever another service sends becomes a sentence
            is_late = isinstance(getattr(error, "reason", error), TimeoutError)
            self._failure = HttpError(self._too_late if is_late else _why(error))
            if isinstance(error, urllib.error.HTTPError):
                self._failure.status = error.code
                with suppress(OSError, http.client.HTTPException):
                    self._failure.body = error.read(REFUSAL_BYTES_MAX).decode("utf-8", "replace")
        finally:
            with self._lock:
                for each in self._sockets:
                    each.close()
                self._sockets.clear()

    def _read(self) -> Any:
        if urllib.parse.urlsplit(self._url).scheme not in SCHEMES:
            raise ValueError("its URL is neither http nor https")
        request = urllib.request.Request(self._url, data=self._data, headers=self._headers)  # noqa: S310 - checked above
        opener = urllib.request.build_opener(_OwnSockets(self._connect, self._tls()), _NoRedirects())
        with opener.open(request, timeout=max(self._timeout_s, 0.1)) as response:
            body = response.read(self._bytes_max + 1)
        if len(body) > self._bytes_max:
            raise ValueError(f"its response has more than {self._bytes_max:,} bytes")
        return self._decode(body)

    def _connect(self, *arguments: Any, **options: Any) -> socket.socket:
        """A connection that `_end` can shut down, also in the middle of a TLS handshake."""
        made = socket.create_connection(*arguments, **options)
        with self._lock:
            if self._is_over:
                made.close()
                raise TimeoutError("its time is over")
            self._sockets.append(socket.socket(fileno=os.dup(made.fileno())))
        return made


class _OwnSockets(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens http and https over sockets that `connect` makes."""

    def __init__(self, connect: Callable[..., socket.socket], tls: ssl.SSLContext) -> None:
        super().__init__(context=tls)
        self._connect = connect
        self._tls = tls

    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(partial(_connection, http.client.HTTPConnection, self._connect), request)

    def https_open(self, request: urllib.request.Request) -> Any:
        make = partial(_connection, http.client.HTTPSConnection, self._connect)
        return self.do_open(make, request, context=self._tls)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A secret goes only to the endpoint in the settings, and a request to no other scheme."""

    def redirect_request(self, *_: Any) -> None:
        """Follows no redirect: it is reported as the HTTP error that it is."""


def _connection(
    kind: type[http.client.HTTPConnection], connect: Callable[..., socket.socket], *arguments: Any, **options: Any
) -> http.client.HTTPConnection:
    connection = kind(*arguments, **options)
    connection._create_connection = connect  # type: ignore[attr-defined] # noqa: SLF001 - its only way to a socket of one's own
    return connection


def _why(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"it responded with {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return getattr(error.reason, "strerror", None) or str(error.reason)
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError | RecursionError):
        return "its response is not JSON"
    return str(error) or type(error).__name__
