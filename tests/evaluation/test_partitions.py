"""A partition is found by its row, also if others of its topic are missing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.publication.builders import many_partitions


def test_every_partition_has_its_row_and_no_other_has_any() -> None:
    """Partition 1 of each topic is gone: the others keep to the order of topic and partition."""
    whole = many_partitions(3, 4)
    kept = whole.partition != 1
    partitions = replace(whole, topic=whole.topic[kept], partition=whole.partition[kept], answer=whole.answer[kept])

    for row in range(len(partitions)):
        assert partitions.row(*partitions.name(row)) == row
    assert len(partitions) == 9
    for topic in (*partitions.topics, "never-heard-of"):
        assert [partitions.row(topic, index) for index in (-1, 1, 4)] == [None] * 3
    assert replace(partitions, topics=(), topic=np.zeros(0, np.int32)).row(whole.topics[0], 0) is None
