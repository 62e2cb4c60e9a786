"""Connects to one of a host's addresses over TCP.

kafka-python's own loop over the addresses leaves the sockets of failed attempts to the garbage collector, and gives all the
time to the first address: one that does not respond hides the others.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import kafka.errors as foreign
from kafka.net.inet import KafkaNetSocket

from exporter.kafka.client.resolver import AddressInfo


async def connect(
    net: Any, addresses: Sequence[AddressInfo], sockets: list[Any], *, clock: Callable[[], float], timeout_at: float
) -> tuple[Any, Any]:
    """Returns (socket, its address) of the first address that accepts a connection; each gets a share of the time.

    Every socket is added to `sockets` before it connects. Raises OSError and kafka-python's errors.
    """
    factory = KafkaNetSocket()
    failure: Exception = foreign.KafkaConnectionError("the host has no address")
    for left, (family, kind, protocol, _, where) in zip(range(len(addresses), 0, -1), addresses, strict=True):
        sock = factory.socket(family, kind, protocol)
        sockets.append(sock)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        now = clock()
        try:
            await factory.sock_connect(net, sock, where, timeout_at=now + (timeout_at - now) / left)
        except (OSError, foreign.KafkaError) as error:
            sock.close()
            failure = error
        else:
            return sock, where
    raise failure


def close_all(sockets: Iterable[Any]) -> None:
    for sock in sockets:
        sock.close()
