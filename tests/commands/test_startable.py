"""Settings with which `serve` would not start: `config check` says so, and a reload does not take them."""

from __future__ import annotations

import importlib.util
from functools import partial
from pathlib import Path

import pytest

from exporter import cli
from exporter.commands.context import Configuration
from exporter.commands.serve import reloader_of
from exporter.commands.status import ExitStatus
from exporter.config.loading import load

BROKER = "localhost:9092"


def test_a_web_configuration_with_an_error_is_a_failed_reload(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The gauge and its alert say before the next start that there will be none; the mended file is noticed."""
    web = tmp_path / "web.yaml"
    web.write_text("{}")
    flags = {"kafka.bootstrap.servers": BROKER, "publish.web_config_file": str(web)}
    read = partial(load, file=None, environment={}, flags=flags)
    loaded = read()
    reloader = reloader_of(loaded.settings, Configuration(loaded=loaded, load=read))

    web.write_text("basic_auth_users:\n  ada: in plain text\n")
    refused = reloader.if_changed()
    assert (refused, reloader.status.succeeded) == (None, False)
    assert f"settings not reloaded, the previous ones stay in use: {web}:2: " in caplog.text

    web.write_text("rate_limit:\n  interval: 1s\n")
    assert reloader.if_changed() is not None
    assert (reloader.if_changed(), reloader.status.succeeded) == (None, True)

    web.write_text("tls_server_config:\n  cert_file: own.pem\n  key_file: own.key\n")
    assert (reloader.if_changed(), reloader.status.succeeded) == (None, False)
    for name in ("own.pem", "own.key"):
        (tmp_path / name).write_text("written later")
    assert reloader.if_changed() is not None


def test_a_baseline_file_that_serve_would_not_use_is_said_by_config_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A warning: `serve` runs without it, and waits for it."""
    path = tmp_path / "baselines.json"
    words = ["config", "check", "--bootstrap-server", BROKER, f"--baseline.file={path}"]
    path.write_text("{")

    assert cli.main(words) == 0
    damaged = capsys.readouterr().err
    path.unlink()
    assert cli.main(words) == 0
    missing = capsys.readouterr().err

    assert f" warning: baseline.file {path} would not be used: it is not JSON: " in damaged
    assert f" warning: baseline.file {path} would not be used: it cannot be read: No such file" in missing


def test_a_missing_package_is_said_by_config_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sentence is the one that `serve` ends with."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    words = ["config", "check", "--bootstrap-server", BROKER, f"--history.directory={tmp_path}"]

    assert cli.main(words) == ExitStatus.COULD_NOT_RUN
    assert "history.directory needs the Python package pyarrow" in capsys.readouterr().err
