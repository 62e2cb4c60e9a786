"""The cost of recording: cycles of 10,000 partitions with and without it, in turn. `python -m benchmarks.recording`.

Both readers read the same broker, which replays. Each round is a cycle of each, in changing order, with its exposition and
its page.
"""

from __future__ import annotations

import statistics
import sys
import time

from benchmarks.listed import publication, settings_at
from benchmarks.replaying import replaying
from exporter.capsules.recording import RecordingReader
from exporter.cycle import EmbeddedReader, EvaluationInput
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Policy
from exporter.publication.exposition import Renderer
from exporter.publication.page.page import render_page
from exporter.publication.publication import PublishOptions
from exporter.transaction_log.journal import NO_JOURNAL

ROUNDS = 300
WARM_UP_ROUNDS = 6


class Watcher:
    """A reader with its memory, and the processor time of its cycles in ms."""

    def __init__(self, reader: EmbeddedReader) -> None:
        self.reader = reader
        self.renderer, self.memory = Renderer(), Memory()
        self.cpu_ms: list[float] = []

    def cycle(self) -> None:
        began = time.process_time()
        evaluation = self.reader.cycle(EvaluationInput(memory=self.memory, policy=Policy()), lambda _: NO_JOURNAL)
        self.memory = evaluation.memory
        published = publication(evaluation, PublishOptions())
        self.renderer.render(published)
        render_page(published)
        self.cpu_ms.append((time.process_time() - began) * 1000)


def main(topics: int = 100, producers: int = 0, open_transactions: int = 0) -> None:
    """Prints the processor time that nine of ten cycles take at least, and what recording adds: others use the machine."""
    with replaying(topics, 100, producers, open_transactions) as address:
        settings = settings_at(address)
        watchers = [Watcher(kind.opened(settings.kafka, settings.scan)) for kind in (EmbeddedReader, RecordingReader)]
        for number in range(WARM_UP_ROUNDS + ROUNDS):
            for watcher in watchers if number % 2 else reversed(watchers):
                watcher.cycle()
        for watcher in watchers:
            watcher.reader.close()
    plain, recording = (statistics.quantiles(watcher.cpu_ms[WARM_UP_ROUNDS:], n=10)[0] for watcher in watchers)
    print(f"{plain:.2f} ms without, {recording:.2f} ms with it: {(recording - plain) / plain:+.1%}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
