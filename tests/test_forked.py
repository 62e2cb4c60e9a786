"""A fork of the exporter is what a start of it would have been, but for its command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hangbench.kafka.ports import free_ports
from hangbench.waiting import until
from tests import forked
from tests.real_brokers.exporting import command, serving

PATIENCE_S = 60
for_shells = pytest.mark.skipif(not forked.IS_POSSIBLE, reason="a fork is handed over by Linux only")


def result(process: subprocess.Popen[Any]) -> tuple[int, str, str]:
    with process:
        output, errors = process.communicate(timeout=PATIENCE_S)
        return process.returncode, output, errors


def options(folder: Path, **environment: str) -> dict[str, Any]:
    return {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "env": {"PATH": "/usr/bin:/bin", **environment, "HOME": str(folder)},
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("list", "--nonsense"),
        ("config", "check"),
        ("find-hanging", "--bootstrap-server", "127.0.0.1:1"),
        ("serve", "--config.file", "none.yaml"),
    ],
    ids=" ".join,
)
def test_a_fork_does_what_a_start_does(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Status, output and errors; PS4 in its environment stands for any name that is not the exporter's."""
    forks = result(forked.Process(command(*arguments), **options(tmp_path, PS4="x")))

    assert forks == result(subprocess.Popen(command(*arguments), **options(tmp_path, PS4="x")))


def test_it_has_its_own_environment_and_folder(tmp_path: Path) -> None:
    """A setting by an environment variable, and a relative path; neither is left in the next fork."""
    (tmp_path / "here.yaml").write_text("scan: {interval: nonsense}\n")
    arguments = ("once", "--bootstrap-server", "127.0.0.1:1", "--config.file", "here.yaml")

    with_folder = result(forked.Process(command(*arguments), cwd=tmp_path, **options(tmp_path)))
    without = result(forked.Process(command(*arguments), **options(tmp_path)))

    assert "here.yaml:1: scan.interval must be a duration" in with_folder[2]
    assert "here.yaml" in without[2]
    assert "must be a duration" not in without[2]


def test_it_is_a_child_of_this_process_and_takes_signals(tmp_path: Path) -> None:
    with serving("127.0.0.1:1", tmp_path) as exporter:
        stat = (
            Path(f"/proc/{exporter.process.pid}/stat").read_text() if sys.platform == "linux" else f") S {os.getpid()}"
        )
        exporter.process.send_signal(signal.SIGTERM)
        assert exporter.process.wait(PATIENCE_S) == 0
    with serving("127.0.0.1:1", tmp_path) as exporter:
        exporter.process.kill()
        assert exporter.process.wait(PATIENCE_S) == -signal.SIGKILL

    assert int(stat.rsplit(")", 1)[1].split()[1]) == os.getpid()


@pytest.mark.parametrize("variable", ["PYTHONDEVMODE", "LD_LIBRARY_PATH", "TZ"])
def test_what_is_read_at_a_start_has_one(variable: str, tmp_path: Path) -> None:
    """A fork would be without it: this process is started, as its command line shows."""
    (port,) = free_ports(1)
    arguments = ("serve", "--bootstrap-server", "127.0.0.1:1", f"--publish.listen-address=127.0.0.1:{port}")
    process = forked.Process(command(*arguments), **options(tmp_path, **{variable: ""}))
    with process:
        try:
            if sys.platform == "linux":
                seen = Path(f"/proc/{process.pid}/cmdline")
                until(lambda: seen.read_text().split("\0")[:-1] == command(*arguments), patience_s=PATIENCE_S)
        finally:
            process.kill()


def test_an_orphan_of_something_else_is_not_adopted(tmp_path: Path) -> None:
    """A later wait for any child would meet it."""
    result(forked.Process(command("--help"), **options(tmp_path)))

    script = "import os, time; child = os.fork(); time.sleep(600) if child == 0 else print(child, flush=True)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline())
        assert parent.wait(PATIENCE_S) == 0
        try:
            with pytest.raises(ChildProcessError):
                os.waitpid(orphan, os.WNOHANG)
        finally:
            os.kill(orphan, signal.SIGKILL)


@pytest.mark.programs
@for_shells
def test_a_shell_starts_one_with_its_own_streams_and_gets_its_status(tmp_path: Path) -> None:
    forked.install(tmp_path / "ktx")
    script = "./ktx --version | tr a-z A-Z; ./ktx list --nonsense 2>errors; echo $?"

    shell = subprocess.run(
        ["/bin/sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )

    assert shell.stdout.splitlines() == ["KAFKA-TRANSACTION-EXPORTER 0.1.0", "2"]
    assert "--nonsense" in (tmp_path / "errors").read_text()


@pytest.mark.programs
@for_shells
def test_one_that_a_shell_kills_is_gone(tmp_path: Path) -> None:
    """Its output ends, which it has held open."""
    forked.install(tmp_path / "ktx")
    (port,) = free_ports(1)
    arguments = ("serve", "--bootstrap-server", "127.0.0.1:1", f"--publish.listen-address=127.0.0.1:{port}")
    with subprocess.Popen([tmp_path / "ktx", *arguments], **options(tmp_path)) as process:
        assert process.stderr is not None
        process.stderr.readline()
        process.kill()
        _, errors = process.communicate(timeout=PATIENCE_S)

    assert "msg=ended" not in errors, "a SIGKILL leaves no time for a last line"
