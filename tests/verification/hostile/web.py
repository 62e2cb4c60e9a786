"""Declares the table of malicious web clients by kind and number, next to which scraper and probe must be served.

The strangers come from 127.0.0.1, the scraper from 127.0.0.2 and the probe from 127.0.0.3: other hosts to the listener.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hangbench.kafka.ports import free_ports
from hangbench.waiting import until
from tests import forked
from tests.certificates import Authority
from tests.real_brokers.exporting import command
from tests.verification.soak.resources import Resources
from tests.web.logins import TLS, basic, client_tls, hashed

PATIENCE_S: Final = 60.0
TOPICS: Final = 2000
"""A page of some megabytes, which no socket buffers as a whole."""
STRANGER, SCRAPER, PROBE = "127.0.0.1", "127.0.0.2", "127.0.0.3"
RIGHT: Final = basic("prometheus", "right")


@dataclass(frozen=True)
class Door:
    """Where the exporter listens."""

    process: int
    port: int
    tls: ssl.SSLContext | None

    def knock(self, source: str = STRANGER, *, receive_bytes: int | None = None) -> socket.socket:
        """A connection without TLS."""
        plain = socket.socket()
        if receive_bytes is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        plain.settimeout(PATIENCE_S)
        try:
            plain.bind((source, 0))
            plain.connect(("127.0.0.1", self.port))
        except OSError:
            plain.close()
            raise
        return plain

    def enter(self, source: str = STRANGER, **more: int) -> socket.socket:
        """A connection, with TLS where the exporter speaks it."""
        plain = self.knock(source, **more)
        return plain if self.tls is None else self.tls.wrap_socket(plain, server_hostname="127.0.0.1")

    def status(self, path: str, source: str, authorization: str = RIGHT) -> int:
        """Of a request on a connection of its own, read to its end; 0 where there is none."""
        client = http.client.HTTPConnection("127.0.0.1", self.port)
        try:
            with contextlib.closing(client):
                client.sock = self.enter(source)
                client.request("GET", path, headers={"Authorization": authorization, "Accept-Encoding": "gzip"})
                answer = client.getresponse()
                answer.read()
                return answer.status
        except (OSError, http.client.HTTPException):
            return 0


Behave = Callable[[Door, threading.Event], None]
"""A stranger's actions until it is stopped or thrown out; then it comes again."""


def _until_thrown_out(peer: socket.socket, stop: threading.Event) -> None:
    peer.settimeout(0.2)
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            if not peer.recv(1):
                return


def be_idle(door: Door, stop: threading.Event) -> None:
    """Nothing at all: with TLS a handshake that never begins."""
    with door.knock() as peer:
        _until_thrown_out(peer, stop)


def drip(door: Door, stop: threading.Event) -> None:
    """One header byte after another."""
    with door.enter() as peer:
        for byte in b"GET /metrics HTTP/1.1\r\nX: " + b"y" * 10_000:
            if stop.wait(0.05):
                return
            peer.send(bytes([byte]))


def pour(door: Door, stop: threading.Event) -> None:
    """A body of a gigabyte, as far as it is taken."""
    with door.enter() as peer:
        peer.sendall(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1073741824\r\n\r\n")
        while not stop.is_set():
            peer.send(bytes(65536))


def babble(door: Door, stop: threading.Event) -> None:
    """Requests that are none; with TLS, within it."""
    with door.enter() as peer:
        while not stop.wait(0.01):
            peer.send(b"\x00\xff GET nothing\r\n\r\n")


def babble_outside(door: Door, stop: threading.Event) -> None:
    """The same without TLS."""
    with door.knock() as peer:
        while not stop.wait(0.01):
            peer.send(b"\x16\x03\x01\xff\xff\x00GET nothing\r\n\r\n")


def read_nothing(door: Door, stop: threading.Event) -> None:
    """A client requests a page, and does not read it."""
    with door.enter(receive_bytes=4096) as peer:
        peer.sendall(f"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: {RIGHT}\r\n\r\n".encode())
        stop.wait(PATIENCE_S)


def pipeline(door: Door, stop: threading.Event) -> None:
    """A thousand requests in one piece, again and again; responses are read."""
    with door.enter() as peer:
        while not stop.is_set():
            peer.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
            if not peer.recv(1_000_000):
                return


def guess(door: Door, stop: threading.Event) -> None:
    """Wrong passwords, each on a connection of its own."""
    del stop
    door.status("/metrics", STRANGER, basic("prometheus", f"guess{time.monotonic_ns()}"))


def stop_in_handshake(door: Door, stop: threading.Event) -> None:
    """Half a ClientHello."""
    assert door.tls is not None
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        door.tls.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1").do_handshake()
    with door.knock() as peer:
        peer.sendall(outgoing.read()[:100])
        _until_thrown_out(peer, stop)


def shake_hands(door: Door, stop: threading.Event) -> None:
    """A handshake, one that resumes its session, and no request."""
    del stop
    assert door.tls is not None
    session = None
    for _ in range(2):
        with door.tls.wrap_socket(door.knock(), server_hostname="127.0.0.1", session=session) as peer:
            session = peer.session


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """Strangers of one kind, how many in the small and in the large form, and what they may cost."""

    name: str
    behave: Behave
    small: int
    large: int
    only_tls: bool = False
    mb: float = 150.0
    """More than before them: 64 connections, what is buffered for those that do not read, and those that ended and wait for
    the collector of garbage. With asyncio's own buffers of 256 KiB these last came to 330 MB."""


CROWDS: Final = (
    Crowd(name="idle", behave=be_idle, small=200, large=2000),
    Crowd(name="a header byte at a time", behave=drip, small=30, large=300),
    Crowd(name="bodies without an end", behave=pour, small=4, large=30),
    Crowd(name="nonsense", behave=babble, small=20, large=200),
    Crowd(name="nonsense without TLS", behave=babble_outside, small=20, large=200, only_tls=True),
    Crowd(name="a page that is not read", behave=read_nothing, small=100, large=300),
    Crowd(name="a thousand requests at once", behave=pipeline, small=8, large=64),
    Crowd(name="wrong passwords", behave=guess, small=20, large=100),
    Crowd(name="half a handshake", behave=stop_in_handshake, small=100, large=1000, only_tls=True),
    Crowd(name="handshakes, resumed, without a request", behave=shake_hands, small=8, large=30, only_tls=True),
)


@dataclass(frozen=True)
class Siege:
    """The result of a crowd."""

    scrapes: tuple[int, ...]
    """Statuses."""
    probes: tuple[int, ...]
    before_mb: float
    grew_mb: float
    visits: int
    """How often strangers came."""


def besieged(door: Door, crowd: Crowd, count: int, *, times: int = 5) -> Siege:
    """Scrapes and probes while the crowd is there."""
    before, stop, visits = Resources.of(door.process), threading.Event(), [0] * count

    def come(number: int) -> None:
        while not stop.is_set():
            visits[number] += 1
            with contextlib.suppress(OSError):
                crowd.behave(door, stop)
            stop.wait(0.01)

    threads = [threading.Thread(target=come, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    scrapes, probes, largest = [], [], before.memory_mb
    try:
        for _ in range(times):
            scrapes.append(door.status("/metrics", SCRAPER))
            probes.append(door.status("/-/healthy", PROBE))
            largest = max(largest, Resources.of(door.process).memory_mb)
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_S)
    return Siege(
        tuple(scrapes), tuple(probes), round(before.memory_mb), round(largest - before.memory_mb, 1), sum(visits)
    )


@contextlib.contextmanager
def opened(folder: Path, bootstrap: str, *, with_tls: bool) -> Iterator[Door]:
    """A running `serve` with a password, which the scraper has shown once; ended by its own id."""
    authority = Authority(folder)
    authority.issue("server")
    users = f"basic_auth_users:\n  prometheus: {hashed('right', 10).decode()}\n"
    (folder / "web.yml").write_text((TLS if with_tls else "") + users)
    (port,) = free_ports(1)
    flags = {
        "kafka.bootstrap.servers": bootstrap,
        "publish.listen_address": f"127.0.0.1:{port}",
        "publish.web_config_file": str(folder / "web.yml"),
        "state.file": str(folder / "state.json"),
    }
    line = command("serve", *(f"--{name.replace('_', '-')}={value}" for name, value in flags.items()))
    with (folder / "serve.log").open("wb") as log, forked.Process(line, stdout=log, stderr=log) as process:
        try:
            door = Door(process.pid, port, client_tls(authority) if with_tls else None)
            until(
                lambda: door.status("/-/ready", SCRAPER) == http.client.OK,
                patience_s=PATIENCE_S,
                status=(folder / "serve.log").read_text,
            )
            yield door
        finally:
            process.kill()
