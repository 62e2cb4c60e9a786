"""Makes cycles and writes them as a history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from exporter.config.settings import HistorySettings
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, Policy
from exporter.history.writer import History
from tests.evaluation.builders import NOW_MS, Entry, snapshot, transaction

DAY_MS = 24 * 60 * 60 * 1000
OPEN = 20


def settings(directory: Path | str, **changes: Any) -> HistorySettings:
    usual: dict[str, Any] = {
        "directory": str(directory),
        "rotate_interval_ms": 3_600_000,
        "retention_age_ms": 30 * DAY_MS,
        "retention_bytes": 10**9,
    }
    return HistorySettings(**{**usual, **changes})


def history(directory: Path, *, now_ms: int = NOW_MS, **changes: Any) -> History:
    return History(settings(directory, **changes), wall_clock=lambda: now_ms / 1000, writer="writer-1")


def cycle(at_ms: int = NOW_MS, *, open_transactions: int = 1, cluster_id: str = "cluster-1") -> Evaluation:
    entries = [Entry(producer_id=7 + number) for number in range(open_transactions)]
    transactions = tuple(transaction(producer_id=7 + number) for number in range(open_transactions))
    return evaluate(
        snapshot(entries, transactions=transactions, taken_at_ms=at_ms, cluster_id=cluster_id), Memory(), Policy()
    )
