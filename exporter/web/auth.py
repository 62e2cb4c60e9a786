"""Checks requests: basic auth with bcrypt, and a rate limit.

No sockets. bcrypt is slow on purpose, so it runs outside of the event loop, one check at a time, and verified passwords are
remembered: a known scraper never waits for the guesses of others. A remembered digest is of user, password and hash, so
that it is valid while the user has that hash.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import bcrypt

from exporter.web.config import RateLimit, WebConfig
from exporter.web.routes import Request, Response, plain

REMEMBERED_MAX = 100
WAITING_MAX = 20
"""Passwords that may wait for a check; further requests get 503."""
WAITING_PER_ADDRESS_MAX = 4
"""Maximum waiting from one address, so that one address cannot use all places."""
_CLOSE = ("Connection", "close")
_CHALLENGE = ("WWW-Authenticate", 'Basic realm="kafka-transaction-exporter"')
_RETRY = ("Retry-After", "1")
_COST = slice(0, 7)
"""The prefix of a hash: `$2b$10$`."""
_NOBODY = b"." * 21 + b"O" + b"A" * 31
"""Hash for unknown users, with the cost of a known user, so that both checks take equally long."""


@dataclass(slots=True)
class Authenticator:
    """The checks of one web server. Only the thread of its event loop may use it."""

    current: Callable[[], WebConfig] = WebConfig
    """The present users (with none, every request is allowed), headers and rate limit; called once for every request."""
    clock: Callable[[], float] = time.monotonic
    """Clock of the rate limit."""
    _pepper: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _verified: dict[bytes, None] = field(default_factory=dict)
    """Digests of user, password and hash, most recently used last."""
    _checker: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "bcrypt"))
    _waiting: dict[Future[bool], str] = field(default_factory=dict)
    """The addresses of waiting passwords."""
    _tokens: float = -1.0
    _filled_at: float = 0.0

    async def refusal(self, request: Request, config: WebConfig) -> Response | None:
        """Returns the response for a request that is not allowed; None if it is allowed."""
        if config.rate_limit is not None and not self._takes_token(config.rate_limit):
            return plain(429, "Too many requests.", _CLOSE)
        if not config.users:
            return None
        credentials = _credentials(request.headers.get("authorization", ""))
        if credentials is None:
            return plain(401, "Unauthorized.", _CHALLENGE, _CLOSE)
        return await self._refusal_of(config.users, *credentials, request.address)

    def close(self) -> None:
        """Ends the thread that checks passwords."""
        self._checker.shutdown(wait=False, cancel_futures=True)

    async def _refusal_of(
        self, users: Mapping[str, bytes], user: str, password: bytes, address: str
    ) -> Response | None:
        hashed = users.get(user) or next(iter(users.values()))[_COST] + _NOBODY
        digest = hashlib.blake2b(b"\0".join((user.encode(), password, hashed)), key=self._pepper).digest()
        if digest not in self._verified:
            matches = await self._check(password, hashed, address)
            if matches is None:
                return plain(503, "Too many passwords wait to be checked: ask again.", _RETRY, _CLOSE)
            if not matches or user not in users:
                return plain(401, "Unauthorized.", _CHALLENGE, _CLOSE)
        self._verified.pop(digest, None)
        self._verified[digest] = None
        if len(self._verified) > REMEMBERED_MAX:
            del self._verified[next(iter(self._verified))]
        return None

    async def _check(self, password: bytes, hashed: bytes, address: str) -> bool | None:
        """Checks a password; None if there is no place for it, or its place was given to another address."""
        waiting = Counter(self._waiting.values())
        if waiting[address] >= WAITING_PER_ADDRESS_MAX or (
            len(self._waiting) >= WAITING_MAX and not (waiting[address] == 0 and self._makes_place(waiting))
        ):
            return None
        check = self._checker.submit(_matches, password, hashed)
        self._waiting[check] = address
        try:
            return await asyncio.wrap_future(check)
        except asyncio.CancelledError:
            if self._waiting.get(check) is None:
                return None
            raise
        finally:
            self._waiting.pop(check, None)

    def _makes_place(self, waiting: Counter[str]) -> bool:
        """Takes a place, by lot, from the addresses that have most: one without a place gets it, however many guess."""
        most = max(waiting.values())
        checks = [check for check, address in self._waiting.items() if waiting[address] == most]
        for check in secrets.SystemRandom().sample(checks, len(checks)):
            address = self._waiting.pop(check)
            if check.cancel():
                return True
            self._waiting[check] = address  # it is checked now
        return False

    def _takes_token(self, limit: RateLimit) -> bool:
        now = self.clock()
        if self._tokens < 0:
            self._tokens, self._filled_at = float(limit.burst), now
        gained = (now - self._filled_at) * 1000 / limit.interval_ms
        self._tokens, self._filled_at = min(self._tokens + gained, float(limit.burst)), now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def _credentials(header: str) -> tuple[str, bytes] | None:
    """User and password of RFC 7617; None if the header has none."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (user.decode(), password) if colon else None
    except (binascii.Error, ValueError):
        return None


def _matches(password: bytes, hashed: bytes) -> bool:
    # bcrypt uses only 72 bytes: a longer password matches nothing, instead of its first 72 bytes.
    try:
        return len(password) <= 72 and bcrypt.checkpw(password, hashed)  # noqa: PLR2004
    except ValueError:
        return False
