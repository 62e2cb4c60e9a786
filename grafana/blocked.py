"""The table of consumer groups that suspects block. Like the table of suspects it needs no recording rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from grafana.fields import column
from grafana.page import Json
from grafana.panels import IN_WORDS, table
from grafana.queries import EXPORTER, linked, now, series

_GROUP: Final = f"{EXPORTER}, group, topic, partition"


def blocked_groups(matchers: str, links: Sequence[Json], hidden: Sequence[str] = ()) -> Json:
    return table(
        "Blocked consumer groups",
        "Groups at the last stable offset of a partition with a suspect, in the chosen topics, up to "
        "publish.blocked_groups_limit. Only groups that the exporter may DESCRIBE.",
        [_since(matchers), _records(matchers)],
        no_value="No visible group is blocked. Clusters without an exporter are unknown.",
        no_cell="-",
        columns=(
            column("group", "Group", {"custom.minWidth": 180}),
            column("topic", "Topic", {"links": list(links), "custom.width": 160}),
            column("partition", "Partition", {"links": list(links), "custom.width": 80}),
            column("Value #A", "Blocked for", {**IN_WORDS, "custom.width": 110}),
            column("Value #B", "Records", {"unit": "locale", "custom.width": 90}),
            column("cluster", "Cluster", {"custom.width": 100}),
            column("instance", "Exporter", {"custom.width": 140}),
        ),
        hidden=("job", "linked_cluster", *hidden),
        sorted_by={"Value #B": True},
    )


def _since(matchers: str) -> str:
    since = series("kafka_consumer_group_blocked_since_timestamp_seconds", matchers)
    return linked(f"clamp_min(time() - ({now(f'max by ({_GROUP}) ({since})')}), 0)")


def _records(matchers: str) -> str:
    return now(f"max by ({_GROUP}) ({series('kafka_consumer_group_blocked_records', matchers)})")
