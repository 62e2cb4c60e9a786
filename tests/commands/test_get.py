"""`get`: a page of the running exporter at the address of its settings, with TLS and without, and each way to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter import cli
from exporter.commands.get import address_of, run
from exporter.commands.status import ExitStatus
from exporter.config.loading import load_publish
from exporter.config.settings import PublishSettings
from exporter.publication.page.page import render_page
from exporter.web.auth import Authenticator
from exporter.web.config_file import WebFile
from exporter.web.routes import Routes
from exporter.web.server import WebServer
from exporter.web.tls import RenewingContext
from tests.certificates import Authority
from tests.commands.scenes import context_of
from tests.publication.scenarios import render, three_hangs
from tests.web.logins import hashed


def _settings(**publish: str) -> PublishSettings:
    flags = {f"publish.{name}": value for name, value in publish.items()}
    return load_publish(file=None, environment={}, flags=flags)


def _routes(*, is_ready: bool = True) -> Routes:
    routes = Routes(lambda: None)
    routes.publish(render(three_hangs()), {"/": render_page(three_hangs())}, is_ready=is_ready)
    return routes


def test_metrics_are_printed_from_the_address_in_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    """Settings with every address are reached on this machine."""
    with WebServer("127.0.0.1:0", _routes()) as server:
        settings = _settings(listen_address=f":{server.port}")
        assert run(context_of(None, ["get"]), settings) == ExitStatus.ANSWERED
    assert capsys.readouterr().out.encode() == render(three_hangs()).text.body


@pytest.mark.parametrize(
    ("listens", "address"),
    [
        ("0.0.0.0:9814", "http://127.0.0.1:9814"),
        (":9814", "http://127.0.0.1:9814"),
        ("[::]:80", "http://[::1]:80"),
        ("kafka-1:9814", "http://kafka-1:9814"),
    ],
)
def test_every_form_of_an_address_is_reached(listens: str, address: str) -> None:
    assert address_of(_settings(listen_address=listens), is_tls=False) == address


def test_with_tls_the_server_s_own_certificate_is_trusted_and_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The certificate has another name than 127.0.0.1; a server with another certificate is refused."""
    authority = Authority(tmp_path)
    own, other = (authority.issue(name, hosts=(name,)) for name in ("exporter.example", "stranger.example"))
    written = tmp_path / "web.yml"
    written.write_text(f"tls_server_config:\n  cert_file: {own.certificate}\n  key_file: {own.key}\n")
    tls = WebFile(written).current().tls
    assert tls is not None
    with WebServer("127.0.0.1:0", _routes(), tls=RenewingContext(tls)) as server:
        settings = _settings(listen_address=f"127.0.0.1:{server.port}", web_config_file=str(written))
        assert run(context_of(None, ["get", "/-/ready"]), settings) == ExitStatus.ANSWERED
        assert capsys.readouterr().out == "Ready.\n"
        written.write_text(f"tls_server_config:\n  cert_file: {other.certificate}\n  key_file: {other.key}\n")
        assert run(context_of(None, ["get", "/-/ready"]), settings) == ExitStatus.COULD_NOT_RUN
        assert "certificate verify failed" in capsys.readouterr().err


def test_a_page_with_a_password_says_how_to_read_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = tmp_path / "web.yml"
    written.write_text(f"basic_auth_users:\n  me: {hashed('right').decode()}\n")
    guard = Authenticator(WebFile(written).current)
    with WebServer("127.0.0.1:0", _routes(), guard=guard) as server:
        settings = _settings(listen_address=f"127.0.0.1:{server.port}", web_config_file=str(written))
        assert run(context_of(None, ["get"]), settings) == ExitStatus.COULD_NOT_RUN
        page = f"http://127.0.0.1:{server.port}/metrics"
    assert f"use curl --user NAME {page}" in capsys.readouterr().err


def test_behind_tls_the_line_for_curl_trusts_the_exporter_s_certificate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = Authority(tmp_path).issue("localhost", hosts=("localhost", "127.0.0.1"))
    written = tmp_path / "web.yml"
    tls_of = f"tls_server_config:\n  cert_file: {own.certificate}\n  key_file: {own.key}\n"
    written.write_text(f"{tls_of}basic_auth_users:\n  me: {hashed('right').decode()}\n")
    web = WebFile(written)
    tls = web.current().tls
    assert tls is not None
    with WebServer("127.0.0.1:0", _routes(), guard=Authenticator(web.current), tls=RenewingContext(tls)) as server:
        settings = _settings(listen_address=f"127.0.0.1:{server.port}", web_config_file=str(written))
        assert run(context_of(None, ["get", "/-/ready"]), settings) == ExitStatus.COULD_NOT_RUN
        page = f"https://127.0.0.1:{server.port}/-/ready"
    assert f"use curl --user NAME --cacert {own.certificate} {page}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "sentence"), [("/-/ready", "No cycle has succeeded yet."), ("/nothing", "Not found.")]
)
def test_a_refusal_is_the_exporter_s_own_sentence(path: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with WebServer("127.0.0.1:0", _routes(is_ready=False)) as server:
        url = f"http://127.0.0.1:{server.port}"
        assert cli.main(["get", path, "--url", f"{url}/"]) == ExitStatus.COULD_NOT_RUN
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"kafka-transaction-exporter: {url}{path}: {sentence}\n")


def test_where_nothing_listens_it_says_where_it_looked(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["get", "--url", "http://127.0.0.1:1"]) == ExitStatus.COULD_NOT_RUN
    assert capsys.readouterr().err == (
        "kafka-transaction-exporter: http://127.0.0.1:1/metrics: Connection refused; "
        "is the exporter running on this machine, without TLS (publish.web_config_file)? --url names another one\n"
    )


def test_a_web_configuration_with_an_error_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = tmp_path / "web.yml"
    written.write_text("tls_server_config: 3\n")
    assert run(context_of(None, ["get"]), _settings(web_config_file=str(written))) == ExitStatus.COULD_NOT_RUN
    assert str(written) in capsys.readouterr().err


def test_errors_in_other_settings_do_not_stop_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After a reload that failed the exporter runs, and its file has errors. An error in its own settings is one."""
    with WebServer("127.0.0.1:0", _routes()) as server:
        written = tmp_path / "config.yaml"
        written.write_text(f"scan.intervall: 3\nkafka.port: x\npublish.listen_address: 127.0.0.1:{server.port}\n")
        assert cli.main(["get", "/-/ready", "--config.file", str(written)]) == ExitStatus.ANSWERED
        assert capsys.readouterr().out == "Ready.\n"
    written.write_text("publish.listen_address: nowhere\n")
    assert cli.main(["get", "--config.file", str(written)]) == ExitStatus.COULD_NOT_RUN
    assert f"{written}:1: publish.listen_address must be host:port" in capsys.readouterr().err
