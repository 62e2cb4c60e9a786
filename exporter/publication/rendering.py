"""Renders the samples of a metric as lines of text. The metrics are in `metrics`, the formats in `exposition`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from exporter.publication.metrics.model import Distribution, Metric, PartitionSeries, Sample
from exporter.publication.publication import Publication
from exporter.publication.text import Labels, labels_text, number
from exporter.publication.zero_series import Chunk, ZeroSeriesCache


def family_chunks(metric: Metric[Any], publication: Publication, resting: ZeroSeriesCache) -> tuple[Chunk, ...]:
    """All sample lines of one metric, the same in both formats; empty when it has none."""
    samples = metric.samples(publication)
    fixed = () if metric.of.is_of_process else resting.fixed
    if isinstance(samples, PartitionSeries):
        if len(samples.rows) * 2 >= len(samples.partitions):
            return tuple(resting.patched(metric.name, metric.labels, samples))
        lines = _few_partition_lines(metric, fixed, samples)
    else:
        lines = "".join([_sample_lines(metric, fixed, sample) for sample in samples])
    # Names come from brokers: invalid text in one of them must not break the whole response.
    return (Chunk(lines.encode("utf-8", "replace")),) if lines else ()


def _labels(metric: Metric[Any], fixed: Labels, values: Sequence[str], more: Labels = ()) -> str:
    """The label text of one series."""
    return labels_text((*fixed, *zip(metric.labels, values, strict=True), *more))


def _sample_lines(metric: Metric[Any], fixed: Labels, sample: Sample | Distribution) -> str:
    if isinstance(sample, Distribution):
        return _distribution_lines(metric, fixed, sample)
    return f"{metric.name}{_labels(metric, fixed, sample.labels)} {number(sample.value)}\n"


def _distribution_lines(metric: Metric[Any], fixed: Labels, distribution: Distribution) -> str:
    bounds = [*map(float, distribution.bounds), math.inf]
    cumulative = list(accumulate(distribution.counts))
    texts = ["+Inf" if math.isinf(bound) else repr(bound) for bound in bounds]  # `1.0`: both formats, one series
    labels = _labels(metric, fixed, distribution.labels)
    lines = [
        f"{metric.name}_bucket{_labels(metric, fixed, distribution.labels, (('le', text),))} {count}\n"
        for text, count in zip(texts, cumulative, strict=True)
    ]
    lines += [f"{metric.name}_sum{labels} {number(distribution.total)}\n"]
    lines += [f"{metric.name}_count{labels} {cumulative[-1]}\n"]
    return "".join(lines)


def _few_partition_lines(metric: Metric[Any], fixed: Labels, series: PartitionSeries) -> str:
    names = map(series.partitions.name, series.rows.tolist())
    rows = zip(names, series.values.tolist(), strict=True)
    return "".join(
        [
            f"{metric.name}{_labels(metric, fixed, (topic, str(partition)))} {number(value / series.divisor)}\n"
            for (topic, partition), value in rows
        ]
    )
