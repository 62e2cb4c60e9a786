"""Moves leaders while all is well, as an operator does it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, Final

from kafka import KafkaAdminClient, TopicPartition

PREFERRED: Final = 0
"""Kafka's number of this kind of election."""


@contextmanager
def _admin(bootstrap: str) -> Iterator[Any]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        yield admin
    finally:
        admin.close()


def elect_preferred(bootstrap: str) -> None:
    """The preferred leaders of all partitions lead again."""
    with _admin(bootstrap) as admin:
        admin.elect_leaders(PREFERRED, raise_errors=False)


def reorder_replicas(
    bootstrap: str,
    partitions: Iterable[tuple[str, int]],
    node_ids: Sequence[int],
    chance: Random,
    *,
    replicas: int | None = None,
) -> None:
    """Changes the order of these partitions' replicas, and with an election their leaders.

    `replicas`: so many of the nodes have one afterwards; None: all.
    """
    count = len(node_ids) if replicas is None else replicas
    orders = {TopicPartition(*pair): chance.sample(node_ids, count) for pair in partitions}
    with _admin(bootstrap) as admin:
        admin.alter_partition_reassignments(orders)
        admin.elect_leaders(PREFERRED, raise_errors=False)
