"""`replay`: runs the cycles of a capsule again, without a broker, and compares the result with what the capsule has."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from exporter import __version__
from exporter.capsules.cycle import CapsuleError
from exporter.capsules.file import Capsule, expected_of, load
from exporter.capsules.replaying import Replay, replay
from exporter.commands.context import Context
from exporter.commands.report import complain
from exporter.commands.status import ExitStatus
from exporter.evaluation.humanize import humanize_count, printable
from exporter.web.listener import WebServerError


def run(context: Context, _: Any) -> int:
    """Prints or serves the result of a cycle, and says what differs; returns the exit status."""
    options = context.options
    try:
        capsule = load(Path(options.file))
        if (options.cycle or 0) > len(capsule.cycles):
            return complain(
                f"{options.file} has {humanize_count(len(capsule.cycles), 'cycle')}", ExitStatus.WRONG_USAGE
            )
        results = [replay(cycle) for cycle in capsule.cycles]
    except CapsuleError as error:
        return complain(str(error))
    shown = _chosen(results, options.cycle)
    differences = [_difference(capsule, place, result) for place, result in enumerate(results)]
    status = ExitStatus.INCOMPLETE if any(differences) else ExitStatus.ANSWERED
    if options.serve is not None:
        return _serve(shown, options.serve) or status
    if options.diff:
        wanted = differences if options.cycle is None else [differences[options.cycle - 1]]
        nothing = (
            "No result differs." if options.cycle is None else f"The result of cycle {options.cycle} does not differ."
        )
        print("\n".join(printable(line) for lines in wanted for line in lines) or nothing)
    else:
        print(expected_of(shown.evaluation).decode())
    return status


def _chosen(results: Sequence[Replay], number: int | None) -> Replay:
    """The cycle of that number; else the last one with a suspect, since a capsule ends with the end of its incident."""
    if number is not None:
        return results[number - 1]
    with_suspects = [result for result in results if result.evaluation.suspects]
    return (with_suspects or results)[-1]


def _serve(result: Replay, listen_address: str) -> int:
    """Serves the result of a cycle until Ctrl-C; returns the status of that alone."""
    from exporter.commands.serve_cycle import serve_cycle  # noqa: PLC0415 - otherwise no web server is needed

    try:
        serve_cycle(result.evaluation, listen_address, sys.stdout)
    except WebServerError as error:
        return complain(str(error))
    return ExitStatus.ANSWERED


def _difference(capsule: Capsule, place: int, result: Replay) -> list[str]:
    """Says in which lines the result of a cycle differs from the recorded one: in none if every byte is the same."""
    expected, made = (
        text.decode(errors="surrogateescape").split("\n")
        for text in (capsule.expected[place], expected_of(result.evaluation))
    )
    lines = list(difflib.unified_diff(expected, made, "recorded", "replayed", n=2, lineterm=""))
    if lines:
        count = sum(line[0] in "+-" for line in lines[2:])
        missing = f"; the capsule has no response to {', '.join(result.unmatched[:5])}" if result.unmatched else ""
        of = f"recorded by {capsule.exporter}, run by {__version__}"
        complain(f"cycle {place + 1}: the result differs in {humanize_count(count, 'line')} ({of}){missing}")
    return lines
