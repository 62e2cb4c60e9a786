"""Shell completion: bash is asked for real, zsh and fish where they are installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from exporter.cli import COMMANDS, main
from exporter.commands.arguments import build_parser
from exporter.commands.completion import FUNCTION, bash, fish, told, zsh
from exporter.evaluation.verdicts import Verdict

PROGRAM, *THE_COMMANDS = told(build_parser())


def completed(folder: Path, *words: str) -> set[str]:
    """What bash offers for the last of `words`."""
    (folder / "plan.json").write_text("")
    script = folder / "completion.bash"
    script.write_text(bash(PROGRAM, THE_COMMANDS))
    quoted = " ".join(f"'{word}'" for word in ("kafka-transaction-exporter", *words))
    program = (
        f"set -eu; source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; COMPREPLY=(); {FUNCTION}; "
        'printf "%s\\n" "${COMPREPLY[@]}"; complete -p kafka-transaction-exporter >&2'
    )
    run = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, check=False, cwd=folder, timeout=30
    )
    assert f"complete -F {FUNCTION}" in run.stderr, run.stderr
    return {line for line in run.stdout.splitlines() if line}


@pytest.mark.programs
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["find"], {"find-hanging"}),
        (["find-hanging", "--st"], {"--states", "--stuck-after", "--state.file"}),
        (["find-hanging", "--format", ""], {"table", "json", "csv"}),
        (["once", "--format", ""], {"table", "json", "prometheus"}),
        (["find-hanging", "--format", "=", "j"], {"json"}),
        (["find-hanging", "--format", "="], {"table", "json", "csv"}),
        (["abort", "--force", "hanging_n"], {"hanging_no_transactional_id", "hanging_not_in_transaction"}),
        (["list", "--states", "Prepare"], {"PrepareCommit", "PrepareAbort", "PrepareEpochFence"}),
        (["abort", "--plan-file", "pl"], {"plan.json"}),
        (["--command-config", "pl"], {"plan.json"}),
        (["abort", "--topic", ""], set()),
        (["find-hanging", "--watch", "--al"], {"--all"}),
        (["--bootstrap-server", "b:1", "descr"], {"describe", "describe-producers"}),
        (["completion", "b"], {"bash"}),
        (["describe", "--topic", "list", "--transactional"], {"--transactional-id"}),
    ],
)
def test_bash_offers_what_fits(words: list[str], offered: set[str], tmp_path: Path) -> None:
    """Commands, options of the command, values of the option, files."""
    assert completed(tmp_path, *words) == offered


@pytest.mark.programs
def test_bash_offers_every_command_and_every_option(tmp_path: Path) -> None:
    """Whatever the parser knows, and nothing else."""
    assert completed(tmp_path, "") == set(COMMANDS) | set(PROGRAM.flags)
    for command in THE_COMMANDS:
        assert completed(tmp_path, command.name, "-") == set(command.flags)
    assert completed(tmp_path, "abort", "--force", "") == {verdict.label for verdict in Verdict}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_it_needs_no_cluster(shell: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell's start-up file names no broker, and a wrong setting in the environment is no business of it."""
    monkeypatch.setenv("KAFKA_TRANSACTION_EXPORTER__SCAN__INTERVAL", "nonsense")

    assert main(["completion", shell]) == 0
    assert "find-hanging" in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_option_is_in_every_script(shell: str) -> None:
    """Also where the shell is not here to be asked."""
    script = {"bash": bash, "zsh": zsh, "fish": fish}[shell](PROGRAM, THE_COMMANDS)

    for command in THE_COMMANDS:
        assert command.name in script
        for flag in command.flags:
            assert (flag if shell != "fish" or not flag.startswith("--") else f"-l {flag[2:]}") in script


@pytest.mark.programs
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_understands_it(shell: str, tmp_path: Path) -> None:
    """Its own check of the syntax, where the shell is installed."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text({"bash": bash, "zsh": zsh, "fish": fish}[shell](PROGRAM, THE_COMMANDS) + "\n")

    run = subprocess.run([program, "-n", str(script)], capture_output=True, text=True, check=False, timeout=30)

    assert (run.returncode, run.stderr) == (0, "")
