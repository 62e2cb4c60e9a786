"""The dashboard of all clusters: those with suspects, and those that could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from grafana.fields import (
    COLOURED_CELL,
    DOUBTFUL,
    NEUTRAL,
    STATE_TEXTS,
    UNKNOWN,
    WRONG,
    Shade,
    column,
    missing,
    texts,
    thresholds,
)
from grafana.links import FLEET, to_exporter
from grafana.page import Heading, Json, Line, dashboard
from grafana.panels import DURATION, SECONDS, graph, stat, table
from grafana.queries import (
    EXPORTER,
    NOT_PROVED,
    PROVED,
    fresh,
    known_exporters,
    linked,
    now,
    series,
    snapshot_age,
    state,
)
from grafana.transaction_log import left_to_read, timeouts_of_exporters
from grafana.variables import of_exporters, of_words

NO_EXPORTER: Final = "no exporter known"
NAMED: Final = "{{cluster}} {{instance}}"


def fleet() -> Json:
    return dashboard(
        uid=FLEET,
        title="Kafka transactions: fleet",
        description="One row per exporter and cluster: its suspects and its unread parts.",
        variables=[*of_exporters(), *of_words()],
        lines=[
            *_now(),
            Heading("Trends"),
            *_trends(),
            Heading("Transaction log (transaction_log.enabled)", is_open=False),
            Line(
                9, [(12, timeouts_of_exporters()), (12, left_to_read("Transaction log: unread records, by exporter"))]
            ),
        ],
    )


def _now() -> Iterator[Line]:
    yield Line(4, [(6, known()), (6, in_trouble()), (6, doubtful()), (6, unknown())])
    yield Line(8, [(24, exporters())])


def _trends() -> Iterator[Line]:
    yield Line(9, [(12, hanging()), (12, held_back())])
    yield Line(9, [(12, coverage()), (12, ages())])


def known() -> Json:
    return stat(
        "Exporters known",
        "Exporters with a successful scrape in the chosen time range, without those that a new process has replaced. "
        "Choose a longer range to count those that stopped before it.",
        f"count({known_exporters()})",
        unit="locale",
        no_value=NO_EXPORTER,
    )


def in_trouble() -> Json:
    return stat(
        "With a proved hang",
        "Exporters whose fresh snapshot has a transaction that is proved to hang.",
        _number_with(PROVED),
        unit="locale",
        no_value=NO_EXPORTER,
        steps={1: WRONG},
    )


def doubtful() -> Json:
    return stat(
        "With other suspects",
        "Exporters whose fresh snapshot has a suspect that is not proved to hang.",
        _number_with(NOT_PROVED),
        unit="locale",
        no_value=NO_EXPORTER,
        steps={1: DOUBTFUL},
    )


def unknown() -> Json:
    succeeded = f"max by ({EXPORTER}) ({series('kafka_transaction_exporter_last_cycle_success')})"
    return stat(
        "Not fully read",
        "Exporters that could not read everything, with suspects in the rest or without: not responding, without a "
        "fresh snapshot, with a failed last cycle, or with unread parts.",
        _number_of(f"{known_exporters()} unless on ({EXPORTER}) ({fresh()} == 1 and on ({EXPORTER}) {succeeded} == 1)"),
        unit="locale",
        no_value=NO_EXPORTER,
        steps={1: UNKNOWN},
    )


def exporters() -> Json:
    to_overview = [to_exporter()]
    return table(
        "Exporters, worst first",
        "Green: a fresh snapshot has read everything and has no suspect. `unknown`: the exporter has no fresh "
        "snapshot, or the recording rules are not loaded.",
        [
            linked(f"({state()})"),
            _sum(series("instance:kafka_open_transactions:fresh", PROVED)),
            _sum(series("instance:kafka_open_transactions:fresh", NOT_PROVED)),
            _sum(now(series("kafka_late_transactions"))),
            _held_back(),
            _sum(series("instance:kafka_transaction_exporter_partitions:fresh", 'answer!~"read|excluded"')),
            snapshot_age(),
            f"max by ({EXPORTER}, cluster_id) ({now(series('kafka_transaction_exporter_cluster_info'))})",
            f"max by ({EXPORTER}, version) ({series('kafka_transaction_exporter_build_info')})",
        ],
        no_value=NO_EXPORTER,
        no_cell="unknown",
        columns=(
            column("Value #A", "State", {**_number(), "mappings": [texts(STATE_TEXTS)], "custom.width": 220}),
            column("cluster", "Cluster", {"links": to_overview, "custom.width": 150}),
            column("instance", "Exporter", {"links": to_overview, "custom.width": 210}),
            column("Value #B", "Hanging", _number(WRONG)),
            column("Value #C", "Other suspects", _number(DOUBTFUL)),
            column("Value #D", "Late", _number()),
            column("Value #E", "Held back", _number()),
            column("Value #F", "Unread partitions", _number(UNKNOWN)),
            column("Value #G", "Snapshot age", {**_number(), **DURATION}),
            column("cluster_id", "Cluster id", {"custom.width": 230}),
            column("version", "Version"),
        ),
        hidden=("job", "linked_cluster", "Value #H", "Value #I"),
        sorted_by={"Value #A": True},
    )


def hanging() -> Json:
    return graph(
        "Hanging transactions, by exporter",
        "By recording rule; a gap where there was no fresh snapshot.",
        {NAMED: _sum(series("instance:kafka_open_transactions:fresh", PROVED))},
        shade=Shade.HANGING,
        unit="short",
        no_value="not read",
        beside=True,
        is_neutral_at_zero=True,
    )


def held_back() -> Json:
    return graph(
        "Offsets held back by suspects, by exporter",
        "Records that read_committed consumers cannot see, on partitions with a suspect; 0 without one; a gap where "
        "there was no fresh snapshot; by recording rule.",
        {NAMED: _held_back()},
        shade=Shade.ATTENTION,
        unit="short",
        no_value="not read",
        beside=True,
        is_neutral_at_zero=True,
    )


def coverage() -> Json:
    partitions = series("kafka_transaction_exporter_partitions", 'answer!="excluded"')
    read = series("kafka_transaction_exporter_partitions", 'answer="read"')
    return graph(
        "Share of partitions read",
        "Below 100% a part is unread; a gap where nothing was read.",
        {NAMED: f"{_sum(read)} / ({_sum(partitions)} > 0)"},
        shade=Shade.NEUTRAL,
        unit="percentunit",
        no_value="not read",
        calcs=("lastNotNull", "min"),
        beside=True,
    )


def ages() -> Json:
    return graph(
        "Age of the newest snapshot, by exporter",
        "Age at the scrape.",
        {NAMED: snapshot_age()},
        shade=Shade.NEUTRAL,
        unit=SECONDS,
        no_value="No snapshot",
        beside=True,
    )


def _number(alarm: str = NEUTRAL) -> Json:
    """A count whose cell has this colour from 1 on, and the colour of unknown without a value."""
    return {
        "unit": "locale",
        "mappings": [missing("unknown")],
        "thresholds": thresholds(NEUTRAL, {1: alarm}),
        **COLOURED_CELL,
    }


def _number_with(verdicts: str) -> str:
    return _number_of(f"{_sum(now(series('kafka_open_transactions', verdicts)))} > 0")


def _number_of(exporters: str) -> str:
    return f"count({exporters})\nor 0 * count({known_exporters()})"


def _held_back() -> str:
    behind = series("partition:kafka_partition_last_stable_offset_lag:suspect")
    return f"{_sum(behind)} or 0 * {_sum(series('instance:kafka_open_transactions:fresh'))}"


def _sum(selected: str) -> str:
    return f"sum by ({EXPORTER}) ({selected})"
