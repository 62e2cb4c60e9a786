"""Metrics of the disk: bytes that a transaction holds back, and the space of the log directories that have them."""

from __future__ import annotations

from functools import partial
from typing import Any

from exporter.evaluation.verdicts import Evaluation
from exporter.publication.metrics.model import CLUSTER, PARTITION, SHOWN, LimitedEvaluation, Metric, Sample, Samples


def held(shown: LimitedEvaluation) -> Samples:
    """The partitions with most bytes, up to the limit of suspects."""
    most_first = sorted(shown.evaluation.held.items(), key=lambda item: (-item[1].bytes, item[0]))
    limit = shown.publication.options.suspects_limit
    return tuple(Sample((topic, str(partition)), each.bytes) for (topic, partition), each in most_first[:limit])


def full_seconds(evaluation: Evaluation) -> Samples:
    """The log directories that fill by what is held back."""
    disk = evaluation.snapshot.disk
    sizes = {} if disk is None else disk.sizes
    held = evaluation.held
    full_ms = {
        replica.log_dir: held[partition].log_dir_full_ms for partition, replica in sizes.items() if partition in held
    }
    return tuple(
        Sample((str(each.broker), each.path), left_ms / 1000)
        for each, left_ms in full_ms.items()
        if left_ms is not None
    )


def _of_log_dirs(attribute: str, evaluation: Evaluation) -> Samples:
    disk = evaluation.snapshot.disk
    values = {} if disk is None else {each: getattr(each, attribute) for each in disk.log_dirs}
    return tuple(Sample((str(each.broker), each.path), value) for each, value in values.items() if value is not None)


METRICS: tuple[Metric[Any], ...] = (
    Metric(
        name="kafka_partition_held_back_bytes",
        help="Bytes at the leader that Kafka can neither compact nor tier because of an open transaction, an estimate; "
        "most bytes first, up to the limit of suspects.",
        labels=PARTITION,
        of=SHOWN,
        values=held,
    ),
    Metric(
        name="kafka_log_dir_full_seconds",
        help="Time until a log directory is full, at the growth of what open transactions hold back there; "
        "no series where nothing grows, or the free space is unknown.",
        labels=("broker", "log_dir"),
        of=CLUSTER,
        values=full_seconds,
    ),
    *(
        Metric(
            name=f"kafka_log_dir_{attribute}",
            help=f"{meaning} of a log directory, by the brokers that lead such a partition (Kafka 3.3 or later).",
            labels=("broker", "log_dir"),
            of=CLUSTER,
            values=partial(_of_log_dirs, attribute),
        )
        for attribute, meaning in (("usable_bytes", "Free space"), ("total_bytes", "Size of the volume"))
    ),
)
