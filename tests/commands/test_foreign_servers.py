"""A server of another protocol at the bootstrap address is named as such, and never as a broker that does not respond."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kafka.loopback import Listener
from tests.real_brokers.exporting import called


def says(text: bytes, *, first: bool) -> Callable[[socket.socket], None]:
    """Sends `text` at once, or after the client's first bytes, and then waits for the client to leave."""

    def talk(connection: socket.socket) -> None:
        if not first:
            connection.recv(1000)
        connection.sendall(text)
        while connection.recv(1000):
            pass

    return talk


AT_ONCE, WHEN_ASKED = True, False


@pytest.mark.parametrize(
    ("text", "first", "begin"),
    [
        (
            b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            WHEN_ASKED,
            "HTTP/1.1 400 Bad Req",
        ),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", AT_ONCE, "SSH-2.0-OpenSSH_9.2p"),
        (b"220 mail.example.org ESMTP\r\n", AT_ONCE, "220 mail.example.org"),
        (b"-ERR unknown command\r\n", WHEN_ASKED, "-ERR unknown command"),
    ],
)
def test_the_sentence_says_that_no_broker_listens_there(tmp_path: Path, text: bytes, first: bool, begin: str) -> None:  # noqa: FBT001
    """With the beginning of what the server sent, so that the operator recognises it."""
    with Listener(says(text, first=first)) as listener:
        done = called(tmp_path, "find-hanging", "--bootstrap-server", f"127.0.0.1:{listener.port}")

    assert done.returncode == 1
    assert f"no Kafka broker listens there: the response begins with '{begin}'" in done.stderr
