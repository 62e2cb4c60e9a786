"""Time lines of scraped exporters, written for people, and the promtool unit tests that they become.

A file of `timelines/` is about one alert, or the two that share a page:

    names:                                 # short names of series, for rows
      hang: kafka_suspect_transaction_start_timestamp_seconds{...}
    cases:
      recovery:
        says: The page goes five minutes after the abort.
        exporters:
          - rows:                          # of the cluster: gone without a fresh snapshot
              hang: {2m: 60, 10m: gone}
        expect: {2m: critical, 15m: quiet} # severities that fire; `quiet` is none of them
    labels: {topic: orders}                # of the firing alert, besides alertname and severity: exactly these
    pages:                                 # every annotation of the positive case, by severity; but for runbook_url
      critical: {summary: ..., description: ...}

A case may add to that: `page_at` (when the page is read), `page` (words in it that differ), `annotations` (whole ones that
differ), `labels` (more of them), `each` (all label sets, where several fire), `external_labels`, `scrape` and `step` (times
between scrapes, between evaluations).

An exporter says where it departs from the ordinary one, which is scraped every 15 s, cycles every 30 s
and reads everything:

    instance, pod, job, cluster, cluster_id, cycle_interval
    replicas: 2            as many that see the same
    scraped: [2m, 10m]     it answers from then until then
    stale: [2m, 10m]       its cycles fail, and it has dropped the rows of the cluster
    frozen: [2m, 10m]      it serves the same bytes again and again
    snapshots: 2m          it has its first snapshot then
    clock_ahead: 45        seconds

One that is scraped from the beginning on has run for an hour; any other starts when it is first scraped.

A row is {time: value, ...}, each value until the next: a number, "5 +10/m" for a steady rise, or `gone`.
Prometheus marks a series that has vanished as stale, and so does this.

Pure functions; times are seconds since the time line began, which is 1970 for promtool.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from exporter.publication.metrics import exporter, history, transaction_log

UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
JOB: Final = "kafka-transaction-exporter"
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qk"
OWN: Final = {metric.name for metric in (*exporter.METRICS, *transaction_log.METRICS, *history.METRICS)}
"""Metrics that are not made of the snapshot: they stay when there is none."""

SNAPSHOT_AT: Final = "kafka_transaction_exporter_snapshot_timestamp_seconds"
COUNTS: Final = ("kafka_transaction_exporter_cycles_total", "kafka_transaction_exporter_cycles_failed_total")
FOR_EVER: Final = 10**9
HOUR_S: Final = 3600
Interval = tuple[int, int]
Timeline = Mapping[str, Any]


def seconds(text: str | int) -> int:
    """`1m30s` -> 90."""
    if isinstance(text, int):
        return text
    parts = re.findall(r"(\d+)([smhd])", text)
    assert "".join(number + unit for number, unit in parts) == text, f"{text} is no time"
    return sum(int(number) * UNITS[unit] for number, unit in parts)


@dataclass(frozen=True, slots=True)
class Exporter:
    """One scraped instance."""

    target: Mapping[str, str]
    """Labels that Prometheus adds."""
    cluster_id: str
    cycle_interval: int
    scraped: Interval
    stale: Interval
    frozen: Interval
    first_snapshot: int
    clock_ahead: int
    rows: Mapping[str, Timeline]

    @classmethod
    def of(cls, written: Mapping[str, Any], names: Mapping[str, str]) -> Exporter:
        known = dict(written)
        exporter = cls(
            target={
                "job": known.pop("job", JOB),
                "instance": known.pop("instance", "10.0.0.1:9814"),
                **{name: known.pop(name) for name in ("pod", "namespace", "cluster") if name in known},
            },
            cluster_id=known.pop("cluster_id", CLUSTER_ID),
            cycle_interval=seconds(known.pop("cycle_interval", 30)),
            scraped=_interval(known.pop("scraped", None), default=(0, FOR_EVER)),
            stale=_interval(known.pop("stale", None), default=(FOR_EVER, FOR_EVER)),
            frozen=_interval(known.pop("frozen", None), default=(FOR_EVER, FOR_EVER)),
            first_snapshot=seconds(known.pop("snapshots", 0)),
            clock_ahead=known.pop("clock_ahead", 0),
            rows={names.get(name, name): timeline for name, timeline in known.pop("rows", {}).items()},
        )
        assert not known, f"not known of an exporter: {sorted(known)}"
        return exporter

    def series(self, end: int, step: int) -> Iterator[dict[str, str]]:
        """Promtool's `input_series`."""
        scrapes = [self.samples(second) for second in range(0, end + 1, step)]
        for name in (*self._timelines(), *(name for name in COUNTS if name not in self.rows), SNAPSHOT_AT):
            yield {"series": self._labelled(name), "values": _written([scrape.get(name) for scrape in scrapes])}

    def samples(self, second: int) -> dict[str, float]:
        """The series that a scrape in this second finds, without labels of the target. Empty: it does not respond."""
        found = {
            name: self._scraped(timeline, second, own=name.partition("{")[0].removesuffix("_bucket") in OWN)
            for name, timeline in self._timelines().items()
        }
        found[SNAPSHOT_AT] = self._snapshot_timestamp(second)
        if _within(second, self.scraped):
            cycles = self._cycles(self._made_at(second))
            found = {**dict(zip(COUNTS, (len(cycles), sum(map(self._is_failed, cycles))), strict=True)), **found}
        return {name: value for name, value in found.items() if value is not None}

    def _timelines(self) -> dict[str, Timeline]:
        """Every series but those that follow from the others: the snapshot's timestamp, and the counts of cycles."""
        return {
            "kafka_transaction_exporter_cycle_interval_seconds": {"0s": self.cycle_interval},
            f'kafka_transaction_exporter_cluster_info{{cluster_id="{self.cluster_id}"}}': {"0s": 1},
            "kafka_transaction_exporter_coverage_complete": {"0s": 1},
            **self.rows,
        }

    def _scraped(self, timeline: Timeline, second: int, *, own: bool) -> float | None:
        """The value that a scrape in this second brings."""
        made = self._made_at(second)
        if not _within(second, self.scraped) or (not own and self._snapshot_at(made) is None):
            return None
        return value_at(timeline, made)

    def _snapshot_timestamp(self, second: int) -> float | None:
        if not _within(second, self.scraped):
            return None
        made = self._made_at(second)
        snapshot = self._snapshot_at(min(made, self.stale[0] - 1) if _within(made, self.stale) else made)
        return None if snapshot is None else snapshot + self.clock_ahead

    def _made_at(self, second: int) -> int:
        """When the bytes were made that are served in this second."""
        return self.frozen[0] if _within(second, self.frozen) else second

    def _snapshot_at(self, made: int) -> int | None:
        """When the snapshot behind bytes of that second was taken: the last full cycle."""
        if made < self.first_snapshot or _within(made, self.stale):
            return None
        return made // self.cycle_interval * self.cycle_interval

    def _cycles(self, made: int) -> range:
        """When each cycle of the process began, until then."""
        started = self.scraped[0] or -HOUR_S
        return range(started, made + 1, self.cycle_interval)

    def _is_failed(self, began: int) -> bool:
        return _within(began, self.stale) or 0 < began < self.first_snapshot

    def _labelled(self, name: str) -> str:
        metric, _, own = name.partition("{")
        labels = ", ".join(f'{label}="{value}"' for label, value in self.target.items())
        return f"{metric}{{{labels}{', ' + own[:-1] if own else ''}}}"


def replicas(written: Mapping[str, Any]) -> list[dict[str, Any]]:
    """An exporter as often as it says, each in a pod of its own."""
    alone = {name: value for name, value in written.items() if name != "replicas"}
    others = range(1, written.get("replicas", 1))
    return [alone, *({**alone, "instance": f"10.0.1.{number}:9814", "pod": f"replica-{number}"} for number in others)]


def value_at(timeline: Timeline, second: int) -> float | None:
    """The value in this second, None while the series is not there."""
    started = [(seconds(time), value) for time, value in timeline.items() if seconds(time) <= second]
    if not started:
        return None
    since, value = started[-1]
    if value == "gone":
        return None
    if isinstance(value, str):
        first, rise = value.removesuffix("/m").split(" +")
        return float(first) + float(rise) * (second - since) / 60
    return float(value)


def unit_tests(
    cases: Mapping[str, Any],
    page: str,
    alerts: Mapping[str, str],
    file: Mapping[str, Any],
    *,
    rule_files: list[str],
    step: int,
) -> dict[str, Any]:
    """Promtool's file for the cases that are evaluated every `step` seconds; `alerts` has the name for each severity."""
    return {
        "rule_files": rule_files,
        "evaluation_interval": f"{step}s",
        # signals first, so that an alert reads those of its own second
        "group_eval_order": ["kafka-transaction-signals", "kafka-transactions", "kafka-transaction-exporter"],
        "tests": [_unit_test(name, case, page, alerts, file, step) for name, case in cases.items()],
    }


def _unit_test(
    name: str, case: Mapping[str, Any], page: str, alerts: Mapping[str, str], file: Mapping[str, Any], step: int
) -> dict[str, Any]:
    scrape = seconds(case.get("scrape", step))
    end = max(map(seconds, case["expect"])) + scrape
    exporters = [
        Exporter.of(each, file.get("names", {})) for written in case["exporters"] for each in replicas(written)
    ]
    labels = {**file.get("labels", {}), **case.get("labels", {})}
    pages = read_pages(file, case) if "page_at" in case else {}
    return {
        "name": f"{page}: {name}",
        "interval": f"{scrape}s",
        "external_labels": case.get("external_labels", {}),
        "external_url": "http://prometheus:9090",
        "input_series": [series for exporter in exporters for series in exporter.series(end, scrape)],
        "promql_expr_test": [
            {
                "expr": f'ALERTS{{reason="{reason_of(page)}", alertstate="firing"}}',
                "eval_time": time,
                "exp_samples": [
                    {"labels": _firing(page, alerts[severity], severity, each), "value": 1}
                    for severity in severities(expected)
                    for each in case.get("each", [labels])
                ],
            }
            for time, expected in case["expect"].items()
        ],
        "alert_rule_test": [
            {
                "eval_time": case["page_at"],
                "alertname": alert,
                "exp_alerts": [
                    _page(
                        page, severity, {**pages[severity], **case.get("annotations", {})}, case.get("page", {}), labels
                    )
                    for severity in pages
                    if alerts[severity] == alert
                ],
            }
            for alert in sorted(set(alerts.values()))
        ]
        if "page_at" in case
        else [],
    }


def read_pages(file: Mapping[str, Any], case: Mapping[str, Any]) -> dict[str, Any]:
    """The pages that are read in a case, by severity: of those that fire then."""
    firing = severities(case["expect"].get(case["page_at"], list(file["pages"])))
    return {severity: file["pages"][severity] for severity in firing}


def severities(expected: str | list[str]) -> list[str]:
    if expected == "quiet":
        return []
    return [expected] if isinstance(expected, str) else expected


def reason_of(page: str) -> str:
    """The label by which an alert leads to its runbook."""
    return page.removeprefix("KafkaTransaction")


def _firing(page: str, alert: str, severity: str, labels: Mapping[str, str]) -> str:
    all_labels = {
        "alertname": alert,
        "alertstate": "firing",
        "severity": severity,
        "reason": reason_of(page),
        "component": _component(page),
        **labels,
    }
    return "ALERTS{" + ", ".join(f'{name}="{value}"' for name, value in all_labels.items()) + "}"


def _page(
    page: str, severity: str, annotations: Mapping[str, str], words: Mapping[str, str], labels: Mapping[str, str]
) -> dict[str, Any]:
    """One of the file's pages, each word in `words` replaced by its own."""
    return {
        "exp_labels": {"severity": severity, "reason": reason_of(page), "component": _component(page), **labels},
        "exp_annotations": {
            **{
                name: functools.reduce(lambda text, word: text.replace(*word), words.items(), annotation)
                for name, annotation in annotations.items()
            },
            "runbook_url": f"RUNBOOKS/{page}.md",
        },
    }


def _component(page: str) -> str:
    """Which team's business it is: the exporter itself, or transactions."""
    own = page.startswith("KafkaTransactionExporter") or page == "KafkaTransactionWatchdog"
    return "kafka-transaction-exporter" if own else "kafka-transactions"


def _interval(written: list[str] | None, *, default: Interval) -> Interval:
    if written is None:
        return default
    begin, *end = map(seconds, written)
    return begin, end[0] if end else FOR_EVER


def _within(second: int, interval: Interval) -> bool:
    return interval[0] <= second < interval[1]


def _written(values: list[float | None]) -> str:
    """Values in promtool's notation; where a series ends, as Prometheus marks it."""
    marks = []
    for before, value in zip([None, *values], values, strict=False):
        if value is None:
            marks.append("_" if before is None else "stale")
        else:
            marks.append(f"{value:.15g}")
    return " ".join(marks)
