"""The cost of a proof by offsets: cycles of the shape S3, 10,000 partitions, with READ on topics and without it, in turn.

`python -m benchmarks.without_read`. A cycle includes its exposition and its page. On one real broker with an authorizer two
transactions hang and one is live; both users have all other grants.
"""

from __future__ import annotations

import statistics
from typing import Final

from benchmarks.shapes import KAFKA, SHAPES, plant
from benchmarks.turns import Watcher, in_turn
from tests.verification.privileges import FULL, USERS, guarded, seen_by, settled
from tests.watching import Watch

ROUNDS: Final = 100
WARM_UP_ROUNDS: Final = 25
S3: Final = next(shape for shape in SHAPES if shape.name == "S3")


def main() -> None:
    """Prints the median cycle of each user, in processor time of the exporter and in time, and their ratios."""
    with guarded(KAFKA) as cluster:
        plant(cluster, S3)
        settled(cluster, USERS[FULL], lambda view: "inconclusive" not in str(view))
        with (
            Watch(cluster.door, user=USERS[FULL]) as full,
            Watch(cluster.door, user=USERS["READ on topics"]) as without,
        ):
            watchers = Watcher(full.cycle), Watcher(without.cycle)
            in_turn(watchers, WARM_UP_ROUNDS + ROUNDS)
        print("without READ:", seen_by(cluster, USERS["READ on topics"]))
    for unit, took in (("processor", [each.cpu_ms for each in watchers]), ("all", [each.wall_ms for each in watchers])):
        read, unread = (statistics.median(each[WARM_UP_ROUNDS:]) for each in took)
        print(f"{unit} time: {read:.1f} ms with READ, {unread:.1f} ms without it, {unread / read:.2f} times")


if __name__ == "__main__":
    main()
