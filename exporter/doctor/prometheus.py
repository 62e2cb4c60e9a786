"""Checks what Prometheus knows of the exporter of a cluster, by its HTTP API."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any, Final

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
_RULE: Final = "KafkaTransactionHanging"


def prometheus_findings(url: str | None, cluster_id: str | None) -> Iterator[Finding]:
    """Yields findings about the series of this cluster and the rules in Prometheus; nothing without a URL."""
    if url is None:
        return
    try:
        if cluster_id is not None:
            yield _of_snapshot(url, cluster_id)
        yield _of_rules(url)
    except HttpError as error:
        yield _unknown(f"{url} cannot be queried: {error}")
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        yield _unknown(f"{url} is not the address of a Prometheus")


def _unknown(result: str) -> Finding:
    return Finding(check=CHECK, level=FindingLevel.MISSING, result=result, consequence="whether alerts work is unknown")


def _of_snapshot(url: str, cluster_id: str) -> Finding:
    query = f"time() - max({_OF_CLUSTER}{{cluster_id={json.dumps(cluster_id)}}})"
    results = _get(url, "/api/v1/query", query=query).get("result", [])
    if not results:
        return Finding(
            check=CHECK,
            level=FindingLevel.MISSING,
            result=f"it has no series of an exporter of cluster {cluster_id}",
            consequence="no alert can fire",
            advice="add the exporter to its scrape configuration, and look at Status > Targets",
        )
    age_ms = int(float(results[0]["value"][1]) * 1000)
    if age_ms > AGE_MAX_MS:
        return Finding(
            check=CHECK,
            level=FindingLevel.MISSING,
            result=f"the newest snapshot that it has is {humanize_duration(age_ms)} old",
            consequence="alerts are that late",
        )
    return ok(CHECK, f"it has a snapshot that is {humanize_duration(max(age_ms, 0))} old")


def _of_rules(url: str) -> Finding:
    groups = _get(url, "/api/v1/rules", type="alert").get("groups", [])
    names = {rule.get("name") for group in groups for rule in group.get("rules", [])}
    if _RULE not in names:
        return Finding(
            check=CHECK,
            level=FindingLevel.MISSING,
            result=f"it has no alert {_RULE}",
            consequence="no alert fires for a hang",
            advice="load alerts/alerts.yaml and alerts/recording.yaml, or install the chart with rules enabled",
        )
    own = sum(str(name).startswith(("KafkaTransaction", "KafkaPartitions")) for name in names)
    return ok(CHECK, f"it has {humanize_count(own, 'alert')} of the exporter")


def _get(url: str, path: str, **parameters: str) -> Mapping[str, Any]:
    """The field `data` of a response. Raises HttpError, and anything for a response of another form."""
    full = f"{url.rstrip('/')}{path}?{urllib.parse.urlencode(parameters)}"
    data: Mapping[str, Any] = Exchange(full, bytes_max=BYTES_MAX).wait(TIMEOUT_S)["data"]
    return data
