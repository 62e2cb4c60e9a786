"""The table of producers that cannot start. Like the table of suspects it needs no recording rule."""

from __future__ import annotations

from typing import Final

from grafana.fields import COLOURED_CELL, DOUBTFUL, NEUTRAL, NOT_READ, PARTLY_READ, UNKNOWN, WRONG, column, texts
from grafana.owners import CHOSEN_ID
from grafana.page import Json
from grafana.panels import DURATION, table
from grafana.queries import EXPORTER, now, or_unread, series

STUCK: Final = "kafka_stuck_transaction_start_timestamp_seconds"
_LABELS: Final = f"{EXPORTER}, transactional_id, producer_id, coordinator, state, markers"


def stuck_producers() -> Json:
    return table(
        "Producers that cannot start",
        "Transactions whose outcome is decided and whose coordinator waits for markers, whether or not a partition has "
        "them open. Contradicted: a log has the opposite marker. In a purple row they are unknown.",
        [_ages()],
        no_value="No coordinator is stuck.",
        no_cell="-",
        columns=(
            column("transactional_id", "Transactional id", {"custom.minWidth": 120}),
            column("producer_id", "Producer id", {"custom.width": 90}),
            column("state", "State", {"custom.width": 120}),
            column("markers", "Markers", {"mappings": [_colours()], **COLOURED_CELL, "custom.width": 110}),
            column("Value", "Age", {**DURATION, "mappings": [texts({-1: ("-", NEUTRAL)})], "custom.width": 100}),
            column("coordinator", "Coordinator", {"custom.width": 90}),
            column("cluster", "Cluster", {"custom.width": 100}),
            column("instance", "Exporter", {"custom.width": 110}),
        ),
        hidden=("job",),
        sorted_by={"Value": True},
    )


def _colours() -> Json:
    return texts(
        {
            "contradicted": ("contradicted", WRONG),
            "missing": ("missing", DOUBTFUL),
            "as_decided": ("as decided", DOUBTFUL),
            **{name: (name, UNKNOWN) for name in ("unknown", NOT_READ, PARTLY_READ)},
        }
    )


def _ages() -> str:
    ages = f"clamp_min(time() - ({now(f'max by ({_LABELS}) ({series(STUCK, CHOSEN_ID)})')}), 0)"
    return or_unread(ages, "markers")
