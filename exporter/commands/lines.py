"""Fits text for people to their terminal: a line that is too long continues between words. Elsewhere it stays whole."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import textwrap
from collections.abc import Sequence
from typing import Final, TextIO

from exporter import PROGRAM
from exporter.config.loading import flag_name

WIDTH_MIN: Final = 40
"""A narrower terminal gets lines of this length."""
CLIENT_FILE: Final = "client.properties"
"""The name that the documents use for a file with a login as Java's clients write it."""
JAVA_FILE: Final = "java.properties"
"""The name of such a file where the former is one that Java's tools cannot use."""
NO_COMMAND: Final = "no command can be pasted: a name in it has characters that a terminal does not show"
_NEXT: Final = "Next"
_COMMAND_OF_KAFKA: Final = re.compile(r"(?<=:) (kafka-[a-z-]+\.sh .*)$")
_GAP: Final = re.compile(r"(?<=\S) {2,}(?=\S)")


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Columns of the terminal behind `stream`, by default standard output; None where no terminal says how many."""
    stream = sys.stdout if stream is None else stream
    try:
        columns = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):
        return None
    return max(columns, WIDTH_MIN) if columns else None


def next_line(words: Sequence[str], who: str = "") -> str:
    """A command to paste, and who may; `fit` leaves it on one line, or its first part would be another command."""
    return f"{_NEXT}{f', for {who}' if who else ''}: {to_paste(PROGRAM, *words)}"


def to_paste(*words: str) -> str:
    """A command for a shell, or a sentence instead of it.

    Any client chooses ids and group names: a line end in one would begin another line, such as a false next command, and
    without a character that a terminal does not show it would be another name.
    """
    command = shlex.join(words)
    return command if command.isprintable() else NO_COMMAND


def connection_of(options: argparse.Namespace) -> tuple[str, ...]:
    """Returns the options that named the cluster, for the next command; none where the environment did."""
    given = vars(options)
    names = {
        "--bootstrap-server": "setting:kafka.bootstrap.servers",
        "--command-config": "command_config",
        "--config.file": "config_file",
        "--clusters": "clusters",
        "--cluster": "cluster",
    }
    settings = (name for name in given if name.startswith("setting:kafka.") and name not in names.values())
    names |= {flag_name(name.removeprefix("setting:")): name for name in settings}
    return tuple(word for flag, name in names.items() if given.get(name) for word in (flag, str(given[name])))


def with_another_login(connection: Sequence[str]) -> tuple[str, ...]:
    """The options of `connection_of` for another user, whose login is in `CLIENT_FILE`."""
    before = ("", *connection)
    return tuple(
        CLIENT_FILE if flag == "--command-config" else word for flag, word in zip(before, connection, strict=False)
    )


def fit(text: str, width: int | None, hang: int | None = None) -> str:
    """`text` with its long lines continued after `hang` spaces, by default below their last column.

    A word that is too long stays whole: a path or an id that a terminal breaks can still be copied. So does a command of
    Kafka at the end of a line, which gets one of its own.
    """
    if width is None:
        return text
    return "\n".join(_fitted(line, width, hang) for line in text.split("\n"))


def fit_terminal(text: str, hang: int | None = None, stream: TextIO | None = None) -> str:
    """`text` as `fit` makes it for the terminal behind `stream`, by default standard output."""
    return fit(text, terminal_width(stream), hang)


def _fitted(line: str, width: int, hang: int | None) -> str:
    if len(line) <= width or line.startswith((f"{_NEXT}: ", f"{_NEXT}, for ")):
        return line
    command = _COMMAND_OF_KAFKA.search(line)
    if command is None:
        return _continued(line, width, hang)
    return f"{_continued(line[: command.start()], width, hang)}\n{command[1]}"


def _continued(line: str, width: int, hang: int | None) -> str:
    if hang is None:
        indentation = len(line) - len(line.lstrip(" "))
        bullet = 2 if line.startswith("- ", indentation) else 0
        gaps = [gap.end() for gap in _GAP.finditer(line) if gap.end() <= width // 2]
        hang = gaps[-1] if gaps else indentation + bullet
    # The columns before may have words of their own: they are no part of what is continued.
    return "\n".join(
        textwrap.wrap(
            line[hang:],
            width,
            initial_indent=line[:hang],
            subsequent_indent=" " * hang,
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def say(text: str) -> None:
    """Prints `text` for people on standard output."""
    print(fit_terminal(text))
