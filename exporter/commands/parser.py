"""The parser of a command: option names in full, short help, errors of two lines that say what was probably meant."""

from __future__ import annotations

import argparse
import itertools
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NoReturn

from exporter.commands.lines import fit_terminal, terminal_width
from exporter.commands.names import suggestion
from exporter.config.loading import flag_name
from exporter.config.settings import SETTINGS
from exporter.config.suggestions import instead_of

WIDTH_MAX: Final = 110
"""Maximum width of help texts: longer lines are hard to read."""
_SECRET_FLAGS: Final = frozenset(flag_name(setting.name) for setting in SETTINGS if setting.is_secret)
_INVALID_CHOICE: Final = re.compile(
    r"(?P<what>.*): invalid choice: '(?P<given>.*?)' \(choose from (?P<known>.*)\)", re.DOTALL
)


def _width() -> int:
    return min(terminal_width() or WIDTH_MAX, WIDTH_MAX)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=_width())

    def _format_usage(self, usage: Any, *arguments: Any) -> str:
        """Breaks a given usage too: argparse does so only with its own."""
        text = super()._format_usage(usage, *arguments)
        return text if usage is None else f"{fit_terminal(text.rstrip(), len('usage: '))}\n\n"

    def _split_lines(self, text: str, width: int) -> list[str]:
        """Names with hyphens stay whole."""
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Lines stay lines; examples are whole, to be copied."""
        lines = super()._fill_text(text, width, indent).split("\n")
        return "\n".join(line if line.startswith("  ktx ") else fit_terminal(line) for line in lines)


class OptionParser(argparse.ArgumentParser):
    """Accepts full option names only: a later release may add an option that a short one would also match.

    argparse would take `--kafka.sasl.password=...`, which is not an option, for `--kafka.sasl.password-file`. An error
    shows only the name of an unknown option, because its value may be a secret.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **{"formatter_class": _Formatter, **named, "allow_abbrev": False})
        self.commands: dict[str, OptionParser] = {}
        self._given: list[str] = []

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Keeps the arguments: an option that is required may be there with a typing error."""
        self._given = list(args or ())
        return super().parse_known_args(args, namespace)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Exits with status 2 and names the unknown arguments."""
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            names = [argument.partition("=")[0] for argument in unknown if argument.startswith("-")] or unknown
            of = self.commands.get(getattr(options, "command", ""), self)
            of.error(of.unrecognized(names))
        return options

    def _print_message(self, message: str, file: Any = None) -> None:
        """Raises OSError where help cannot be printed: argparse would end with success."""
        if file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)

    def unrecognized(self, names: Sequence[str]) -> str:
        """Returns the error about unknown options, with the one that was probably meant by the first."""
        if _SECRET_FLAGS.intersection(names):
            hint = "; secrets have no flag: name a file or a variable"
        elif "." in names[0]:  # a setting, which has a section
            flags = [flag_name(setting.name) for setting in SETTINGS if not setting.is_secret]
            is_misplaced = bool(self.commands) and names[0] in flags
            hint = "; write settings after the command" if is_misplaced else instead_of(names[0], flags)
        else:
            hint = suggestion(names[0], re.findall(r"--[\w.-]+", self.format_help()))
        return f"unrecognized arguments: {' '.join(names)}{hint}"

    def error(self, message: str) -> NoReturn:
        """Ends with two lines and status 2: the error, and where help is."""
        choice = _INVALID_CHOICE.fullmatch(message)
        # The value of an unknown option before the command is taken for the command, and may be a secret.
        before = itertools.takewhile(lambda word: choice is None or word != choice["given"], self._given)
        unknown = [name for name in _options_in(before) if name not in self._option_string_actions]
        if choice is not None and self.commands and unknown:
            message = self.unrecognized(unknown)
        elif choice is not None:
            known = re.findall(r"[\w-]+", choice["known"])
            hint = suggestion(choice["given"], known) or f": choose from {', '.join(known)}"
            message = f"{choice['what']}: there is no {choice['given']!r}{hint}"
        elif "required" in message and unknown:
            message = f"{message}; there is no {unknown[0]}{suggestion(unknown[0], [*self._option_string_actions])}"
        self.exit(2, f"{fit_terminal(f'{self.prog}: {message}', stream=sys.stderr)}\nHelp: {self.prog} --help\n")


def _options_in(words: Iterable[str]) -> Iterator[str]:
    return (word.partition("=")[0] for word in words if word.startswith("--"))


class HelpSettings(argparse.Action):
    """`--help-settings`: the options that `--help` leaves out."""

    def __init__(self, option_strings: Any, dest: str, **named: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **named)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Prints and exits."""
        lines = ["Each setting is also a YAML key and an environment variable.\n"]
        for setting in SETTINGS:
            if not setting.is_secret:
                default = "" if setting.default is None else f" Default: {setting.default}."
                text = textwrap.fill(
                    setting.help + default, _width(), initial_indent=" " * 6, subsequent_indent=" " * 6
                )
                lines.append(f"  {flag_name(setting.name)} VALUE\n{text}")
        print("\n".join(lines))
        parser.exit()
