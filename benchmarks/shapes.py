"""The four shapes of a cluster that scans are measured on, planted into a real broker.

Every entry is made by a record batch of an arbitrary producer id at sequence 0, which a broker accepts: idle ones by
idempotent batches, open transactions by transactional ones that no coordinator knows of.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from hangbench.kafka.cluster import KafkaCluster, MeasuredCluster
from hangbench.kafka.planting import plant_producers

KAFKA: Final = "4.3.1"
PROPERTIES: Final = {"transaction.partition.verification.enable": "false"}
IDLE_FROM: Final = 9_000_000_000
OPEN: Final = range(9_200_000_000, 9_200_000_002)
OPEN_PARTITIONS: Final = range(3)
"""Of the first topic: open transactions on a few partitions, as in a cluster at work."""


@dataclass(frozen=True, slots=True)
class Shape:
    """`topics` of `partitions` each; `producers` idle entries on one partition in `every`."""

    name: str
    topics: int
    partitions: int
    producers: int
    every: int = 1

    @property
    def title(self) -> str:
        """Partitions x entries."""
        return f"{self.topics * self.partitions:,} x {self.producers / self.every:,g}"

    @property
    def topic_names(self) -> tuple[str, ...]:
        return tuple(f"{self.name.lower()}-{number:03d}" for number in range(self.topics))


SHAPES: Final = (
    Shape("S1", topics=4, partitions=50, producers=500),
    Shape("S2", topics=50, partitions=100, producers=2),
    Shape("S3", topics=100, partitions=100, producers=1, every=2),
    Shape("S4", topics=2, partitions=5, producers=20_000),
)


@contextmanager
def planted(*shapes: Shape) -> Iterator[KafkaCluster]:
    """A broker with these shapes."""
    with MeasuredCluster(KAFKA, properties=PROPERTIES) as cluster:
        for shape in shapes:
            plant(cluster, shape)
        yield cluster


def plant(cluster: KafkaCluster, shape: Shape) -> int:
    """Make topics, entries and a few open transactions; how many entries there are."""
    began = time.monotonic()
    ids = range(IDLE_FROM, IDLE_FROM + shape.producers)
    entries = 0
    for topic in shape.topic_names:
        cluster.topics.create(topic, partitions=shape.partitions)
        entries += plant_producers(cluster.bootstrap, topic, range(0, shape.partitions, shape.every), ids)
    entries += plant_producers(cluster.bootstrap, shape.topic_names[0], OPEN_PARTITIONS, OPEN, open_transactions=True)
    print(f"{shape.name} ({shape.title}): {entries:,} entries planted in {time.monotonic() - began:.0f} s", flush=True)
    return entries
