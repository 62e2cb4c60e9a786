"""Help of every command, and what a wrong word is answered with."""

from __future__ import annotations

import gc
import os
import re
import shlex
import subprocess
import sys

import pytest

from exporter.__main__ import main as start
from exporter.cli import main
from exporter.commands.arguments import COMMANDS, SHORT, Group, build_parser
from exporter.commands.parser import OptionParser
from exporter.config.loading import flag_name
from exporter.config.settings import SETTINGS
from tests.each import each

LINES_MAX = 40


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """(status, standard output, standard error) of words that end the parser."""
    with pytest.raises(SystemExit) as left:
        build_parser().parse_args(words)
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_a_screen_and_ends_with_examples_and_statuses(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = printed(capsys, command, "--help")

    assert (status, err) == (0, "")
    assert len(out.splitlines()) <= LINES_MAX
    assert out.startswith("usage: kafka-transaction-exporter ")
    assert "examples:\n" in out
    one = "1 no broker responds" if command == "doctor" else "1 failed"
    assert re.search(f"exit status: 0 [a-z ]+, {one}, 2 wrong usage", out)
    assert "--kafka.request.timeout.ms" not in out


@pytest.mark.parametrize(
    ("words", "cluster"),
    [("", None), ("--cluster", ""), ("--cluster east", "east"), ("--cluster east --cluster", "east")],
)
def test_doctor_keeps_the_name_of_a_cluster(words: str, cluster: str | None) -> None:
    """It names a cluster and asks for the check of its settings: a second one without a name takes none away."""
    assert build_parser().parse_args(["doctor", *words.split()]).cluster == cluster


PARSER = build_parser()
assert isinstance(PARSER, OptionParser)
CONNECTION = [
    action
    for action in PARSER._actions
    if action.option_strings and action.dest not in {"help", "version", "help_settings"}
]


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (command, action.option_strings[0])
        for command, parser in PARSER.commands.items()
        for action in CONNECTION
        if action.option_strings[0] in parser._option_string_actions
    ],
)
def test_an_option_before_the_command_is_not_lost(command: str, option: str) -> None:
    """A command that repeats it takes no value away."""
    (action,) = (action for action in CONNECTION if option in action.option_strings)
    example = re.sub(r"--(config\.file|bootstrap-server) \S+", "", COMMANDS[command].examples[0].partition(" > ")[0])

    assert getattr(build_parser().parse_args([option, "given", *shlex.split(example)]), action.dest) == "given"


@each(COMMANDS)
def test_examples_are_accepted(command: str) -> None:
    assert COMMANDS[command].examples
    for example in COMMANDS[command].examples:
        words = shlex.split(example.partition(" > ")[0])
        assert build_parser().parse_args(words).command == words[0]


@pytest.mark.parametrize(
    ("words", "same"),
    [([], ["--help"]), (["help"], ["--help"]), (["help", "abort"], ["abort", "--help"])],
    ids=["nothing", "help", "help of a command"],
)
def test_help_is_a_word_and_what_nothing_gets(
    words: list[str], same: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 0
    assert capsys.readouterr().out == printed(capsys, *same)[1]


def test_every_command_is_in_one_group_of_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = printed(capsys, "--help")
    for command in set(COMMANDS.values()):
        assert out.count(f"  {command.help}\n") == 1
    assert [f"{group.value}:\n" in out for group in Group] == [True] * len(Group)


@pytest.mark.parametrize("words", [["once", "--help-settings"], ["once", "--help"], ["--version"]])
@pytest.mark.parametrize("python", [["-u"], []], ids=["unbuffered", "buffered"])
def test_a_help_that_cannot_be_printed_is_a_sentence(words: list[str], python: list[str]) -> None:
    """A full disk is no defect of the program."""
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, *python, "-m", "exporter", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == (
        "kafka-transaction-exporter: the output could not be printed completely: No space left on device\n"
    )


def test_a_reader_of_the_help_may_end() -> None:
    """`| head -1`: no traceback, and status 0 as for the other commands."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "exporter", "--help-settings"], stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)

    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("words", [(), ("once",)], ids=["alone", "of a command"])
def test_settings_are_shown_apart(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = printed(capsys, *words, "--help-settings")

    shown = {word for word in out.split() if word.startswith("--")}
    assert status == 0
    assert {flag_name(setting.name) for setting in SETTINGS if not setting.is_secret} <= shown
    assert not {flag_name(setting.name) for setting in SETTINGS if setting.is_secret} & shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["find-hangin"], "there is no 'find-hangin': did you mean find-hanging?"),
        (
            ["unheard-of-word"],
            "there is no 'unheard-of-word': choose from serve, once, doctor, why, find-hanging, list,",
        ),
        (["abort", "--topik", "orders"], "abort: unrecognized arguments: --topik: did you mean --topic?"),
        (["why", "--groups", "x"], "is required; there is no --groups: did you mean --group?"),
        (["force-terminate", "--pasword=x"], "--transactionalId; there is no --pasword"),
        (["once", "--scan.intervall", "5s"], "--scan.intervall; did you mean --scan.interval?"),
        (["once", "--kafka.sasl.passwrd", "x"], "--kafka.sasl.passwrd; did you mean --kafka.sasl.password-file?"),
        (["once", "--kafka.ssl.keystore.type", "PEM"], "--kafka.ssl.keystore.type; leave it out: a store is PKCS12"),
        (["once", "--zzz"], "once: unrecognized arguments: --zzz"),
        (
            ["--bootstrap-servers", "a:1", "doctor"],
            "exporter: unrecognized arguments: --bootstrap-servers: did you mean --bootstrap-server?",
        ),
        (["--config-file", "a", "config", "check"], "arguments: --config-file: did you mean --config.file?"),
        (["--scan.interval", "5s", "once"], "arguments: --scan.interval; write settings after the command"),
        (["--kafka.sasl.password", "hunter2", "once"], "--kafka.sasl.password; secrets have no flag"),
        (["list", "--format", "jsn"], "list: argument --format: there is no 'jsn': did you mean json?"),
        (["describe"], "describe: the following arguments are required: --transactional-id"),
        (["--config.file", "x"], "the following arguments are required: COMMAND"),
    ],
)
def test_a_wrong_word_costs_two_lines(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = printed(capsys, *words)

    assert (status, out) == (2, "")
    assert sentence in err
    assert len(err.splitlines()) == 2
    assert "hunter2" not in err
    assert err.splitlines()[1].startswith("Help: kafka-transaction-exporter ")


def test_the_short_name_is_installed() -> None:
    from importlib.metadata import entry_points  # noqa: PLC0415 - only here

    scripts = entry_points(group="console_scripts")
    assert scripts[SHORT].value == scripts["kafka-transaction-exporter"].value == "exporter.__main__:main"


def test_the_program_starts_with_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Garbage is looked for again, but not among its own modules."""
    monkeypatch.setattr("sys.argv", [SHORT, "--version"])
    try:
        with pytest.raises(SystemExit):
            start()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 10_000
    finally:
        gc.enable()
