"""Resolves host names of brokers in separate threads.

Python's lookup blocks, and kafka-python does it on the thread of all connections: a name server that does not respond would
delay every broker. So lookups have a limited number of own threads, and a name is looked up once at a time.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import kafka.errors as foreign
from kafka.future import Future

AddressInfo = tuple[Any, Any, int, str, Any]
"""Address as socket.getaddrinfo returns it."""


LOOKUPS_MAX = 64
"""Concurrent lookups, one thread each: metadata may name thousands of brokers."""
WAITING_MAX = 10_000
"""Lookups that wait for a thread."""


class Resolver:
    """Lookups of one client. `addresses` belongs to the client's own thread."""

    def __init__(self, call_soon_threadsafe: Callable[[Callable[[], object]], object]) -> None:
        self._call_soon_threadsafe = call_soon_threadsafe
        self._pending: dict[tuple[str, int], Any] = {}
        self._waiting: deque[tuple[str, int]] = deque()
        self._running = 0
        self._preferred: dict[tuple[str, int], Any] = {}

    async def addresses(self, host: str, port: int) -> list[AddressInfo]:
        """The addresses of a host, the preferred one first. Raises kafka-python's KafkaConnectionError.

        The caller sets the time-out.
        """
        if _is_address(host):
            return _look_up(host, port, flags=socket.AI_NUMERICHOST)  # never asks a name server
        key = (host, port)
        if key not in self._pending:
            if len(self._waiting) >= WAITING_MAX:
                raise foreign.KafkaConnectionError(
                    f"the host name {host} is not resolved: {WAITING_MAX} others wait for the resolver"
                )
            self._pending[key] = Future()
            self._waiting.append(key)
            self._begin()
        found: list[AddressInfo] = await self._pending[key]
        return sorted(found, key=lambda each: each[4] != self._preferred.get(key))

    def prefer(self, host: str, port: int, address: Any) -> None:
        """Notes the socket address that has accepted a connection, of several that the host may have."""
        if len(self._preferred) >= WAITING_MAX:
            self._preferred.clear()
        self._preferred[host, port] = address

    def _begin(self) -> None:
        """Starts as many waiting lookups as the limit allows."""
        while self._waiting and self._running < LOOKUPS_MAX:
            key = self._waiting.popleft()
            self._running += 1
            # A daemon thread: the process ends although a name server still blocks it.
            threading.Thread(target=self._look_up, args=(key,), name=f"names-{key[0]}", daemon=True).start()

    def _look_up(self, key: tuple[str, int]) -> None:
        try:
            found = _look_up(*key)
        except foreign.KafkaConnectionError as error:
            failure = error
            self._tell(lambda: self._ended(key).failure(failure))
        else:
            self._tell(lambda: self._ended(key).success(found))

    def _ended(self, key: tuple[str, int]) -> Any:
        """Pass the result to the waiting futures, on the client's thread; the next lookup starts."""
        self._running -= 1
        self._begin()
        return self._pending.pop(key)

    def _tell(self, callback: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the client was closed in the meantime, so no future waits
            self._call_soon_threadsafe(callback)


def _look_up(host: str, port: int, *, flags: int = 0) -> list[AddressInfo]:
    try:
        return socket.getaddrinfo(host, port, socket.AF_UNSPEC, socket.SOCK_STREAM, 0, flags)
    except (OSError, UnicodeError) as error:
        raise foreign.KafkaConnectionError(f"the host name {host} cannot be resolved: {error}") from error


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
