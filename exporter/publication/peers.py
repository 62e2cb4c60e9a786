"""Who may be connected, and for how long: a cap and deadlines that hold below any web server and below TLS.

Law of this file: sockets and the monotonic clock, no HTTP. A peer is either *waiting* (it has not yet sent a whole
request: TLS handshake, headers, an idle kept-alive connection) or *served* (it is taking its answer). Both end at a
deadline. All calls come from the thread of the event loop, so nothing here is locked.
"""

from __future__ import annotations

import contextlib
import socket
import time
from dataclasses import dataclass

Address = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerLimits:
    """Stated caps of the web server."""

    connections_max: int = 64
    """Each TLS connection costs about 0.35 MB; when all are taken, the longest waiting one makes room."""
    first_request_seconds: float = 10
    """From accept to the end of the first request's headers, the TLS handshake included."""
    idle_seconds: float = 120
    """From an answer to the end of the next request's headers: more than the usual scrape interval."""
    answer_seconds: float = 60
    """For taking an answer."""


class Peer(socket.socket):
    """One accepted connection, which tells its listener when it is closed."""

    listener: Listener | None = None
    address: Address = ("", 0)
    deadline: float = 0
    """On the monotonic clock."""
    is_served: bool = False

    def close(self) -> None:
        if self.listener is not None:
            self.listener.forget(self)
        super().close()

    def drop(self) -> None:
        """Ends the connection from outside: whoever holds it reads an end of file. It is closed by its holder."""
        with contextlib.suppress(OSError):  # the peer may be gone already
            self.shutdown(socket.SHUT_RDWR)


class Listener(socket.socket):
    """A listening socket that counts what it accepts."""

    def __init__(self, family: socket.AddressFamily, limits: PeerLimits) -> None:
        # By its name: asyncio turns Nagle's algorithm off only where the protocol says TCP, and TLS waits 40 ms with it.
        super().__init__(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._limits = limits
        self._peers: dict[Address, Peer] = {}

    @property
    def peers(self) -> int:
        """Open connections."""
        return len(self._peers)

    def accept(self) -> tuple[Peer, object]:
        """The next connection; the longest waiting one is dropped for it when there are too many.

        When all are being served the new one is closed. The event loop takes ConnectionAbortedError for a peer that
        went away while it queued.
        """
        connection, address = super().accept()
        peer = Peer(self.family, self.type, self.proto, fileno=connection.detach())
        if self.peers >= self._limits.connections_max and not self._make_room():
            peer.close()
            raise ConnectionAbortedError
        peer.listener = self
        peer.address = (address[0], address[1])
        peer.deadline = time.monotonic() + self._limits.first_request_seconds
        self._peers[peer.address] = peer
        return peer, address

    def forget(self, peer: Peer) -> None:
        """The connection is closed, or as good as that."""
        if self._peers.get(peer.address) is peer:
            del self._peers[peer.address]

    def request_begins(self, address: Address | None) -> None:
        """The peer has sent a whole request: now it has to take the answer."""
        if address is not None and (peer := self._peers.get(address)) is not None:
            peer.is_served = True
            peer.deadline = time.monotonic() + self._limits.answer_seconds

    def request_ends(self, address: Address | None) -> None:
        """The answer is handed over: the peer may wait before it asks again."""
        if address is not None and (peer := self._peers.get(address)) is not None:
            peer.is_served = False
            peer.deadline = time.monotonic() + self._limits.idle_seconds

    def drop_overdue(self) -> None:
        """To be called about once a second."""
        now = time.monotonic()
        for peer in [peer for peer in self._peers.values() if peer.deadline <= now]:
            self._drop(peer)

    def drop_all(self) -> None:
        """Ends every connection, whatever it is doing."""
        for peer in list(self._peers.values()):
            self._drop(peer)

    def _make_room(self) -> bool:
        waiting = next((peer for peer in self._peers.values() if not peer.is_served), None)  # in order of accept
        if waiting is not None:
            self._drop(waiting)
        return waiting is not None

    def _drop(self, peer: Peer) -> None:
        self.forget(peer)
        peer.drop()
