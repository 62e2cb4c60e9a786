"""Takes the steps of operators' commands from audit logs into the table `operator_steps`. It needs no Spark."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, Final

from exporter.incidents.operator_steps import instant_of, parsed_step, transactions_of
from exporter.primitives import INT32_MAX, INT64_MAX

TEXT_MAX: Final = 1_000
"""Characters of a text of a foreign file that are kept."""
_RESULTS: Final = ("sentence", "error", "outcome")
"""Fields with the reason or the response, the one with most words first."""


def steps_in(lines: Iterable[str], *, since_ms: int, until_ms: int) -> Iterator[dict[str, Any]]:
    """Yields a row of `OPERATOR_STEPS` for each step and transaction; a damaged line, or one of another time, has none."""
    for line in lines:
        step = parsed_step(line)
        at_ms = None if step is None else instant_of(step)
        if step is None or at_ms is None or not since_ms <= at_ms <= until_ms:
            continue
        digest = hashlib.sha256(line.strip().encode("utf-8", "surrogatepass")).hexdigest()[:32]
        for number, facts in enumerate(transactions_of(step)):
            about = {**_described(step), **step, **facts}
            yield {
                "step_id": f"{digest}-{number}",
                "written_at": datetime.fromtimestamp(at_ms / 1000, timezone.utc),
                "who": _text(step.get("who")),
                "cluster_id": _text(about.get("cluster_id")) or None,
                "step": _text(step.get("step")),
                "action": _text(about.get("action")),
                "topic": _text(about.get("topic")),
                "partition": _integer(about.get("partition"), INT32_MAX),
                "producer_id": _integer(about.get("producer_id"), INT64_MAX),
                "start_offset": _integer(about.get("start_offset"), INT64_MAX),
                "topic_id": _text(about.get("topic_id")) or None,
                "transactional_id": _text(about.get("transactional_id")),
                "result": next(filter(None, (_text(step.get(name)) for name in _RESULTS)), None),
            }


def _described(step: Mapping[str, Any]) -> Mapping[str, Any]:
    """The transaction that a plan of `force-terminate` names."""
    transaction = step.get("transaction")
    return transaction if isinstance(transaction, dict) else {}


def _text(value: object) -> str | None:
    return value[:TEXT_MAX].encode("utf-8", "replace").decode() if isinstance(value, str) else None


def _integer(value: object, most: int) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most else None
