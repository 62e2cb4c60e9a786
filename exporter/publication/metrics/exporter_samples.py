"""What the metrics about the exporter itself say: they stay when the rows of the cluster have vanished.

Law of this file: functions from facts to samples, and no metric name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from exporter.publication.facts import ExporterFacts, Publication
from exporter.publication.metrics.cluster_samples import is_series_limited
from exporter.publication.metrics.model import Distribution, Sample, Samples
from exporter.status import LATENCY_BUCKETS_SECONDS

Part = TypeVar("Part")
SamplesOf = Callable[[Publication], Samples]


def fact(value: Callable[[ExporterFacts], float | None]) -> Callable[[Publication], Samples]:
    """The function for a fact without labels: no sample where it is None, because nothing is known yet."""

    def single(publication: Publication) -> Samples:
        number = value(publication.facts)
        return () if number is None else (Sample((), number),)

    return single


def _of_part(part: Callable[[ExporterFacts], Part | None]) -> Callable[[Callable[[Part], float | None]], SamplesOf]:
    """For facts about a part of the exporter that may be off: no sample then."""

    def of(value: Callable[[Part], float | None]) -> SamplesOf:
        def single(facts: ExporterFacts) -> float | None:
            chosen = part(facts)
            return None if chosen is None else value(chosen)

        return fact(single)

    return of


of_history = _of_part(lambda facts: facts.history)
of_baseline = _of_part(lambda facts: facts.baseline)
of_log = _of_part(lambda facts: facts.transaction_log)


def seconds(instant_ms: int | None) -> float | None:
    return None if instant_ms is None else instant_ms / 1000


def build_info(publication: Publication) -> Iterable[Sample]:
    return (Sample((publication.facts.version, publication.facts.python_version), 1),)


def phase_durations(publication: Publication) -> Iterable[Sample]:
    return tuple(Sample((phase,), duration) for phase, duration in publication.facts.phase_durations)


def series_limited(publication: Publication) -> Iterable[Sample]:
    if publication.evaluation is None:
        return ()
    return (Sample((), is_series_limited(publication.evaluation, publication.options)),)


def requests(publication: Publication) -> Iterable[Sample]:
    return tuple(Sample((statistics.api,), statistics.requests) for statistics in publication.facts.api_statistics)


def request_failures(publication: Publication) -> Iterable[Sample]:
    return tuple(Sample((statistics.api,), statistics.failures) for statistics in publication.facts.api_statistics)


def request_durations(publication: Publication) -> Iterable[Distribution]:
    return tuple(
        Distribution((statistics.api,), LATENCY_BUCKETS_SECONDS, statistics.latency_counts, statistics.seconds_total)
        for statistics in publication.facts.api_statistics
    )
