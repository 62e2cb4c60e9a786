"""A request to another service ends within its total time, with a sentence, whatever the service does."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from exporter.http.request import Exchange, HttpError
from hangbench.waiting import until
from tests.http.endpoints import ENDLESS, STRANGE
from tests.kafka.loopback import HOST, Listener, wait_for_end

TOTAL_S = 0.4
SLACK_S = 5
"""For a loaded machine; each of these endpoints goes on for ever."""


def _failure(url: str) -> tuple[Exchange, str]:
    exchange = Exchange(url, bytes_max=1_000_000)
    began = time.monotonic()
    with pytest.raises(HttpError) as caught:
        exchange.wait(TOTAL_S)
    assert time.monotonic() - began < TOTAL_S + SLACK_S
    return exchange, str(caught.value)


@pytest.mark.parametrize("way", ENDLESS)
def test_an_endless_response_ends_with_its_time(way: str) -> None:
    """The thread ends as well: its socket is shut down."""
    with Listener(ENDLESS[way]) as listener:
        exchange, sentence = _failure(f"http://{HOST}:{listener.port}/")
        assert sentence == "it timed out: its response was not complete after 0.4 s"
        until(lambda: not exchange.is_running)


def test_a_tls_handshake_that_hangs_ends_with_its_time() -> None:
    """The handshake has no response: the connection is shut down below TLS."""
    with Listener(wait_for_end) as listener:
        exchange, sentence = _failure(f"https://{HOST}:{listener.port}/")
        assert "timed out" in sentence
        until(lambda: not exchange.is_running)


@pytest.mark.parametrize("way", STRANGE)
def test_a_strange_response_is_a_sentence(way: str) -> None:
    """No exception of another library, and no redirect is followed."""
    talk, words = STRANGE[way]
    with Listener(talk) as listener:
        exchange = Exchange(f"http://{HOST}:{listener.port}/", bytes_max=1_000_000)
        with pytest.raises(HttpError) as caught:
            exchange.wait(10)
        assert words in str(caught.value)
        assert listener.accepted == 1


def test_a_response_that_is_too_large_is_refused() -> None:
    """It is not cut to what would be other JSON."""
    talk = STRANGE["deep JSON"][0]
    with Listener(talk) as listener, pytest.raises(HttpError, match="more than 1,000 bytes"):
        Exchange(f"http://{HOST}:{listener.port}/", bytes_max=1_000).wait(10)


def test_a_name_that_is_not_resolved_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lookup has no time-out: its daemon thread is left behind, and `is_running` says so."""
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: released.wait(30) and [])
    exchange, sentence = _failure("http://name.example/")
    assert "timed out" in sentence
    assert exchange.is_running
    assert exchange._thread.daemon
    released.set()
    until(lambda: not exchange.is_running)
