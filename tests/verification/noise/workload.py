"""Says who writes: the families of owners of a cluster, all well behaved, and how many of a thousand belong to each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tests.verification.noise.plans import HOUR_MS, MINUTE_MS, SECOND_MS, Batches, Checkpoints, Daily, Planner

OWNERS: Final = 1000
OWNERS_OF_A_JOB: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Owners that behave alike."""

    name: str
    says: str
    of_thousand: int
    timeout_ms: int
    planners: tuple[Planner, ...] = ()
    """The planners of its jobs, in turn; empty for Kafka Streams."""

    def owners(self, of: int) -> int:
        """Its number of owners among so many in all, one at least."""
        return max(round(self.of_thousand * of / OWNERS), 1)

    def jobs(self, of: int) -> Iterator[Job]:
        """Yields its jobs, of about OWNERS_OF_A_JOB owners each, and one for each planner at least."""
        count = self.owners(of)
        jobs = max(-(-count // OWNERS_OF_A_JOB), min(len(self.planners), count))
        for at in range(jobs):
            planner = self.planners[at % len(self.planners)] if self.planners else None
            yield Job(family=self, topic=f"{self.name}-{at + 1}", owners=(count - at - 1) // jobs + 1, planner=planner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """An application of a family: its owners write one topic, each a partition of its own."""

    family: Family
    topic: str
    owners: int
    planner: Planner | None
    """None for Kafka Streams."""

    @property
    def names(self) -> Sequence[str]:
        """The names of its owners, by partition."""
        return [f"{self.topic}-{partition}" for partition in range(self.owners)]


def family_of(topic: str) -> str:
    """The name of the family that writes this topic."""
    return topic.rpartition("-")[0]


def _sinks(*, minutes: int, timeout_minutes: int, of_thousand: int, is_idle: bool) -> Family:
    """Flink sinks; in every second job each transaction has a new id."""
    often = "every minute" if minutes == 1 else f"every {minutes} minutes"
    writes = "one record after each, then nothing" if is_idle else "five records a second"
    timeout = f"{timeout_minutes}m" if timeout_minutes < 60 else f"{timeout_minutes // 60}h"
    return Family(
        name=f"flink-{'idle' if is_idle else 'busy'}-{minutes}m-{timeout}",
        says=f"Flink sink, a checkpoint {often}, {writes}",
        of_thousand=of_thousand,
        timeout_ms=timeout_minutes * MINUTE_MS,
        planners=tuple(
            Checkpoints(every_ms=minutes * MINUTE_MS, is_idle=is_idle, is_pool=is_pool) for is_pool in (True, False)
        ),
    )


FAMILIES: Final = (
    Family(
        name="streams",
        says="thread of Kafka Streams, a commit every 100 ms",
        of_thousand=600,
        timeout_ms=10 * SECOND_MS,
    ),
    _sinks(minutes=1, timeout_minutes=15, of_thousand=70, is_idle=False),
    _sinks(minutes=1, timeout_minutes=60, of_thousand=70, is_idle=False),
    _sinks(minutes=10, timeout_minutes=15, of_thousand=30, is_idle=False),
    _sinks(minutes=10, timeout_minutes=60, of_thousand=50, is_idle=False),
    _sinks(minutes=1, timeout_minutes=15, of_thousand=40, is_idle=True),
    _sinks(minutes=1, timeout_minutes=60, of_thousand=40, is_idle=True),
    _sinks(minutes=10, timeout_minutes=15, of_thousand=20, is_idle=True),
    _sinks(minutes=10, timeout_minutes=60, of_thousand=40, is_idle=True),
    Family(
        name="batch",
        says="job of an hour, some times a day, in bursts with pauses of one to five minutes",
        of_thousand=39,
        timeout_ms=2 * HOUR_MS,
        planners=(Batches(takes_ms=HOUR_MS, rests_ms=(HOUR_MS, 5 * HOUR_MS)),),
    ),
    Family(
        name="daily",
        says="job of 20 minutes, once a day, a record every second",
        of_thousand=1,
        timeout_ms=HOUR_MS,
        planners=(Daily(takes_ms=20 * MINUTE_MS),),
    ),
)
MAX_TIMEOUT_MS: Final = 2 * HOUR_MS
"""`transaction.max.timeout.ms` of the brokers, which the batch jobs need."""
