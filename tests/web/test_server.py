"""The web server on real sockets: its responses, and that bad peers do not affect others.

No test measures time against a limit: a scrape must be answered *while* the bad peers are still connected.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import http.client
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.publication.exposition import OPENMETRICS, TEXT, Renderer
from exporter.publication.page.page import Page, render_page
from exporter.publication.publication import Publication
from exporter.web.connections import ConnectionLimits
from exporter.web.listener import WebServerError
from exporter.web.routes import Request, Routes
from exporter.web.server import WebServer
from hangbench.waiting import until
from tests.certificates import Authority
from tests.publication.builders import evaluation_of, many_partitions, published
from tests.publication.scenarios import healthy, render, three_hangs

PATIENCE_SECONDS = 30
"""How long a test waits for what must happen; reached only on failure."""


def _site(publication: Publication, liveness: Callable[[], str | None] = lambda: None) -> Routes:
    routes = Routes(liveness)
    routes.publish(render(publication), {"/": render_page(publication)}, is_ready=True)
    return routes


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/incidents?topic=orders&partition=0", "incidents/newest"),
        ("/incidents?partition=0&topic=%6frders&start_offset=7", "incidents/of-7"),
        ("/incidents?topic=orders&partition=0&start_offset=8&more=x", "incidents/newest"),
        ("/clusters/a%20b/incidents?topic=orders&partition=0", "incidents/of-cluster"),
        ("/incidents?topic=other&partition=0", "./"),
        ("/incidents/", "../incidents"),
        ("/clusters/a%20b/", "../a%20b"),
        ("/incidents?topic=other&partition=0&start_offset=7", "./"),
        ("/clusters/a%20b/incidents?topic=other&partition=0", "../a%20b"),
        ("/clusters/c/incidents?topic=other&partition=0", None),
        ("/incidents?topic=orders", None),
        ("/incidents?topic=orders&partition=0" + "&x=1" * 20, None),
        ("/incidents", None),
    ],
)
def test_a_place_leads_to_its_incident_or_to_the_status_page(path: str, location: str | None) -> None:
    """The address is relative, so that it holds below the path of a proxy too."""
    moved = {
        "/incidents?topic=orders&partition=0": "incidents/newest",
        "/incidents?topic=orders&partition=0&start_offset=7": "incidents/of-7",
        "/incidents?": "./",
        "/clusters/a b/incidents?topic=orders&partition=0": "incidents/of-cluster",
        "/clusters/a b/incidents?": "../a%20b",
    }
    pages = {place: Page(head=b"", moved_to=to) for place, to in moved.items()}
    lists = {path: Page(head=b"the list") for path in ("/incidents", "/clusters/c/incidents", "/clusters/a b")}
    routes = Routes(lambda: None)
    routes.publish(render(healthy()), {**pages, **lists}, is_ready=True)
    with WebServer("127.0.0.1:0", routes) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_SECONDS)
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
        connection.close()

    assert (response.status, response.headers["Location"]) == ((200 if location is None else 302), location)
    assert location is not None or body == b"the list"


def _large_site() -> Routes:
    """A response of more than ten megabytes: more than the kernel buffers while the peer does not read."""
    evaluated = evaluation_of(many_partitions(5000, 20), {})
    routes = Routes(lambda: None)
    publication = published(evaluated)
    routes.publish(Renderer().render(publication), {"/": render_page(healthy())}, is_ready=True)
    return routes


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer("127.0.0.1:0", _site(three_hangs())) as server:
        yield server


class Reply:
    """A whole answer; header names in lower case."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()


def _ask(web: WebServer, path: str, method: str = "GET", **headers: str) -> Reply:
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=PATIENCE_SECONDS)
    with contextlib.closing(connection):
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        return Reply(connection.getresponse())


def _connect(web: WebServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", web.port), timeout=PATIENCE_SECONDS)


def _is_dropped(peer: socket.socket) -> bool:
    """Waits for the end of the connection; False when it stays."""
    try:
        while peer.recv(1 << 20):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


# Answers


def test_metrics_are_sent_as_published(web: WebServer) -> None:
    """The body is the exposition byte for byte, in the representation that the headers ask for."""
    wanted = render(three_hangs())
    plain = _ask(web, "/metrics")
    assert (plain.status, plain.headers["content-type"], plain.body) == (200, TEXT, wanted.text.body)
    assert "content-encoding" not in plain.headers
    packed = _ask(web, "/metrics", Accept="application/openmetrics-text;version=1.0.0", Accept_Encoding="gzip")
    assert (packed.headers["content-type"], packed.headers["content-encoding"]) == (OPENMETRICS, "gzip")
    assert gzip.decompress(packed.body) == wanted.openmetrics.body
    assert packed.headers["vary"] == "Accept, Accept-Encoding"


def test_a_new_publication_replaces_the_old_one_whole() -> None:
    """Requests after a publication get it; there is no mixture and no wait."""
    routes = _site(three_hangs())
    with WebServer("127.0.0.1:0", routes) as web:
        routes.publish(render(healthy()), {"/": render_page(healthy())}, is_ready=True)
        assert _ask(web, "/metrics").body == render(healthy()).text.body


def test_a_body_of_many_pieces_arrives_whole() -> None:
    """Ten thousand series are sent in pieces and put together again by the peer."""
    evaluated = evaluation_of(many_partitions(1000, 20), {19: 5000})
    exposition = Renderer().render(published(evaluated))
    routes = Routes(lambda: None)
    routes.publish(exposition, {"/": render_page(healthy())}, is_ready=True)
    with WebServer("127.0.0.1:0", routes) as web:
        reply = _ask(web, "/metrics")
    assert reply.body == exposition.text.body
    assert int(reply.headers["content-length"]) == len(exposition.text.body) > 1_000_000


@pytest.mark.parametrize("path", ["/", "/metrics", "/-/healthy", "/-/ready"])
def test_head_is_get_without_a_body(web: WebServer, path: str) -> None:
    """Same status and same headers, length included, for HEAD and GET."""
    head, get = _ask(web, path, "HEAD"), _ask(web, path)
    assert head.body == b""
    assert int(get.headers["content-length"]) == len(get.body)
    for reply in (head, get):
        reply.headers.pop("date")
    assert (head.status, head.headers) == (get.status, get.headers)


def test_health_follows_the_loop_and_not_kafka() -> None:
    """/-/healthy is 503 with the reason while the loop is dead, and 200 as soon as it is not; the page warns, too."""
    failures: list[str | None] = ["No cycle has ended for 5 minutes."]
    with WebServer("127.0.0.1:0", _site(healthy(), lambda: failures[0])) as web:
        reply = _ask(web, "/-/healthy")
        assert (reply.status, reply.body) == (503, b"No cycle has ended for 5 minutes.\n")
        assert b"No cycle has ended for 5 minutes." in _ask(web, "/").body
        failures[0] = None
        assert _ask(web, "/-/healthy").status == 200
        assert b'id="alarm"' not in _ask(web, "/").body


def test_ready_is_when_the_first_cycle_has_ended() -> None:
    """503 before anything is published and while only the exporter's own state is, 200 from the first cycle on."""
    routes = Routes(lambda: None)
    with WebServer("127.0.0.1:0", routes) as web:
        assert [_ask(web, path).status for path in ("/-/healthy", "/-/ready", "/metrics", "/")] == [200, 503, 503, 503]
        routes.publish(render(healthy()), {"/": render_page(healthy())}, is_ready=False)
        assert [_ask(web, path).status for path in ("/-/ready", "/metrics", "/")] == [503, 200, 200]
        routes.publish(render(healthy()), {"/": render_page(healthy())}, is_ready=True)
        assert _ask(web, "/-/ready").status == 200


@pytest.mark.parametrize("path", ["/metrics/", "/favicon.ico", "/-/quit", "//", "/..%2fmetrics", "/abort"])
def test_unknown_paths_are_not_found(web: WebServer, path: str) -> None:
    """There is nothing else behind this port."""
    assert _ask(web, path).status == 404


def test_a_whole_address_is_a_target_too(web: WebServer) -> None:
    """Which clients send to a proxy, and a server must accept; of any host."""
    for target in ("http://exporter/metrics?x=1", "https://other:9814/metrics", "http://exporter"):
        same = _ask(web, "/metrics" if "metrics" in target else "/")
        assert (same.status, _ask(web, target).body) == (200, same.body)
    assert [_ask(web, target).status for target in ("http://exporter/unknown", "ftp://exporter/metrics")] == [404, 404]


def test_query_strings_change_nothing(web: WebServer) -> None:
    """A request cannot ask for more or for something else."""
    assert _ask(web, "/metrics?name[]=up&target=evil").body == _ask(web, "/metrics").body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_only_reading_is_allowed(web: WebServer, method: str) -> None:
    """Other methods get 405 on every path, with the list of those that are allowed."""
    for path in ("/metrics", "/-/healthy", "/nowhere"):
        reply = _ask(web, path, method)
        assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD")


def test_a_request_with_a_body_is_refused_unread(web: WebServer) -> None:
    """413 comes before the body has been sent, and the connection is closed."""
    for header in ("Content-Length: 1000000000", "Transfer-Encoding: chunked"):
        with _connect(web) as peer:
            peer.sendall(f"GET /metrics HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n".encode())
            assert peer.recv(100).startswith(b"HTTP/1.1 413")
            assert _is_dropped(peer)


def test_headers_have_a_maximum(web: WebServer) -> None:
    """A large header ends the connection, whether it comes whole or never ends; others are not troubled."""
    for end in ("\r\n\r\n", ""):
        with _connect(web) as peer:
            peer.sendall(f"GET /metrics HTTP/1.1\r\nHost: x\r\nX: {'a' * 40_000}{end}".encode())
            assert peer.recv(100)[:10] == b"HTTP/1.1 4"
            assert _is_dropped(peer)
    assert _ask(web, "/metrics").status == 200


def test_the_page_is_locked_down(web: WebServer) -> None:
    """Nothing may be loaded, framed, sent or sniffed; one script may run; the answer does not say what the server is."""
    page = _ask(web, "/")
    headers = page.headers
    (script,) = re.findall(r"<script>(.*?)</script>", page.body.decode(), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert headers["content-security-policy"] == (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


def test_nonsense_is_answered_and_forgotten(web: WebServer, caplog: pytest.LogCaptureFixture) -> None:
    """A peer that speaks no HTTP gets 400 and leaves no line in the log."""
    for nonsense in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 600,
        b"HELO mail\r\n\r\n",
        b"GET\r\n\r\n",
    ):
        with _connect(web) as peer:
            peer.sendall(nonsense)
            assert _is_dropped(peer)
    with _connect(web) as peer:
        upgrade = (
            b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n\r\n"
        )
        peer.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n" + upgrade)
        assert peer.recv(12) == b"HTTP/1.1 200"
    assert caplog.records == []


# Peers


def test_a_scrape_is_answered_while_others_stall(web: WebServer) -> None:
    """Silent peers and peers with half a request are all still connected when a scrape has been answered."""
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(_connect(web)) for _ in range(40)]
        for peer in peers[20:]:
            peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        until(lambda: web.connections == 40)
        assert _ask(web, "/metrics").status == 200
        assert web.connections >= 40


def test_slow_headers_do_not_buy_time() -> None:
    """One byte now and then keeps no connection: the deadline is for the whole request."""
    limits = ConnectionLimits(first_request_seconds=1)
    with WebServer("127.0.0.1:0", _site(healthy()), limits=limits) as web, _connect(web) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\nX: ")
        until(lambda: web.connections == 1)

        def is_dropped_at_last() -> bool:
            with contextlib.suppress(OSError):
                peer.sendall(b"x")
            return web.connections == 0

        until(is_dropped_at_last)


def test_idle_connections_end() -> None:
    """A connection kept alive is closed some time after its last answer, and serves more than one request before."""
    with (
        WebServer("127.0.0.1:0", _site(healthy()), limits=ConnectionLimits(idle_seconds=1)) as web,
        _connect(web) as peer,
    ):
        for _ in range(2):
            peer.sendall(b"HEAD /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
            assert peer.recv(10_000).startswith(b"HTTP/1.1 200")
        assert _is_dropped(peer)


def test_a_peer_that_does_not_read_is_dropped() -> None:
    """Its answer waits in bounded memory until its time is over; others are served meanwhile."""
    limits = ConnectionLimits(answer_seconds=1, first_request_seconds=60)
    with WebServer("127.0.0.1:0", _large_site(), limits=limits) as web, _connect(web) as peer:
        peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert _ask(web, "/-/healthy").status == 200
        until(lambda: web.connections == 0)
        received = 0
        with contextlib.suppress(OSError):
            while piece := peer.recv(1 << 20):
                received += len(piece)
        assert 0 < received < 10_000_000


def test_slow_readers_in_every_place_shut_no_one_out() -> None:
    """As many as there are places ask for a large page and do not read; a probe from the same address is answered."""
    with (
        WebServer("127.0.0.1:0", _large_site(), limits=ConnectionLimits(connections_max=8)) as web,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(3):
            for _ in range(8):
                stack.enter_context(_connect(web)).sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            until(lambda: web.connections == 8)
            assert [_ask(web, "/-/healthy").status for _ in range(5)] == [200] * 5


def test_answers_are_not_held_back_to_be_joined(web: WebServer) -> None:
    """Nagle's algorithm is off on every connection: with TLS a scrape would wait 40 ms for it."""
    with _connect(web):
        peers = web._listening._peers.values()
        # asyncio sets it after the connection has been counted.
        until(lambda: [peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for peer in tuple(peers)] == [1])


def test_an_answer_ends_and_the_idle_time_begins(web: WebServer) -> None:
    """After its answer a peer is waiting again, also when it claims to come from somewhere else."""
    with _connect(web) as peer:
        peer.sendall(b"HEAD /metrics HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n")
        assert peer.recv(10_000).startswith(b"HTTP/1.1 200")
        (known,) = web._listening._peers.values()
        until(lambda: known.deadline > time.monotonic() + ConnectionLimits().answer_seconds)


def test_connections_have_a_maximum_and_idle_ones_make_room() -> None:
    """When all places are taken by peers that ask nothing, a scrape still gets one: the oldest of them loses it."""
    with (
        WebServer("127.0.0.1:0", _site(healthy()), limits=ConnectionLimits(connections_max=10)) as web,
        contextlib.ExitStack() as stack,
    ):
        peers = [stack.enter_context(_connect(web)) for _ in range(10)]
        until(lambda: web.connections == 10)
        assert _ask(web, "/metrics").status == 200
        assert _is_dropped(peers[0])
        peers[9].sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
        assert peers[9].recv(100).startswith(b"HTTP/1.1 200")
        for _ in range(50):
            stack.enter_context(_connect(web))
        assert _ask(web, "/metrics").status == 200
        assert web.connections <= 10


def test_a_stalled_tls_handshake_blocks_no_other_peer(tls: ssl.SSLContext) -> None:
    """Peers that never speak TLS, or stop in the middle of it, are still connected when a scrape has been answered."""
    with WebServer("127.0.0.1:0", _site(three_hangs()), tls=tls) as web, contextlib.ExitStack() as stack:
        peers = [stack.enter_context(_connect(web)) for _ in range(20)]
        for peer in peers[10:]:
            peer.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
        until(lambda: web.connections == 20)
        assert _ask_by_tls(web) == render(three_hangs()).text.body
        assert web.connections >= 20


def test_a_stalled_tls_handshake_ends(tls: ssl.SSLContext) -> None:
    """The time for the first request runs from the accept: a handshake does not come on top."""
    limits = ConnectionLimits(first_request_seconds=1)
    with WebServer("127.0.0.1:0", _site(healthy()), tls=tls, limits=limits) as web, _connect(web) as peer:
        assert _is_dropped(peer)
        until(lambda: web.connections == 0)
        assert _ask_by_tls(web) == render(healthy()).text.body


def test_a_renewed_certificate_is_used_without_a_restart(
    tls: ssl.SSLContext, certificates: Callable[[str], Path]
) -> None:
    """Loading a new certificate into the context changes what the next peer is shown."""

    def shown(web: WebServer) -> bytes | None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection(("127.0.0.1", web.port)) as connection, context.wrap_socket(connection) as peer:
            peer.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            while peer.recv(4096):
                pass
            return peer.getpeercert(binary_form=True)

    with WebServer("127.0.0.1:0", _site(healthy()), tls=tls) as web:
        before = shown(web)
        tls.load_cert_chain(certificates("renewed"))
        assert shown(web) != before


@pytest.fixture
def certificates(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a file with a fresh key and its certificate."""
    authority = Authority(tmp_path)
    return lambda name: authority.issue(name).both


@pytest.fixture
def tls(certificates: Callable[[str], Path]) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates("first"))
    return context


def _ask_by_tls(web: WebServer) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", web.port, context=context, timeout=PATIENCE_SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        return connection.getresponse().read()


# Beginning and end


def test_closing_takes_open_connections_down() -> None:
    """Idle peers, half requests and non-readers do not keep the server: after close it is gone and the port is free.

    Three seconds distinguish the server's own end of every connection (half a second) from the library's (more than four).
    """
    web = WebServer("127.0.0.1:0", _large_site())
    web.start()
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(_connect(web)) for _ in range(30)]
        for peer in peers[10:20]:
            peer.sendall(b"GET /metr")
        for peer in peers[20:]:
            peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: web.connections == 30)
        begin = time.monotonic()
        web.close()
        assert time.monotonic() - begin < 3
        assert all(map(_is_dropped, peers))
    with WebServer(f"127.0.0.1:{web.port}", _site(healthy())) as again:
        assert _ask(again, "/-/ready").status == 200
    web.close()


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:0", ":0", "0.0.0.0:0"])
def test_listen_addresses(address: str) -> None:
    """Every form of an address can be asked at the URL that the server names."""
    with WebServer(address, _site(healthy())) as web:
        assert web.url.endswith(f":{web.port}")
        connection = http.client.HTTPConnection(web.url.removeprefix("http://"), timeout=PATIENCE_SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", "/-/ready")
            assert connection.getresponse().status == 200


def test_ipv6_addresses() -> None:
    """`[::1]:port` listens on IPv6 where the machine has it."""
    with contextlib.closing(socket.socket(socket.AF_INET6)) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 here")
    with WebServer("[::1]:0", _site(healthy())) as web:
        assert web.url == f"http://[::1]:{web.port}"
        socket.create_connection(("::1", web.port), timeout=PATIENCE_SECONDS).close()


def test_a_busy_port_is_one_clear_sentence(web: WebServer) -> None:
    """Starting on a port in use says which and why, and leaves no thread behind."""
    threads = threading.active_count()
    with pytest.raises(WebServerError) as caught:
        WebServer(f"127.0.0.1:{web.port}", _site(healthy())).start()
    assert str(caught.value) == (
        f"Cannot listen on 127.0.0.1:{web.port}: the port is in use by another program; "
        "choose another one with --publish.listen-address HOST:PORT."
    )
    assert threading.active_count() == threads


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("9814", "The web listen address '9814' must be host:port, [ipv6]:port, or :port for every address."),
        ("", "The web listen address '' must be host:port, [ipv6]:port, or :port for every address."),
        ("::1:9814", "The web listen address '::1:9814' must be host:port, [ipv6]:port, or :port for every address."),
        (
            "[::]:65536",
            "The web listen address '[::]:65536' must have a port up to 65535.",
        ),
        ("192.0.2.1:0", "Cannot listen on 192.0.2.1:0: this machine has no such address."),
        ("host.invalid:0", "Cannot listen on host.invalid:0: the host is not known."),
    ],
)
def test_a_wrong_address_is_one_clear_sentence(address: str, sentence: str) -> None:
    with pytest.raises(WebServerError) as caught:
        WebServer(address, _site(healthy())).start()
    assert str(caught.value) == sentence


def test_reloading_over_http_is_off_unless_it_is_allowed() -> None:
    """403 says how to turn it on; where it is on, only a POST without a body asks for it, and it is asked for once."""
    reloads: list[str] = []
    forbidding = Routes(lambda: None)
    allowing = Routes(lambda: None, reload=lambda: reloads.append("reload"))

    def status(routes: Routes, method: str, **headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return routes.answer(Request(method=method, path="/-/reload", headers=named)).status

    assert (status(forbidding, "POST"), status(forbidding, "GET")) == (403, 403)
    assert (status(allowing, "GET"), status(allowing, "DELETE"), reloads) == (405, 405, [])
    assert (status(allowing, "POST", content_length="9"), reloads) == (413, [])
    assert (status(allowing, "POST", content_length="0"), reloads) == (202, ["reload"])
    own = "http://exporter:9814"
    for headers, expected in (
        ({"origin": "http://evil", "host": "exporter:9814"}, 403),
        ({"origin": "null", "host": "exporter:9814"}, 403),
        ({"origin": "http://[", "host": "exporter:9814"}, 403),
        ({"origin": own, "sec_fetch_site": "cross-site", "host": "exporter:9814"}, 403),
        ({"origin": own, "sec_fetch_site": "same-site", "host": "exporter:9814"}, 403),
        ({"origin": own, "host": "exporter:9814"}, 202),
        ({"sec_fetch_site": "same-origin", "host": "exporter:9814"}, 202),
        ({"host": "exporter:9814"}, 202),
    ):
        assert status(allowing, "POST", **headers) == expected, headers
    assert allowing.answer(Request(method="POST", path="/metrics", headers={})).status == 405
