"""Families to lines, ready to be sent.

Law of this file: text and nothing else; what is said is decided in the table, how it is sent in `exposition`.
"""

from __future__ import annotations

import math
from itertools import accumulate

from exporter.publication.facts import Publication
from exporter.publication.families import Distribution, Metric, PartitionSeries, Sample
from exporter.publication.resting import Chunk, RestingLines
from exporter.publication.text import labels_text, number


def family_chunks(metric: Metric, publication: Publication, resting: RestingLines) -> tuple[Chunk, ...]:
    """All sample lines of one metric, the same in both formats; empty when it has none."""
    samples = metric.samples(publication)
    if isinstance(samples, PartitionSeries):
        if len(samples.rows) * 2 >= len(samples.partitions):
            return tuple(resting.patched(metric.name, metric.labels, samples))
        lines = _few_partition_lines(metric, samples)
    else:
        lines = "".join([_sample_lines(metric, sample) for sample in samples])
    # Names come from brokers: what is no valid text must not cost the whole answer.
    return (Chunk(lines.encode("utf-8", "replace")),) if lines else ()


def _sample_lines(metric: Metric, sample: Sample | Distribution) -> str:
    if isinstance(sample, Distribution):
        return _distribution_lines(metric, sample)
    return f"{metric.name}{labels_text(metric.labels, sample.labels)} {number(sample.value)}\n"


def _distribution_lines(metric: Metric, distribution: Distribution) -> str:
    bounds = [*map(float, distribution.bounds), math.inf]
    cumulative = list(accumulate(distribution.counts))
    texts = ["+Inf" if math.isinf(bound) else repr(bound) for bound in bounds]  # `1.0`: both formats, one series
    labels = labels_text(metric.labels, distribution.labels)
    lines = [
        f"{metric.name}_bucket{labels_text((*metric.labels, 'le'), (*distribution.labels, text))} {count}\n"
        for text, count in zip(texts, cumulative, strict=True)
    ]
    lines += [f"{metric.name}_sum{labels} {number(distribution.total)}\n"]
    lines += [f"{metric.name}_count{labels} {cumulative[-1]}\n"]
    return "".join(lines)


def _few_partition_lines(metric: Metric, series: PartitionSeries) -> str:
    names = map(series.partitions.name, series.rows.tolist())
    rows = zip(names, series.values.tolist(), strict=True)
    return "".join(
        [
            f"{metric.name}{labels_text(metric.labels, (topic, str(partition)))} {number(value / series.divisor)}\n"
            for (topic, partition), value in rows
        ]
    )
