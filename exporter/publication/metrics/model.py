"""Defines a row of the table of metrics: its source, its samples, and the function between them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from exporter.evaluation.verdicts import Evaluation
from exporter.publication.publication import Publication
from exporter.snapshot import Int64Column, Partitions
from exporter.snapshot.origin import Protection
from exporter.status import AuditStatus, BaselineStatus, ClusterStatus, HistoryStatus, ProcessStatus
from exporter.transaction_log.report import LogReport

Kind = Literal["gauge", "counter", "histogram"]

Of = TypeVar("Of")

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


@dataclass(frozen=True, slots=True)
class MetricSource(Generic[Of]):
    """The source of a metric's values."""

    part: Callable[[Publication], Of | None]
    """Input of the metric; None: it has no series."""
    is_of_process: bool = False
    """True for values about the process: published once, without the label `cluster` of a fleet."""


class LimitedEvaluation(NamedTuple):
    """An evaluation with the limits of its publication."""

    evaluation: Evaluation
    publication: Publication


def _shown(publication: Publication) -> LimitedEvaluation | None:
    return None if publication.evaluation is None else LimitedEvaluation(publication.evaluation, publication)


CLUSTER: Final[MetricSource[Evaluation]] = MetricSource(lambda publication: publication.evaluation)
SHOWN: Final[MetricSource[LimitedEvaluation]] = MetricSource(_shown)
STATUS: Final[MetricSource[ClusterStatus]] = MetricSource(lambda publication: publication.status)
LOG: Final[MetricSource[LogReport]] = MetricSource(lambda publication: publication.status.transaction_log)
PROTECTION: Final[MetricSource[Protection]] = MetricSource(
    lambda publication: None if publication.status.is_stale else publication.status.protection
)
AUDIT: Final[MetricSource[AuditStatus]] = MetricSource(
    lambda publication: None if publication.evaluation is None else publication.status.audit
)
PROCESS: Final[MetricSource[ProcessStatus]] = MetricSource(lambda publication: publication.process, is_of_process=True)
HISTORY: Final[MetricSource[HistoryStatus]] = MetricSource(
    lambda publication: publication.process.history, is_of_process=True
)
BASELINE: Final[MetricSource[BaselineStatus]] = MetricSource(
    lambda publication: publication.process.baseline, is_of_process=True
)

PARTITION: Final = ("topic", "partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric(Generic[Of]):
    name: str
    """Name in queries: counters end in `_total`."""
    help: str
    kind: Kind = "gauge"
    labels: tuple[str, ...] = ()
    of: MetricSource[Of]
    values: Callable[[Of], Samples | float | None]
    """A number is the only series of a metric without labels; None: no series."""

    def __post_init__(self) -> None:
        assert (self.kind == "counter") == self.name.endswith("_total"), self.name
        assert _PLAIN_HELP.fullmatch(self.help), (
            f"{self.name}: help is one line, needs no escapes, ends with a full stop"
        )

    def samples(self, publication: Publication) -> Samples:
        """The series that a publication has of it."""
        part = self.of.part(publication)
        values = None if part is None else self.values(part)
        if values is None:
            return ()
        return (Sample((), values),) if isinstance(values, int | float | np.integer) else values


def seconds(instant_ms: int | None) -> float | None:
    """Kafka's milliseconds as Prometheus' seconds."""
    return None if instant_ms is None else instant_ms / 1000
