"""The response of a Prometheus becomes a finding; another server is named."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any

import pytest

from exporter.doctor.findings import FindingLevel
from exporter.doctor.prometheus import prometheus_findings
from tests.http.endpoints import ENDLESS, STRANGE
from tests.kafka.loopback import HOST, Listener

ALERT: Mapping[str, Any] = {
    "type": "alerting",
    "name": "KafkaTransactionHanging",
    "query": 'transaction:kafka_suspects:age{topic=~"a:b.*"} > 0 and max_over_time(cluster:is:fresh[5m:1m]) > 0',
}
SIGNALS: tuple[Mapping[str, Any], ...] = (
    {"type": "recording", "name": "transaction:kafka_suspects:age", "query": "x"},
    {"type": "recording", "name": "cluster:is:fresh", "query": "y"},
)
OTHER: Mapping[str, Any] = {"type": "alerting", "name": "Other", "query": "a:b:c > 0", "health": "err"}


def rules(*all_of_them: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"groups": [{"rules": [OTHER]}, {"rules": list(all_of_them)}]}


HEALTHY: Mapping[str, Any] = {
    "query": {"result": [{"metric": {}, "value": [1.0, "12.5"]}]},
    "rules": rules(ALERT, *SIGNALS),
    "alertmanagers": {"activeAlertmanagers": [{"url": "http://alertmanager/api/v2/alerts"}]},
}


def prometheus(answers: Mapping[str, Any], status: str = "200 OK") -> Listener:
    """Responds to each path, by its last word, as `answers` has it; only a Prometheus has the path of Alertmanagers."""

    def talk(connection: socket.socket) -> None:
        path = connection.recv(65536).split(b" ")[1].decode().partition("?")[0]
        name = path.rpartition("/")[2]
        is_there = name in answers or name != "alertmanagers"
        body = answers.get(name, {})
        text = body if isinstance(body, str) else json.dumps({"status": "success", "data": body})
        head = f"HTTP/1.1 {status if is_there else '404 Not Found'}\r\nContent-Length: {len(text)}"
        connection.sendall(f"{head}\r\nConnection: close\r\n\r\n{text}".encode())

    return Listener(talk)


def found(answers: Mapping[str, Any], status: str = "200 OK") -> list[tuple[FindingLevel, str]]:
    with prometheus(answers, status) as listener:
        return [(each.level, each.result) for each in prometheus_findings(f"http://{HOST}:{listener.port}", "cluster")]


def test_a_prometheus_that_scrapes_and_alerts_is_ok() -> None:
    """The age of the snapshot that it has, and how many of the exporter's alerts."""
    assert found(HEALTHY) == [
        (FindingLevel.OK, "it has a snapshot that is 12 s old"),
        (FindingLevel.OK, "it has 1 alert of the exporter"),
    ]


@pytest.mark.parametrize(
    ("answers", "result"),
    [
        ({**HEALTHY, "query": {"result": []}}, "it has no series of an exporter of cluster cluster"),
        (
            {**HEALTHY, "query": {"result": [{"value": [1.0, "4000"]}]}},
            "the newest snapshot that it has is 1 h 6 min old",
        ),
        ({**HEALTHY, "rules": {"groups": []}}, "it has no alert KafkaTransactionHanging"),
        (
            {**HEALTHY, "rules": rules(ALERT, SIGNALS[0])},
            "it has 1 alert of the exporter, but not 1 recording rule that they need",
        ),
        (
            {
                **HEALTHY,
                "rules": rules(ALERT, SIGNALS[0], {**SIGNALS[1], "health": "err", "lastError": "many-to-many"}),
            },
            "1 rule of the exporter cannot be evaluated: many-to-many",
        ),
        ({**HEALTHY, "alertmanagers": {"activeAlertmanagers": []}}, "it has no Alertmanager"),
    ],
)
def test_what_keeps_an_alert_from_an_operator_is_missing(answers: Mapping[str, Any], result: str) -> None:
    """It lacks a target, a new snapshot, rules, the signals of its alerts, a rule that works, or an Alertmanager."""
    assert (FindingLevel.MISSING, result) in found(answers)


def test_a_ruler_without_the_path_of_alertmanagers_is_no_finding() -> None:
    """Mimir and Thanos have rules and queries, and this path not all of them."""
    without = {name: answer for name, answer in HEALTHY.items() if name != "alertmanagers"}

    assert [level for level, _ in found(without)] == [FindingLevel.OK, FindingLevel.OK]


@pytest.mark.parametrize(
    ("answers", "status", "words"),
    [
        ({}, "404 Not Found", "responded with 404 Not Found"),
        ({"query": "<html>"}, "200 OK", "cannot be queried"),
        ({"query": "[]"}, "200 OK", "is not the address of a Prometheus"),
        ({"query": '{"data": {"result": [{"value": "x"}]}}'}, "200 OK", "is not the address of a Prometheus"),
    ],
)
def test_another_server_is_named(answers: Mapping[str, Any], status: str, words: str) -> None:
    """One finding with the address, and no exception."""
    ((level, result),) = found(answers, status)

    assert level is FindingLevel.MISSING
    assert words in result
    assert result.startswith(f"http://{HOST}:")


def test_an_address_without_a_server_is_named() -> None:
    """The reason is the system's own."""
    with prometheus(HEALTHY) as listener:
        url = f"http://{HOST}:{listener.port}"
    ((level, result),) = [(finding.level, finding.result) for finding in prometheus_findings(url, "cluster")]

    assert level is FindingLevel.MISSING
    assert "Connection refused" in result


@pytest.mark.parametrize("way", STRANGE)
def test_a_port_of_another_program_is_a_finding(way: str) -> None:
    """No traceback, whatever it sends."""
    talk, words = STRANGE[way]
    with Listener(talk) as listener:
        ((finding),) = prometheus_findings(f"http://{HOST}:{listener.port}", "cluster")
    assert words in finding.result


def test_a_response_that_drips_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with the total time."""
    monkeypatch.setattr("exporter.doctor.prometheus.TIMEOUT_S", 0.3)
    with Listener(ENDLESS["a body that drips"]) as listener:
        ((finding),) = prometheus_findings(f"http://{HOST}:{listener.port}", "cluster")
    assert "timed out" in finding.result
