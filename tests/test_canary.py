"""Secrets planted in every place that takes one, and looked for in everything that comes out."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.config.settings import SETTINGS
from tests.certificates import Authority, key_store
from tests.real_brokers.exporting import run, serving

CANARY = "c4nary"
FIRST = "password and locked key"
"""Its commands are processes, of which nothing escapes."""
SECRETS = [setting.name for setting in SETTINGS if setting.is_secret]


@pytest.fixture
def mute_broker() -> Iterator[str]:
    """Takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    taken.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        for connection in taken:
            connection.close()


def ways(folder: Path) -> dict[str, dict[str, str]]:
    """Settings that together use every secret there is."""
    authority = Authority(folder)
    locked = authority.issue("locked", password=f"{CANARY}-kafka.ssl.key.password")
    plain = authority.issue("plain")
    sasl = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": "me"}
    return {
        FIRST: {
            **sasl,
            "kafka.sasl.password": f"{CANARY}-kafka.sasl.password",
            "kafka.ssl.certificate.location": str(locked.certificate),
            "kafka.ssl.key.location": str(locked.key),
            "kafka.ssl.key.password": f"{CANARY}-kafka.ssl.key.password",
        },
        "stores": {
            "kafka.security.protocol": "SSL",
            "kafka.ssl.keystore.location": str(key_store(plain, f"{CANARY}-kafka.ssl.keystore.password")),
            "kafka.ssl.keystore.password": f"{CANARY}-kafka.ssl.keystore.password",
            "kafka.ssl.truststore.location": str(authority.trust_store(f"{CANARY}-kafka.ssl.truststore.password")),
            "kafka.ssl.truststore.password": f"{CANARY}-kafka.ssl.truststore.password",
        },
        "tokens": {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
            "kafka.sasl.oauthbearer.client.id": "me",
            "kafka.sasl.oauthbearer.client.secret": f"{CANARY}-kafka.sasl.oauthbearer.client.secret",
        },
    }


def config(folder: Path, bootstrap: str, settings: dict[str, str], **more: str) -> Path:
    path = folder / "config.yaml"
    lines = {"kafka.bootstrap.servers": bootstrap, **settings, **{k.replace("__", "."): v for k, v in more.items()}}
    path.write_text("".join(f"{name}: {json.dumps(value)}\n" for name, value in lines.items()))
    return path


def test_every_secret_is_planted(tmp_path: Path) -> None:
    """A secret that is new in the table fails here until a way uses it."""
    planted = {name for settings in ways(tmp_path).values() for name, value in settings.items() if CANARY in value}

    assert planted == set(SECRETS)


@pytest.mark.long
@pytest.mark.parametrize("way", [FIRST, "stores", "tokens"])
def test_no_secret_comes_out(tmp_path: Path, mute_broker: str, way: str) -> None:
    """Not in logs at their loudest, of both clients, pages, metrics, errors, dumps, the process list, or any file."""
    settings = {
        **ways(tmp_path)[way],
        "transaction_log.enabled": "true",
        "history.directory": str(tmp_path / "history"),
        "history.rotate_interval": "1s",
    }
    file = config(tmp_path, mute_broker, settings, log__level="debug", kafka__request__timeout__ms="300")

    with serving(None, tmp_path, start=subprocess.Popen, config_file=file) as exporter:
        exporter.until(lambda m: m.get("kafka_transaction_exporter_cycles_failed_total", {}).get((), 0) >= 2)
        seen = {path: exporter.get(path)[1] for path in ("/", "/metrics", "/-/healthy", "/-/ready", "/nothing")}
        seen["process list"] = Path(f"/proc/{exporter.process.pid}/cmdline").read_text()
        file.write_text(file.read_text() + "nonsense: 1\n")
        exporter.process.send_signal(signal.SIGHUP)
        exporter.until(lambda m: m.get("kafka_transaction_exporter_config_last_reload_successful", {}).get(()) == 0)
    seen["log"] = exporter.log
    seen["problems"] = run(tmp_path, "config", "check", f"--config.file={file}")
    good = config(tmp_path, mute_broker, settings, kafka__request__timeout__ms="300", scan__deadline="1s")
    seen["dump"] = run(tmp_path, "config", "dump", f"--config.file={good}", as_process=way == FIRST)
    seen["once"] = run(tmp_path, "once", f"--config.file={good}", as_process=way == FIRST)
    seen["find-hanging"] = run(tmp_path, "find-hanging", f"--config.file={good}", as_process=way == FIRST)
    for path in [*tmp_path.glob("*.json"), *tmp_path.glob("history/**/*.parquet")]:
        seen[path.name] = path.read_text(errors="replace")

    assert "nonsense: unknown setting" in seen["problems"]
    assert "<secret>" in seen["dump"]
    assert "no broker responded" in seen["once"]
    assert "__transaction_state cannot be read" in seen["log"]
    assert {name: text for name, text in seen.items() if CANARY in text} == {}


def test_a_wrong_value_next_to_a_secret_does_not_show_it(tmp_path: Path) -> None:
    """Secrets of the wrong kind, in the wrong place, under a misspelt name."""
    for text in (
        f"kafka: {{sasl.password: [{CANARY}]}}",
        f"kafka: {{sasl.pasword: {CANARY}}}",
        f"kafka: {{bootstrap.servers: 'a:1', sasl.password: {CANARY}}}",
        f"kafka: {{sasl.password: {{x: {CANARY}}}}}",
        f"kafka:\n  sasl.password: '{CANARY}\n  x: y",
    ):
        path = tmp_path / "bad.yaml"
        path.write_text(text)
        output = run(tmp_path, "config", "check", f"--config.file={path}")
        assert output.strip(), text
        assert CANARY not in output, text
