"""PromQL that several panels share.

Every selector is narrowed by the chosen cluster, job and instance, so that a page never shows what
was not asked for. A comparison or a join names the labels that it is about; labels that a scrape adds are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from exporter.evaluation.verdicts import Verdict, VerdictKind
from grafana.fields import NOT_READ, PARTLY_READ, State

CHOSEN: Final = 'cluster=~"$cluster", job=~"$job", instance=~"$instance"'
OF_PROCESS: Final = 'cluster=~"$cluster|", job=~"$job", instance=~"$instance"'
"""Series about a process of many clusters have no cluster."""
EXPORTER: Final = "cluster, job, instance"
PARTITION: Final = f"{EXPORTER}, topic, partition"
OF_POD: Final = "instance, pod, node, container, endpoint, pod_template_hash"
"""The labels by which two exporters of one cluster differ; as in alerts/alerts.yaml."""

HANGING_VERDICTS: Final = "hanging_.*"
PROVED: Final = f'verdict=~"{HANGING_VERDICTS}"'
NOT_PROVED: Final = (
    'verdict=~"' + "|".join(verdict.label for verdict in Verdict if verdict.kind is VerdictKind.SUSPECT) + '"'
)
"""Suspects that are not proved to hang."""
FRESH_CYCLES: Final = 5
"""A snapshot older than so many cycles is not fresh; as in alerts/recording.yaml."""
OVERLAP_S: Final = 600
"""A process and the one that replaces it run side by side for at most so long."""


def series(name: str, matchers: str = "", *, narrowed_by: str = CHOSEN) -> str:
    """The series of a metric or signal of the chosen exporters."""
    return f"{name}{{{', '.join(part for part in (matchers, narrowed_by) if part)}}}"


def labelled(expression: str, **labels: str) -> str:
    """The same series with these labels added."""
    for name, value in labels.items():
        expression = f'label_replace({expression}, "{name}", "{value}", "", "")'
    return expression


def linked(expression: str) -> str:
    """The same series with a label for links to other dashboards: `linked_cluster`, all where there is no cluster."""
    return f'label_replace({labelled(expression, linked_cluster=".*")}, "linked_cluster", "$1", "cluster", "(.+)")'


def once(signal: str) -> str:
    """The series of each cluster once, also where several exporters read it: the largest value of each.

    A signal has the label cluster_id, so that two clusters stay two.
    """
    return f"max without ({OF_POD}) ({signal})"


def with_cluster_id(selected: str) -> str:
    """The same series with the label cluster_id, as a signal has it, also where their snapshot is not fresh."""
    ids = f"max by ({EXPORTER}, cluster_id) ({series('kafka_transaction_exporter_cluster_info')})"
    return f"{selected} * on ({EXPORTER}) group_left (cluster_id) {ids}"


def either(expressions: Iterable[str]) -> str:
    """For each series, the first expression that has it."""
    return "\nor ".join(expressions)


def known_exporters() -> str:
    """1 for each exporter with a scrape in the chosen time range, even if it does not respond now; no replaced ones."""
    present = series("kafka_transaction_exporter_build_info")
    return f"(max by ({EXPORTER}) (present_over_time({present}[$__range])) unless on ({EXPORTER}) {_replaced()})"


def _replaced() -> str:
    """The exporters that do not respond, and whose cluster is read by a process that has started since or shortly before.

    A pod that was replaced is one; of two exporters that ran side by side, the one that is gone is not.
    """
    cluster = series("kafka_transaction_exporter_cluster_info")
    taken = series("kafka_transaction_exporter_snapshot_timestamp_seconds")
    started = series("process_start_time_seconds", narrowed_by=OF_PROCESS)
    gone = (
        f"(max by ({EXPORTER}, cluster_id) (present_over_time({cluster}[$__range]))"
        f" unless on ({EXPORTER}) {series('kafka_transaction_exporter_build_info')})"
    )
    last = f"max by ({EXPORTER}) (max_over_time({taken}[$__range]))"
    began = (
        f"max by (cluster, job, cluster_id) (({now(cluster)})"
        f" * on (job, instance) group_left () max by (job, instance) ({started}))"
    )
    overlap = f"{gone} * on ({EXPORTER}) group_left () {last} - {OVERLAP_S}"
    return f"({overlap} < on (cluster, job, cluster_id) group_left () {began})"


def snapshot_age() -> str:
    """Seconds from the newest snapshot to its scrape."""
    taken = series("kafka_transaction_exporter_snapshot_timestamp_seconds")
    return f"max by ({EXPORTER}) (timestamp({taken}) - {taken})"


def fresh() -> str:
    """The exporters with a fresh snapshot."""
    interval = series("kafka_transaction_exporter_cycle_interval_seconds")
    complete = series("kafka_transaction_exporter_coverage_complete")
    return (
        f"(max by ({EXPORTER}) ({complete}) and {snapshot_age()} <= {FRESH_CYCLES} * max by ({EXPORTER}) ({interval}))"
    )


def now(selected: str) -> str:
    """The selected series, while their snapshot is fresh."""
    return f"{selected} and on ({EXPORTER}) {fresh()}"


def or_unread(rows: str, label: str) -> str:
    """`rows`, and one of -1 for each exporter whose snapshot is not fresh or not complete, with that in `label`."""
    without = labelled(f"(0 * {known_exporters()} - 1 unless on ({EXPORTER}) {fresh()})", **{label: NOT_READ})
    partly = labelled(f"(0 * ({fresh()} == 0) - 1)", **{label: PARTLY_READ})
    return either((rows, without, partly))


def state() -> str:
    """The worst `State` of each known exporter; FINE only with a fresh snapshot that has read everything."""
    by_verdict = "sum by ({}) ({}) > 0"
    hanging = by_verdict.format(EXPORTER, series("kafka_open_transactions", PROVED))
    suspect = by_verdict.format(EXPORTER, series("kafka_open_transactions", NOT_PROVED))
    stuck = f"count by ({EXPORTER}) ({series('kafka_stuck_transaction_start_timestamp_seconds')})"
    silent = f"max by ({EXPORTER}) ({series('kafka_blocking_transaction_owner_silent_seconds')}) > 0"
    succeeded = f"max by ({EXPORTER}) ({series('kafka_transaction_exporter_last_cycle_success')})"
    answering = f"max by ({EXPORTER}) ({series('kafka_transaction_exporter_build_info')})"
    return either(
        f"{state:d} + 0 * ({condition})"
        for state, condition in (
            (State.NOT_FRESH, f"{answering} unless {fresh()}"),
            (State.HANGING, hanging),
            (State.SUSPECT, suspect),
            (State.SUSPECT, stuck),
            (State.OWNER_SILENT, silent),
            (State.PARTLY_READ, f"{fresh()} == 0"),
            (State.CYCLE_FAILED, f"{succeeded} == 0"),
            (State.FINE, f"{fresh()} == 1"),
            (State.NOT_RESPONDING, known_exporters()),
        )
    )


NONE_READ: Final = "none in what was read"
"""The legend of such a line where a part may be unread."""


def none_of(expression: str, *, read: str) -> str:
    """0 while `read` has a value and `expression` has none: what was read has nothing to show, which is not a gap."""
    return f"0 * sum({read}) unless on () ({expression})"
