"""The table of consumer groups that suspects block. Like the table of suspects it needs no recording rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from grafana.fields import NEUTRAL, NOT_READ, PARTLY_READ, UNKNOWN, column, texts
from grafana.page import Json
from grafana.panels import DURATION, table
from grafana.queries import EXPORTER, either, fresh, known_exporters, labelled, linked, now, series

_GROUP: Final = f"{EXPORTER}, group, topic, partition"


def blocked_groups(matchers: str, links: Sequence[Json], hidden: Sequence[str] = ()) -> Json:
    return table(
        "Blocked consumer groups",
        "Groups at the last stable offset of a partition with a suspect, in the chosen topics, up to "
        "publish.blocked_groups_limit. Only groups that the exporter may DESCRIBE. In a purple row they are unknown.",
        [_since(matchers), _records(matchers)],
        no_value="No group is blocked that the exporter can describe.",
        no_cell="-",
        columns=(
            column("group", "Group", {"mappings": [_unread()], **_BACKGROUND, "custom.minWidth": 120}),
            column("topic", "Topic", {"links": list(links), "custom.width": 120}),
            column("partition", "Partition", {"links": list(links), "custom.width": 70}),
            column(
                "Value #A",
                "Blocked for",
                {**DURATION, "mappings": [texts({-1: ("-", NEUTRAL)})], "custom.width": 100},
            ),
            column("Value #B", "Records", {"unit": "locale", "custom.width": 80}),
            column("cluster", "Cluster", {"custom.width": 100}),
            column("instance", "Exporter", {"custom.width": 110}),
        ),
        hidden=("job", "linked_cluster", *hidden),
        sorted_by={"Value #B": True},
    )


_BACKGROUND: Final[Json] = {"custom.cellOptions": {"type": "color-background", "mode": "basic"}}


def _unread() -> Json:
    return texts({name: (name, UNKNOWN) for name in (NOT_READ, PARTLY_READ)})


def _since(matchers: str) -> str:
    since = series("kafka_consumer_group_blocked_since_timestamp_seconds", matchers)
    ages = f"clamp_min(time() - ({now(f'max by ({_GROUP}) ({since})')}), 0)"
    without = labelled(f"(0 * {known_exporters()} - 1 unless on ({EXPORTER}) {fresh()})", group=NOT_READ)
    partly = labelled(f"(0 * ({fresh()} == 0) - 1)", group=PARTLY_READ)
    return linked(f"({either((ages, without, partly))})")


def _records(matchers: str) -> str:
    return now(f"max by ({_GROUP}) ({series('kafka_consumer_group_blocked_records', matchers)})")
