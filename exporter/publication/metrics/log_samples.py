"""What the metrics with labels made of the transaction log say: no sample at all where it is not read.

Law of this file: functions from a publication to samples, and no metric name.
"""

from __future__ import annotations

from collections.abc import Callable

from exporter.publication.facts import Publication
from exporter.publication.metrics.model import Distribution, Sample, Samples
from exporter.transaction_log.counts import DURATION_BUCKETS_SECONDS, MARKER_BUCKETS_SECONDS, Counted


def _counted(samples: Callable[[Counted], Samples]) -> Callable[[Publication], Samples]:
    def guarded(publication: Publication) -> Samples:
        report = publication.facts.transaction_log
        return () if report is None or report.counted is None else samples(report.counted)

    return guarded


completed = _counted(lambda counted: tuple(Sample((name, it.value), count) for name, it, count in counted.completed))
initialized = _counted(lambda counted: tuple(Sample((name,), count) for name, count in counted.initialized))
durations = _counted(
    lambda counted: tuple(
        Distribution((name, it.value), DURATION_BUCKETS_SECONDS, histogram.counts, histogram.total)
        for name, it, histogram in counted.durations
    )
)
markers = _counted(
    lambda counted: tuple(
        Distribution((name,), MARKER_BUCKETS_SECONDS, histogram.counts, histogram.total)
        for name, histogram in counted.markers
    )
)


def decode_failures(publication: Publication) -> Samples:
    """Every reason, always."""
    report = publication.facts.transaction_log
    if report is None:
        return ()
    return Sample(("malformed",), report.malformed), Sample(("unknown_version",), report.unknown_versions)


def partitions(publication: Publication) -> Samples:
    """Partitions of the log by how far they are read."""
    report = publication.facts.transaction_log
    if report is None:
        return ()
    return (
        Sample(("current",), report.partitions_current),
        Sample(("behind",), report.partitions_behind),
        Sample(("unread",), report.partitions_unread),
    )
