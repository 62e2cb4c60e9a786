"""The web server behind a web configuration file: TLS, client certificates, passwords, headers, and many strangers."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import bcrypt
import pytest

from exporter.commands.serve import web_server
from exporter.config.loading import ConfigurationError, load
from exporter.config.web_config import RateLimit, WebConfig
from exporter.publication.guard import REMEMBER_SECONDS, Guard
from exporter.publication.page import render_page
from exporter.publication.site import Request, Site
from exporter.publication.web import WebServer
from tests.certificates import Authority, Issued
from tests.publication.scenarios import render, three_hangs

PATIENCE_S = 30
CHEAP = 4
"""bcrypt's cost in tests."""


def hashed(password: str, cost: int = CHEAP) -> bytes:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost))


def site() -> Site:
    made = Site(lambda: None)
    made.publish(render(three_hangs()), render_page(three_hangs()), is_ready=True)
    return made


@contextlib.contextmanager
def served(folder: Path, text: str) -> Iterator[WebServer]:
    """As `serve` makes it from its settings."""
    (folder / "web.yml").write_text(text)
    flags = {
        "kafka.bootstrap.servers": "a:1",
        "publish.listen_address": "127.0.0.1:0",
        "publish.web_config_file": str(folder / "web.yml"),
    }
    with web_server(load(file=None, environment={}, flags=flags))(site()) as server:
        yield server


def ask(server: WebServer, tls: ssl.SSLContext | None = None, **headers: str) -> tuple[int, dict[str, str]]:
    """(status, headers) of /metrics."""
    make = http.client.HTTPConnection
    if tls is None:
        connection = make("127.0.0.1", server.port, timeout=PATIENCE_S)
    else:
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=PATIENCE_S, context=tls)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics", headers=headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def client_tls(authority: Authority, client: Issued | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.path)
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    return context


def refused(server: WebServer, tls: ssl.SSLContext) -> bool:
    """True when the connection ends without an answer."""
    try:
        ask(server, tls)
    except (ssl.SSLError, ConnectionError, http.client.RemoteDisconnected):
        return True
    return False


TLS = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"


def test_certificates_rotate_without_a_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The next peer is shown the new one; a broken file keeps the old one and is told."""
    caplog.set_level(logging.INFO)
    authority, later = Authority(tmp_path), Authority(tmp_path / "later", "later")
    authority.issue("server")

    with served(tmp_path, TLS) as server:
        assert ask(server, client_tls(authority))[0] == 200
        assert refused(server, client_tls(later))
        later.issue("server", to=tmp_path)
        assert ask(server, client_tls(later))[0] == 200
        assert refused(server, client_tls(authority))
        (tmp_path / "server.crt").write_text("half a certif")
        assert ask(server, client_tls(later))[0] == 200

    said = [record.getMessage() for record in caplog.records]
    assert "the web server's certificate is renewed" in said
    assert any(it.startswith("the web server's certificate is not renewed, the old one stays") for it in said)


def test_peers_must_show_a_certificate_with_an_allowed_name(tmp_path: Path) -> None:
    """None, one of another authority, one with another name: all are refused; the right one gets its answer."""
    authority, stranger = Authority(tmp_path), Authority(tmp_path / "stranger", "stranger")
    authority.issue("server")
    right = authority.issue("prometheus", hosts=["prometheus.example"])
    wrong_name = authority.issue("grafana", hosts=["grafana.example"])
    wrong_authority = stranger.issue("prometheus", hosts=["prometheus.example"])
    text = TLS + (
        "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: authority.pem\n"
        "  client_allowed_sans: [prometheus.example]\n"
    )

    with served(tmp_path, text) as server:
        assert ask(server, client_tls(authority, right))[0] == 200
        assert refused(server, client_tls(authority))
        assert refused(server, client_tls(authority, wrong_authority))
        assert refused(server, client_tls(authority, wrong_name))


def test_a_certificate_that_is_given_is_verified(tmp_path: Path) -> None:
    """VerifyClientCertIfGiven: without one is fine, with a stranger's is not."""
    authority, stranger = Authority(tmp_path), Authority(tmp_path / "stranger", "stranger")
    authority.issue("server")
    text = TLS + "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: authority.pem\n"

    with served(tmp_path, text) as server:
        assert ask(server, client_tls(authority))[0] == 200
        assert ask(server, client_tls(authority, authority.issue("p")))[0] == 200
        assert refused(server, client_tls(authority, stranger.issue("p")))


def test_versions_and_ciphers_are_honoured(tmp_path: Path) -> None:
    """A peer that speaks less than the minimum, or other suites, has no handshake."""
    authority = Authority(tmp_path)
    authority.issue("server")
    old = client_tls(authority)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    other = client_tls(authority)
    other.maximum_version = ssl.TLSVersion.TLSv1_2
    other.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")

    with served(tmp_path, TLS + "  min_version: TLS13\n") as server:
        assert refused(server, old)
        assert ask(server, client_tls(authority))[0] == 200
    suites = "  max_version: TLS12\n  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]\n"
    with served(tmp_path, TLS + suites) as server:
        assert refused(server, other)
        assert ask(server, client_tls(authority))[0] == 200


def test_what_is_no_certificate_is_told_before_listening(tmp_path: Path) -> None:
    """A key that belongs to another certificate, and a file that is none."""
    authority = Authority(tmp_path)
    authority.issue("server")
    (tmp_path / "server.key").write_bytes(authority.issue("other").key.read_bytes())
    with (
        pytest.raises(ConfigurationError, match=r"server.crt and .*server.key are no certificate and its key"),
        served(tmp_path, TLS),
    ):
        pass
    with pytest.raises(ConfigurationError, match=r"rate_limit\.interval must be"), served(tmp_path, "rate_limit: {}"):
        pass


def test_passwords_headers_and_users_that_change(tmp_path: Path) -> None:
    """Without, with a wrong, and with the right one; headers on every answer; a changed file applies at once."""
    users = f"basic_auth_users:\n  prometheus: {hashed('right').decode()}\n"
    headers = "http_server_config:\n  headers: {X-Frame-Options: deny, X-Content-Type-Options: nosniff}\n"

    with served(tmp_path, users + headers) as server:
        unasked, told = ask(server)
        assert (unasked, told["www-authenticate"]) == (401, 'Basic realm="kafka-transaction-exporter"')
        assert told["x-frame-options"] == "deny"
        assert ask(server, Authorization=basic("prometheus", "wrong"))[0] == 401
        assert ask(server, Authorization=basic("nobody", "right"))[0] == 401
        for nonsense in ("Basic !!", "Basic cHJvbQ==", "Bearer x", "Basic"):
            assert ask(server, Authorization=nonsense)[0] == 401
        right = ask(server, Authorization=basic("prometheus", "right"))
        assert (right[0], right[1]["x-frame-options"]) == (200, "deny")
        (tmp_path / "web.yml").write_text(f"basic_auth_users:\n  prometheus: {hashed('newer').decode()}\n")
        assert ask(server, Authorization=basic("prometheus", "right"))[0] == 401
        assert ask(server, Authorization=basic("prometheus", "newer"))[0] == 200
        (tmp_path / "web.yml").write_text("basic_auth_users: nonsense\n")
        assert ask(server, Authorization=basic("prometheus", "newer"))[0] == 200


def test_a_known_scraper_never_waits_for_guesses(tmp_path: Path) -> None:
    """While strangers keep bcrypt busy with wrong passwords, whoever was verified is answered from memory."""
    users = f"basic_auth_users:\n  prometheus: {hashed('right', 11).decode()}\n"
    stop = threading.Event()

    with served(tmp_path, users) as server:
        right = basic("prometheus", "right")
        assert ask(server, Authorization=right)[0] == 200
        guesses = [0] * 4

        def guess(number: int) -> None:
            while not stop.is_set():
                assert ask(server, Authorization=basic("prometheus", f"guess{number}"))[0] == 401
                guesses[number] += 1

        threads = [threading.Thread(target=guess, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        while sum(guesses) < 3:
            time.sleep(0.01)
        before = sum(guesses)
        statuses = [ask(server, Authorization=right)[0] for _ in range(30)]
        while_asking = sum(guesses) - before
        stop.set()
        for thread in threads:
            thread.join()

    assert statuses == [200] * 30
    assert while_asking < 30, "each scrape would have waited behind a guess"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def refusals(guard: Guard, *headers: dict[str, str]) -> list[int | None]:
    async def every() -> list[int | None]:
        answers = [
            await guard.refusal(Request(method="GET", path="/metrics", headers=it), guard.current()) for it in headers
        ]
        return [None if it is None else it.status for it in answers]

    return asyncio.run(every())


def test_what_was_verified_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a minute, and when the hash is another; the password itself is kept nowhere."""
    checked: list[bytes] = []
    real = bcrypt.checkpw

    def check(password: bytes, known: bytes) -> bool:
        checked.append(password)
        return real(password, known)

    monkeypatch.setattr(bcrypt, "checkpw", check)
    clock = Clock()
    config = WebConfig(users={"me": hashed("s3cret")})
    guard = Guard(lambda: config, clock=clock)
    right = {"authorization": basic("me", "s3cret")}

    assert refusals(guard, right, right) == [None, None]
    assert len(checked) == 1
    clock.now = REMEMBER_SECONDS + 1
    assert refusals(guard, right) == [None]
    assert len(checked) == 2
    config = WebConfig(users={"me": hashed("other")})
    assert refusals(guard, right) == [401]
    assert "s3cret" not in repr(guard._verified)
    guard.close()


def test_a_long_password_is_not_known_by_its_beginning() -> None:
    """Bcrypt looks at 72 bytes only."""
    guard = Guard(lambda: WebConfig(users={"me": hashed("x" * 72)}))

    assert refusals(guard, {"authorization": basic("me", "x" * 72)}) == [None]
    assert refusals(guard, {"authorization": basic("me", "x" * 73)}) == [401]
    guard.close()


def test_the_rate_is_limited() -> None:
    """So many at once, then one after each interval, and never more than the burst after a rest."""
    clock = Clock()
    guard = Guard(lambda: WebConfig(rate_limit=RateLimit(interval_ms=100, burst=3)), clock=clock)
    nothing: dict[str, str] = {}

    assert refusals(guard, *[nothing] * 4) == [None, None, None, 429]
    clock.now = 0.1
    assert refusals(guard, nothing, nothing) == [None, 429]
    clock.now = 60
    assert refusals(guard, *[nothing] * 4) == [None, None, None, 429]
    guard.close()


def drip(peer: socket.socket, stop: threading.Event) -> None:
    """One header byte after another."""
    with contextlib.suppress(OSError):
        for byte in b"GET /metrics HTTP/1.1\r\nX: " + b"y" * 1000:
            if stop.wait(0.05):
                return
            peer.send(bytes([byte]))


def pour(peer: socket.socket, stop: threading.Event) -> None:
    """A body of a gigabyte, as far as it is taken."""
    with contextlib.suppress(OSError):
        peer.sendall(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1073741824\r\n\r\n")
        while not stop.is_set():
            peer.send(bytes(65536))


def babble(peer: socket.socket, stop: threading.Event) -> None:
    """Requests that are none."""
    with contextlib.suppress(OSError):
        while not stop.wait(0.01):
            peer.send(b"\x00\xff GET nothing\r\n\r\n")


def be_idle(peer: socket.socket, stop: threading.Event) -> None:
    """Nothing at all: with TLS a handshake that never begins. No thread is needed for that."""
    del peer, stop


@pytest.mark.parametrize(
    ("behaviour", "peers"),
    [(be_idle, 500), (drip, 20), (pour, 4), (babble, 20)],
    ids=lambda it: getattr(it, "__name__", it),
)
@pytest.mark.parametrize("with_tls", [False, True], ids=["plain", "tls"])
def test_strangers_do_not_keep_a_scrape_waiting(
    tmp_path: Path, behaviour: Callable[[socket.socket, threading.Event], None], peers: int, *, with_tls: bool
) -> None:
    """A scrape beside them is answered; what it took is told beside an undisturbed one of the same run."""
    authority = Authority(tmp_path)
    authority.issue("server")
    tls = client_tls(authority) if with_tls else None

    def scrape() -> float:
        began = time.monotonic()
        assert ask(server, tls)[0] == 200
        return time.monotonic() - began

    with served(tmp_path, TLS if with_tls else "") as server, contextlib.ExitStack() as stack:
        undisturbed = min(scrape() for _ in range(9))
        stop = threading.Event()
        stack.callback(stop.set)
        for _ in range(peers):
            peer = stack.enter_context(socket.socket())
            if behaviour is be_idle:
                peer.setblocking(False)  # the kernel connects: nobody waits for hundreds of handshakes
                peer.connect_ex(("127.0.0.1", server.port))
            else:
                peer.settimeout(PATIENCE_S)
                peer.connect(("127.0.0.1", server.port))
                threading.Thread(target=behaviour, args=(peer, stop), daemon=True).start()
        disturbed = min(scrape() for _ in range(9))
        stop.set()

    print(f"{behaviour.__name__}: {disturbed * 1000:.1f} ms beside {undisturbed * 1000:.1f} ms undisturbed")
    assert disturbed < undisturbed + 0.1, "the best of nine: what the machine does besides is not counted"
