"""Metrics of what prevents hanging transactions in the cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from exporter.evaluation.protection import CHECKS, ProtectionState
from exporter.publication.metrics.model import PROTECTION, Metric, Sample
from exporter.snapshot.origin import Protection


def by_check(protection: Protection) -> Iterable[Sample]:
    """Returns no series for a check that could not be read."""
    for name, check in CHECKS.items():
        state = check(protection).state
        if state is not ProtectionState.UNKNOWN:
            yield Sample((name,), state is ProtectionState.GOOD)


METRICS: tuple[Metric[Any], ...] = (
    Metric(
        name="kafka_transaction_protection",
        help="1 if a setting of the cluster prevents hanging transactions.",
        labels=("check",),
        of=PROTECTION,
        values=by_check,
    ),
    Metric(
        name="kafka_feature_level",
        help="Finalized level of each feature of the cluster, such as transaction.version.",
        labels=("feature",),
        of=PROTECTION,
        values=lambda protection: tuple(Sample((name,), level) for name, level in sorted(protection.features.items())),
    ),
)
