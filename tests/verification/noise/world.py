"""A cluster in which owners follow their plans; shows a cycle what it would read of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Final

from exporter.snapshot import OFFSETS_TOPIC, Snapshot, TopicPartition
from tests.evaluation.builders import NOW_MS, partitions_of
from tests.verification.noise.cycle import POSITION_AGE_MS, Reading, Seat
from tests.verification.noise.owners import Owner, PlannedOwner, StreamsOwner
from tests.verification.noise.plans import hang, until_killed
from tests.verification.noise.workload import FAMILIES, Family

CYCLE_MS: Final = 30_000
OFFSETS_PARTITIONS: Final = 50
IDS_OF_AN_OWNER: Final = 1_000_000
"""Producer ids that an owner may use."""
HUNG: Final = "hung"


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Faults of a bad world, at instants in milliseconds since its beginning."""

    killed: tuple[tuple[str, int], ...] = ()
    """(name of an owner, time at which it is killed)."""
    hang_ms: int | None = None
    """Time at which the marker of a transaction is lost, on a topic of its own; None if none is."""


NO_FAULTS: Final = Faults()


class World:
    """A cluster with owners of these families. It is read in the order of time."""

    def __init__(
        self, owners: int, seed: int, faults: Faults = NO_FAULTS, families: Sequence[Family] = FAMILIES
    ) -> None:
        self._random = Random(seed)
        self._names: list[TopicPartition] = [(OFFSETS_TOPIC, partition) for partition in range(OFFSETS_PARTITIONS)]
        self._seats = list(self._seated(owners, families, faults))
        if faults.hang_ms is not None:
            plan = hang(f"{HUNG}-1-0", (len(self._seats) + 1) * IDS_OF_AN_OWNER, NOW_MS + faults.hang_ms)
            self._seats.append(self._seat(PlannedOwner(plan), f"{HUNG}-1", 0, timeout_ms=0))
        self._partitions = partitions_of(self._names)
        self._before: Reading | None = None

    def _seated(self, owners: int, families: Sequence[Family], faults: Faults) -> Iterator[Seat]:
        numbers, killed = count(1), dict(faults.killed)
        for job in (job for family in families for job in family.jobs(owners)):
            for partition, name in enumerate(job.names):
                producer_id, random = next(numbers) * IDS_OF_AN_OWNER, Random(self._random.random())
                timeout_ms = job.family.timeout_ms
                owner: Owner
                if job.planner is None:
                    owner = StreamsOwner(random, name, producer_id)
                else:
                    plan = job.planner.plan(random, name, producer_id, NOW_MS)
                    if name in killed:
                        plan = until_killed(plan, NOW_MS + killed[name], timeout_ms)
                    owner = PlannedOwner(plan)
                yield self._seat(owner, job.topic, partition, timeout_ms=timeout_ms)

    def _seat(self, owner: Owner, topic: str, partition: int, *, timeout_ms: int) -> Seat:
        self._names.append((topic, partition))
        return Seat(
            owner=owner,
            timeout_ms=timeout_ms,
            row=len(self._names) - 1,
            offsets_row=self._random.randrange(OFFSETS_PARTITIONS),
            group=f"readers-of-{topic}",
            position_phase_ms=self._random.randrange(POSITION_AGE_MS),
        )

    def snapshot(self, number: int) -> Snapshot:
        """The snapshot of a cycle: of the leaders, then of the coordinators, then of the ends of the partitions."""
        read_ms = NOW_MS + number * CYCLE_MS
        listed_ms = read_ms + self._random.randrange(20, 60)
        ends_ms = listed_ms + self._random.randrange(10, 40)
        reading = Reading(self._names, read_ms=read_ms, listed_ms=listed_ms, ends_ms=ends_ms)
        for seat in self._seats:
            reading.take(seat)
        taken = reading.snapshot(self._before)
        self._before = reading
        return replace(taken, partitions=self._partitions)
