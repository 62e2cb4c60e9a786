"""How many requests were sent to Kafka, and how long their answers took. Plain data, like the nouns of `snapshot.py`."""

from __future__ import annotations

from collections.abc import Iterable
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


def total(parts: Iterable[ApiStatistics]) -> tuple[ApiStatistics, ...]:
    """What several clients counted, by API."""
    sums: dict[str, ApiStatistics] = {}
    for part in parts:
        sums[part.api] = _plus(sums.get(part.api, _none_of(part.api)), part, 1)
    return tuple(sums[api] for api in sorted(sums))


def since(before: Iterable[ApiStatistics], after: Iterable[ApiStatistics]) -> tuple[ApiStatistics, ...]:
    """What one client counted between two of its counts."""
    earlier = {it.api: it for it in before}
    return tuple(_plus(it, earlier.get(it.api, _none_of(it.api)), -1) for it in after)


def _none_of(api: str) -> ApiStatistics:
    counts = (0,) * (len(LATENCY_BUCKETS_SECONDS) + 1)
    return ApiStatistics(api=api, requests=0, failures=0, seconds_total=0.0, latency_counts=counts)


def _plus(first: ApiStatistics, second: ApiStatistics, sign: int) -> ApiStatistics:
    return ApiStatistics(
        api=first.api,
        requests=first.requests + sign * second.requests,
        failures=first.failures + sign * second.failures,
        seconds_total=first.seconds_total + sign * second.seconds_total,
        latency_counts=tuple(a + sign * b for a, b in zip(first.latency_counts, second.latency_counts, strict=True)),
    )
