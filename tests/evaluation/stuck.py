"""Transactions that are stuck at their coordinator, in a line: everything that a test does not name is as it usually is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.stuck_transaction import StuckTransaction
from exporter.evaluation.verdicts import Evaluation, Policy
from exporter.snapshot import (
    CompletingTransaction,
    Completions,
    CoordinatorTransaction,
    MarkerFinding,
    PendingMarker,
)
from tests.evaluation.builders import MINUTE_MS, MONOTONIC_MS, NOW_MS, snapshot, transaction

BEGAN_MS = NOW_MS - 5 * MINUTE_MS


def marker(
    finding: MarkerFinding = MarkerFinding.AS_DECIDED, partition: int = 0, *, epoch: int = 1000, detail: str = ""
) -> PendingMarker:
    offset = None if finding is MarkerFinding.UNKNOWN else 7
    return PendingMarker(
        topic="orders", partition=partition, finding=finding, offset=offset, coordinator_epoch=epoch, detail=detail
    )


def waiting(*markers: PendingMarker, state: str = "PrepareCommit", **fields: Any) -> CompletingTransaction:
    owned: dict[str, Any] = {"start_ms": BEGAN_MS, **fields}
    known: CoordinatorTransaction = transaction(state, **owned)
    return CompletingTransaction(transaction=known, state_partition=3, coordinator_epoch=5, markers=markers)


def look(lasting: CompletingTransaction, memory: Memory | None = None, *, later_ms: int = 0, **more: Any) -> Evaluation:
    taken = snapshot([], taken_at_ms=NOW_MS + later_ms, monotonic_ms=more.pop("monotonic_ms", MONOTONIC_MS + later_ms))
    completing = Completions(listed=frozenset({lasting.identity}), lasting=(lasting,))
    return evaluate(replace(taken, **{"completing": completing, **more}), memory or Memory(), Policy())


def stuck(*markers: PendingMarker, **fields: Any) -> StuckTransaction:
    first = look(waiting(**fields))
    (found,) = look(waiting(*markers, **fields), first.memory, later_ms=MINUTE_MS + 1).stuck
    return found
