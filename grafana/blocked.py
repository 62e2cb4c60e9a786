"""The table of consumer groups that transactions block. Like the table of suspects it needs no recording rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from grafana.fields import COLOURED_CELL, UNREAD, column
from grafana.owners import BLOCKED, CHOSEN_GROUP, with_id
from grafana.page import Json
from grafana.panels import DURATION, age_column, table
from grafana.queries import EXPORTER, linked, now, or_unread, series

ENDS: Final = "kafka_blocking_transaction_ends_timestamp_seconds"
_GROUP: Final = f"{EXPORTER}, group, topic, partition"


Selection = Callable[[str, str], str]
"""From the name of a metric of groups, and matchers, to its series."""


def of_owner(name: str, matchers: str) -> str:
    """The chosen groups, where the chosen transactional ids block them."""
    return with_id(name, f"{matchers}, {CHOSEN_GROUP}")


def blocked_groups(matchers: str, links: Sequence[Json], *, select: Selection, hidden: Sequence[str] = ()) -> Json:
    return table(
        "Blocked consumer groups",
        "Groups at a partition's last stable offset, in the chosen topics, up to publish.blocked_groups_limit. The lag is "
        "in offsets. A live transaction ends by its time-out; without that time an operator must act. Only groups that the "
        "exporter may DESCRIBE. In a purple row they are unknown.",
        [_since(matchers, select), _lag(matchers, select), _ends(matchers, select)],
        no_value="No group is blocked that the exporter can describe.",
        no_cell="-",
        columns=(
            column("group", "Group", {"mappings": [UNREAD], **COLOURED_CELL, "custom.minWidth": 120}),
            column("topic", "Topic", {"links": list(links), "custom.width": 120}),
            column("partition", "Partition", {"links": list(links), "custom.width": 70}),
            age_column("Blocked for", width=100),
            column("Value #B", "Lag", {"unit": "locale", "custom.width": 80}),
            column("Value #C", "Ends by itself in", {**DURATION, "custom.width": 130}),
            column("cluster", "Cluster", {"custom.width": 100}),
            column("instance", "Exporter", {"custom.width": 110}),
        ),
        hidden=("job", "linked_cluster", *hidden),
        sorted_by={"Value #B": True},
    )


def _since(matchers: str, select: Selection) -> str:
    since = select(BLOCKED, matchers)
    ages = f"clamp_min(time() - ({now(f'max by ({_GROUP}) ({since})')}), 0)"
    return linked(f"({or_unread(ages, 'group')})")


def _ends(matchers: str, select: Selection) -> str:
    """Seconds until a coordinator ends the transaction that blocks the group; no value for suspects."""
    ends = f"max by ({EXPORTER}, topic, partition) ({series(ENDS, matchers)}) < Inf"
    groups = f"max by ({_GROUP}) ({select(BLOCKED, matchers)})"
    return now(f"clamp_min(0 * {groups} + on ({EXPORTER}, topic, partition) group_left () ({ends}) - time(), 0)")


def _lag(matchers: str, select: Selection) -> str:
    return now(f"max by ({_GROUP}) ({select('kafka_consumer_group_blocked_records', matchers)})")
