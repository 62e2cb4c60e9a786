"""Plays a day of a well-behaved cluster to the exporter and its alerting rules; writes the tables of README.md.

Ends with status 1 if there was any page, or more than one warning a day. A part writes nothing.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from exporter.artifacts.rules import rule_groups
from exporter.baseline import NO_BASELINE
from tests.verification.noise.baselines import baseline
from tests.verification.noise.day import Samples, play, read_by
from tests.verification.noise.report import DOCUMENT, MODES, alarm_in_words, document, in_words, rows_of, wrong
from tests.verification.noise.rules import replay
from tests.verification.noise.workload import OWNERS
from tests.verification.noise.world import CYCLE_MS, World

HOURS = 24


def main() -> int:
    """Returns 1 if there was a page, or more than one warning a day."""
    arguments = _parser().parse_args()
    groups, modes = rule_groups(), arguments.mode or list(MODES)
    cycles = round(arguments.hours * 3_600_000 / CYCLE_MS)
    results, problems = {}, []
    with ProcessPoolExecutor(len(modes)) as pool:
        played = pool.map(partial(_played, arguments.owners, arguments.seed, cycles), modes)
        for mode, (samples, seconds) in zip(modes, played, strict=True):
            began_s = time.monotonic()
            alarms = replay(samples, groups)
            rows = results[mode] = rows_of(alarms)
            replayed_s = time.monotonic() - began_s
            print(f"{MODES[mode]}: {cycles} cycles in {seconds:.0f} s, the rules in {replayed_s:.0f} s", flush=True)
            lines = map(alarm_in_words, alarms) if arguments.each else map(in_words, rows)
            print("".join(f"  {line}\n" for line in lines), end="", flush=True)
            problems += [f"{MODES[mode]}: {problem}" for problem in wrong(rows, cycles)]
    is_part = bool(arguments.mode) or arguments.owners != OWNERS or arguments.hours != HOURS
    if not is_part:
        today = dt.datetime.now(tz=dt.timezone.utc).date().isoformat()
        before = DOCUMENT.read_text(encoding="utf-8")
        DOCUMENT.write_text(document(before, results, date=today, seed=arguments.seed), encoding="utf-8")
    if problems:
        print("\n".join(["not quiet:", *problems]), file=sys.stderr)
    return 1 if problems else 0


def _played(owners: int, seed: int, cycles: int, mode: str) -> tuple[Samples, float]:
    """Returns the samples of a run, and the seconds that it took."""
    began_s = time.monotonic()
    usual = baseline(owners) if mode == "all" else NO_BASELINE
    samples = play(World(owners, seed), cycles, read_by(rule_groups()), usual)
    return samples, time.monotonic() - began_s


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.verification.noise", description=__doc__)
    parser.add_argument("--mode", action="append", choices=MODES, help="baselines: none, or of all ids; repeatable")
    parser.add_argument("--owners", type=int, default=OWNERS, help="owners in all (%(default)s)")
    parser.add_argument("--hours", type=float, default=HOURS, help="hours to play (%(default)s)")
    parser.add_argument("--each", action="store_true", help="print each alert with its labels, not the first of a kind")
    parser.add_argument("--seed", type=int, default=1, help="seed of all that is random (%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
