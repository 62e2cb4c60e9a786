"""Repeats a command for `--watch`: on a terminal in one place, elsewhere one result after the other."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime, timezone

from exporter.commands.report import NO_RESPONSE, complain, complain_of_gaps
from exporter.commands.status import ExitStatus
from exporter.evaluation.gaps import gaps
from exporter.evaluation.humanize import humanize_duration
from exporter.evaluation.verdicts import Evaluation, TransactionRow
from exporter.snapshot import TransactionKey

HOME, END_LINE, END_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
"""Overwriting line by line, and clearing what is left below, does not flicker."""
ENDED_MAX = 5
"""Ended hangs that stay on the screen, the newest."""


class HangEndings:
    """The proved hangs that have ended since the watch began."""

    def __init__(self) -> None:
        self._open: dict[TransactionKey, TransactionRow] = {}
        self.sentences: deque[str] = deque(maxlen=ENDED_MAX)

    def see(self, evaluation: Evaluation) -> None:
        """Takes in the next cycle. A hang on a partition that it did not read is still open as far as known."""
        open_now = {evidence.key for evidence in evaluation.evidence}
        partitions = evaluation.snapshot.partitions
        for key in [key for key in self._open if key not in open_now and partitions.shows(key)]:
            row = self._open.pop(key)
            age = humanize_duration(evaluation.snapshot.cluster_time_ms - row.start_ms)
            self.sentences.append(
                f"Ended: the hang on {key.topic}-{key.partition} from start offset {key.start_offset}, after {age}."
            )
        for row in evaluation.suspects:
            if row.verdict.is_hanging:
                self._open[row.key] = row


def watch(
    options: argparse.Namespace,
    look: Callable[[], Evaluation],
    shown: Callable[[Evaluation], str],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Prints `shown` of each `look`, one every `options.watch` milliseconds, until Ctrl-C: status 0.

    A cluster or broker that does not respond ends it only at the first cycle; later the failure is printed, and the next
    cycle retries.
    """
    interval_s = options.watch / 1000
    looked = False
    ended = HangEndings()
    try:
        while True:
            began = clock()
            try:
                evaluation = look()
            except NO_RESPONSE as error:
                complain(str(error))
                if not looked:
                    return ExitStatus.COULD_NOT_RUN
            else:
                looked = True
                ended.see(evaluation)
                _print(options, evaluation, shown(evaluation), ended)
            sleep(max(interval_s - (clock() - began), 0))
    except KeyboardInterrupt:
        return ExitStatus.ANSWERED


def _print(options: argparse.Namespace, evaluation: Evaluation, text: str, ended: HangEndings) -> None:
    if options.format == "json":
        print(json.dumps(json.loads(text)), flush=True)  # one object per line
    else:
        snapshot = evaluation.snapshot
        at = datetime.fromtimestamp(snapshot.taken_at_ms / 1000, timezone.utc).isoformat(timespec="seconds")
        heading = f"{at}  cluster {snapshot.cluster_id}, every {options.watch / 1000:g} s"
        frame = "\n".join([heading, text, *ended.sentences, ""])
        if sys.stdout.isatty():
            frame = HOME + frame.replace("\n", f"{END_LINE}\n") + END_SCREEN
        print(frame, flush=True)
    complain_of_gaps(gaps(evaluation.snapshot))
