"""HangBench: how well does a program find hanging Kafka transactions?"""

from __future__ import annotations

import argparse
import inspect
import itertools
import json
import os
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hangbench.detectors import (
    DETECTORS,
    PARTY_DETECTORS,
    DetectorUnavailable,
    UnknownDetectorError,
    detectors_of,
    party_detectors_of,
)
from hangbench.kafka.maven import SUPPORTED, BrokersUnavailable, kafka_jars
from hangbench.parties.play import results as party_results
from hangbench.parties.scenes import SITUATIONS as PARTY_SITUATIONS
from hangbench.parties.words import OF_PARTIES
from hangbench.report import markdown, page, score_card
from hangbench.run import NOT_JUDGED, Result, last_line, results
from hangbench.situations.stages import STAGES, Stage
from hangbench.situations.words import Situation

FORMAT = 1
SUCCESS, FAILED, WRONG_USAGE, FAULT, NOT_ALL_JUDGED = range(5)
RESULTS = Path("build/hangbench.json")
PARTY_RESULTS = Path("build/hangbench-parties.json")
PROGRAM = "python -m hangbench"
"""It runs from a clone too, where no command is installed."""


def main() -> int:
    """The status: 0 done, 1 failed, 2 wrong usage, 3 a fault of Kafka, 4 a situation could not be judged.

    A bad score is no failure.
    """
    options = _parser().parse_args()
    try:
        status: int = options.command(options)
        sys.stdout.flush()  # here, where a closed pipe is an exception of its own
    except BrokenPipeError:  # `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SUCCESS
    except (
        UnknownDetectorError,
        BrokersUnavailable,
        DetectorUnavailable,
        OSError,
        subprocess.SubprocessError,
    ) as error:
        print(f"hangbench: {error}", file=sys.stderr)
        return WRONG_USAGE if isinstance(error, UnknownDetectorError) else FAILED
    return status


def _run(options: argparse.Namespace) -> int:
    stages = [stage for stage in STAGES if not options.stage or stage.name in options.stage]
    detectors = detectors_of(options.detector or tuple(DETECTORS))
    versions = _versions(options)
    return _scored(options, versions, results(versions, stages, detectors, _say))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parties(options: argparse.Namespace) -> int:
    situations = [each for each in PARTY_SITUATIONS if not options.only or each.name in options.only]
    detectors = party_detectors_of(options.detector or tuple(PARTY_DETECTORS))
    versions = _versions(options)
    played = (party_results(version, detectors, situations, _say) for version in versions)
    return _scored(options, versions, itertools.chain.from_iterable(played))


def _scored(options: argparse.Namespace, versions: Sequence[str], played: Iterable[Result]) -> int:
    """Writes the results while they come, and prints the score card."""
    began = time.monotonic()
    found: list[Result] = []
    for result in played:
        found.append(result)
        _write(options.output, found, versions)
    if not found:
        print("hangbench: nothing was played: no chosen situation is for these versions", file=sys.stderr)
        return FAILED
    for version in versions:
        heading, rows = score_card(found, version)
        print(f"Apache Kafka {version}")
        _print_table([heading, *rows])
    print(f"{time.monotonic() - began:.0f} s; results are in {options.output}: {PROGRAM} report {options.output}")
    return NOT_ALL_JUDGED if any(each.judgement == NOT_JUDGED for each in found) else SUCCESS


def _versions(options: argparse.Namespace) -> list[str]:
    """Raises BrokersUnavailable for one that cannot be had, before anything is played."""
    versions: list[str] = options.kafka.split(",")
    for version in versions:
        kafka_jars(version)
    return versions


def _write(path: Path, found: Sequence[Result], versions: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "hangbench": FORMAT,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "python": platform.python_version(),
        "kafka": list(versions),
        "results": [each.document() for each in found],
    }
    text = json.dumps(document, indent=1) + "\n"
    path = path.resolve()
    if path.exists() and not path.is_file():  # /dev/null
        path.write_text(text, encoding="utf-8")
        return
    written = path.with_name(f".{path.name}.new")
    written.write_text(text, encoding="utf-8")
    written.replace(path)  # nobody sees half of it


def _issues(options: argparse.Namespace) -> int:
    """Status 3 where brokers show a fault, whatever could not be judged."""
    stages = [stage for stage in STAGES if any(situation.issue for situation in stage.situations)]
    rows = [("KAFKA", "ISSUE", "SITUATION", "THESE BROKERS")]
    statuses = set()
    for version in _versions(options):
        for stage in stages:
            print(f"playing the stage `{stage.name}` on {version}", file=sys.stderr, flush=True)
            for situation, shows, status in _faults(stage, version):
                rows.append((version, situation.issue, situation.name, shows))
                statuses.add(status)
    _print_table(rows)
    return next((status for status in (FAULT, NOT_ALL_JUDGED) if status in statuses), SUCCESS)


def _faults(stage: Stage, version: str) -> Iterator[tuple[Situation, str, int]]:
    """(situation, what the brokers show, status) of each that shows an issue."""
    try:
        played = stage.perform(version, ())
    except Exception:  # noqa: BLE001 - brokers that do not come up show nothing
        shows = f"{NOT_JUDGED}: {last_line(traceback.format_exc())}"
        yield from ((each, shows, NOT_ALL_JUDGED) for each in stage.situations if each.issue and each.is_for(version))
        return
    for scene in played.values():
        if not scene.situation.issue:
            continue
        if scene.failure is not None:
            yield scene.situation, f"{NOT_JUDGED}: {last_line(scene.failure)}", NOT_ALL_JUDGED
        elif scene.fault is not None:
            yield scene.situation, scene.fault, FAULT
        else:
            yield scene.situation, "right", SUCCESS


def _report(options: argparse.Namespace) -> int:
    if not options.results.exists():
        print(f"hangbench: there is no {options.results}: {PROGRAM} run makes it", file=sys.stderr)
        return FAILED
    try:
        document = json.loads(options.results.read_text(encoding="utf-8"))
        found = [Result(**each) for each in document["results"]]
        text = page(found) if options.html else markdown(found)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        print(f"hangbench: {options.results} has no results of `hangbench run`: {error}", file=sys.stderr)
        return FAILED
    print(text, end="")
    return SUCCESS


def _list(_: argparse.Namespace) -> int:
    rows = [(s.name, s.stage, s.versions, s.issue, s.sentence) for stage in STAGES for s in stage.situations]
    rows += [(s.name, OF_PARTIES, ", ".join(s.versions or ()), "", s.sentence) for s in PARTY_SITUATIONS]
    _print_table([("SITUATION", "STAGE", "KAFKA", "ISSUE", "WHAT IS PLANTED"), *rows])
    return SUCCESS


def _show(options: argparse.Namespace) -> int:
    wanted = " ".join(options.situation).replace("_", " ")
    found = ["\n".join(shown(stage, s)) for stage in STAGES for s in stage.situations if s.name == wanted]
    found += [
        f"{each.name}\n\n{each.sentence}\n\n{inspect.getsource(each.make).rstrip()}"
        for each in PARTY_SITUATIONS
        if each.name == wanted
    ]
    if not found:
        print(f"hangbench: no situation is called {wanted!r}: {PROGRAM} list has them", file=sys.stderr)
        return WRONG_USAGE
    print(*found)
    return SUCCESS


def shown(stage: Stage, situation: Situation) -> list[str]:
    """Says what is planted, on which cluster, and shows the function that plants it, which has the truth."""
    lines = [situation.name, "", situation.sentence, "", f"{stage.title}. {stage.sentence}"]
    if situation.versions:
        lines.append(f"Apache Kafka {situation.versions}.")
    if situation.issue:
        lines.append(f"Shows {situation.issue}: https://issues.apache.org/jira/browse/{situation.issue}")
    if situation.is_racy:
        lines.append("What a detector can see depends on the moment at which it asks.")
    code = situation.plant.__code__
    lines += ["", f"Planted by {situation.plant.__name__} in {code.co_filename}:{code.co_firstlineno}:", ""]
    return [*lines, *inspect.getsource(situation.plant).splitlines()]


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _add_play(parser: argparse.ArgumentParser, known: Iterable[str], output: Path) -> None:
    """Declares what a command needs that asks detectors."""
    parser.add_argument(
        "--detector",
        action="append",
        metavar="NAME",
        help=f"one of {', '.join(known)}, or NAME=COMMAND; repeatable. Default: all of these",
    )
    _add_versions(parser)
    parser.add_argument("--output", type=Path, default=output, metavar="FILE", help="default: %(default)s")


def _add_versions(parser: argparse.ArgumentParser) -> None:
    of_kafka = "of Apache Kafka, as Maven has them. Default: %(default)s"
    parser.add_argument("--kafka", default=SUPPORTED[0], metavar="VERSION[,...]", help=of_kafka)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hangbench", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="boot Kafka, plant the situations, ask detectors, judge them")
    _add_play(run, DETECTORS, RESULTS)
    run.add_argument(
        "--stage", action="append", choices=[stage.name for stage in STAGES], help="only this one; repeatable"
    )
    run.set_defaults(command=_run)
    parties = commands.add_parser(
        "parties", help="the same for situations in which somebody stands still, or nobody does"
    )
    _add_play(parties, PARTY_DETECTORS, PARTY_RESULTS)
    parties.add_argument(
        "--only",
        nargs="+",
        metavar="SITUATION",
        choices=[each.name for each in PARTY_SITUATIONS],
        help="only these, by their names",
    )
    parties.set_defaults(command=_parties)
    report = commands.add_parser("report", help="print the score card of results, as Markdown or HTML")
    report.add_argument("results", type=Path, nargs="?", default=RESULTS, help="of run. Default: %(default)s")
    report.add_argument("--html", action="store_true", help="as a page instead of Markdown")
    report.set_defaults(command=_report)
    issues = commands.add_parser(
        "issues", help="do these brokers have faults of Kafka that leave transactions behind? Exit status 3 if so"
    )
    _add_versions(issues)
    issues.set_defaults(command=_issues)
    commands.add_parser("list", help="list the situations").set_defaults(command=_list)
    show = commands.add_parser("show", help="say what is planted in a situation, and how")
    show.add_argument("situation", nargs="+", metavar="SITUATION")
    show.set_defaults(command=_show)
    return parser


if __name__ == "__main__":
    sys.exit(main())
