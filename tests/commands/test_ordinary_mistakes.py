"""Mistakes that readers of the documents made: each message names the cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.cli import main
from exporter.commands.status import ExitStatus


def said(capsys: pytest.CaptureFixture[str], status: int, *words: str) -> str:
    """Standard error of a command that ends with this status."""
    if status == ExitStatus.WRONG_USAGE:
        with pytest.raises(SystemExit, match=str(int(status))):
            main(words)
    else:
        assert main(words) == status
    return capsys.readouterr().err


def test_a_client_s_file_is_no_settings_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the option for it."""
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=a:1\n")

    words = said(capsys, ExitStatus.COULD_NOT_RUN, "config", "check", f"--config.file={path}")
    assert (
        f"{path}:1: must be a mapping of sections, as YAML; the file of a Java client is for --command-config" in words
    )


@pytest.mark.parametrize("editor", ["", "\ufeff"])
def test_a_file_may_begin_as_some_editors_begin_it(
    editor: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A byte order mark is no part of the first property."""
    path = tmp_path / "client.properties"
    path.write_text(f"{editor}bootstrap.servers=a:1\n", encoding="utf-8")

    assert main(["config", "check", f"--command-config={path}"]) == 0
    assert capsys.readouterr().out == f"The settings are valid: {path}\n"


def test_a_file_of_spring_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "application.properties"
    path.write_text("spring.kafka.bootstrap-servers=a:1\n")

    words = said(capsys, ExitStatus.COULD_NOT_RUN, "config", "check", f"--command-config={path}")
    assert f"{path}:1: spring.kafka.bootstrap-servers is a name of Spring: write Kafka's own" in words


def test_a_client_s_file_without_a_login_is_told_how_such_a_file_has_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Our own names of the settings are refused in it."""
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=a:1\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n")

    words = said(capsys, ExitStatus.COULD_NOT_RUN, "config", "check", f"--command-config={path}")
    assert f"in {path} it is sasl.username or in sasl.jaas.config" in words
    path.write_text(f"{path.read_text()}sasl.username=a\nsasl.password=b\n")
    assert main(["config", "check", f"--command-config={path}"]) == 0


def test_a_line_that_is_indented_wrongly_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("scan:\n  interval: 30s\n   deadline: 5s\n")

    words = said(capsys, ExitStatus.COULD_NOT_RUN, "config", "check", f"--config.file={path}")
    assert f"{path}:3: not valid YAML: " in words
    assert "indented" in words


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("pipeline", "run", "--tables=t", "--history=h", "--memory=1"), "1 has no unit, write 1m or 1g"),
        (
            ("pipeline", "run", "--tables=t", "--history=h", "--retention=30"),
            "30 has no unit, write 30s, 30m, 30h or 30d",
        ),
        (("timeouts", "--since=2"), "2 has no unit, write 2s, 2m, 2h or 2d"),
        (("why", "--group="), "is empty: is the variable set that names it?"),
        (("why", "--topic="), "is empty"),
        (("describe", "--transactional-id="), "is empty"),
        (("abort", "--topic=", "--partition=0", "--start-offset=0"), "is empty"),
    ],
)
def test_a_value_that_is_incomplete_is_refused(
    words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A number without a unit, and the value of a variable that is not set."""
    assert sentence in said(capsys, ExitStatus.WRONG_USAGE, *words)


def test_a_folder_without_a_history_is_no_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It was read as one in which nothing had happened."""
    words = said(capsys, ExitStatus.COULD_NOT_RUN, "pipeline", "run", f"--history={tmp_path}", f"--tables={tmp_path}/t")
    assert f"--history {tmp_path}: is no history.directory of an exporter: it has no folder v1" in words


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("get", "http://exporter:9814/metrics"), "PATH begins at the exporter's address, which is for --url"),
        (
            ("explain", "--incident", "X", "--partition", "3", "--bootstrap-server", "a:1"),
            "--incident names transactions: leave out --partition and --start-offset",
        ),
    ],
)
def test_an_option_without_an_effect_is_refused(
    words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before any request."""
    assert main(words) == ExitStatus.WRONG_USAGE
    assert sentence in capsys.readouterr().err
