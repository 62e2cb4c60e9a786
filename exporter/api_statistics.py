"""How many requests were sent to Kafka, and how long their answers took. Plain data, like the nouns of `snapshot.py`."""

from __future__ import annotations

from dataclasses import dataclass

LATENCY_BUCKETS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the latency histograms; the last bucket, +Inf, is implied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiStatistics:
    """Requests of one Kafka API since the process started."""

    api: str
    """Kafka's name: `DescribeProducers`."""
    requests: int
    failures: int
    """Requests without a usable answer: refused, lost, timed out, not understood."""
    seconds_total: float
    """Sum of the latencies of answered requests."""
    latency_counts: tuple[int, ...]
    """Answered requests by latency: one more than LATENCY_BUCKETS_SECONDS, not cumulative, the last is +Inf."""
