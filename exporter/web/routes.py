"""Responds to requests with the newest publication and with health.

A request only sends bytes that exist. No path, header or body reaches Kafka or a setting. The only side effect is
`POST /-/reload`, off by default, which reads the settings again from their original sources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote, unquote, urlsplit

from exporter.publication.exposition import Exposition
from exporter.publication.page.page import Page
from exporter.publication.page.script import SCRIPT_SOURCE
from exporter.publication.paths import queries_in
from exporter.web.negotiation import choose_representation

RELOAD_PATH = "/-/reload"
HEADER_BYTES_MAX = 16 * 1024
"""Limit for all headers of one request."""

_PLAIN = "text/plain; charset=utf-8"
_COMMON_HEADERS = (("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store"))
_PAGE_POLICY = (
    "default-src 'none'",
    "style-src 'unsafe-inline'",
    f"script-src {SCRIPT_SOURCE}",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
)
_PAGE_HEADERS = (("Content-Security-Policy", "; ".join(_PAGE_POLICY)), ("Referrer-Policy", "no-referrer"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The used parts of a request; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    query: str = ""
    """The part of the address after its question mark."""
    header_bytes: int = 0
    address: str = ""
    """Address of the peer; "" without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A whole response, ready to send."""

    status: int
    content_type: str
    chunks: tuple[bytes, ...]
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def all_headers(self) -> tuple[tuple[str, str], ...]:
        """Headers of the response, with those of every response."""
        length = str(sum(map(len, self.chunks)))
        return (("Content-Type", self.content_type), ("Content-Length", length), *_COMMON_HEADERS, *self.headers)


@dataclass(frozen=True)
class _Publication:
    exposition: Exposition
    pages: Mapping[str, Page]
    is_ready: bool


class Routes:
    """Holds the newest publication: one thread replaces it as a whole, another reads it."""

    def __init__(
        self, liveness: Callable[[], str | None], *, reload: Callable[[], None] | None = None, external_url: str = ""
    ) -> None:
        """`liveness` is called for every health request and must be cheap: None, or the reason why not alive.

        `reload` starts a reload of the settings; None if reloading over HTTP is off. The path of `external_url` is that of
        a proxy: links on the pages have it, and a request may, since not every proxy takes it off.
        """
        self._liveness = liveness
        self._reload = reload
        self._prefix = urlsplit(external_url).path.rstrip("/")
        self._requested_prefix = unquote(self._prefix)
        self._published: _Publication | None = None

    def publish(self, exposition: Exposition, pages: Mapping[str, Page], *, is_ready: bool) -> None:
        """Requests from now on get these, pages by path; `is_ready` is true after the first cycle that succeeded."""
        if self._prefix:
            pages = {path: page.linked_below(self._prefix) for path, page in pages.items()}
        self._published = _Publication(exposition, pages, is_ready)

    def answer(self, request: Request) -> Response:
        """The response to one request. HEAD is handled like GET; the server omits the body."""
        prefix = self._requested_prefix
        if prefix and f"{request.path}/".startswith(f"{prefix}/"):
            request = replace(request, path=request.path.removeprefix(prefix) or "/")
        refusal = _refusal(request)
        if refusal is not None:
            return refusal
        handler = _PATHS.get(request.path)
        return self._page(request) if handler is None else handler(self, request)

    def _ask_for_reload(self, request: Request) -> Response:
        if self._reload is None:
            return plain(403, "Reloading over HTTP is off: set publish.reload_endpoint, or send SIGHUP.")
        if request.method != "POST":
            return plain(405, "Only POST.", ("Allow", "POST"))
        if _is_of_another_site(request.headers):
            return plain(403, "A page of another site may not ask for this.")
        self._reload()
        return plain(202, "The settings are read again: the log and /metrics have the result.")

    def _metrics(self, request: Request) -> Response:
        published = self._published
        if published is None:
            return plain(503, "Nothing is published yet.")
        headers = request.headers
        representation = choose_representation(
            published.exposition, headers.get("accept", ""), headers.get("accept-encoding", "")
        )
        made_for = [("Vary", "Accept, Accept-Encoding")]
        if representation.content_encoding is not None:
            made_for.append(("Content-Encoding", representation.content_encoding))
        content_type, chunks = representation.content_type, representation.chunks
        return Response(status=200, content_type=content_type, chunks=chunks, headers=tuple(made_for))

    def _healthy(self, _: Request) -> Response:
        """Alive while cycles run, even if they fail: it does not depend on Kafka."""
        failure = self._liveness()
        return plain(200, "Alive.") if failure is None else plain(503, failure)

    def _ready(self, _: Request) -> Response:
        is_ready = self._published is not None and self._published.is_ready
        return plain(200, "Ready.") if is_ready else plain(503, "No cycle has succeeded yet.")

    def _page(self, request: Request) -> Response:
        published = self._published
        if published is None:
            return plain(503, "Nothing is published yet.") if request.path == "/" else plain(404, "Not found.")
        paths = [*(request.path + query for query in queries_in(request.query)), request.path]
        page = next(filter(None, map(published.pages.get, paths)), None)
        if page is None:
            return _without_slash(request.path, published.pages) or plain(404, "Not found.")
        if page.moved_to:
            return plain(302, f"It is at {page.moved_to}.", ("Location", page.moved_to))
        body = page.with_alarm(self._liveness())
        return Response(status=200, content_type=page.content_type, chunks=(body,), headers=_PAGE_HEADERS)


_PATHS: dict[str, Callable[[Routes, Request], Response]] = {
    "/metrics": Routes._metrics,  # noqa: SLF001  # the table of this class's own handlers
    "/-/healthy": Routes._healthy,  # noqa: SLF001
    "/-/ready": Routes._ready,  # noqa: SLF001
    RELOAD_PATH: Routes._ask_for_reload,  # noqa: SLF001
}


def _refusal(request: Request) -> Response | None:
    if request.header_bytes > HEADER_BYTES_MAX:
        return plain(431, "Too many headers.", ("Connection", "close"))
    if request.method not in ("GET", "HEAD") and (request.method, request.path) != ("POST", RELOAD_PATH):
        return plain(405, "Only GET and HEAD.", ("Allow", "GET, HEAD"), ("Connection", "close"))
    if "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0":
        return plain(413, "No request here has a body.", ("Connection", "close"))
    return None


def _is_of_another_site(headers: Mapping[str, str]) -> bool:
    """True for a request that a page of another site caused, by the browser's Fetch Metadata or Origin (RFC 6454)."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    if origin is None:
        return False
    try:
        return urlsplit(origin).netloc != headers.get("host")
    except ValueError:
        return True


def _without_slash(path: str, pages: Mapping[str, Page]) -> Response | None:
    """Leads to the page of which the path has one slash too many, as in an alert's address of a cluster's page."""
    name = path.removesuffix("/")
    if name in (path, "/") or name not in pages:
        return None
    address = f"../{quote(name.rpartition('/')[2], safe='')}"
    return plain(302, f"It is at {address}.", ("Location", address))


def plain(status: int, sentence: str, *headers: tuple[str, str]) -> Response:
    return Response(status=status, content_type=_PLAIN, chunks=(f"{sentence}\n".encode(),), headers=headers)
