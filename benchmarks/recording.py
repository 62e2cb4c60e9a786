"""The cost of recording: cycles of 10,000 partitions with and without it, in turn. `python -m benchmarks.recording`.

Both readers read the same broker, which replays. Each round is a cycle of each, in changing order, with its exposition and
its page.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable

from benchmarks.listed import settings_at
from benchmarks.replaying import replaying
from benchmarks.turns import Watcher, in_turn
from exporter.capsules.recording import RecordingReader
from exporter.cycle import EmbeddedReader, EvaluationInput
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, Policy
from exporter.transaction_log.journal import NO_JOURNAL

ROUNDS = 300
WARM_UP_ROUNDS = 6


def _cycles_of(reader: EmbeddedReader) -> Callable[[], Evaluation]:
    """Returns a function that runs the next cycle, with what earlier ones left in memory."""
    memory = Memory()

    def cycle() -> Evaluation:
        nonlocal memory
        evaluation = reader.cycle(EvaluationInput(memory=memory, policy=Policy()), lambda _: NO_JOURNAL)
        memory = evaluation.memory
        return evaluation

    return cycle


def main(topics: int = 100, producers: int = 0, open_transactions: int = 0) -> None:
    """Prints the processor time that nine of ten cycles take at least, and what recording adds: others use the machine."""
    with replaying(topics, 100, producers, open_transactions) as address:
        settings = settings_at(address)
        readers = [kind.opened(settings.kafka, settings.scan) for kind in (EmbeddedReader, RecordingReader)]
        watchers = [Watcher(_cycles_of(reader)) for reader in readers]
        in_turn(watchers, WARM_UP_ROUNDS + ROUNDS)
        for reader in readers:
            reader.close()
    plain, recording = (statistics.quantiles(watcher.cpu_ms[WARM_UP_ROUNDS:], n=10)[0] for watcher in watchers)
    print(f"{plain:.2f} ms without, {recording:.2f} ms with it: {(recording - plain) / plain:+.1%}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
