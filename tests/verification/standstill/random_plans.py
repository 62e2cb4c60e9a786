"""`python -m tests.verification.standstill.random_plans`: compares the numbers of plans with what their markers do.

The plans of `abort` and `force-terminate` say how many records they drop, and how many of others wait. All of them are
carried out; the truth is what consumers read before and afterwards.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED
from tests.real_brokers.exporting import AT_ONCE, called
from tests.verification.standstill.random_logs import OWNER_IDS, Log, Place, read_logs, write_logs

NUMBERS: Final = re.compile(
    r"records that are dropped: ([0-9,]+); records of others that wait: ([0-9,]*[0-9])(?:, and ([0-9,]+) of other open)?"
)
PLACE: Final = re.compile(r"^  (\S+)-([0-9]+): (.*)$", re.MULTILINE)
ROUNDS: Final = 3
"""A plan of `force-terminate` counts on ten partitions: each owner has fewer in a cluster of one round."""

Start = tuple[Place, int]
Numbers = tuple[int, int, int]
"""Records that are dropped, of others that wait, and of other open transactions."""


def numbers_in(text: str) -> Numbers | None:
    found = NUMBERS.search(" ".join(text.split()))
    if found is None:
        return None
    dropped, others, open_ = (int((each or "0").replace(",", "")) for each in found.groups())
    return dropped, others, open_


def true_numbers(at: int, before: Log, after: Log) -> Numbers:
    """Returns what the end of all transactions of a log shows, about the one that starts `at` this offset."""
    own, others = before.of_owner, before.of_hang
    if at in others:
        own, others = others, own
    return len(own), sum(offset >= at for offset in after.committed), sum(offset > at for offset in others)


def differences(
    plans: Mapping[Start, Numbers | None], before: Mapping[Place, Log], after: Mapping[Place, Log]
) -> Iterator[str]:
    """Yields each plan whose numbers are not what its marker did."""
    for (place, at), said in plans.items():
        truth = true_numbers(at, before[place], after[place])
        if said != truth:
            yield f"{place} from {at} drops {truth[0]}, {truth[1]} wait, {truth[2]} are open, said {said}: {before[place]}"


class Operator:
    """Who makes all plans, and carries them out."""

    def __init__(self, cluster: KafkaCluster, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        rows = json.loads(self._done(4, "find-hanging", "--all", "--format", "json"))["transactions"]
        self._hangs = [row for row in rows if row["verdict"].startswith("hanging")]
        self._owned = [row for row in rows if row["transactional_id"] in OWNER_IDS]
        self.wrong = [f"unexpected: {row}" for row in rows if row not in self._hangs and row not in self._owned]

    def _done(self, status_max: int, *words: str) -> str:
        done = called(self._folder, words[0], "--bootstrap-server", self._cluster.bootstrap, *words[1:], **AT_ONCE)
        assert done.returncode <= status_max, (words, done.stdout, done.stderr)
        return done.stdout

    def _abort(self, row: Mapping[str, Any], *more: str) -> str:
        place = ("--topic", row["topic"], "--partition", str(row["partition"]))
        return self._done(0, "abort", *place, "--start-offset", str(row["start_offset"]), *more)

    @property
    def _owners(self) -> Sequence[str]:
        return sorted({row["transactional_id"] for row in self._owned})

    def plans(self) -> dict[Start, Numbers | None]:
        """The numbers of each plan; of an owner those of the partitions that its plan names."""
        found = {_start(row): numbers_in(self._abort(row, "--dry-run")) for row in self._hangs}
        starts = {(row["transactional_id"], row["topic"], row["partition"]): _start(row) for row in self._owned}
        for owner in self._owners:
            text = self._done(0, "force-terminate", "--transactional-id", owner, "--dry-run")
            for topic, partition, words in PLACE.findall(text):
                found[starts[owner, topic, int(partition)]] = numbers_in(words)
        return found

    def carry_out(self) -> None:
        for row in self._hangs:
            self._abort(row, "--yes")
        for owner in self._owners:
            self._done(0, "force-terminate", "--transactional-id", owner, "--yes")


def _start(row: Mapping[str, Any]) -> Start:
    return (row["topic"], row["partition"]), row["start_offset"]


def play(version: str, seed: int, rounds: int) -> tuple[int, list[str]]:
    """Returns the number of plans, and what is wrong."""
    chance, count, wrong = random.Random(seed), 0, []
    for number in range(rounds):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="random-plans-")))
            cluster = stack.enter_context(KafkaCluster(version, properties=HANGS_CAN_BE_PLANTED))
            places = write_logs(cluster, chance, stack)
            before = read_logs(cluster.bootstrap, places)
            operator = Operator(cluster, folder)
            plans = operator.plans()
            operator.carry_out()
            after = read_logs(cluster.bootstrap, places)
            held = (place for place, log in after.items() if log.last_stable_offset != log.high_watermark)
            problems = [*operator.wrong, *differences(plans, before, after), *(f"{each} is held" for each in held)]
            wrong += [f"seed {seed}, round {number}: {problem}" for problem in problems]
            count += len(plans)
    return count, wrong


def main() -> int:
    """The status is 1 if a number was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.verification.standstill.random_plans", description=__doc__)
    parser.add_argument("--kafka", default="4.3.1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    count, wrong = play(arguments.kafka, arguments.seed, arguments.rounds)
    print("\n".join(wrong))
    print(f"Kafka {arguments.kafka}, seed {arguments.seed}: {count} plans, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
