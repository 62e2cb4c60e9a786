"""Repeats a command for `--watch`: on a terminal in one place, elsewhere one result after the other."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone

from exporter.commands.report import complain, complain_of_gaps
from exporter.commands.status import ExitStatus
from exporter.evaluation.gaps import gaps
from exporter.evaluation.verdicts import Evaluation
from exporter.kafka.errors import ClusterUnavailableError

CLEAR = "\x1b[H\x1b[2J"


def watch(
    options: argparse.Namespace,
    look: Callable[[], Evaluation],
    shown: Callable[[Evaluation], str],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Print `shown` of each `look`, one every `options.watch` milliseconds, until Ctrl-C: status 0.

    A cluster that does not respond ends it only at the first cycle; later the failure is printed, and the next cycle
    retries.
    """
    interval_s = options.watch / 1000
    looked = False
    try:
        while True:
            began = clock()
            try:
                evaluation = look()
            except ClusterUnavailableError as error:
                complain(str(error))
                if not looked:
                    return ExitStatus.COULD_NOT_RUN
            else:
                looked = True
                _print(options, evaluation, shown(evaluation))
            sleep(max(interval_s - (clock() - began), 0))
    except KeyboardInterrupt:
        return ExitStatus.ANSWERED


def _print(options: argparse.Namespace, evaluation: Evaluation, text: str) -> None:
    if options.format == "json":
        print(json.dumps(json.loads(text)), flush=True)  # one object per line
    else:
        snapshot = evaluation.snapshot
        at = datetime.fromtimestamp(snapshot.taken_at_ms / 1000, timezone.utc).isoformat(timespec="seconds")
        clear = CLEAR if sys.stdout.isatty() else ""
        heading = f"{at}  cluster {snapshot.cluster_id}, every {options.watch / 1000:g} s"
        print(f"{clear}{heading}\n{text}\n", flush=True)
    complain_of_gaps(gaps(evaluation.snapshot))
