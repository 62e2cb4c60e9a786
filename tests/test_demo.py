"""`make demo` as a newcomer runs it: it shows the hang, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PORT = 9814
COMMAND = [sys.executable, "-m", "examples.demo"]
ROOT = Path(__file__).parents[1]


def environment(folder: Path, **variables: str) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1", **variables}


def processes_with(text: str) -> list[str]:
    """Command lines of running processes that contain `text`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in command:
            found.append(command)
    return found


@pytest.mark.broker
def test_the_demo_shows_the_hang_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """Ended by Ctrl-C once it has shown the planted hang, the demo exits cleanly with no file and no process left."""
    printed = []
    with subprocess.Popen(
        COMMAND, cwd=ROOT, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as demo:
        assert demo.stdout is not None
        try:
            for line in demo.stdout:
                printed.append(line)
                if "SUSPECT" in line:
                    demo.send_signal(signal.SIGINT)
                    break
            printed += demo.stdout.readlines()
            assert demo.wait(30) == 0
        finally:
            demo.kill()
    text = "".join(printed)

    assert f"http://127.0.0.1:{PORT}/metrics" in text
    assert "SUSPECT orders-1 hanging_not_in_transaction: transactional id 'abandoned-app'" in text
    assert re.search(r"cycle 3 .* 0 unread, \d+ with open transactions, 1 late, 1 suspect", text)
    assert "ended: broker, workload and exporter are gone" in text
    assert list(tmp_path.iterdir()) == []
    assert processes_with(str(tmp_path)) == []
    assert processes_with(f"publish.listen-address=127.0.0.1:{PORT}") == []


def test_a_busy_port_gets_one_sentence(tmp_path: Path) -> None:
    """Before anything is booted, a taken port is told in one line."""
    with socket.create_server(("127.0.0.1", PORT)):
        run = subprocess.run(
            COMMAND, cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, timeout=60, check=False
        )

    assert run.returncode == 1
    assert run.stderr == f"demo: port {PORT} is taken: end whatever listens on it (Address already in use)\n"


@pytest.mark.programs
@pytest.mark.parametrize(("missing", "hint"), [("java", "openjdk-17"), ("mvn", "maven")])
def test_a_missing_program_gets_one_sentence(tmp_path: Path, missing: str, hint: str) -> None:
    """Without Java or Maven `make demo` says so in one line, and what to install."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "java", "make", "mvn", "sed", "touch", "env", "python3"):
        found = subprocess.run(["which", name], capture_output=True, text=True, check=True).stdout.strip()
        if name != missing:
            (programs / name).symlink_to(found)
    variables = {**os.environ, "PATH": str(programs)}
    variables.pop("MAKEFLAGS", None)

    run = subprocess.run(
        ["make", "demo"], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=60, check=False
    )

    assert run.returncode != 0
    sentence, *rest = run.stderr.splitlines()
    assert "missing" in sentence
    assert hint in sentence
    assert all(line.startswith("make") for line in rest)
