"""The shape of a metric: one row of the table, and the samples that its function may return.

Law of this file: shapes only. It contains no metric name and reads no data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from exporter.publication.facts import Publication
from exporter.snapshot import Int64Column, Partitions

Kind = Literal["gauge", "counter", "histogram"]

_PLAIN_HELP = re.compile(r'[^\\"\n]+\.')


class Sample(NamedTuple):
    """One series: label values in the order of the metric's labels, and its value."""

    labels: tuple[str, ...]
    value: float


class Distribution(NamedTuple):
    """One histogram: counts are not cumulative, one more than there are upper bounds; the last is +Inf."""

    labels: tuple[str, ...]
    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartitionSeries:
    """Series labelled topic and partition, as columns: there may be a hundred thousand."""

    partitions: Partitions
    rows: npt.NDArray[np.intp]
    """(N,) rows of `partitions` that have a series, ascending."""
    values: Int64Column
    """(N,) in units of 1 / `divisor`."""
    divisor: int = 1
    """1000 turns milliseconds into seconds, exactly rounded."""


Samples = Iterable[Sample] | Iterable[Distribution] | PartitionSeries


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One row of the table."""

    name: str
    """As queried: counters end in `_total`."""
    help: str
    kind: Kind
    labels: tuple[str, ...]
    samples: Callable[[Publication], Samples]
    is_of_process: bool = False
    """True of what is the same whichever cluster is spoken of: said once, and without the label `cluster` of a fleet."""

    def __post_init__(self) -> None:
        assert (self.kind == "counter") == self.name.endswith("_total"), self.name
        assert _PLAIN_HELP.fullmatch(self.help), (
            f"{self.name}: help is one line, needs no escapes, ends with a full stop"
        )
