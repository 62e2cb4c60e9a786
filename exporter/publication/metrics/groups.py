"""Metrics of the consumer groups that transactions block."""

from __future__ import annotations

from typing import Any, Final

from exporter.evaluation.verdicts import BlockedGroup
from exporter.publication.metrics.model import PARTITION, SHOWN, LimitedEvaluation, Metric, Sample, Samples

_GROUP: Final = ("group", *PARTITION)


def _labels(blocked: BlockedGroup) -> tuple[str, ...]:
    return blocked.group, blocked.topic, str(blocked.partition)


def _shown(shown: LimitedEvaluation) -> tuple[BlockedGroup, ...]:
    return shown.evaluation.blocked_groups[: shown.publication.options.blocked_groups_limit]


def records(shown: LimitedEvaluation) -> Samples:
    return tuple(Sample(_labels(blocked), blocked.records) for blocked in _shown(shown))


def since(shown: LimitedEvaluation) -> Samples:
    return tuple(Sample(_labels(blocked), blocked.since_ms / 1000) for blocked in _shown(shown))


def hidden(shown: LimitedEvaluation) -> int:
    return len(shown.evaluation.blocked_groups) - len(_shown(shown))


METRICS: tuple[Metric[Any], ...] = (
    Metric(
        name="kafka_consumer_group_blocked_records",
        help="Offsets (records and end markers) that a group cannot read because a transaction, whatever its verdict, "
        "holds back the last stable offset, where the group has committed; no series for other groups.",
        labels=_GROUP,
        of=SHOWN,
        values=records,
    ),
    Metric(
        name="kafka_consumer_group_blocked_since_timestamp_seconds",
        help="First cycle in which the group was blocked on this partition; kept in state.file.",
        labels=_GROUP,
        of=SHOWN,
        values=since,
    ),
    Metric(
        name="kafka_consumer_groups_blocked_hidden",
        help="Blocked groups, by partition, without a series because of the limit.",
        of=SHOWN,
        values=hidden,
    ),
)
