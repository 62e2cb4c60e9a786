"""Holds the status of logins for the whole process, so that a wrong password is not tried again and again.

Directories lock an account after a few refused logins. After each refusal the pause before the next login doubles. The
reader of the transaction log, which has connections of its own, waits as well while a login of the cycles was refused.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, field

from exporter.config.kafka_section import KafkaSettings
from exporter.patterns import is_matched

PAUSE_SECONDS = 1.0
"""The pause after the first refusal of a broker."""
PAUSE_SECONDS_MAX = 300.0
_pepper = secrets.token_bytes(16)


@dataclass(slots=True)
class _Refusal:
    count: int
    until_s: float
    sentence: str


@dataclass(slots=True)
class Logins:
    """Logins with the same credentials at the same cluster, by listener. All methods may be called from any thread."""

    clock: Callable[[], float] = time.monotonic
    allowed_hosts: tuple[re.Pattern[str], ...] | None = None
    """Hosts to which credentials may be sent; None: every host that metadata names."""
    _refusals: dict[object, _Refusal] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def allows(self, host: str) -> bool:
        """Returns whether a connection to this host is allowed."""
        return self.allowed_hosts is None or any(is_matched(pattern, host) for pattern in self.allowed_hosts)

    def refused(self, listener: object, sentence: str) -> None:
        """The listener refused the credentials."""
        with self._lock:
            before = self._refusals.get(listener)
            count = 1 if before is None else before.count + 1
            pause_s = min(PAUSE_SECONDS * 2 ** min(count - 1, 30), PAUSE_SECONDS_MAX)
            self._refusals[listener] = _Refusal(count, self.clock() + pause_s, sentence)

    def accepted(self, listener: object) -> None:
        """The credentials are valid there."""
        with self._lock:
            self._refusals.pop(listener, None)

    def pause_at(self, listener: object) -> str | None:
        """A sentence while no login may be sent to this listener: the same in all pauses, as a change is logged."""
        with self._lock:
            refusal = self._refusals.get(listener)
            return None if refusal is None or self.clock() >= refusal.until_s else refusal.sentence


_known: dict[bytes, Logins] = {}
_known_lock = threading.Lock()


def logins_of(kafka: KafkaSettings) -> Logins:
    """Returns the shared status of these credentials at these servers; other credentials begin without a pause."""
    sasl = None if kafka.sasl is None else astuple(kafka.sasl)
    words = repr((kafka.bootstrap, kafka.security_protocol, sasl, kafka.allowed_hosts)).encode()
    key = hashlib.blake2b(words, key=_pepper).digest()
    with _known_lock:
        return _known.setdefault(key, Logins(allowed_hosts=kafka.allowed_hosts))
