"""The cost of a proof by offsets: cycles of the shape S3, 10,000 partitions, with READ on topics and without it, in turn.

`python -m benchmarks.without_read`. A cycle includes its exposition and its page. On one real broker with an authorizer two
transactions hang and one is live; both users have all other grants.
"""

from __future__ import annotations

import statistics
import time
from typing import Final

from benchmarks.listed import publication
from benchmarks.shapes import KAFKA, SHAPES, plant
from exporter.publication.exposition import Renderer
from exporter.publication.page.page import render_page
from exporter.publication.publication import PublishOptions
from tests.verification.privileges import FULL, USERS, guarded, seen_by, settled
from tests.watching import Watch

ROUNDS: Final = 100
WARM_UP_ROUNDS: Final = 25
S3: Final = next(shape for shape in SHAPES if shape.name == "S3")


class _Watcher:
    """A user with its memory, and what its cycles took."""

    def __init__(self, watch: Watch) -> None:
        self._watch, self._renderer = watch, Renderer()
        self.cpu_ms: list[float] = []
        self.wall_ms: list[float] = []

    def cycle(self) -> None:
        cpu, wall = time.process_time(), time.perf_counter()
        published = publication(self._watch.cycle(), PublishOptions())
        self._renderer.render(published)
        render_page(published)
        self.cpu_ms.append((time.process_time() - cpu) * 1000)
        self.wall_ms.append((time.perf_counter() - wall) * 1000)


def main() -> None:
    """Prints the median cycle of each user, in processor time of the exporter and in time, and their ratios."""
    with guarded(KAFKA) as cluster:
        plant(cluster, S3)
        settled(cluster, USERS[FULL], lambda view: "inconclusive" not in str(view))
        with (
            Watch(cluster.door, user=USERS[FULL]) as full,
            Watch(cluster.door, user=USERS["READ on topics"]) as without,
        ):
            watchers = _Watcher(full), _Watcher(without)
            for number in range(WARM_UP_ROUNDS + ROUNDS):
                for watcher in watchers if number % 2 else reversed(watchers):
                    watcher.cycle()
        print("without READ:", seen_by(cluster, USERS["READ on topics"]))
    for unit, took in (("processor", [each.cpu_ms for each in watchers]), ("all", [each.wall_ms for each in watchers])):
        read, unread = (statistics.median(each[WARM_UP_ROUNDS:]) for each in took)
        print(f"{unit} time: {read:.1f} ms with READ, {unread:.1f} ms without it, {unread / read:.2f} times")


if __name__ == "__main__":
    main()
