"""Tokens for OAUTHBEARER: when they are fetched, what is sent, and which failures are reported."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import Any
from unittest.mock import Mock

import kafka.errors as foreign
import pytest

from exporter.config.kafka_section import OauthSettings
from exporter.kafka.client.oauth import ClientCredentials
from hangbench.waiting import until
from tests.brokers.token_endpoint import CLIENT_ID, CLIENT_SECRET, TokenEndpoint
from tests.hand_clock import HandClock
from tests.http.endpoints import ENDLESS
from tests.kafka.loopback import HOST, Listener


def provider(
    url: str,
    *,
    client: str = CLIENT_ID,
    secret: str = CLIENT_SECRET,
    urlencode: bool | None = None,
    clock: HandClock | None = None,
) -> ClientCredentials:
    oauth = OauthSettings(
        token_endpoint_url=url,
        client_id=client,
        client_secret=secret,
        scope=None,
        header_urlencode=urlencode,
        extensions=(("traceId", "1"),),
        https_ca_location=None,
    )
    return ClientCredentials(oauth, clock=clock or HandClock(100.0))


def failure(tokens: ClientCredentials) -> str:
    tokens.refresh(5)
    with pytest.raises(foreign.SaslAuthenticationFailedError) as caught:
        tokens.token()
    return str(caught.value)


def test_a_token_is_used_until_little_of_its_life_is_left() -> None:
    """One request for many logins; a new one before the old one is over."""
    clock = HandClock(100.0)
    with TokenEndpoint(life_s=100) as endpoint:
        tokens = provider(endpoint.url, clock=clock)
        for _ in range(5):
            tokens.refresh(5)
        first = tokens.token()
        clock.now += 79
        tokens.refresh(5)
        assert (tokens.token(), endpoint.issued) == (first, 1)
        clock.now += 2
        tokens.refresh(5)
        assert (tokens.token() == first, endpoint.issued) == (False, 2)

    assert tokens.extensions() == {"traceId": "1"}
    assert endpoint.asked[0] == {"grant_type": "client_credentials"}


def test_a_token_at_hand_outlives_an_endpoint_that_fails_for_a_while() -> None:
    """A valid token is used; after it has expired, the reason is reported."""
    clock = HandClock(100.0)
    with TokenEndpoint(life_s=100) as endpoint:
        tokens = provider(endpoint.url, clock=clock)
        tokens.refresh(5)
        endpoint.failing = 500
        clock.now += 90
        tokens.refresh(5)
        assert tokens.token()
        clock.now += 11
        assert "it responded with 500 Internal Server Error" in failure(tokens)


@pytest.mark.parametrize(
    ("urlencode", "pair"),
    [
        (None, "https://a/team a:p+w/d==%"),
        (False, "https://a/team a:p+w/d==%"),
        (True, "https%3A%2F%2Fa%2Fteam+a:p%2Bw%2Fd%3D%3D%25"),
    ],
)
def test_id_and_secret_are_sent_as_kafka_s_clients_send_them(*, urlencode: bool | None, pair: str) -> None:
    """Some providers decode them, as RFC 6749 says, and others take them as they are (KIP-1025)."""
    with TokenEndpoint(pair=pair) as endpoint:
        tokens = provider(endpoint.url, client="https://a/team a", secret="p+w/d==%", urlencode=urlencode)
        tokens.refresh(10)
        assert tokens.token() == endpoint.tokens[0]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"<html>", "its response is not JSON"),
        (b"[]", "its response has no access_token"),
        (json.dumps({"access_token": ""}).encode(), "its response has no access_token"),
        (json.dumps({"access_token": "a\x01auth=x"}).encode(), "its response has no access_token"),
        (json.dumps({"access_token": 7}).encode(), "its response has no access_token"),
        (json.dumps({"access_token": "x", "expires_in": "soon"}).encode(), "could not convert string to float"),
        (json.dumps({"access_token": "x", "expires_in": None}).encode(), "expires_in in its response is null"),
        (json.dumps({"access_token": "x", "expires_in": -1}).encode(), "its token has expired"),
        (b"\xff\xfe", "its response is not JSON"),
        (b'{"access_token": "x", "expires_in": 1' + b"0" * 400 + b"}", "int too large to convert to float"),
    ],
)
def test_a_response_without_a_token_is_reported(body: bytes, why: str) -> None:
    """For any content of the response the login reports the endpoint's error, and the cycle raises nothing."""
    with TokenEndpoint() as endpoint:
        endpoint.body = body
        sentence = failure(provider(endpoint.url))

    assert why in sentence
    assert f"token endpoint {endpoint.url} returned no token: " in sentence


def test_an_endpoint_that_sends_no_http_is_reported() -> None:
    """A port of another program: the cycle goes on, whose connections need no new token yet."""

    def talk(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")

    with Listener(talk) as listener:
        sentence = failure(provider(f"http://{HOST}:{listener.port}/token"))

    assert "returned no token: SSH-2.0-OpenSSH_9.6" in sentence


@pytest.mark.parametrize("status", [400, 403, 404, 500, 503])
def test_a_refusal_is_reported_by_its_status(status: int) -> None:
    """And the secret is not."""
    with TokenEndpoint() as endpoint:
        endpoint.failing = status
        sentence = failure(provider(endpoint.url))

    assert f"it responded with {status} " in sentence
    assert CLIENT_SECRET not in sentence


@pytest.mark.parametrize("status", [301, 307])
def test_the_secret_is_not_sent_elsewhere(status: int) -> None:
    """A redirect is a response without a token, and is not followed."""
    with TokenEndpoint() as endpoint:
        endpoint.failing = status
        assert f"it responded with {status} " in failure(provider(endpoint.url))


def test_wrong_credentials_and_no_endpoint_are_reported() -> None:
    """401, a port without a listener, and a URL of another scheme."""
    with TokenEndpoint() as endpoint:
        assert "it responded with 401 " in failure(provider(endpoint.url, secret="wrong"))
    assert "Connection refused" in failure(provider("http://127.0.0.1:1/token"))
    assert "neither http nor https" in failure(provider("file:///etc/passwd"))
    with pytest.raises(foreign.SaslAuthenticationFailedError, match="no token was requested yet"):
        provider("http://127.0.0.1:1").token()


def test_a_slow_endpoint_is_given_up() -> None:
    """It delays the cycle by its time-out only, and never blocks the client's own thread."""
    with TokenEndpoint() as endpoint:
        release = threading.Event()
        real = endpoint.answer
        endpoint.answer = lambda authorization: (release.wait(30), real(authorization))[1]  # type: ignore[method-assign]
        tokens = provider(endpoint.url)
        began = time.monotonic()
        tokens.refresh(0.2)
        waited = time.monotonic() - began
        release.set()

    assert waited < 10
    with pytest.raises(foreign.SaslAuthenticationFailedError, match="timed out"):
        tokens.token()


@pytest.mark.parametrize("way", ENDLESS)
def test_an_endpoint_that_never_ends_is_given_up(way: str) -> None:
    """The time is that of the whole request, not of each byte; the next refresh asks again."""
    with Listener(ENDLESS[way]) as listener:
        tokens = provider(f"http://{HOST}:{listener.port}/token")
        for asked in (1, 2):
            tokens.refresh(0.3)
            with pytest.raises(foreign.SaslAuthenticationFailedError, match="timed out"):
                tokens.token()
            until(lambda: tokens._exchange is not None and not tokens._exchange.is_running)
            assert listener.accepted == asked


def test_lookups_of_the_endpoint_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one lookup hangs, no other one begins."""
    released = threading.Event()
    lookup = Mock(side_effect=lambda: released.wait(30) and [])
    known = socket.getaddrinfo

    def look_up(host: Any, *more: Any, **options: Any) -> Any:
        """A thread of another test may look up another name."""
        return lookup() if host == "name.example" else known(host, *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    tokens = provider("http://name.example/token")
    for _ in range(3):
        tokens.refresh(0.1)
    released.set()
    assert lookup.call_count == 1
    with pytest.raises(foreign.SaslAuthenticationFailedError, match="the lookup of its name has not ended"):
        tokens.token()
