"""What people read fits an 80-column terminal: words, numbers and columns stay whole; a pipe gets every line whole."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest

from exporter.cli import main
from exporter.commands.arguments import COMMANDS, build_parser
from exporter.commands.doctor import _finding
from exporter.commands.lines import NO_COMMAND, WIDTH_MIN, fit, next_line, terminal_width
from exporter.commands.parser import OptionParser
from exporter.commands.recover import dry_run
from exporter.commands.rows import RED, RESET, by_verdict, table_for_people
from exporter.commands.timeouts import in_words, table
from exporter.commands.transactions_table import render_tables
from exporter.doctor.findings import Finding, FindingLevel
from exporter.evaluation.evaluate import all_rows
from tests.commands.scenes import context_of, hang, live

NARROW = 80


@contextmanager
def terminal(columns: int) -> Iterator[Any]:
    """A stream of that width, to which nobody listens."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(theirs, "w") as stream:
        yield stream
    os.close(ours)


@contextmanager
def printing_on(columns: int) -> Iterator[None]:
    """Standard output says that it is so wide; nothing may be printed there."""
    with terminal(columns) as stream, redirect_stdout(stream):
        yield


def test_a_terminal_says_its_width_and_a_pipe_has_none() -> None:
    """One that does not know its own has none either; a very narrow one is not followed to a word a line."""
    widths = []
    for columns in (NARROW, 200, 0, 5):
        with terminal(columns) as stream:
            widths.append(terminal_width(stream))
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        widths.append(terminal_width(stream))
    os.close(reader)

    assert widths == [NARROW, 200, None, WIDTH_MIN, None]


@pytest.mark.parametrize(
    ("line", "continued"),
    [
        ("short", "short"),
        ("  one two three four", "  one two three\n  four"),
        ("  - one two three four", "  - one two three\n    four"),
        ("state  one two three four", "state  one two\n       three four"),
        ("path /a/very/long/path/to/a/file is read", "path\n/a/very/long/path/to/a/file\nis read"),
        ("well-known words with-hyphens", "well-known words\nwith-hyphens"),
        ("Next: abort --start-offset 28 --dry-run", "Next: abort --start-offset 28 --dry-run"),
        ("Next, for operators: abort --dry-run", "Next, for operators: abort --dry-run"),
        ("Next to it is another topic", "Next to it is\nanother topic"),
    ],
)
def test_a_long_line_continues_below_its_last_column(line: str, continued: str) -> None:
    """It keeps its indentation, bullet or column; a path or a command stays whole, to be copied."""
    width = 18
    assert fit(line, width) == continued
    assert fit(line, None) == line
    assert fit(f"{line}\n{line}", width) == f"{continued}\n{continued}"


ROW = {"topic": "orders", "owner": "app-1", "verdict": "hanging_stale_epoch"}
WORDS = {"topic": "TOPIC", "owner": "TRANSACTIONAL ID", "verdict": "VERDICT"}


@pytest.mark.parametrize(
    ("columns", "table"),
    [
        (80, "TOPIC   TRANSACTIONAL ID  VERDICT\norders  app-1             hanging_stale_epoch"),
        (42, "        TRANSACTIONAL\nTOPIC   ID             VERDICT\norders  app-1          hanging_stale_epoch"),
        (41, "        TRANSACTIONAL\nTOPIC   ID\norders  app-1\n  verdict: hanging_stale_epoch"),
    ],
)
def test_a_table_that_is_too_wide_gives_up_its_columns_from_the_last(columns: int, table: str) -> None:
    """First headings take several lines; then a column stands below its row. No cell is cut."""
    with printing_on(columns):
        painted = table_for_people(WORDS, [ROW], by_verdict)

    assert painted.replace(RED, "").replace(RESET, "") == table
    assert painted.count(RED) == 1, "colour is not counted as width, and all of the row has it"


@pytest.mark.parametrize("evaluation", [hang, live])
def test_the_suspects_fit(evaluation: Callable[[], Any]) -> None:
    """The table, the evidence below it, and what was read."""
    evaluated = evaluation()
    with printing_on(NARROW):
        shown = render_tables([(None, evaluated, all_rows(evaluated))], is_fleet=False)

    assert max(map(len, shown.split("\n"))) <= NARROW
    assert evaluated.suspects == () or evaluated.suspects[0].reason in " ".join(shown.split())


def test_a_result_is_printed_for_its_terminal() -> None:
    """Read at the other end: plans, explanations and results all go through `say`."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, NARROW, 0, 0))
    with os.fdopen(theirs, "w") as stream, redirect_stdout(stream):
        against = "only stuck_completing can be completed, and the verdict is hanging_not_in_transaction"
        assert dry_run(context_of(None, ["find-hanging"]), "", against) == 5
        stream.flush()
        lines = os.read(ours, 4096).decode().splitlines()
    os.close(ours)

    assert lines == [
        "dry run: nothing is written; it would be refused: only stuck_completing can be",
        "completed, and the verdict is hanging_not_in_transaction",
    ]


def test_many_partitions_go_on_in_the_next_line() -> None:
    """All of them are there, below the row, and none is broken."""
    names = [f"orders-{number}" for number in range(40)]
    row = {"at_ms": 0, "transactional_id": "billing-7" * 9, "outcome": "fenced", "duration_ms": 1, "timeout_ms": 60_000}
    with printing_on(NARROW):
        shown = table(in_words([{**row, "partitions": names}]), "nothing")

    assert max(len(line) for line in shown.split("\n") if "billing" not in line) <= NARROW
    assert f"partitions: {', '.join(names)}" in " ".join(shown.split())


def test_errors_fit_the_terminal_of_standard_error(tmp_path: Path) -> None:
    """Wrong words, and settings that are refused; standard output may go into a pipe at the same time."""
    for words in (["abort", "--topci", "orders-of-customers"], ["once", "--config.file", str(tmp_path / "none.yaml")]):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH_MIN, 0, 0))
        with os.fdopen(theirs, "w") as stream, redirect_stderr(stream), suppress(SystemExit):
            main(words)
            stream.flush()
        lines = os.read(ours, 4096).decode().splitlines()
        os.close(ours)

        assert len(lines) > 1
        text = [line for line in lines if not line.startswith("Help: ")]
        assert [line for line in text if len(line) > WIDTH_MIN and " " in line] == []


def test_the_checks_of_doctor_stay_in_their_column() -> None:
    """Also behind the longest name of a check, and the consequence below."""
    finding = Finding(
        check="transactional ids", level=FindingLevel.MISSING, result="not all " * 9, consequence="no hang " * 9
    )
    with printing_on(NARROW):
        lines = "\n".join(_finding(finding)).split("\n")

    assert {line[:27].strip() for line in lines[1:]} == {""}
    assert [line[27:35] for line in lines] == ["not all ", "all not ", "-> no ha", "hang no "]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits(command: str) -> None:
    """Examples stay whole, to be copied; so does a word that is longer than the line, such as an address."""
    with printing_on(NARROW):
        parser = build_parser()
        assert isinstance(parser, OptionParser)
        shown = parser.commands[command].format_help()
    for line in shown.split("\n"):
        assert not line.endswith("-"), "a name is broken at its hyphen"
        assert len(line) <= NARROW or line.startswith("  ktx ") or " " not in line.strip().removeprefix("More: ")


def test_a_command_of_kafka_stays_whole_on_a_line_of_its_own() -> None:
    """A command that a terminal has broken cannot be pasted; the words before it are wrapped."""
    command = (
        "kafka-acls.sh --bootstrap-server kafka-1.example.org:9092 --command-config admin.properties --list --cluster"
    )
    advice = f"missing  ACLs  grant it and run this again; if it is granted, an administrator sees why not: {command}"

    *words, last = fit(advice, NARROW, 15).split("\n")
    assert last == command
    assert " ".join(line.strip() for line in words) == advice.removesuffix(f" {command}")
    assert max(map(len, words)) <= NARROW
    assert fit(f"Look: {command}", 200) == f"Look: {command}"


def test_a_command_to_paste_is_for_the_names_that_are_shown() -> None:
    """A command with other characters would be on two lines, or name something else."""
    assert next_line(["why", "--transactional-id", "it's"]) == (
        "Next: kafka-transaction-exporter why --transactional-id 'it'\"'\"'s'"
    )
    assert next_line(["why", "--transactional-id", "a\nb"], "its owner") == f"Next, for its owner: {NO_COMMAND}"
