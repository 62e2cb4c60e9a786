"""The dashboard of one partition: its open transactions, their duration, the records that they hold back, commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from grafana.blocked import blocked_groups
from grafana.fields import WRONG, Shade, drawn, fixed
from grafana.firing import alerts
from grafana.links import PARTITION
from grafana.page import Heading, Json, Line, dashboard
from grafana.panels import IN_WORDS, MINUTES, graph, limit_line, stat, text
from grafana.queries import now, series
from grafana.suspects import of_any_owner, suspects
from grafana.variables import DURATIONS, of_exporters, of_words, one_partition

PLACE: Final = ("topic", "partition")
"""Columns that would say the same in every row."""
HERE: Final = 'topic="$topic", partition="$partition"'
NOT_READ: Final = "not read"
IDLE: Final = "kafka_partition_max_transaction_idle_seconds"
READ_ONLY_THEN: Final = "Not read: the partition has no series, so its state is unknown."

_OPTIONS: Final = "--bootstrap-server ${bootstrap_server} --topic ${topic} --partition ${partition}"
BY_HAND: Final = f"""\
The exporter's last snapshot is above. Check the cluster itself before you write anything:

```
kafka-transaction-exporter find-hanging {_OPTIONS} --all
kafka-transaction-exporter describe-producers {_OPTIONS}
```
"""


def partition() -> Json:
    return dashboard(
        uid=PARTITION,
        title="Kafka transactions: one partition",
        description="The open transactions on one partition, their duration, and the records that they hold back.",
        variables=[*of_exporters(), *one_partition(), *of_words()],
        lines=[*_now(), Heading("Trends"), *_trends()],
    )


def _now() -> Iterator[Line]:
    yield Line(4, [(5, longest()), (4, open_now()), (4, late_now()), (5, idle_now()), (6, held_back_now())])
    yield Line(
        6,
        [
            (12, blocked_groups(HERE, links=(), select=series, hidden=PLACE)),
            (
                12,
                alerts("Firing alerts for this partition", "Those with this topic and partition.", HERE, hidden=PLACE),
            ),
        ],
    )
    yield Line(6, [(24, suspects_here())])
    yield Line(5, [(24, text("Commands", "Read-only commands for this partition.", BY_HAND))])


def _trends() -> Iterator[Line]:
    yield Line(9, [(12, durations()), (12, held_back())])
    yield Line(9, [(12, idle()), (12, counts())])


def suspects_here() -> Json:
    return suspects(
        "Suspects on this partition",
        "Open transactions here that need attention.",
        HERE,
        links=(),
        hidden=PLACE,
        select=of_any_owner,
        has_starts=True,
    )


def longest() -> Json:
    return stat(
        "Longest open transaction",
        f"Since its start; 0 when none is open. {READ_ONLY_THEN}",
        _most(DURATIONS),
        unit=IN_WORDS,
        no_value=NOT_READ,
    )


def open_now() -> Json:
    return stat(
        "Open transactions",
        f"Now. {READ_ONLY_THEN}",
        _or_none_open("kafka_partition_open_transactions", _most),
        unit="locale",
        no_value=NOT_READ,
    )


def late_now() -> Json:
    return stat(
        "Late transactions",
        f"Open for longer than transaction.max.timeout.ms plus padding. {READ_ONLY_THEN}",
        _or_none_open("kafka_partition_late_transactions", _most),
        unit="locale",
        no_value=NOT_READ,
        steps={1: WRONG},
    )


def idle_now() -> Json:
    return stat(
        "Longest idle transaction",
        "Since the last write of any open transaction, by the client's clock; 0 when none is open. "
        f"{READ_ONLY_THEN} Also not read: a transaction is open and its producer is unknown.",
        _or_none_open(IDLE, _most, unless="kafka_partition_open_transactions"),
        unit=IN_WORDS,
        no_value=NOT_READ,
    )


def held_back_now() -> Json:
    return stat(
        "Offsets held back",
        "High watermark minus last stable offset: records that read_committed consumers cannot see; 0 when no "
        "transaction is open. "
        f"{READ_ONLY_THEN} Also not read: a transaction is open and the offsets could not be read.",
        _or_none_open(
            "kafka_partition_last_stable_offset_lag",
            _most,
            unless="kafka_partition_open_transactions",
        ),
        unit="locale",
        no_value=NOT_READ,
    )


def durations() -> Json:
    late = series("partition:kafka_partition_max_active_transaction_duration_seconds:late", HERE)
    return graph(
        "Longest open transaction over time",
        "Since its start, red while it is late (by a recording rule); 0 when none is open; a gap where the partition "
        "was not read. The dashed line is transaction.max.timeout.ms.",
        {
            "duration": f"max({series(DURATIONS, HERE)}) / 60",
            "late": f"max({late}) / 60",
            "transaction.max.timeout.ms": f"max({series('kafka_transaction_max_timeout_seconds')}) / 60",
        },
        shade=Shade.NEUTRAL,
        unit=MINUTES,
        no_value=NOT_READ,
        overrides=[
            drawn("^duration$", {"color": fixed("blue")}),
            drawn("^late$", {"color": fixed("red")}),
            limit_line(),
        ],
    )


def held_back() -> Json:
    lag = _or_none_open(
        "kafka_partition_last_stable_offset_lag", _over_time, unless="kafka_partition_open_transactions"
    )
    behind = series("partition:kafka_partition_last_stable_offset_lag:suspect", HERE)
    return graph(
        "Offsets held back over time",
        "High watermark minus last stable offset, orange while a suspect is open (by a recording rule); 0 when none is "
        "open; a gap where the partition was not read.",
        {"held back": lag, "behind a suspect": f"max({behind})"},
        shade=Shade.NEUTRAL,
        unit="short",
        no_value=NOT_READ,
        overrides=[
            drawn("^held back$", {"color": fixed("blue")}),
            drawn("^behind a suspect$", {"color": fixed("orange")}),
        ],
    )


def idle() -> Json:
    return graph(
        "Longest idle transaction over time",
        "Since the last write of any open transaction, by the client's clock; 0 when none is open; a gap where the "
        "partition was not read, or the producer is unknown.",
        {"idle": f"({_or_none_open(IDLE, _over_time, unless='kafka_partition_open_transactions')}) / 60"},
        shade=Shade.NEUTRAL,
        unit=MINUTES,
        no_value=NOT_READ,
        overrides=[drawn("^idle$", {"color": fixed("blue")})],
    )


def counts() -> Json:
    return graph(
        "Open and late transactions over time",
        "0 when none is open; a gap where the partition was not read.",
        {
            "open": _or_none_open("kafka_partition_open_transactions", _over_time),
            "late": _or_none_open("kafka_partition_late_transactions", _over_time),
        },
        shade=Shade.NEUTRAL,
        unit="short",
        no_value=NOT_READ,
        overrides=[drawn("^open$", {"color": fixed("blue")}), drawn("^late$", {"color": fixed("red")})],
    )


def _over_time(metric: str) -> str:
    """The values on this partition; the largest if several exporters read the same cluster."""
    return f"max({series(metric, HERE)})"


def _most(metric: str) -> str:
    """The present value on this partition; the largest if several exporters read the same cluster."""
    return f"max({now(series(metric, HERE))})"


def _or_none_open(metric: str, of: Callable[[str], str], *, unless: str = "") -> str:
    """0 where the partition was read and `metric` has no series because nothing is open."""
    read = f"0 * {of(DURATIONS)}"
    return f"{of(metric)} or ({read} unless {of(unless)})" if unless else f"{of(metric)} or {read}"
