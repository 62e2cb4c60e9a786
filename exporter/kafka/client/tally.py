"""Counts the requests of one API, their failures and latencies."""

from __future__ import annotations

from dataclasses import dataclass, field

from exporter.status import LATENCY_BUCKETS_SECONDS, ApiStatistics


@dataclass(slots=True)
class Tally:
    """Written by the client's thread, read by any."""

    requests: int = 0
    failures: int = 0
    seconds: float = 0.0
    latencies: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BUCKETS_SECONDS) + 1))

    def answered(self, seconds: float) -> None:
        """Counts a usable response."""
        self.seconds += seconds
        bucket = sum(seconds > bound for bound in LATENCY_BUCKETS_SECONDS)
        self.latencies[bucket] += 1

    def statistics(self, api: str) -> ApiStatistics:
        """The counts so far."""
        return ApiStatistics(
            api=api,
            requests=self.requests,
            failures=self.failures,
            seconds_total=self.seconds,
            latency_counts=tuple(self.latencies),
        )
