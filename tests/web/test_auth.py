"""The web server behind a web configuration file: TLS, client certificates, passwords, headers, and many strangers."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import bcrypt
import pytest

from exporter.commands.serve import web_server
from exporter.config.loading import ConfigurationError, load
from exporter.publication.page.page import render_page
from exporter.web.auth import REMEMBERED_MAX, WAITING_MAX, WAITING_PER_ADDRESS_MAX, Authenticator
from exporter.web.config import RateLimit, WebConfig
from exporter.web.routes import Request, Routes
from exporter.web.server import WebServer
from exporter.web.tls import is_allowed
from hangbench.waiting import until
from tests.certificates import Authority
from tests.hand_clock import HandClock
from tests.publication.scenarios import render, three_hangs
from tests.web.logins import TLS, basic, client_tls, hashed

PATIENCE_S = 30


def routes() -> Routes:
    made = Routes(lambda: None)
    made.publish(render(three_hangs()), {"/": render_page(three_hangs())}, is_ready=True)
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
    with web_server(load(file=None, environment={}, flags=flags).settings)(routes()) as server:
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


def refused(server: WebServer, tls: ssl.SSLContext) -> bool:
    """True when the connection ends without an answer."""
    try:
        ask(server, tls)
    except (ssl.SSLError, ConnectionError, http.client.RemoteDisconnected):
        return True
    return False


def test_certificates_rotate_without_a_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The next peer is shown the new one; a broken file is reported and keeps the old one."""
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

    lines = [record.getMessage() for record in caplog.records]
    assert "web server certificate reloaded" in lines
    assert any(line.startswith("web server certificate not reloaded, the previous one stays in use") for line in lines)


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


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_certificate_ends_with_its_authority(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """Neither a session that is resumed, nor a connection that is kept, outlives the authority in the file."""
    authority, later = Authority(tmp_path), Authority(tmp_path / "later", "later")
    authority.issue("server")
    tls = client_tls(authority, authority.issue("prometheus"))
    tls.maximum_version = tls.minimum_version = version
    text = TLS + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: clients.pem\n"
    (tmp_path / "clients.pem").write_bytes(authority.path.read_bytes())

    with served(tmp_path, text) as server, contextlib.ExitStack() as stack:

        def connect(session: ssl.SSLSession | None = None) -> ssl.SSLSocket:
            plain = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S))
            return stack.enter_context(tls.wrap_socket(plain, server_hostname="127.0.0.1", session=session))

        def status(connection: ssl.SSLSocket) -> bytes:
            try:
                connection.sendall(b"HEAD /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
                return connection.recv(10_000)[:12]
            except OSError:
                return b""

        kept = connect()
        assert status(kept) == status(kept) == b"HTTP/1.1 200"
        session = kept.session
        (tmp_path / "clients.pem").write_bytes(later.path.read_bytes())
        with contextlib.suppress(OSError):  # refused in the handshake by TLS 1.2, after it by 1.3
            assert status(connect(session)) == b""
        assert status(kept) == b""
        with contextlib.suppress(OSError):
            assert status(connect()) == b""


def test_a_certificate_that_is_expired_is_not_allowed() -> None:
    """Also in a resumed session, in which TLS does not verify the certificate again."""
    certificate = {"notAfter": "Nov 22 12:00:00 2026 GMT", "subjectAltName": (("DNS", "a"),)}
    end_s = ssl.cert_time_to_seconds("Nov 22 12:00:00 2026 GMT")

    assert is_allowed(certificate, frozenset({"a"}), now_s=end_s)
    assert not is_allowed(certificate, frozenset({"a"}), now_s=end_s + 1)
    assert not is_allowed(certificate, frozenset(), now_s=end_s + 1)
    assert is_allowed(None, frozenset(), now_s=end_s)


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


def test_an_invalid_certificate_is_reported_before_listening(tmp_path: Path) -> None:
    """A key that belongs to another certificate, and a file without a certificate."""
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
        unasked, fields = ask(server)
        assert (unasked, fields["www-authenticate"]) == (401, 'Basic realm="kafka-transaction-exporter"')
        assert fields["x-frame-options"] == "deny"
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


@pytest.mark.parametrize(
    "left", ["", "# nothing\n", "basic_auth_users:\n", "{}", "http_server_config: {http2: false}\n"]
)
def test_an_emptied_file_opens_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture, left: str) -> None:
    """It may be the half that a writer has written so far. A server that started with users keeps them, and says so."""
    with served(tmp_path, f"basic_auth_users:\n  prometheus: {hashed('right').decode()}\n") as server:
        assert ask(server)[0] == 401
        (tmp_path / "web.yml").write_text(left)
        assert ask(server)[0] == 401
        assert ask(server, Authorization=basic("prometheus", "right"))[0] == 200

    assert len([record for record in caplog.records if "no longer names users" in record.getMessage()]) == 1


def test_a_known_scraper_never_waits_for_guesses(tmp_path: Path) -> None:
    """While strangers keep bcrypt busy with wrong passwords, a verified scraper is answered from memory."""
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
        until(lambda: sum(guesses) >= 3)
        before = sum(guesses)
        statuses = [ask(server, Authorization=right)[0] for _ in range(30)]
        while_asking = sum(guesses) - before
        stop.set()
        for thread in threads:
            thread.join()

    assert statuses == [200] * 30
    assert while_asking < 30, "each scrape would have waited behind a guess"


def refusals(guard: Authenticator, *headers: dict[str, str]) -> list[int | None]:
    async def every() -> list[int | None]:
        answers = [
            await guard.refusal(Request(method="GET", path="/metrics", headers=sent), guard.current())
            for sent in headers
        ]
        return [None if answer is None else answer.status for answer in answers]

    return asyncio.run(every())


async def guess_from(guard: Authenticator, address: str, password: str) -> int | None:
    headers = {"authorization": basic("me", password)}
    request = Request(method="GET", path="/metrics", headers=headers, address=address)
    answer = await guard.refusal(request, guard.current())
    return None if answer is None else answer.status


def test_guesses_do_not_lock_out_who_has_the_right_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """One address has a few places, all together have some; beyond that it is 503, so that a scraper comes again."""
    let_go = threading.Event()
    monkeypatch.setattr(bcrypt, "checkpw", lambda password, _: let_go.wait(PATIENCE_S) and password == b"right")
    guard = Authenticator(lambda: WebConfig(users={"me": hashed("right")}))

    async def attack() -> tuple[list[int | None], int | None, list[int | None], int | None]:
        crowd = [asyncio.create_task(guess_from(guard, "10.0.0.1", f"guess{number}")) for number in range(30)]
        scrape = asyncio.create_task(guess_from(guard, "10.0.0.2", "right"))
        await asyncio.sleep(0)
        others = [
            asyncio.create_task(guess_from(guard, f"10.0.1.{number}", "guess"))
            for number in range(WAITING_MAX - WAITING_PER_ADDRESS_MAX)
        ]
        await asyncio.sleep(0)
        let_go.set()
        return (
            await asyncio.gather(*crowd),
            await scrape,
            await asyncio.gather(*others),
            await guess_from(guard, "", "x"),
        )

    crowd, scrape, others, afterwards = asyncio.run(attack())
    guard.close()

    kept = WAITING_PER_ADDRESS_MAX - 1
    assert (crowd.count(401), crowd.count(503)) == (kept, 30 - kept), "the last address took the place of one"
    assert scrape is None
    assert others.count(503) == 0
    assert afterwards == 401, "places are given back"


def test_guesses_from_many_addresses_do_not_keep_out_a_new_scraper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty guessers from eight addresses have all places: one of them loses its own to the address without a place."""
    let_go = threading.Event()
    monkeypatch.setattr(bcrypt, "checkpw", lambda password, _: let_go.wait(PATIENCE_S) and password == b"right")
    guard = Authenticator(lambda: WebConfig(users={"me": hashed("right")}))

    async def attack() -> tuple[list[int | None], int | None]:
        crowd = [asyncio.create_task(guess_from(guard, f"10.0.0.{number % 8}", "guess")) for number in range(40)]
        await asyncio.sleep(0)
        scrape = asyncio.create_task(guess_from(guard, "10.0.1.1", "right"))
        await asyncio.sleep(0)
        crowd += [asyncio.create_task(guess_from(guard, f"10.0.0.{number % 8}", "guess")) for number in range(40)]
        await asyncio.sleep(0)
        let_go.set()
        return await asyncio.gather(*crowd), await scrape

    crowd, scrape = asyncio.run(attack())
    guard.close()

    assert scrape is None
    assert (crowd.count(401), crowd.count(503)) == (WAITING_MAX - 1, 80 - WAITING_MAX + 1)


def test_what_is_used_is_remembered_and_no_more_than_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scraper's is the last that is forgotten; how often it comes does not matter."""
    checked: list[bytes] = []

    def check(password: bytes, _: bytes) -> bool:
        checked.append(password)
        return True

    monkeypatch.setattr(bcrypt, "checkpw", check)
    users = {f"user{number}": hashed("x") for number in range(REMEMBERED_MAX + 1)}
    guard = Authenticator(lambda: WebConfig(users=users))

    def come(user: str) -> int:
        before = len(checked)
        assert refusals(guard, {"authorization": basic(user, "x")}) == [None]
        return len(checked) - before

    assert come("user0") == 1
    for number in range(1, REMEMBERED_MAX):
        assert come(f"user{number}") == 1
        assert come("user0") == 0
    assert come(f"user{REMEMBERED_MAX}") == 1
    assert (come("user0"), come("user2"), come("user1")) == (0, 0, 1)
    guard.close()


def test_an_unknown_user_costs_as_much_as_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The response time would otherwise show which users exist."""
    hashes: list[bytes] = []

    def check(_: bytes, known: bytes) -> bool:
        hashes.append(known)
        return False

    monkeypatch.setattr(bcrypt, "checkpw", check)
    guard = Authenticator(lambda: WebConfig(users={"me": hashed("x", 6)}))

    assert refusals(guard, {"authorization": basic("stranger", "x")}, {"authorization": basic("me", "y")}) == [401, 401]
    assert [hashed[:7] for hashed in hashes] == [b"$2b$06$"] * 2
    guard.close()


def test_what_was_verified_is_forgotten_with_its_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """The password itself is kept nowhere."""
    checked: list[bytes] = []
    real = bcrypt.checkpw

    def check(password: bytes, known: bytes) -> bool:
        checked.append(password)
        return real(password, known)

    monkeypatch.setattr(bcrypt, "checkpw", check)
    config = WebConfig(users={"me": hashed("s3cret")})
    guard = Authenticator(lambda: config)
    right = {"authorization": basic("me", "s3cret")}

    assert refusals(guard, right, right) == [None, None]
    assert len(checked) == 1
    config = WebConfig(users={"me": hashed("other")})
    assert refusals(guard, right) == [401]
    assert "s3cret" not in repr(guard._verified)
    guard.close()


def test_a_long_password_is_not_known_by_its_beginning() -> None:
    """Bcrypt looks at 72 bytes only."""
    guard = Authenticator(lambda: WebConfig(users={"me": hashed("x" * 72)}))

    assert refusals(guard, {"authorization": basic("me", "x" * 72)}) == [None]
    assert refusals(guard, {"authorization": basic("me", "x" * 73)}) == [401]
    guard.close()


def test_the_rate_is_limited() -> None:
    """So many at once, then one after each interval, and never more than the burst after a rest."""
    clock = HandClock()
    guard = Authenticator(lambda: WebConfig(rate_limit=RateLimit(interval_ms=100, burst=3)), clock=clock)
    nothing: dict[str, str] = {}

    assert refusals(guard, *[nothing] * 4) == [None, None, None, 429]
    clock.now = 0.1
    assert refusals(guard, nothing, nothing) == [None, 429]
    clock.now = 60
    assert refusals(guard, *[nothing] * 4) == [None, None, None, 429]
    guard.close()
