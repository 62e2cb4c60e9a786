"""The table of firing alerts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from grafana.fields import DOUBTFUL, NEUTRAL, WRONG, column, texts
from grafana.page import Json
from grafana.panels import table
from grafana.queries import either, linked, series

OUR_ALERTS: Final = 'alertname=~"KafkaTransaction.*|KafkaPartition.*", severity!="none"'
"""Without the watchdog, which always fires."""
IN_CLUSTER: Final = 'cluster=~"$cluster|", job=~"$job|"'
"""Alerts have no instance: they are about a cluster, not about one replica of its exporter. The alert that there is no
exporter at all has neither cluster nor job.
"""


WORST_FIRST: Final = (
    'alertname=~"KafkaTransactionHanging.*"',
    'severity="critical"',
    'severity="warning"',
    'severity="info"',
)


def alerts(
    title: str, description: str, matchers: str = "", links: Sequence[Json] = (), hidden: Sequence[str] = ()
) -> Json:
    """The firing alerts that `matchers` select."""
    ours = ", ".join(part for part in (OUR_ALERTS, 'alertstate="firing"', matchers) if part)
    runbook = {"title": "Open the runbook", "url": "${runbooks:raw}/${__data.fields.alertname}.md", "targetBlank": True}
    severities = {"critical": ("critical", WRONG), "warning": ("warning", DOUBTFUL), "info": ("info", NEUTRAL)}
    return table(
        title,
        f"{description} Also empty without alerting rules. An alert is about a cluster, so the chosen instance does not "
        "narrow this table.",
        [linked(f"({either(_ranked(rank, f'{ours}, {which}') for rank, which in enumerate(WORST_FIRST))})")],
        no_value="No alert fires, or no alerting rules are loaded.",
        no_cell="-",
        columns=(
            column(
                "severity",
                "Severity",
                {
                    "mappings": [texts(severities)],
                    "custom.cellOptions": {"type": "color-background", "mode": "basic"},
                    "custom.width": 90,
                },
            ),
            column("alertname", "Alert", {"links": [runbook], "custom.minWidth": 280}),
            column("topic", "Topic", {"links": list(links), "custom.width": 150}),
            column("partition", "Partition", {"links": list(links), "custom.width": 80}),
            column("group", "Group", {"custom.width": 100}),
            column("cluster", "Cluster", {"custom.width": 100}),
            column("cluster_id", "Cluster id", {"custom.width": 200}),
        ),
        hidden=("job", "linked_cluster", "Value", *hidden),
        sorted_by={"Value": False},
    )


def _ranked(rank: int, matchers: str) -> str:
    """The alerts, each with its rank as a value, which sorts them."""
    firing = series("ALERTS", matchers, narrowed_by=IN_CLUSTER)
    return f"{rank} + 0 * count by (cluster, cluster_id, job, topic, partition, group, alertname, severity) ({firing})"
