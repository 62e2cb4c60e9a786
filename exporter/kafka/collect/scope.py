"""Selects the partitions of a collection by topic, partition and broker."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from exporter.kafka.topology import Topology
from exporter.snapshot import BoolColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Filters that select partitions: all given ones must match."""

    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    """Partitions with a replica on this broker; they are still read at their leaders."""

    def rows(self, topology: Topology) -> BoolColumn | None:
        """(P,) the partitions in scope; None for all of them."""
        if self == Scope():
            return None
        wanted = np.ones(len(topology), dtype=np.bool_)
        if self.topic is not None:
            in_topic = topology.rows_of(self.topic)
            wanted[: in_topic.start] = False
            wanted[in_topic.stop :] = False
        if self.partition is not None:
            wanted &= topology.partition == self.partition
        if self.broker is not None:
            on_broker = np.zeros(len(topology), dtype=np.bool_)
            on_broker[topology.replicas.rows_on(self.broker)] = True
            wanted &= on_broker
        return wanted


EVERYTHING = Scope()
