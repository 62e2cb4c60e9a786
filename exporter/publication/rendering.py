"""Families to text: label escaping, exact numbers, and cached prefixes for families of a hundred thousand series.

Law of this file: text and nothing else; what is said is decided in the table, how it is sent in `exposition`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from exporter.publication.facts import Publication
from exporter.publication.families import Distribution, Metric, PartitionSeries, Sample
from exporter.snapshot import Partitions


def escape(value: str) -> str:
    r"""A label value as both formats write it: backslash, double quote and line feed are escaped."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: float) -> str:
    """The shortest text that reads back as exactly this number."""
    if isinstance(value, int):  # a bool is one, too
        return repr(int(value))
    if math.isfinite(value):
        return repr(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if math.isnan(value):
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"


def labels_text(names: Sequence[str], values: Sequence[str]) -> str:
    """`{topic="orders",partition="0"}`; empty without labels."""
    assert len(names) == len(values), (names, values)
    if not names:
        return ""
    return "{" + ",".join(f'{name}="{escape(value)}"' for name, value in zip(names, values, strict=True)) + "}"


Labels = Sequence[tuple[str, str]]
"""Names and values that all series of a family begin with."""


class PartitionLabels:
    """Remembers the label text of every partition of one cluster from one publication to the next.

    Making a hundred thousand of them takes longer than everything else together, and partitions seldom change.
    """

    def __init__(self) -> None:
        self._partitions: Partitions | None = None
        self._resting: dict[str, list[str]] = {}

    def resting_lines(self, name: str, labels: Sequence[str], fixed: Labels, partitions: Partitions) -> list[str]:
        """A line of value 0 for every row of `partitions`; the list belongs to this cache and must not be changed."""
        if not self._knows(partitions):
            self._resting = {}
        self._partitions = partitions
        if name not in self._resting:
            topic_label, partition_label = labels
            first = "".join(f'{label}="{escape(value)}",' for label, value in fixed)
            heads = [
                f'{name}{{{first}{topic_label}="{escape(topic)}",{partition_label}="' for topic in partitions.topics
            ]
            rows = zip(partitions.topic.tolist(), partitions.partition.tolist(), strict=True)
            self._resting[name] = [f'{heads[topic]}{partition}"}} 0\n' for topic, partition in rows]
        return self._resting[name]

    def _knows(self, partitions: Partitions) -> bool:
        known = self._partitions
        return known is partitions or (
            known is not None
            and known.topics == partitions.topics
            and np.array_equal(known.topic, partitions.topic)
            and np.array_equal(known.partition, partitions.partition)
        )


def family_lines(metric: Metric, publication: Publication, cache: PartitionLabels) -> str:
    """All sample lines of one metric, the same in both formats; empty when it has none."""
    samples = metric.samples(publication)
    fixed = () if metric.is_of_process or publication.cluster is None else (("cluster", publication.cluster),)
    if isinstance(samples, PartitionSeries):
        return _partition_lines(metric, fixed, samples, cache)
    return "".join([_sample_lines(metric, fixed, sample) for sample in samples])


def _labels(metric: Metric, fixed: Labels, values: Sequence[str], *more: tuple[str, str]) -> str:
    """The label text of one series."""
    assert len(metric.labels) == len(values), (metric.name, values)
    pairs = (*fixed, *zip(metric.labels, values, strict=True), *more)
    return labels_text([name for name, _ in pairs], [value for _, value in pairs])


def _sample_lines(metric: Metric, fixed: Labels, sample: Sample | Distribution) -> str:
    if isinstance(sample, Distribution):
        return _distribution_lines(metric, fixed, sample)
    return f"{metric.name}{_labels(metric, fixed, sample.labels)} {number(sample.value)}\n"


def _distribution_lines(metric: Metric, fixed: Labels, distribution: Distribution) -> str:
    bounds = [*map(float, distribution.bounds), math.inf]
    cumulative = list(accumulate(distribution.counts))
    texts = ["+Inf" if math.isinf(bound) else repr(bound) for bound in bounds]  # `1.0`: both formats, one series
    labels = _labels(metric, fixed, distribution.labels)
    lines = [
        f"{metric.name}_bucket{_labels(metric, fixed, distribution.labels, ('le', text))} {count}\n"
        for text, count in zip(texts, cumulative, strict=True)
    ]
    lines += [f"{metric.name}_sum{labels} {number(distribution.total)}\n"]
    lines += [f"{metric.name}_count{labels} {cumulative[-1]}\n"]
    return "".join(lines)


def _partition_lines(metric: Metric, fixed: Labels, series: PartitionSeries, cache: PartitionLabels) -> str:
    """Resting lines with the few that are not 0 put in their place."""
    if len(series.rows) * 2 < len(series.partitions):
        return _few_partition_lines(metric, fixed, series)
    resting = cache.resting_lines(metric.name, metric.labels, fixed, series.partitions)
    lines = list(resting) if len(series.rows) == len(resting) else [resting[row] for row in series.rows.tolist()]
    for position in np.flatnonzero(series.values).tolist():
        value = number(int(series.values[position]) / series.divisor)
        lines[position] = f"{lines[position][:-2]}{value}\n"
    return "".join(lines)


def _few_partition_lines(metric: Metric, fixed: Labels, series: PartitionSeries) -> str:
    names = map(series.partitions.name, series.rows.tolist())
    rows = zip(names, series.values.tolist(), strict=True)
    return "".join(
        [
            f"{metric.name}{_labels(metric, fixed, (topic, str(partition)))} {number(value / series.divisor)}\n"
            for (topic, partition), value in rows
        ]
    )
