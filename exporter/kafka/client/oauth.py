"""Fetches tokens for OAUTHBEARER: the client credentials grant of RFC 6749, section 4.4.

kafka-python requests a token on the thread of all connections, so that request must not block: a cycle fetches a missing or
expiring token before its first request. A failure is reported by the login that has no token.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

import kafka.errors as foreign
from kafka.net.sasl.oauth import AbstractTokenProvider

from exporter.config.kafka_section import OauthSettings
from exporter.http.request import Exchange, HttpError
from exporter.http.tls import client_context, system_context

FRESH_SHARE = 0.2
"""A token is renewed when less than this part of its lifetime is left."""
LIFE_SECONDS_DEFAULT = 300
"""Lifetime of a token if the endpoint does not return one."""
RESPONSE_BYTES_MAX = 1_000_000


class NoTokenError(foreign.SaslAuthenticationFailedError):  # type: ignore[misc]
    """No token is valid, so no login is sent."""


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]
    """Token for all connections, one at a time."""

    def __init__(self, oauth: OauthSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._oauth = oauth
        self._clock = clock
        self._token = ""
        self._renew_at = self._over_at = 0.0
        self._failure = "no token was requested yet"
        self._exchange: Exchange | None = None

    def refresh(self, timeout_s: float) -> None:
        """Fetches a token within the time if the current one expires soon.

        It never raises: the login without a token reports the failure.
        """
        now = self._clock()
        if now < self._renew_at:
            return
        failed = f"token endpoint {self._oauth.token_endpoint_url} returned no token: "
        if self._exchange is not None and self._exchange.is_running:  # else threads would pile up behind a resolver
            self._failure = failed + "the lookup of its name has not ended"
            return
        try:
            self._exchange = _exchange(self._oauth)
            token, life_s = _token_of(self._exchange.wait(timeout_s))
        except (HttpError, ValueError, ArithmeticError, TypeError) as error:
            self._failure = f"{failed}{error}"
            return
        self._token = token
        self._renew_at, self._over_at = now + life_s * (1 - FRESH_SHARE), now + life_s

    def token(self) -> str:
        """The current token. Raises NoTokenError if none is valid."""
        if self._clock() >= self._over_at:
            raise NoTokenError(self._failure)
        return self._token

    def extensions(self) -> dict[str, str]:
        """Sent with the token."""
        return dict(self._oauth.extensions or ())


def tokens_of(options: Mapping[str, Any]) -> ClientCredentials | None:
    """The source of tokens in a client's options; None if it uses another login, or none."""
    provider = options.get("sasl_oauth_token_provider")
    return provider if isinstance(provider, ClientCredentials) else None


def _exchange(oauth: OauthSettings) -> Exchange:
    form = {"grant_type": "client_credentials", **({} if oauth.scope is None else {"scope": oauth.scope})}
    location = oauth.https_ca_location
    parts = (oauth.client_id, oauth.client_secret)
    pair = ":".join(map(urllib.parse.quote_plus, parts) if oauth.header_urlencode else parts)
    return Exchange(
        oauth.token_endpoint_url,
        bytes_max=RESPONSE_BYTES_MAX,
        data=urllib.parse.urlencode(form).encode(),
        headers={
            "Authorization": "Basic " + base64.b64encode(pair.encode()).decode(),
            "Accept": "application/json",
        },
        tls=system_context if location is None else lambda: client_context(location),
    )


def _token_of(response: Any) -> tuple[str, float]:
    """(token, its lifetime in seconds). Raises ValueError, TypeError and OverflowError."""
    token = response.get("access_token") if isinstance(response, dict) else None
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise ValueError("its response has no access_token")
    life_s = response.get("expires_in", LIFE_SECONDS_DEFAULT)
    if life_s is None or isinstance(life_s, bool | list | dict):
        raise ValueError(f"expires_in in its response is {json.dumps(life_s)}")
    if not float(life_s) > 0:
        raise ValueError("its token has expired")
    return token, float(life_s)
