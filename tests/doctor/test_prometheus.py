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

HEALTHY: Mapping[str, Any] = {
    "query": {"result": [{"metric": {}, "value": [1.0, "12.5"]}]},
    "rules": {"groups": [{"rules": [{"name": "KafkaTransactionHanging"}, {"name": "Other"}]}]},
}


def prometheus(answers: Mapping[str, Any], status: str = "200 OK") -> Listener:
    """Responds to each path, by its last word, as `answers` has it."""

    def talk(connection: socket.socket) -> None:
        path = connection.recv(65536).split(b" ")[1].decode().partition("?")[0]
        body = answers.get(path.rpartition("/")[2], {})
        text = body if isinstance(body, str) else json.dumps({"status": "success", "data": body})
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
        connection.sendall((head + text).encode())

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
    ],
)
def test_what_keeps_an_alert_from_firing_is_missing(answers: Mapping[str, Any], result: str) -> None:
    """No target, an old snapshot, no rules."""
    assert (FindingLevel.MISSING, result) in found(answers)


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
