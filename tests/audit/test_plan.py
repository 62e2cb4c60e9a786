"""An audit says before it reads how much that is, and for how long at least."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.audit.positions import plan_of, rate_of_task
from exporter.audit.reading import LogExtent, LogListing, LogRange


def listing(*sizes: int | None) -> LogListing:
    """A log of 1,000 offsets for each size."""
    return LogListing(
        cluster_id="cluster-1",
        at_ms=0,
        ends={
            ("orders", number): LogExtent(topic_id="id", log_start=0, high_watermark=1000, size_bytes=size)
            for number, size in enumerate(sizes)
        },
        failures={},
        excluded=frozenset(),
    )


def part(partition: int, first: int, end: int, replica: int | None = None) -> LogRange:
    return LogRange(topic="orders", topic_id="id", partition=partition, first=first, end=end, replica=replica)


def test_the_size_is_that_of_the_offsets_that_are_new() -> None:
    said = plan_of(listing(4_000_000_000, 0), [part(0, 500, 750), part(0, 750, 1000)], [], 20e6)

    assert said == (
        "audit: new records on 1 of 2 partitions: reads 500 offsets, in 2 ranges: about 2.0 GB; "
        "--max-rate makes that 1 min 40 s at least"
    )


def test_replicas_are_read_as_well_and_sizes_may_be_unknown() -> None:
    copies = [part(0, 0, 1000, replica=2), part(0, 0, 1000, replica=3)]

    assert plan_of(listing(4_000_000, None), [part(0, 0, 1000), part(1, 0, 10)], copies, 20e6) == (
        "audit: new records on 2 of 2 partitions: reads 1,010 offsets, in 2 ranges, and 2 ranges of replicas: "
        "about 12 MB, and logs of unknown size"
    )


def test_the_rate_is_that_of_each_broker() -> None:
    two = replace(listing(4_000_000_000), leaders=2)

    assert plan_of(two, [part(0, 0, 1000)], [], 20e6).endswith("; --max-rate makes that 1 min 40 s at least")


@pytest.mark.parametrize(
    ("leaders", "at_once", "expected"), [(1, 1, 20e6), (1, 4, 5e6), (3, 6, 10e6), (30, 4, 20e6), (4, 4, 20e6)]
)
def test_tasks_share_what_all_brokers_may_send(leaders: int, at_once: int, expected: float) -> None:
    """One task is bounded as well: it reads one broker after the other."""
    assert rate_of_task(20e6, leaders, at_once) == expected


def test_nothing_new_is_no_size() -> None:
    assert plan_of(listing(4_000_000), [], [], 20e6) == (
        "audit: new records on 0 of 1 partition: reads 0 offsets, in 0 ranges"
    )
