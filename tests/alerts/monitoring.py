"""A real Prometheus, a real Alertmanager and a receiver for its notifications, on loopback, ended by their own pids."""

from __future__ import annotations

import json
import shutil
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import yaml

from alerts import FOLDER
from exporter.artifacts.rules import Choices, Group, key_of, rule_groups, rules_of
from hangbench.kafka.ports import free_ports
from hangbench.kafka.process import JavaProcess
from hangbench.waiting import until

HOST: Final = "127.0.0.1"
PATIENCE_S: Final = 120
EXTERNAL_CLUSTER: Final = "east"
Alert = dict[str, Any]
StaticConfig = dict[str, Any]


def quick_durations() -> dict[str, dict[str, str]]:
    """Returns `Choices.durations` with which no alert waits for longer than a second, or stays for longer than five."""
    return {
        key_of(rule): {name: quick for name, quick in (("for", "1s"), ("keep_firing_for", "5s")) if name in rule}
        for rule in rules_of(rule_groups())
        if "alert" in rule
    }


@dataclass(frozen=True, slots=True)
class Notification:
    """One POST of Alertmanager."""

    receiver: str
    received_at: float
    payload: Mapping[str, Any]

    def alerts(self, status: str, **labels: str) -> list[Alert]:
        """Its alerts of this status that have these labels."""
        return [
            alert
            for alert in self.payload["alerts"]
            if alert["status"] == status and labels.items() <= alert["labels"].items()
        ]


class Receiver(ThreadingHTTPServer):
    """Keeps every notification; its path is the receiver's name."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((HOST, 0), _Handler)
        self.notifications: list[Notification] = []

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}"

    def until(self, seen: Callable[[Notification], bool], patience_s: float = PATIENCE_S) -> Notification:
        """The first notification, of those that came and will come, for which `seen` holds."""

        def look() -> Notification | None:
            return next((notification for notification in list(self.notifications) if seen(notification)), None)

        found = until(look, patience_s=patience_s, status=lambda: [each.payload for each in self.notifications])
        assert found is not None
        return found


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.notifications.append(Notification(self.path.strip("/"), time.time(), payload))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the name is the base class's
        """Say nothing."""


@dataclass(slots=True)
class Monitoring:
    """The running pair and the notifications that it sent."""

    prometheus: str
    alertmanager: str
    receiver: Receiver
    logs: list[Path] = field(default_factory=list)

    def query(self, expression: str) -> list[dict[str, str]]:
        """The label sets of an instant query."""
        answer = _get(f"{self.prometheus}/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
        return [sample["metric"] for sample in answer["data"]["result"]]

    def known_alerts(self, **labels: str) -> list[Alert]:
        """Alerts of Alertmanager, muted or not."""
        return [alert for alert in alerts_at(self.alertmanager) if labels.items() <= alert["labels"].items()]

    def post_alert(self, **labels: str) -> None:
        """An alert that another rule would send."""
        post_alerts(self.alertmanager, labels)

    def until_muted(self, **labels: str) -> None:
        """Wait until Alertmanager has such an alert and mutes it because of another."""
        until(
            lambda: [alert for alert in self.known_alerts(**labels) if alert["status"]["inhibitedBy"]],
            patience_s=PATIENCE_S,
            status=self.known_alerts,
        )


def post_alerts(alertmanager: str, *alerts: Mapping[str, str]) -> None:
    """Alerts with these labels, as a Prometheus sends them."""
    body = json.dumps([{"labels": labels, "annotations": {}} for labels in alerts]).encode()
    request = urllib.request.Request(f"{alertmanager}/api/v2/alerts", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S):
        pass


def alerts_at(alertmanager: str) -> list[Alert]:
    """All that it knows, muted or not."""
    known: list[Alert] = _get(f"{alertmanager}/api/v2/alerts")
    return known


@contextmanager
def alerting(configuration: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """An Alertmanager; yields its address."""
    (port,) = free_ports(1)
    (folder / "alertmanager.yaml").write_text(yaml.safe_dump(configuration))
    with ExitStack() as stack:
        _run(
            stack,
            folder,
            f"http://{HOST}:{port}",
            [
                _program("prometheus-alertmanager", "alertmanager"),
                "--config.file=alertmanager.yaml",
                "--storage.path=alertmanager",
                f"--web.listen-address={HOST}:{port}",
                "--cluster.listen-address=",
            ],
        )
        yield f"http://{HOST}:{port}"


@contextmanager
def monitoring(
    exporter: str | Sequence[StaticConfig],
    groups: list[Group],
    folder: Path,
    *,
    scrape_interval: str,
    route: Mapping[str, str],
    mutes: bool = True,
) -> Iterator[Monitoring]:
    """Both programs on these rule groups, scraping `exporter` (host:port, or many targets).

    `route` changes times of every route. Without `mutes` every alert is delivered, also those that the example keeps back.
    """
    targets = [{"targets": [exporter]}] if isinstance(exporter, str) else list(exporter)
    (prometheus_port,) = free_ports(1)
    with ExitStack() as stack:
        receiver = stack.enter_context(_receiving())
        alertmanager = stack.enter_context(alerting(_alertmanager(receiver.url, route, mutes=mutes), folder))
        pair = Monitoring(f"http://{HOST}:{prometheus_port}", alertmanager, receiver)
        (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(_prometheus(targets, alertmanager, scrape_interval)))
        _run(
            stack,
            folder,
            pair.prometheus,
            [
                _program("prometheus"),
                "--config.file=prometheus.yaml",
                "--storage.tsdb.path=prometheus",
                f"--web.listen-address={HOST}:{prometheus_port}",
            ],
        )
        yield pair


def _alertmanager(receiver: str, route: Mapping[str, str], *, mutes: bool) -> dict[str, Any]:
    """The shipped example, with every receiver on this machine and without secrets; if it mutes, `nobody` gets none."""
    shipped: dict[str, Any] = yaml.safe_load((FOLDER / "alertmanager.yaml").read_text())
    for each in (shipped["route"], *shipped["route"]["routes"]):
        each.update({name: value for name, value in route.items() if name in each})
    return {
        "route": shipped["route"],
        "inhibit_rules": shipped["inhibit_rules"] if mutes else [],
        "receivers": [
            {"name": name, **(_webhook(f"{receiver}/{name}") if ways or not mutes else {})}
            for name, *ways in (each.values() for each in shipped["receivers"])
        ],
    }


def _webhook(url: str) -> dict[str, Any]:
    return {"webhook_configs": [{"url": url, "send_resolved": True}]}


def _prometheus(targets: list[StaticConfig], alertmanager: str, scrape_interval: str) -> dict[str, Any]:
    return {
        "global": {
            "scrape_interval": scrape_interval,
            "external_labels": {"cluster": EXTERNAL_CLUSTER},
        },
        "rule_files": ["rules.yaml"],
        "alerting": {
            "alertmanagers": [{"static_configs": [{"targets": [urllib.parse.urlsplit(alertmanager).netloc]}]}]
        },
        "scrape_configs": [{"job_name": "kafka-transaction-exporter", "static_configs": targets}],
    }


def _program(*names: str) -> str:
    found = next((path for path in map(shutil.which, names) if path), None)
    assert found is not None, f"none of {', '.join(names)} is there: run `make tools`"
    return found


def _run(stack: ExitStack, folder: Path, url: str, command: list[str]) -> None:
    """Start a program, end it with the stack, and go on when it is ready."""
    log = folder / f"{Path(command[0]).name}.log"
    process = JavaProcess(command, folder, log)
    stack.callback(process.end)

    def ready() -> bool:
        assert process.exit_code is None, log.read_text()
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=PATIENCE_S) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError):
            return False

    until(ready, patience_s=PATIENCE_S, status=log.read_text)


@contextmanager
def _receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.shutdown()
        receiver.server_close()
        thread.join()


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        return json.load(answer)


def hurried_rules() -> list[Group]:
    """The rules as they are, evaluated every second, and nothing waits or is kept for longer than some seconds."""
    return [{**group, "interval": "1s"} for group in rule_groups(Choices(durations=quick_durations()))]
