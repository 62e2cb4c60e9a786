"""Ports for the servers of tests: what one process has found free, no other finds until that process ends."""

from __future__ import annotations

import fcntl
import functools
import random
import socket
from typing import IO, Final

from hangbench.kafka.broker import HOST
from hangbench.kafka.maven import BrokersUnavailable, cache_folder

PORTS: Final = range(20_000, 32_768)  # below Linux's ephemeral ports: no outgoing connection takes one meanwhile
_found: Final[set[int]] = set()


def free_ports(count: int) -> list[int]:
    """Ports of PORTS that nobody listens on, and nobody else will: something listens there only a while later.

    Each is claimed by a lock on its byte of one file: workers, the programs that they start (a demo looks for ports
    itself) and a second run of the tests beside this one are all kept apart.
    """
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        if len(found) == count:
            break
        if port not in _found and _claim(port) and _is_free(port):
            _found.add(port)
            found.append(port)
    if len(found) < count:
        raise BrokersUnavailable(f"fewer than {count} free ports in {PORTS}")
    return found


def _claim(port: int) -> bool:
    """False if another process has it."""
    try:
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except BlockingIOError:
        return False
    return True


@functools.cache
def _claims() -> IO[bytes]:
    """Open as long as the process lives: the first file of it that is closed would give up every lock on it."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return (folder / "claimed-ports").open("ab")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
