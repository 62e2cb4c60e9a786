"""Graphs of unusually long transactions, and of the age of the baseline file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from grafana.fields import Shade, drawn, fixed
from grafana.page import Json, Line
from grafana.panels import HOURS, graph
from grafana.queries import EXPORTER, NONE_READ, OF_PROCESS, none_of, series

NO_BASELINE: Final = "No baseline is used"


def what_is_unusual(topics: str) -> Iterator[Line]:
    """Of the topics that these matchers choose."""
    yield Line(8, [(16, unusually_long(topics)), (8, age_of_baselines())])


def unusually_long(topics: str) -> Json:
    counted = series("kafka_partition_unusually_long_transactions", topics)
    read = series("kafka_open_transactions")
    worst = f"topk(10, max by ({EXPORTER}, topic, partition) ({counted}))"
    used = series("kafka_transaction_exporter_baseline_used", narrowed_by=OF_PROCESS)
    return graph(
        "Transactions longer than usual, worst ten partitions",
        "Open for longer than the threshold in the baseline of their transactional id, group or topic "
        "(baseline.file). This is a warning, not a verdict. Only partitions with an open transaction. Not read: no "
        "snapshot, or no baseline is used.",
        {"{{cluster}} {{topic}}-{{partition}}": worst},
        nothing={NONE_READ: none_of(worst, read=f"{read} and on () {used} == 1")},
        shade=Shade.ATTENTION,
        unit="short",
        no_value="not read",
        beside=True,
    )


def age_of_baselines() -> Json:
    made = series("kafka_transaction_exporter_baseline_timestamp_seconds", narrowed_by=OF_PROCESS)
    used = series("kafka_transaction_exporter_baseline_used", narrowed_by=OF_PROCESS)
    succeeded = series("kafka_transaction_exporter_pipeline_last_success_timestamp_seconds", narrowed_by=OF_PROCESS)
    return graph(
        "Age of the baseline file",
        "Since the pipeline made it, once a day; and since a run of the pipeline last succeeded, every hour by default "
        "(with publish.report). Also the number of exporters that do not use their file, because it is missing, damaged, "
        "of other clusters or older than baseline.max_age. They then report no unusually long transaction.",
        {
            "{{cluster}} {{instance}}": f"(time() - max by ({EXPORTER}) ({made})) / 3600",
            "{{cluster}} {{instance}} pipeline": f"(time() - max by ({EXPORTER}) ({succeeded})) / 3600",
            "exporters without": f"sum(1 - {used})",
        },
        shade=Shade.NEUTRAL,
        unit=HOURS,
        no_value=NO_BASELINE,
        overrides=[
            drawn("^exporters without$", {"color": fixed("purple"), "unit": "short", "custom.axisPlacement": "right"})
        ],
    )
