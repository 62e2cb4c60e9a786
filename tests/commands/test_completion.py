"""Shell completion: a real bash completes; zsh and fish check the syntax of their script where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.cli import main
from exporter.commands.arguments import COMMANDS

NAME = "kafka-transaction-exporter"


def script_for(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def completed(folder: Path, script: str, line: str) -> set[str]:
    """Words that bash offers at the end of `line`."""
    (folder / "plan.json").write_text("")
    program = folder / NAME
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m exporter "$@"\n')
    program.chmod(0o700)
    typed = (
        f"set -u; {script}\n"
        "type compopt >/dev/null; compopt() { return 0; }\n"  # it works only within a real completion
        f"COMP_LINE='{NAME} {line}'; COMP_POINT=${{#COMP_LINE}}; COMP_TYPE=9; COMPREPLY=()\n"
        f'_python_argcomplete {NAME}; printf "%s\\n" "${{COMPREPLY[@]}}"; complete -p {NAME} >&2'
    )
    run = subprocess.run(
        ["bash", "--norc", "-c", typed],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=60,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert "-F _python_argcomplete" in run.stderr, run.stderr
    return {word.strip() for word in run.stdout.splitlines() if word.strip()}


@pytest.mark.programs
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("find", {"find-hanging"}),
        (
            "find-hanging --st",
            {"--states", "--stuck-after", "--state.file", "--state.capsules", "--state.capsules-limit"},
        ),
        ("completion --", {"--help"}),
        ("find-hanging --format ", {"table", "tsv", "json", "csv"}),
        ("find-hanging --format=j", {"json"}),
        ("abort --force hanging_n", {"hanging_no_transactional_id", "hanging_not_in_transaction"}),
        ("list --states Prepare", {"PrepareCommit", "PrepareAbort", "PrepareEpochFence"}),
        ("abort --plan-file pl", {"plan.json"}),
        ("abort --topic x", set()),
        ("--bootstrap-server b:1 descr", {"describe", "describe-producers"}),
    ],
)
def test_bash_offers_what_fits(
    line: str, offered: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands, options of the command, values of the option, files."""
    assert completed(tmp_path, script_for("bash", capsys), line) == offered


@pytest.mark.programs
def test_settings_are_offered_from_their_first_letter_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before it, 60 of them would hide the options of the command."""
    script = script_for("bash", capsys)
    own = completed(tmp_path, script, "abort --")
    assert {"--topic", "--dry-run", "--config.file", "--help-settings"} <= own
    assert not {word for word in own if word.startswith(("--scan.", "--kafka."))}
    assert "--scan.interval" in completed(tmp_path, script, "abort --sc")


@pytest.mark.programs
def test_bash_offers_every_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert completed(tmp_path, script_for("bash", capsys), "") >= set(COMMANDS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_it_needs_no_cluster(shell: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell's start-up file names no broker, and a wrong setting in the environment does not stop it."""
    monkeypatch.setenv("KAFKA_TRANSACTION_EXPORTER__SCAN__INTERVAL", "nonsense")

    assert NAME in script_for(shell, capsys)


@pytest.mark.programs
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_understands_it(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its own check of the syntax, where the shell is installed."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(script_for(shell, capsys))

    run = subprocess.run([program, "-n", str(script)], capture_output=True, text=True, check=False, timeout=30)

    assert (run.returncode, run.stderr) == (0, "")
