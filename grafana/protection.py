"""The tables of what prevents hanging transactions: settings of the cluster, and its feature levels."""

from __future__ import annotations

from typing import Final

from grafana.fields import COLOURED_CELL, DOUBTFUL, NEUTRAL, column, texts
from grafana.page import Json
from grafana.panels import table
from grafana.queries import now, series

NOT_YET: Final = "No exporter has read them yet."
ONCE_AN_HOUR: Final = "Read once an hour. In all chosen clusters."


def protection() -> Json:
    return table(
        "Protection",
        f"Settings of the cluster that prevent hanging transactions; doctor --cluster says what to do. {ONCE_AN_HOUR}",
        [f"min by (cluster, check) ({now(series('kafka_transaction_protection'))})"],
        no_value=NOT_YET,
        no_cell="-",
        columns=(
            column("check", "Check", {"custom.minWidth": 200}),
            column("Value", "In place", {"unit": "locale", "mappings": [_states()], **COLOURED_CELL}),
            column("cluster", "Cluster", {"custom.width": 100}),
        ),
        sorted_by={"check": False, "Value": False},
    )


def features() -> Json:
    return table(
        "Feature levels",
        f"Finalized features; with transaction.version 2 a partition refuses late records. {ONCE_AN_HOUR}",
        [f"max by (cluster, feature) ({now(series('kafka_feature_level'))})"],
        no_value=NOT_YET,
        no_cell="-",
        columns=(
            column("feature", "Feature", {"custom.minWidth": 200}),
            column("Value", "Level", {"unit": "locale"}),
            column("cluster", "Cluster", {"custom.width": 100}),
        ),
        sorted_by={"feature": False},
    )


def clients() -> Json:
    return table(
        "Clients by transaction version",
        "Transactional ids by the version of their last transaction: below 2 a client is without KIP-890, and a late "
        "record of it can hang. Only with transaction_log.enabled. In all chosen clusters.",
        [f"max by (cluster, group, transaction_version) ({now(series('kafka_transactional_clients'))})"],
        no_value="No transaction was read from the transaction log.",
        no_cell="-",
        columns=(
            column("group", "Group", {"custom.minWidth": 150}),
            column("transaction_version", "Version", {"custom.width": 90}),
            column("Value", "Ids", {"unit": "locale"}),
            column("cluster", "Cluster", {"custom.width": 100}),
        ),
        sorted_by={"group": False, "transaction_version": False},
    )


def _states() -> Json:
    return texts({1: ("in place", NEUTRAL), 0: ("exposed", DOUBTFUL)})
