"""The table of firing alerts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from grafana.fields import COLOURED_CELL, DOUBTFUL, NEUTRAL, UNKNOWN, WRONG, column, texts
from grafana.page import Json
from grafana.panels import table
from grafana.queries import either, labelled, linked, series

OUR_ALERTS: Final = 'alertname=~"KafkaTransaction.*", severity!="none"'
"""Without the watchdog, which always fires."""
IN_CLUSTER: Final = 'cluster=~"$cluster|", job=~"$job|"'
"""Alerts have no instance: they are about a cluster, not about one replica of its exporter. The alert that there is no
exporter at all has neither cluster nor job.
"""


WATCHDOG: Final = "KafkaTransactionWatchdog"
NO_RULES: Final = "not firing"
"""In the column of severities, where no rules are loaded."""
WORST_FIRST: Final = (
    'alertname="KafkaTransactionHanging"',
    'severity="critical"',
    'severity="warning"',
    'severity="info"',
)


def alerts(
    title: str, description: str, matchers: str = "", links: Sequence[Json] = (), hidden: Sequence[str] = ()
) -> Json:
    """The firing alerts that `matchers` select."""
    ours = ", ".join(part for part in (OUR_ALERTS, 'alertstate="firing"', matchers) if part)
    runbook = {
        "title": "Open the runbook",
        "url": "${runbooks:raw}/KafkaTransaction${__data.fields.reason}.md",
        "targetBlank": True,
    }
    rows = [_ranked(rank, f"{ours}, {which}") for rank, which in enumerate(WORST_FIRST)]
    severities = {
        NO_RULES: (NO_RULES, UNKNOWN),
        "critical": ("critical", WRONG),
        "warning": ("warning", DOUBTFUL),
        "info": ("info", NEUTRAL),
    }
    return table(
        title,
        f"{description} `not firing`: no alert is evaluated, not even the watchdog, because the rules are not loaded "
        "to Prometheus. An alert is about a cluster, so the chosen instance does not "
        "narrow this table.",
        [linked(f"({either([*rows, _not_evaluated()])})")],
        no_value="No alert fires.",
        no_cell="-",
        columns=(
            column(
                "severity",
                "Severity",
                {
                    "mappings": [texts(severities)],
                    **COLOURED_CELL,
                    "custom.width": 75,
                },
            ),
            column("alertname", "Alert", {"links": [runbook], "custom.minWidth": 240}),
            column("reason", "Reason", {"links": [runbook], "custom.width": 150}),
            column("topic", "Topic", {"links": list(links), "custom.width": 110}),
            column("partition", "Partition", {"links": list(links), "custom.width": 70}),
            column("group", "Group", {"custom.width": 80}),
            column("cluster", "Cluster", {"custom.width": 100}),
            column("cluster_id", "Cluster id", {"custom.width": 200}),
        ),
        hidden=("job", "linked_cluster", "Value", *hidden),
        sorted_by={"Value": False},
    )


def _not_evaluated() -> str:
    """A row for the watchdog where no alert is evaluated: it fires while an exporter is read, and others where none is."""
    evaluated = series("ALERTS", 'alertname=~"KafkaTransaction.*"', narrowed_by=IN_CLUSTER)
    return labelled(f"-1 * absent({evaluated})", alertname=WATCHDOG, reason="Watchdog", severity=NO_RULES)


def _ranked(rank: int, matchers: str) -> str:
    """The alerts, each with its rank as a value, which sorts them."""
    firing = series("ALERTS", matchers, narrowed_by=IN_CLUSTER)
    labels = "cluster, cluster_id, job, topic, partition, group, alertname, reason, severity"
    return f"{rank} + 0 * count by ({labels}) ({firing})"
