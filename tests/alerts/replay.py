"""Replays time lines for a real Prometheus: a server on the loopback has their expositions, hurried.

A replay is about one page of one case of `timelines/`. It begins when it is first scraped, reaches `page_at` within 36 s,
and goes on in real time. Times of day move with the clock, so that every age is that of the time line; rates are higher.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from exporter.artifacts.rules import Group, key_of, rule_groups, rules_of
from exporter.publication.metrics.table import METRICS
from tests.alerts.promtool import TIMELINES, timeline_file
from tests.alerts.timeline import UNITS, Exporter, read_pages, replicas, seconds

HOST: Final = "127.0.0.1"
MINUTE_S: Final = 3
"""A minute of a time line passes in so many seconds, and Prometheus scrapes and evaluates once in them.

A busy machine has that long for a hundred scrapes; one that comes late has no samples, and its alerts do not fire.
"""
HURRY: Final = 60 // MINUTE_S
LONGEST_S: Final = 12 * MINUTE_S
"""A time line that would take longer passes more quickly."""
RANGE: Final = re.compile(r"(\[|\boffset )(\d+)([smhd])\b")
OF_PROCESS: Final = {metric.name for metric in METRICS if metric.of.is_of_process}
"""Metrics that do not name a cluster in a fleet."""


def hurried(groups: list[Group]) -> list[Group]:
    """The groups evaluated once in `MINUTE_S`, with ranges and offsets in the replays' own time."""
    return [
        {
            **group,
            "interval": f"{MINUTE_S}s",
            "rules": [{**rule, "expr": _hurried(rule["expr"])} for rule in group["rules"]],
        }
        for group in groups
    ]


def _hurried(expression: str) -> str:
    return RANGE.sub(lambda found: f"{found[1]}{int(found[2]) * UNITS[found[3]] * 1000 // HURRY}ms", expression)


@dataclass(slots=True)
class Replay:
    """A case with a page, by one exporter or several; `cluster` is its name in a fleet, empty where there is none."""

    job: str
    cluster: str
    alerts: frozenset[str]
    """Alerts that fire at `page_at`."""
    exporters: Sequence[Exporter]
    page_at: int
    began_at: float | None = field(default=None)

    def text(self, number: int) -> str:
        """The exposition of an exporter at this moment, empty where it does not respond. The first call begins it."""
        now = time.time()
        self.began_at = self.began_at or now
        second = self._second(now - self.began_at)
        moved = {
            name: value + now - second if name.partition("{")[0].endswith("_timestamp_seconds") else value
            for name, value in self.exporters[number].samples(second).items()
        }
        return "".join(f"{self._named(name)} {value:.15g}\n" for name, value in moved.items())

    def _second(self, since_s: float) -> int:
        """Where the time line is after so many seconds."""
        hurry = max(HURRY, self.page_at / LONGEST_S)
        hurried_s = min(since_s, self.page_at / hurry)
        return int(hurried_s * hurry + since_s - hurried_s)

    def _named(self, series: str) -> str:
        """The series as a fleet publishes it."""
        metric, _, labels = series.partition("{")
        if not self.cluster or metric in OF_PROCESS:
            return series
        return f'{metric}{{cluster="{self.cluster}"{"," if labels else ""}{labels or "}"}'

    def target(self, number: int) -> dict[str, str]:
        """The labels of a target; the replay is a job of its own, so that it has nothing to do with others."""
        own = {**self.exporters[number].target, "job": self.job}
        if self.cluster:
            own.pop("cluster", None)
        return own


def replays(cluster: str = "") -> list[Replay]:
    """Every case with a page; fails for an alert that no case has."""
    found = [replay for path in sorted(TIMELINES.glob("*.yaml")) for replay in _replays_of(path.stem, cluster)]
    alerts = {key_of(rule) for rule in rules_of(rule_groups()) if "alert" in rule}
    missing = alerts - {alert for replay in found for alert in replay.alerts}
    assert not missing, f"no case of tests/alerts/timelines has `page_at` while they fire: {', '.join(sorted(missing))}"
    return found


def _replays_of(page: str, cluster: str) -> Iterator[Replay]:
    file = timeline_file(page)
    for case_name, case in file["cases"].items():
        if "page_at" in case:
            exporters = [
                Exporter.of(each, file.get("names", {})) for written in case["exporters"] for each in replicas(written)
            ]
            yield Replay(
                job=f"{page}: {case_name}{f' of {cluster}' if cluster else ''}",
                cluster=cluster,
                alerts=frozenset(f"{page}.{severity}" for severity in read_pages(file, case)),
                exporters=exporters,
                page_at=seconds(case["page_at"]),
            )


@contextmanager
def replaying(found: Sequence[Replay]) -> Iterator[list[dict[str, Any]]]:
    """Serves replays; yields Prometheus' static_configs."""
    server = _Server(found)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield [
            {
                "targets": [f"{HOST}:{server.server_address[1]}"],
                "labels": {**replay.target(number), "__metrics_path__": f"/{place}/{number}"},
            }
            for place, replay in enumerate(found)
            for number in range(len(replay.exporters))
        ]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, found: Sequence[Replay]) -> None:
        super().__init__((HOST, 0), _Handler)
        self.replays = found


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        place, number = map(int, self.path.strip("/").split("/"))
        body = self.server.replays[place].text(number).encode()
        self.send_response(200 if body else 503)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(ConnectionError):  # Prometheus did not wait for it
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the name is the base class's
        """Say nothing."""
