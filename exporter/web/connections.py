"""Limits connections: their number, and deadlines below the web server and below TLS.

Sockets and the monotonic clock, no HTTP. A peer is either *waiting* (it has not yet sent a whole
request: TLS handshake, headers, an idle kept-alive connection) or *served* (it is taking its response). Both end at a
deadline. All calls come from the thread of the event loop, so nothing here is locked.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import time
from collections import Counter
from dataclasses import dataclass

log = logging.getLogger("exporter")

Address = tuple[str, int]
SAY_AGAIN_SECONDS = 60.0
_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of the web server."""

    connections_max: int = 64
    """Each TLS connection costs about 0.1 MB; when all are used, the address with most of them loses one."""
    first_request_seconds: float = 10
    """Seconds from accept to the end of the first request's headers, the TLS handshake included."""
    idle_seconds: float = 120
    """Seconds from a response to the end of the next request's headers: more than the usual scrape interval."""
    answer_seconds: float = 60
    """Seconds for the peer to read a response."""


class AcceptedConnection(socket.socket):
    """One accepted connection, which notifies its listener when it is closed."""

    listener: Listener | None = None
    address: Address = ("", 0)
    since: float = 0
    """The begin of its present state, by the monotonic clock."""
    deadline: float = 0

    def close(self) -> None:
        if self.listener is not None:
            self.listener.forget(self)
        super().close()

    def drop(self) -> None:
        """Shuts the connection down from outside: its owner reads an end of file, and closes it."""
        with contextlib.suppress(OSError):  # the peer may be gone already
            self.shutdown(socket.SHUT_RDWR)


class Listener(socket.socket):
    """A listening socket that counts its connections."""

    def __init__(self, family: socket.AddressFamily, limits: ConnectionLimits) -> None:
        # asyncio turns Nagle's algorithm off only if `proto` is TCP; with it, TLS would wait 40 ms.
        super().__init__(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._limits = limits
        self._peers: dict[Address, AcceptedConnection] = {}
        self._say_again_at = 0.0

    @property
    def peers(self) -> int:
        """Open connections."""
        return len(self._peers)

    def accept(self) -> tuple[AcceptedConnection, object]:
        """The next connection; another one is dropped for it when there are too many, or no descriptor is left."""
        try:
            connection, address = super().accept()
        except OSError as error:
            if error.errno not in _NO_DESCRIPTOR or not self._peers:
                raise
            self._say_no_descriptor()
            self._make_room()
            raise BlockingIOError from None  # asyncio accepts again, once the dropped connection is closed
        peer = AcceptedConnection(self.family, self.type, self.proto, fileno=connection.detach())
        if self.peers >= self._limits.connections_max:
            self._make_room()
        peer.listener = self
        peer.address = (address[0], address[1])
        self._begin(peer, self._limits.first_request_seconds)
        self._peers[peer.address] = peer
        return peer, address

    def _say_no_descriptor(self) -> None:
        now = time.monotonic()
        if now >= self._say_again_at:
            self._say_again_at = now + SAY_AGAIN_SECONDS
            log.warning("no descriptor is left for a connection of the web server: raise the limit (ulimit -n)")

    def forget(self, peer: AcceptedConnection) -> None:
        """The connection is closed, or being closed."""
        if self._peers.get(peer.address) is peer:
            del self._peers[peer.address]

    def request_begins(self, address: Address | None) -> None:
        """The peer has sent a whole request, and now has to read the response."""
        if address is not None and (peer := self._peers.get(address)) is not None:
            self._begin(peer, self._limits.answer_seconds)

    def request_ends(self, address: Address | None) -> None:
        """The response is sent: the peer may wait before its next request."""
        if address is not None and (peer := self._peers.get(address)) is not None:
            self._begin(peer, self._limits.idle_seconds)

    def drop_overdue(self) -> None:
        """Drops connections past their deadline. Call it about once a second."""
        now = time.monotonic()
        for peer in [peer for peer in self._peers.values() if peer.deadline <= now]:
            self._drop(peer)

    def drop_all(self) -> None:
        for peer in list(self._peers.values()):
            self._drop(peer)

    def _make_room(self) -> None:
        """Drops a peer: of the address with most connections, the one that has waited or been served longest.

        Slow readers are served longest; a scraper is done in milliseconds.
        """
        held = Counter(address for address, _ in self._peers)
        self._drop(max(self._peers.values(), key=lambda peer: (held[peer.address[0]], -peer.since)))

    @staticmethod
    def _begin(peer: AcceptedConnection, seconds_max: float) -> None:
        peer.since = time.monotonic()
        peer.deadline = peer.since + seconds_max

    def _drop(self, peer: AcceptedConnection) -> None:
        self.forget(peer)
        peer.drop()
