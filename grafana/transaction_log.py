"""Panels from the transaction log: outcomes, durations and marker latency of transactions, and the progress of the reader.

Where the log is not read every panel shows that, and none shows 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from grafana.fields import Shade, drawn, fixed
from grafana.page import Json, Line
from grafana.panels import graph
from grafana.queries import EXPORTER, NONE_READ, none_of, once, series, with_cluster_id

NO_LOG: Final = "The transaction log is not read"
NOT_READ: Final = "not read"
READING: Final = series("kafka_transaction_exporter_transaction_log_reading")
"""The series that an exporter has while transaction_log.enabled."""
READING_SIGNAL: Final = series("instance:kafka_transaction_exporter_transaction_log_reading:fresh")
"""The same while there is a fresh snapshot, too."""
NAMED: Final = "{{cluster}} {{instance}}"
ENDED: Final = series("group:kafka_transactions_completed_total:increase15m")
TIMED_OUT: Final = series("group:kafka_transactions_completed_total:increase15m", 'outcome="timeout"')
GROUPS: Final = "Groups of transactional ids are those of transaction_log.groups."
BY_SIGNAL: Final = "Not read: no log is read, no fresh snapshot, or the recording rules are not loaded."


def what_became_of_transactions() -> Iterator[Line]:
    yield Line(8, [(8, outcomes()), (8, timeouts()), (8, timeouts_share())])
    yield Line(8, [(12, durations()), (6, markers()), (6, initializations())])


def how_the_log_is_read() -> Iterator[Line]:
    yield Line(7, [(8, left_to_read()), (8, partitions()), (8, trouble())])


def outcomes() -> Json:
    completed = series("kafka_transactions_completed_total")
    by_outcome = f"60 * sum by (outcome) ({once(with_cluster_id(f'rate({completed}[$__rate_interval])'))})"
    return graph(
        "Transactions per minute, by outcome",
        "Committed, aborted, timed out (aborted by their coordinator), fenced (aborted for a newer producer of the "
        "same id). With TransactionVersion 2 a fenced transaction counts as abort.",
        {"{{outcome}}": by_outcome},
        nothing={NONE_READ: none_of(by_outcome, read=READING)},
        shade=Shade.NEUTRAL,
        unit="short",
        no_value=NO_LOG,
        stacked=True,
        overrides=[
            drawn("^commit$", {"color": fixed("blue")}),
            drawn("^abort$", {"color": fixed("light-blue")}),
            drawn("^timeout$", {"color": fixed("orange")}),
            drawn("^fenced$", {"color": fixed("yellow")}),
        ],
    )


def timeouts() -> Json:
    by_group = f"sum by (group) ({once(TIMED_OUT)})"
    return graph(
        "Timed out within 15 minutes, by group",
        f"Transactions that were open for longer than their transaction.timeout.ms. {GROUPS} {BY_SIGNAL}",
        {"{{group}}": by_group},
        nothing={NONE_READ: none_of(by_group, read=READING_SIGNAL)},
        shade=Shade.ATTENTION,
        unit="short",
        no_value=NOT_READ,
    )


def timeouts_share() -> Json:
    by_group = f"sum by (group) ({once(TIMED_OUT)}) / (sum by (group) ({once(ENDED)}) > 0)"
    return graph(
        "Share of transactions that timed out, by group",
        f"Of those that completed within 15 minutes; a group has a gap where none of it did. {BY_SIGNAL}",
        {"{{group}}": by_group},
        nothing={NONE_READ: none_of(by_group, read=READING_SIGNAL)},
        shade=Shade.ATTENTION,
        unit="percentunit",
        no_value=NOT_READ,
    )


def durations() -> Json:
    buckets = series("kafka_transaction_duration_seconds_bucket")
    by_group = f"sum by (le, group) (rate({buckets}[$__rate_interval]))"
    quantiles = {
        f"{{{{group}}}} {name}": f"histogram_quantile({quantile}, {by_group}) >= 0"
        for name, quantile in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    }
    return graph(
        "Duration of transactions, by group",
        "From the start to the decision to commit or abort, as exact as the histogram's buckets. Durations near "
        "transaction.timeout.ms will become timeouts.",
        quantiles,
        nothing={NONE_READ: none_of(quantiles["{{group}} p50"], read=READING)},
        shade=Shade.NEUTRAL,
        unit="s",
        no_value=NO_LOG,
        beside=True,
    )


def markers() -> Json:
    by_group = f"max by (group) ({series('group:kafka_transaction_marker_seconds:p99_5m')})"
    return graph(
        "Marker latency, p99",
        "From the decision to the last marker, by group; a gap where no transaction completed. A missing marker does "
        "not count: "
        "its transaction is a suspect, stuck_completing. "
        f"{BY_SIGNAL}",
        {"{{group}}": by_group},
        nothing={NONE_READ: none_of(by_group, read=READING_SIGNAL)},
        shade=Shade.NEUTRAL,
        unit="s",
        no_value=NOT_READ,
    )


def initializations() -> Json:
    taken = series("group:kafka_transactional_id_initializations_total:rate5m")
    by_group = f"60 * sum by (group) ({once(taken)})"
    return graph(
        "Producer initializations per minute, by group",
        "Each start of a producer initializes its transactional id. A constant high rate means that two producers "
        "fence each other. "
        f"{BY_SIGNAL}",
        {"{{group}}": by_group},
        nothing={NONE_READ: none_of(by_group, read=READING_SIGNAL)},
        shade=Shade.NEUTRAL,
        unit="short",
        no_value=NOT_READ,
    )


def left_to_read(title: str = "Transaction log: unread records", *, beside: bool = False) -> Json:
    lag = series("instance:kafka_transaction_exporter_transaction_log_lag_records:fresh")
    return graph(
        title,
        "Records that the exporter has not read yet. The number falls while a new exporter catches up; otherwise it "
        "is near 0. "
        f"{BY_SIGNAL}",
        {NAMED: f"max by ({EXPORTER}) ({lag})"},
        shade=Shade.UNKNOWN,
        unit="short",
        no_value=NOT_READ,
        beside=beside,
    )


def partitions() -> Json:
    answers = series("instance:kafka_transaction_exporter_transaction_log_partitions:fresh")
    return graph(
        "Transaction log: partitions by state",
        f"Read to their end (current), not yet (behind), or without a responding leader (unread). {BY_SIGNAL}",
        {"{{answer}}": f"sum by (answer) ({once(answers)})"},
        shade=Shade.UNKNOWN,
        unit="short",
        no_value=NOT_READ,
        stacked=True,
        overrides=[
            drawn("^current$", {"color": fixed("blue")}),
            drawn("^behind$", {"color": fixed("light-purple")}),
            drawn("^unread$", {"color": fixed("purple")}),
        ],
    )


def trouble() -> Json:
    failures = series("instance:kafka_transaction_exporter_transaction_log_decode_failures_total:increase15m")
    return graph(
        "Transaction log: read and decode failures",
        f"Exporters that do not read all of it, and records that could not be decoded within 15 minutes. {BY_SIGNAL}",
        {"exporters not reading": f"sum(1 - {READING_SIGNAL})", "{{reason}}": f"sum by (reason) ({once(failures)})"},
        shade=Shade.UNKNOWN,
        unit="short",
        no_value=NOT_READ,
    )


def timeouts_of_exporters() -> Json:
    by_exporter = f"sum by ({EXPORTER}) ({TIMED_OUT})"
    return graph(
        "Timed out within 15 minutes, by exporter",
        f"Transactions that were open for longer than their transaction.timeout.ms, where the log is read. {BY_SIGNAL}",
        {NAMED: by_exporter},
        nothing={NONE_READ: none_of(by_exporter, read=READING_SIGNAL)},
        shade=Shade.ATTENTION,
        unit="short",
        no_value=NOT_READ,
        beside=True,
    )
