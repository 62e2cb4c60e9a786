"""Fetches tokens for OAUTHBEARER: the client credentials grant of RFC 6749, section 4.4.

kafka-python requests a token on the thread of all connections, so that request must not block: a cycle fetches a missing or
expiring token before its first request. A failure is reported by the login that has no token.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

import kafka.errors as foreign
from kafka.net.sasl.oauth import AbstractTokenProvider

from exporter.config.kafka_section import OauthSettings
from exporter.files import check_regular

FRESH_SHARE = 0.2
"""A token is renewed when less than this part of its lifetime is left."""
LIFE_SECONDS_DEFAULT = 300
"""For an endpoint that does not return the lifetime of its token."""
ANSWER_BYTES_MAX = 1_000_000


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]
    """One token at a time, for all connections."""

    def __init__(self, oauth: OauthSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._oauth = oauth
        self._clock = clock
        self._token = ""
        self._renew_at = self._over_at = 0.0
        self._failure = "no token was requested yet"

    def refresh(self, timeout_s: float) -> None:
        """Fetch a token if the current one expires soon. Never raises: the login without a token reports the failure."""
        now = self._clock()
        if now < self._renew_at:
            return
        try:
            token, life_s = _fetch(self._oauth, timeout_s)
        except (OSError, ValueError, ArithmeticError, http.client.HTTPException) as error:
            self._failure = f"token endpoint {self._oauth.token_endpoint_url} returned no token: {_why(error)}"
            return
        self._token = token
        self._renew_at, self._over_at = now + life_s * (1 - FRESH_SHARE), now + life_s

    def token(self) -> str:
        """The current token. Raises kafka-python's SaslAuthenticationFailedError if none is valid."""
        if self._clock() >= self._over_at:
            raise foreign.SaslAuthenticationFailedError(self._failure)
        return self._token

    def extensions(self) -> dict[str, str]:
        """Sent with the token."""
        return dict(self._oauth.extensions or ())


def _fetch(oauth: OauthSettings, timeout_s: float) -> tuple[str, float]:
    """(token, its lifetime in seconds). Raises OSError, ValueError, ArithmeticError and HTTPException."""
    form = {"grant_type": "client_credentials", **({} if oauth.scope is None else {"scope": oauth.scope})}
    pair = ":".join(urllib.parse.quote(part, safe="") for part in (oauth.client_id, oauth.client_secret))
    if urllib.parse.urlsplit(oauth.token_endpoint_url).scheme not in {"http", "https"}:
        raise ValueError("its URL is neither http nor https")
    request = urllib.request.Request(  # noqa: S310 - the scheme is looked at above
        oauth.token_endpoint_url,
        data=urllib.parse.urlencode(form).encode(),
        headers={
            "Authorization": "Basic " + base64.b64encode(pair.encode()).decode(),
            "Accept": "application/json",
        },
    )
    if oauth.https_ca_location is not None:
        check_regular(oauth.https_ca_location)
    tls = ssl.create_default_context(cafile=oauth.https_ca_location)
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=tls), _NoRedirects())
    with opener.open(request, timeout=max(timeout_s, 0.1)) as answer:
        response: Any = json.loads(answer.read(ANSWER_BYTES_MAX))
    token = response.get("access_token") if isinstance(response, dict) else None
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise ValueError("its response has no access_token")
    life_s = response.get("expires_in", LIFE_SECONDS_DEFAULT)
    if life_s is None or isinstance(life_s, bool | list | dict):
        raise ValueError(f"expires_in in its response is {json.dumps(life_s)}")
    if not float(life_s) > 0:
        raise ValueError("its token has expired")
    return token, float(life_s)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The secret goes only to the endpoint in the settings."""

    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect: it is reported as the HTTP error that it is."""


def _why(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"it responded with {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return "its response is not JSON"
    return str(error) or type(error).__name__
