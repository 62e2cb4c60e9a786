"""Checks what Prometheus knows of the exporter of a cluster, by its HTTP API."""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from exporter import PROGRAM
from exporter.doctor.findings import Finding, FindingLevel, ok
from exporter.evaluation.humanize import humanize_count, humanize_duration
from exporter.http.request import Exchange, HttpError
from exporter.publication.metrics.coverage import CLUSTER_INFO
from exporter.publication.metrics.exporter import SNAPSHOT_TIMESTAMP

CHECK: Final = "Prometheus"
TIMEOUT_S: Final = 10.0
BYTES_MAX: Final = 64 * 1024 * 1024
AGE_MAX_MS: Final = 5 * 60_000
_OF_CLUSTER: Final = f"{SNAPSHOT_TIMESTAMP} and on(job, instance, cluster) {CLUSTER_INFO}"
_OWN: Final = "KafkaTransaction"
_RULE: Final = f"{_OWN}Hanging"
_QUOTED: Final = re.compile(r"\"(?:[^\"\\]|\\.)*\"")
_SIGNAL: Final = re.compile(r"\b[a-zA-Z_]\w*:\w[\w:]*")
"""The name of a recording rule: only these have colons in PromQL, outside of texts and of `[1h:1m]`."""
_LOAD_ALL: Final = f"load all rules that `{PROGRAM} rules` prints, or set the chart's prometheusRule.enabled"


def prometheus_findings(url: str | None, cluster_id: str | None) -> Iterator[Finding]:
    """Yields findings about the series of this cluster and the rules in Prometheus; nothing without a URL."""
    if url is None:
        return
    try:
        if cluster_id is not None:
            yield _of_snapshot(url, cluster_id)
        yield from _of_rules(url)
        yield from _of_alertmanagers(url)
    except HttpError as error:
        yield _unknown(f"{url} cannot be queried: {error}")
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        yield _unknown(f"{url} is not the address of a Prometheus")


def _unknown(result: str) -> Finding:
    return _missing(result, "whether alerts work is unknown")


def _missing(result: str, consequence: str, advice: str = "") -> Finding:
    level = FindingLevel.MISSING
    return Finding(check=CHECK, level=level, result=result, consequence=consequence, advice=advice)


def _of_snapshot(url: str, cluster_id: str) -> Finding:
    query = f"time() - max({_OF_CLUSTER}{{cluster_id={json.dumps(cluster_id)}}})"
    results = _get(url, "/api/v1/query", query=query).get("result", [])
    if not results:
        return _missing(
            f"it has no series of an exporter of cluster {cluster_id}",
            "no alert can fire",
            "add the exporter to its scrape configuration, and look at Status > Targets",
        )
    age_ms = int(float(results[0]["value"][1]) * 1000)
    if age_ms > AGE_MAX_MS:
        return _missing(
            f"the newest snapshot that it has is {humanize_duration(age_ms)} old",
            "alerts are that late",
        )
    return ok(CHECK, f"it has a snapshot that is {humanize_duration(max(age_ms, 0))} old")


def _of_rules(url: str) -> Iterator[Finding]:
    groups = _get(url, "/api/v1/rules").get("groups", [])
    rules = [rule for group in groups for rule in group.get("rules", [])]
    alerts = [rule for rule in rules if rule.get("type") == "alerting" and str(rule.get("name")).startswith(_OWN)]
    if not any(alert["name"] == _RULE for alert in alerts):
        yield _missing(
            f"it has no alert {_RULE}",
            "no alert fires for a hang",
            _LOAD_ALL,
        )
        return
    signals = {name for alert in alerts for name in _SIGNAL.findall(_QUOTED.sub("", str(alert.get("query"))))}
    absent = signals - {str(rule.get("name")) for rule in rules}
    if absent:
        yield _missing(
            f"{_alerts(alerts)}, but not {humanize_count(len(absent), 'recording rule')} that they need",
            "alerts do not fire",
            _LOAD_ALL,
        )
    failing = [rule for rule in rules if rule.get("health") == "err" and (rule in alerts or rule["name"] in signals)]
    if failing:
        why = failing[0].get("lastError")
        yield _missing(
            f"{humanize_count(len(failing), 'rule')} of the exporter cannot be evaluated: {why}",
            "alerts do not fire",
            "look at Status > Rule health",
        )
    if not absent and not failing:
        yield ok(CHECK, _alerts(alerts))


def _alerts(alerts: Sequence[Any]) -> str:
    own = len({alert["name"] for alert in alerts})
    return f"it has {humanize_count(own, 'alert')} of the exporter"


def _of_alertmanagers(url: str) -> Iterator[Finding]:
    """Yields a finding if a Prometheus sends its alerts nowhere; other servers with its rules do not have this path."""
    try:
        active = _get(url, "/api/v1/alertmanagers").get("activeAlertmanagers")
    except HttpError as error:
        if error.status is None:
            raise
        return
    if active == []:
        yield _missing(
            "it has no Alertmanager",
            "its alerts are sent nowhere",
            "name one in its section alerting, and look at Status > Runtime information",
        )


def _get(url: str, path: str, **parameters: str) -> Mapping[str, Any]:
    """The field `data` of a response. Raises HttpError, and anything for a response of another form."""
    full = f"{url.rstrip('/')}{path}?{urllib.parse.urlencode(parameters)}"
    data: Mapping[str, Any] = Exchange(full, bytes_max=BYTES_MAX).wait(TIMEOUT_S)["data"]
    return data
