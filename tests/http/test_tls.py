"""Certificates of private authorities: brokers, token endpoints and Prometheus are verified alike, on every Python.

Python 3.13's own default demands fields of RFC 5280 that many private authorities leave out; Java's clients do not.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from exporter.config.kafka_section import KafkaSettings
from exporter.config.loading import load
from exporter.http.request import Exchange
from exporter.http.tls import client_context, system_context
from exporter.kafka.client.credentials import client_options
from exporter.kafka.client.oauth import tokens_of
from tests.certificates import Authority, Issued
from tests.kafka.loopback import Listener

BODY = b'{"access_token": "t", "expires_in": 300}'


def _own(folder: Path) -> tuple[Path, Issued]:
    authority = Authority(folder)
    return authority.path, authority.issue("server")


def _bare(folder: Path) -> tuple[Path, Issued]:
    """As `openssl x509 -req` makes them without a file of extensions."""
    authority = Authority(folder, is_bare=True)
    return authority.path, authority.issue("server")


def _intermediate(folder: Path) -> tuple[Path, Issued]:
    """Only the intermediate authority is trusted, and the server does not send it."""
    authority = Authority(folder, "intermediate", root=Authority(folder, "root"))
    return authority.path, authority.issue("server")


def _other(folder: Path) -> tuple[Path, Issued]:
    return Authority(folder, "another").path, Authority(folder).issue("server")


def _expired(folder: Path) -> tuple[Path, Issued]:
    authority = Authority(folder)
    return authority.path, authority.issue("server", days=-1)


def _other_host(folder: Path) -> tuple[Path, Issued]:
    authority = Authority(folder)
    return authority.path, authority.issue("server", hosts=("broker.example",))


ACCEPTED = {"own": _own, "bare": _bare, "intermediate": _intermediate}
NOT_ACCEPTED = {"unknown": _other, "expired": _expired, "host": _other_host}


@pytest.fixture
def serve() -> Iterator[Callable[[Issued], int]]:
    """Starts HTTPS servers with a certificate; returns their ports."""
    listeners: list[Listener] = []

    def start(issued: Issued) -> int:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(issued.certificate, issued.key)

        def talk(plain: socket.socket) -> None:
            with context.wrap_socket(plain, server_side=True) as connection:
                if connection.recv(65_536):
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY)

        listeners.append(Listener(talk))
        return listeners[-1].port

    yield start
    for listener in listeners:
        listener.close()


def _settings(port: int, lines: Mapping[str, str]) -> KafkaSettings:
    text = "".join(f"  {name}: {value}\n" for name, value in lines.items())
    text = f"kafka:\n  bootstrap.servers: 127.0.0.1:{port}\n{text}"
    return load(file=("config.yaml", text), environment={}, flags={}).settings.kafka


def _as_broker(port: int, authorities: Path) -> None:
    lines = {"security.protocol": "SSL", "ssl.ca.location": str(authorities)}
    context = client_options(_settings(port, lines))["ssl_context"]
    with socket.create_connection(("127.0.0.1", port), 10) as plain:
        context.wrap_socket(plain, server_hostname="127.0.0.1").close()


def _as_token_endpoint(port: int, authorities: Path) -> None:
    oauth = "sasl.oauthbearer."
    lines = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        f"{oauth}token.endpoint.url": f"https://127.0.0.1:{port}/token",
        f"{oauth}client.id": "me",
        f"{oauth}client.secret": "s",
        "https.ca.location": str(authorities),
    }
    tokens = tokens_of(client_options(_settings(port, lines)))
    assert tokens is not None
    tokens.refresh(10)
    assert tokens.token() == "t"


def _as_prometheus(port: int, authorities: Path) -> None:
    """Its authorities are the system's, so this has another source of them."""
    Exchange(f"https://127.0.0.1:{port}/", bytes_max=1000, tls=lambda: client_context(str(authorities))).wait(10)


WAYS = (_as_broker, _as_token_endpoint, _as_prometheus)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ACCEPTED)
def test_a_private_authority_is_enough(
    tmp_path: Path, serve: Callable[[Issued], int], way: Callable[[int, Path], None], kind: str
) -> None:
    """Whatever Java's clients accept of it."""
    authorities, issued = ACCEPTED[kind](tmp_path)
    way(serve(issued), authorities)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", NOT_ACCEPTED)
def test_another_certificate_is_refused(
    tmp_path: Path, serve: Callable[[Issued], int], way: Callable[[int, Path], None], kind: str
) -> None:
    """Of another authority, of the past, or for another host."""
    authorities, issued = NOT_ACCEPTED[kind](tmp_path)
    with pytest.raises(Exception, match=r"(?i)certificate.verify.failed"):
        way(serve(issued), authorities)


@pytest.mark.parametrize("way", WAYS)
def test_a_file_replaces_the_system_s_authorities(
    tmp_path: Path,
    serve: Callable[[Issued], int],
    way: Callable[[int, Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else any public authority could sign for a broker."""
    public, private = Authority(tmp_path, "public"), Authority(tmp_path, "private")
    monkeypatch.setenv("SSL_CERT_FILE", str(public.path))
    port = serve(public.issue("server"))
    context = system_context()
    with socket.create_connection(("127.0.0.1", port), 10) as plain:
        context.wrap_socket(plain, server_hostname="127.0.0.1").close()
    with pytest.raises(Exception, match=r"(?i)certificate.verify.failed"):
        way(port, private.path)
