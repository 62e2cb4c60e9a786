"""The table of unread parts with their reasons. Like the table of suspects it needs no recording rule."""

from __future__ import annotations

from typing import Final

from grafana.fields import COLOURED_CELL, DOUBTFUL, NEUTRAL, UNKNOWN, column, texts
from grafana.page import Json
from grafana.panels import WRAPPED, table
from grafana.queries import EXPORTER, either, fresh, known_exporters, labelled, now, series

NO_GAP: Final = "no gap"
EVERYTHING: Final = "everything"


def coverage() -> Json:
    return table(
        "Unread",
        "Every part that could not be read, with the reason and the number. An empty table of suspects is reliable "
        "only while every line here is `no gap`. In all chosen clusters and all their topics.",
        [_gaps()],
        no_value="No exporter is known, and no cluster is read.",
        no_cell="-",
        columns=(
            column("what", "Part", {"mappings": [_colours()], **COLOURED_CELL, "custom.width": 185}),
            column("reason", "Reason", {**WRAPPED, "custom.minWidth": 200}),
            column("Value", "Number", {"unit": "locale", "custom.width": 65}),
            column("cluster", "Cluster", {"custom.width": 100}),
            column("instance", "Exporter", {"custom.width": 110}),
        ),
        hidden=("job",),
        sorted_by={"Value": True},
    )


_NAMED: Final = (
    "partitions",
    "brokers",
    "coordinators",
    "inconclusive transactions",
    "suspects",
    "blocked groups",
    "idle partitions",
)


def _gaps() -> str:
    own = "kafka_transaction_exporter_"
    answered = "at least one request failed"
    kinds = (
        labelled(series(f"{own}unread_partitions") + " > 0", what="partitions"),
        labelled(series(f"{own}brokers", 'answer="failed"') + " > 0", what="brokers", reason=answered),
        labelled(series(f"{own}coordinators", 'answer="failed"') + " > 0", what="coordinators", reason=answered),
        labelled(series(f"{own}inconclusive_transactions") + " > 0", what="inconclusive transactions"),
        labelled(
            series("kafka_suspect_transactions_hidden") + " > 0", what="suspects", reason="over the limit of series"
        ),
        labelled(
            series("kafka_consumer_groups_blocked_hidden") + " > 0",
            what="blocked groups",
            reason="over the limit of series",
        ),
        labelled(
            series(f"{own}partition_series_limited") + " > 0",
            what="idle partitions",
            reason="too many: only partitions with an open transaction have series",
        ),
        labelled(
            series(f"{own}max_timeout_fallback") + " > 0",
            what="transaction.max.timeout.ms",
            reason="could not be read from any broker: late uses the fallback",
        ),
        labelled(
            series(f"{own}max_timeout_difference_seconds") + " > 0",
            what="transaction.max.timeout.ms",
            reason="brokers differ by this number of seconds; the largest value counts",
        ),
    )
    without = f"({known_exporters()} unless on ({EXPORTER}) {fresh()})"
    complete = f"(0 * ({fresh()} == 1) unless on ({EXPORTER}) ({either(kinds)}))"
    return either(
        (
            f"max by ({EXPORTER}, what, reason) ({now(f'({either(kinds)})')})",
            labelled(without, what=EVERYTHING, reason="no fresh snapshot: down, failing, stopped or just started"),
            labelled(complete, what=NO_GAP, reason="everything was read"),
        )
    )


def _colours() -> Json:
    unknown = {name: (name, UNKNOWN) for name in (EVERYTHING, *_NAMED)}
    limit = {"transaction.max.timeout.ms": ("transaction.max.timeout.ms", DOUBTFUL)}
    return texts({**unknown, **limit, NO_GAP: (NO_GAP, NEUTRAL)})
