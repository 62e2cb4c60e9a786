"""A link between brokers delays nothing by itself."""

from __future__ import annotations

import socket

from hangbench.kafka.link import HOST, Link
from hangbench.kafka.ports import free_ports
from hangbench.waiting import until


def test_small_writes_are_passed_on_at_once() -> None:
    """Kafka writes a frame in parts: with Nagle's algorithm the second waits 40 ms for an acknowledgement of the first."""
    port, target = free_ports(2)
    link = Link(port, target)
    with socket.create_server((HOST, target)) as broker, socket.create_connection((HOST, port)):
        accepted, _ = broker.accept()
        ends = until(lambda: list(link._open), lambda ends: len(ends) == 2)
        delays = [end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0 for end in ends]
        accepted.close()
    link.close()

    assert delays == [False, False]
