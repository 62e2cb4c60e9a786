"""Every alert along its time lines, with promtool: when it fires, when it does not, and its text."""

from __future__ import annotations

import pytest

from tests.alerts.promtool import TIMELINES, play, shipped_rules
from tests.alerts.timeline import Exporter, value_at

ALERTS = sorted(path.stem for path in TIMELINES.glob("*.yaml"))


@pytest.mark.programs
@pytest.mark.parametrize("alert", ALERTS)
def test_it_fires_when_it_should(alert: str) -> None:
    """Every case of `timelines/<alert>.yaml`, which says each in a sentence."""
    problems = play(alert, shipped_rules())

    assert problems == "", problems


def test_a_row_follows_its_time_line() -> None:
    """A value holds until the next one, rises by the minute, and is gone where it says so."""
    timeline = {"1m": 5, "2m": "10 +60/m", "4m": "gone"}

    assert [value_at(timeline, second) for second in (0, 60, 119, 120, 150, 240)] == [None, 5, 5, 10, 40, None]


def test_a_stale_exporter_keeps_what_is_its_own() -> None:
    """Rows of the cluster vanish with a staleness marker, the snapshot's timestamp stays where it was."""
    exporter = Exporter.of({"stale": ["1m"], "rows": {"kafka_late_transactions": {"0m": 1}}}, {})
    values = {series["series"].partition("{")[0]: series["values"] for series in exporter.series(end=90, step=30)}

    assert values == {
        "kafka_transaction_exporter_cycle_interval_seconds": "30 30 30 30",
        "kafka_transaction_exporter_cluster_info": "1 1 stale _",
        "kafka_transaction_exporter_coverage_complete": "1 1 stale _",
        "kafka_late_transactions": "1 1 stale _",
        "kafka_transaction_exporter_cycles_total": "121 122 123 124",
        "kafka_transaction_exporter_cycles_failed_total": "0 0 1 2",
        "kafka_transaction_exporter_snapshot_timestamp_seconds": "0 30 30 30",
    }


def test_a_frozen_exporter_keeps_its_values() -> None:
    exporter = Exporter.of({"frozen": ["1m"], "rows": {"kafka_late_transactions": {"0m": "0 +60/m"}}}, {})
    values = {series["series"].partition("{")[0]: series["values"] for series in exporter.series(end=120, step=30)}

    assert values["kafka_late_transactions"] == "0 30 60 60 60"
    assert values["kafka_transaction_exporter_snapshot_timestamp_seconds"] == "0 30 60 60 60"
