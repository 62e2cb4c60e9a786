"""Commands on the clusters of a fleet: a failure of one costs only its own part, and Ctrl-C waits for none."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from exporter.cli import main
from exporter.commands.status import ExitStatus
from hangbench.waiting import until
from tests.kafka.fake_broker import FakeCluster
from tests.kafka.loopback import HOST
from tests.kafka.scene import scene


@pytest.mark.parametrize(
    "words",
    [("once", "--format=json"), ("find-hanging", "--format=json", "--stuck-after=0"), ("doctor", "--format=json")],
)
def test_credentials_of_one_cluster_are_a_failure_of_this_one(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are read; `serve` and a command of this cluster alone do not start."""
    monkeypatch.setenv("HOME", str(tmp_path))
    fleet = tmp_path / "clusters.yaml"
    with FakeCluster(scene(), nodes=2) as cluster:
        fleet.write_text(
            f"clusters:\n  east: {{kafka.bootstrap.servers: '{HOST}:{cluster.ports[1]}'}}\n  west:\n    kafka:\n"
            f"      bootstrap.servers: west:1\n      security.protocol: SSL\n      ssl.ca.location: {tmp_path}/none.pem\n"
        )
        status = main([*words, f"--clusters={fleet}"])
        captured = capsys.readouterr()
        alone = main([*words, f"--clusters={fleet}", "--cluster=west"])

    found = {one["cluster_name"]: one for one in json.loads(captured.out)["clusters"]}
    assert status == ExitStatus.INCOMPLETE
    assert f"{tmp_path}/none.pem" in json.dumps(found["west"])
    assert "none.pem" not in json.dumps(found["east"])
    assert alone == ExitStatus.COULD_NOT_RUN
    assert f"{fleet}:7: " in capsys.readouterr().err


@pytest.mark.parametrize("command", ["once", "list"])
def test_ctrl_c_waits_for_no_cluster(command: str, tmp_path: Path) -> None:
    """Brokers that accept a connection and never respond keep neither the command nor the interpreter."""
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server((HOST, 0))) for _ in range(2)]
        ports = [server.getsockname()[1] for server in servers]
        fleet = tmp_path / "clusters.yaml"
        fleet.write_text(
            "clusters:\n" + "".join(f"  c{port}: {{kafka.bootstrap.servers: '{HOST}:{port}'}}\n" for port in ports)
        )
        process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "exporter", command, f"--clusters={fleet}"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "HOME": str(tmp_path)},
            )
        )
        connections = [stack.enter_context(server.accept()[0]) for server in servers]
        until(lambda: all(connection.recv(1, socket.MSG_PEEK) for connection in connections))
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        status = process.wait(timeout=20)

    assert status == 130
    assert time.monotonic() - began < 3
