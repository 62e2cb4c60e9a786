"""`completion`: prints the script of argcomplete, which then runs this program to complete a word."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from argcomplete.completers import BaseCompleter, FilesCompleter
from argcomplete.finders import CompletionFinder
from argcomplete.shell_integration import shellcode

from exporter import PROGRAM
from exporter.commands.arguments import SHORT
from exporter.commands.context import Context
from exporter.commands.option_types import KNOWN_STATES
from exporter.commands.options import DIRECTORY, FILE, STATES, VERDICT
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.evaluation.verdicts import Verdict

VALUES = {STATES: KNOWN_STATES, VERDICT: tuple(verdict.label for verdict in Verdict)}
"""Words for a placeholder whose option has no choices of its own."""


def run(context: Context, _: Settings | None) -> int:
    """Prints the script; returns the exit status."""
    # The defaults of bash are off: they would offer files as topics.
    print(shellcode([PROGRAM, SHORT], use_defaults=False, shell=context.options.shell))
    return ExitStatus.ANSWERED


def complete(parser: argparse.ArgumentParser) -> None:
    """Responds to the shell, which sends its request in environment variables, and exits."""
    _Finder()(parser, default_completer=_Values())


class _Finder(CompletionFinder):
    """Offers settings, which are hidden from the help, from their first letter on: 60 of them would hide the options."""

    def _get_option_completions(self, parser: argparse.ArgumentParser, cword_prefix: str) -> list[str]:
        self.print_suppressed = len(cword_prefix) > len("--")
        found: list[str] = super()._get_option_completions(parser, cword_prefix)  # type: ignore[no-untyped-call]
        return found


class _Values(BaseCompleter):
    """Values of an option without choices: by its placeholder."""

    def __call__(self, *, prefix: str, action: argparse.Action, **_: Any) -> Iterable[str]:
        if action.metavar in {FILE, DIRECTORY}:
            return FilesCompleter()(prefix)
        return VALUES.get(str(action.metavar), ())
