"""Looking up brokers' names without holding anybody up.

Python's lookup blocks, and kafka-python does it on the thread that speaks with all brokers: a name server that does not
answer would cost every one of them. So lookups have threads of their own, a stated number at most, and a name is not looked
up twice at a time.
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
"""As socket.getaddrinfo gives it."""


LOOKUPS_MAX = 64
"""At once, each on a thread: metadata may name thousands of brokers."""
WAITING_MAX = 10_000
"""Lookups that wait for one of those to end."""


class Resolver:
    """Lookups of one client. `addresses` belongs to the client's own thread."""

    def __init__(self, call_soon_threadsafe: Callable[[Callable[[], object]], object]) -> None:
        self._call_soon_threadsafe = call_soon_threadsafe
        self._pending: dict[tuple[str, int], Any] = {}
        self._waiting: deque[tuple[str, int]] = deque()
        self._running = 0

    async def addresses(self, host: str, port: int) -> list[AddressInfo]:
        """Where a host listens. Raises kafka-python's KafkaConnectionError; whoever waits sets the time-out."""
        if _is_address(host):
            return _look_up(host, port)
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
        return found

    def _begin(self) -> None:
        """As many of those that wait as may run."""
        while self._waiting and self._running < LOOKUPS_MAX:
            key = self._waiting.popleft()
            self._running += 1
            # A daemon: the program ends though a name server still keeps it waiting.
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
        """What waits for it, on the client's thread; another lookup takes its place."""
        self._running -= 1
        self._begin()
        return self._pending.pop(key)

    def _tell(self, callback: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the client is closed meanwhile: nobody waits any more
            self._call_soon_threadsafe(callback)


def _look_up(host: str, port: int) -> list[AddressInfo]:
    try:
        return socket.getaddrinfo(host, port, socket.AF_UNSPEC, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise foreign.KafkaConnectionError(f"the host name {host} cannot be resolved: {error}") from error


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
