"""Graphs about the exporter itself: its cycles, requests and process, and the history that it writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from grafana.fields import Shade, drawn, fixed
from grafana.page import Json, Line
from grafana.panels import MILLISECONDS, SECONDS, graph, limit_line
from grafana.queries import OF_PROCESS, none_of, series, snapshot_age

NO_HISTORY: Final = "No history is recorded"


def the_exporter() -> Iterator[Line]:
    yield Line(8, [(8, ages()), (8, phases()), (8, lost_cycles())])
    yield Line(8, [(8, requests()), (8, failures()), (8, latencies())])
    yield Line(7, [(12, memory()), (12, processor())])


def the_history() -> Iterator[Line]:
    yield Line(7, [(8, history_written()), (8, history_waiting()), (8, history_size())])


def ages() -> Json:
    interval = series("kafka_transaction_exporter_cycle_interval_seconds")
    return graph(
        "Age of the newest snapshot",
        "Age at the scrape. The dashed line is the cycle interval; a snapshot is fresh for five intervals.",
        {"{{cluster}} {{instance}}": snapshot_age(), "interval": f"max({interval})"},
        shade=Shade.NEUTRAL,
        unit=SECONDS,
        no_value="No snapshot",
        overrides=[limit_line("^interval$")],
    )


def phases() -> Json:
    phase = series("kafka_transaction_exporter_cycle_phase_duration_seconds")
    whole = series("kafka_transaction_exporter_cycle_duration_seconds")
    return graph(
        "Duration of a cycle, by phase",
        "Of the last cycle; the slowest of the chosen exporters.",
        {"{{phase}}": f"1000 * max by (phase) ({phase})", "whole cycle": f"1000 * max({whole})"},
        shade=Shade.NEUTRAL,
        unit=MILLISECONDS,
        no_value="No cycle",
        overrides=[limit_line("^whole cycle$")],
    )


def lost_cycles() -> Json:
    failed = series("kafka_transaction_exporter_cycles_failed_total")
    missed = series("kafka_transaction_exporter_cycles_missed_total")
    done = series("kafka_transaction_exporter_cycles_total")
    ratio = series("instance:kafka_transaction_exporter_cycles:lost_ratio15m")
    return graph(
        "Failed and missed cycles",
        "Per minute. Ended cycles include failed ones; a cycle is missed while the previous one runs. The alert uses "
        "the share of cycles lost in 15 minutes, which needs the recording rules.",
        {
            "ended": f"60 * sum(rate({done}[$__rate_interval]))",
            "failed": f"60 * sum(rate({failed}[$__rate_interval]))",
            "missed": f"60 * sum(rate({missed}[$__rate_interval]))",
            "share lost": f"max({ratio} >= 0)",
        },
        shade=Shade.ATTENTION,
        unit="short",
        no_value="No exporter",
        overrides=[
            drawn("^ended$", {"color": fixed("blue")}),
            drawn("^failed$", {"color": fixed("red")}),
            drawn("^missed$", {"color": fixed("orange")}),
            drawn(
                "^share lost$",
                {"color": fixed("purple"), "unit": "percentunit", "max": 1, "custom.axisPlacement": "right"},
            ),
        ],
    )


def requests() -> Json:
    asked = series("kafka_transaction_exporter_requests_total")
    return graph(
        "Requests to Kafka",
        "Per minute, by API. Only cycles send requests, scrapes never do.",
        {"{{api}}": f"60 * sum by (api) (rate({asked}[$__rate_interval]))"},
        shade=Shade.NEUTRAL,
        unit="short",
        no_value="No exporter",
        stacked=True,
    )


def failures() -> Json:
    asked = series("kafka_transaction_exporter_requests_total")
    counted = series("kafka_transaction_exporter_request_failures_total")
    failed = f"60 * sum by (api) (rate({counted}[$__rate_interval])) > 0"
    return graph(
        "Failed requests",
        "Per minute: refused, lost, timed out or not decoded, by API. Only an API with a failure has a line.",
        {"{{api}}": failed},
        nothing={"no failed request": none_of(failed, read=f"rate({asked}[$__rate_interval])")},
        shade=Shade.ATTENTION,
        unit="short",
        no_value="No exporter",
        stacked=True,
    )


def latencies() -> Json:
    buckets = series("kafka_transaction_exporter_request_duration_seconds_bucket")
    return graph(
        "Request latency, 99th percentile",
        "By API; a gap where no request was sent.",
        {"{{api}}": f"1000 * histogram_quantile(0.99, sum by (le, api) (rate({buckets}[$__rate_interval]))) >= 0"},
        shade=Shade.NEUTRAL,
        unit=MILLISECONDS,
        no_value="No response",
    )


def memory() -> Json:
    return graph(
        "Resident memory",
        "Memory of the exporter's process in its last cycle.",
        {"{{cluster}} {{instance}}": series("process_resident_memory_bytes", narrowed_by=OF_PROCESS)},
        shade=Shade.NEUTRAL,
        unit="bytes",
        no_value="No exporter",
    )


def processor() -> Json:
    spent = series("process_cpu_seconds_total", narrowed_by=OF_PROCESS)
    return graph(
        "Processor time",
        "Share of one core that the exporter's process uses.",
        {"{{cluster}} {{instance}}": f"rate({spent}[$__rate_interval])"},
        shade=Shade.NEUTRAL,
        unit="percentunit",
        no_value="No exporter",
    )


def history_written() -> Json:
    written = series("kafka_transaction_exporter_history_rows_total", narrowed_by=OF_PROCESS)
    lost = series("kafka_transaction_exporter_history_rows_lost_total", narrowed_by=OF_PROCESS)
    writing = series("kafka_transaction_exporter_history_writing", narrowed_by=OF_PROCESS)
    return graph(
        "History: observations per minute",
        "Written to disk with each file, and dropped because too many waited; and the number of exporters that cannot "
        "write.",
        {
            "written": f"60 * sum(rate({written}[$__rate_interval]))",
            "dropped": f"60 * sum(rate({lost}[$__rate_interval]))",
            "exporters that cannot write": f"sum(1 - {writing})",
        },
        shade=Shade.NEUTRAL,
        unit="short",
        no_value=NO_HISTORY,
        overrides=[
            drawn("^written$", {"color": fixed("blue")}),
            drawn("^dropped$", {"color": fixed("red")}),
            drawn("^exporters that cannot write$", {"color": fixed("orange")}),
        ],
    )


def history_waiting() -> Json:
    return graph(
        "History: observations in memory",
        "Written with the next file, every history.rotate_interval. A kill loses them.",
        {"{{cluster}} {{instance}}": series("kafka_transaction_exporter_history_rows_waiting", narrowed_by=OF_PROCESS)},
        shade=Shade.NEUTRAL,
        unit="short",
        no_value=NO_HISTORY,
    )


def history_size() -> Json:
    return graph(
        "History: size on disk",
        "All files of the directory, up to history.retention_size.",
        {"{{cluster}} {{instance}}": series("kafka_transaction_exporter_history_size_bytes", narrowed_by=OF_PROCESS)},
        shade=Shade.NEUTRAL,
        unit="bytes",
        no_value=NO_HISTORY,
    )
