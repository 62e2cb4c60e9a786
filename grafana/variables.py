"""The variables that a user can choose at the top of a dashboard.

Only targets of several clusters have the label `cluster`: its All also matches series without it. Every series has `job`
and `instance`, and their All requires them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from exporter.artifacts.rules import RUNBOOK_BASE
from grafana.owners import BLOCKED, GROUP, SUSPECTS, TRANSACTIONAL_ID
from grafana.page import DATASOURCE, Json

PRESENT: Final = "kafka_transaction_exporter_build_info"
"""The series that every exporter has from its first scrape on, even if it cannot read Kafka."""
DURATIONS: Final = "kafka_partition_max_active_transaction_duration_seconds"
"""The series that every read partition has."""


def of_exporters() -> Sequence[Json]:
    """The data source and the exporters."""
    return (
        {
            "type": "datasource",
            "name": "datasource",
            "label": "Data source",
            "description": "The Prometheus that scrapes the exporters.",
            "query": "prometheus",
            "regex": "",
            "multi": False,
            "includeAll": False,
            "refresh": 1,
            "hide": 0,
            "current": {},
        },
        _many("cluster", "Cluster", f"label_values({PRESENT}, cluster)", everything=".*"),
        _many("job", "Job", f'label_values({PRESENT}{{cluster=~"$cluster"}}, job)'),
        _many("instance", "Instance", f'label_values({PRESENT}{{cluster=~"$cluster", job=~"$job"}}, instance)'),
    )


def topics() -> Json:
    """The topics that were read: they narrow suspects and partitions, but not totals of a cluster."""
    return _many("topic", "Topic", f"label_values({DURATIONS}{{{_CHOSEN}}}, topic)")


def of_owners() -> Sequence[Json]:
    """The consumer groups that are blocked, and the transactional ids of suspects; any other name can be typed.

    Their All also matches series without such a label.
    """
    groups = f"label_values({BLOCKED}{{{_CHOSEN}}}, {GROUP})"
    ids = f"label_values({SUSPECTS}{{{_CHOSEN}}}, {TRANSACTIONAL_ID})"
    typed = {"allowCustomValue": True}
    return (
        {**_many(GROUP, "Consumer group", groups, everything=".*"), **typed},
        {**_many(TRANSACTIONAL_ID, "Transactional id", ids, everything=".*"), **typed},
    )


def one_partition() -> Sequence[Json]:
    """Exactly one partition."""
    return (
        _one("topic", "Topic", f"label_values({DURATIONS}{{{_CHOSEN}}}, topic)"),
        _one("partition", "Partition", f'label_values({DURATIONS}{{{_CHOSEN}, topic="$topic"}}, partition)'),
    )


def of_words() -> Sequence[Json]:
    """The texts in commands and links."""
    return (
        _typed("bootstrap_server", "Bootstrap server", "localhost:9092", "Brokers in the commands of the tables."),
        _typed("runbooks", "Runbooks", RUNBOOK_BASE, "Address of the folder with the runbooks."),
    )


_CHOSEN: Final = 'cluster=~"$cluster", job=~"$job", instance=~"$instance"'


def _many(name: str, label: str, query: str, *, everything: str = ".+") -> Json:
    return {
        **_query(name, label, query),
        "multi": True,
        "includeAll": True,
        "allValue": everything,
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _one(name: str, label: str, query: str) -> Json:
    return {**_query(name, label, query), "multi": False, "includeAll": False, "current": {}}


def _query(name: str, label: str, query: str) -> Json:
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": DATASOURCE,
        "query": query,
        "definition": query,
        "regex": "",
        "refresh": 2,
        "sort": 3 if name == "partition" else 1,
        "hide": 0,
    }


def _typed(name: str, label: str, value: str, description: str) -> Json:
    return {
        "type": "textbox",
        "name": name,
        "label": label,
        "description": description,
        "query": value,
        "current": {"text": value, "value": value},
        "hide": 0,
    }
