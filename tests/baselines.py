"""Makes baseline documents."""

from __future__ import annotations

import re
from typing import Any

from exporter.baseline import FORMAT
from tests.evaluation.builders import NOW_MS

DAY_MS = 24 * 60 * 60 * 1000
RULES = (("billing", re.compile("billing-.*")), ("all", re.compile(".*")))


def entry(threshold_ms: int | None, **key: str) -> dict[str, Any]:
    return {
        "cluster_id": "cluster-1",
        "samples": 300,
        "p50_ms": 10.5,
        "p95_ms": 90,
        "p99_ms": 120.7,
        "max_ms": 500,
        "idle_p99_ms": 7,
        "threshold_ms": threshold_ms,
        "reason": "three times p99",
        **key,
    }


def document(**changes: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "format": FORMAT,
        "version": 1,
        "cluster_ids": ["cluster-1"],
        "made_at_ms": NOW_MS - DAY_MS,
        "window_ms": 7 * DAY_MS,
        "thresholds": {
            "transactional_ids": [entry(500, transactional_id="app-1"), entry(None, transactional_id="billing-new")],
            "groups": [entry(2000, group="billing")],
            "topics": [entry(30_000, topic="orders"), entry(None, topic="bills")],
        },
    }
    return {**known, **changes}
