"""Finds the value of each declared field: a row of the table of open transactions, or a column of the examined ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from exporter.evaluation.evidence import Evidence
from exporter.evaluation.outcome import outcome_of
from exporter.evaluation.owner import ends_at_ms, owner_state
from exporter.evaluation.reasons import outcome_seen, sentence, waiting_groups
from exporter.evaluation.rules import missing_proof
from exporter.evaluation.verdicts import Evaluation, InconclusiveReason, StartSource, TransactionRow, Verdict
from exporter.snapshot import NULL, UNKNOWN_OFFSET, CoordinatorTransaction

Value = Callable[[Evaluation, int], Any]


def transaction_row(evaluation: Evaluation, row: int) -> TransactionRow:
    """Returns the row of an examined transaction, with all its fields."""
    evidence = evaluation.evidence[row]
    return TransactionRow(
        **{name: value(evidence) for name, value in _OF_EVIDENCE.items()},
        **{name: value(evaluation, row) for name, value in _OF_ROW.items()},
    )


def column(evaluation: Evaluation, name: str) -> Sequence[Any]:
    """(K,) the values of a field for all examined transactions."""
    if name in _COLUMNS:
        values: Sequence[Any] = _COLUMNS[name](evaluation)
        return values
    if name in _OF_EVIDENCE:
        return list(map(_OF_EVIDENCE[name], evaluation.evidence))
    return [_OF_ROW[name](evaluation, row) for row in range(evaluation.examined_count)]


def _missing(evaluation: Evaluation, row: int) -> InconclusiveReason | None:
    if _verdict(evaluation, row) is not Verdict.INCONCLUSIVE:
        return None
    return missing_proof(evaluation.evidence[row], evaluation.policy)


def _verdict(evaluation: Evaluation, row: int) -> Verdict:
    return Verdict.ranked(int(evaluation.transactions.verdict[row]))


def _lag(evaluation: Evaluation, row: int) -> int | None:
    partition_row = evaluation.snapshot.open_transactions.partition_row[row]
    lag = int(evaluation.partitions.last_stable_offset_lag[partition_row])
    return None if lag < 0 else lag


def _held_bytes(evaluation: Evaluation, row: int) -> int | None:
    held = evaluation.held.get(evaluation.evidence[row].key[:2])
    return None if held is None or not evaluation.snapshot.open_transactions.holds_back[row] else held.bytes


def _groups(evaluation: Evaluation, row: int) -> Any:
    """Returns the groups behind a transaction; it blocks none of them while another one holds the last stable offset.

    One that was seen there for the first time may only pass by.
    """
    open_ = evaluation.snapshot.open_transactions
    stable, high_watermark = int(open_.last_stable_offset[row]), int(open_.high_watermark[row])
    groups = waiting_groups(evaluation.snapshot, evaluation.evidence[row], high_watermark, evaluation.memory)
    # The first records of a long one may be deleted: it holds the last stable offset behind its start.
    is_behind_another = UNKNOWN_OFFSET < stable < int(open_.current_txn_start_offset[row])
    blocked = evaluation.blocked_at.get(evaluation.evidence[row].key[:2], ())
    return tuple(
        replace(group, blocked_since_ms=None) if is_behind_another or group.group not in blocked else group
        for group in groups
    )


def _usual_silence_ms(evaluation: Evaluation, row: int) -> int | None:
    return evaluation.memory.silences.usual_ms(evaluation.evidence[row].transactional_id)


def _reason(evaluation: Evaluation, row: int) -> str:
    return sentence(evaluation.evidence[row], _verdict(evaluation, row), _missing(evaluation, row))


def _of_coordinator(value: Callable[[CoordinatorTransaction], Any]) -> Callable[[Evidence], Any]:
    return lambda evidence: None if evidence.transaction is None else value(evidence.transaction)


def _of_leader(name: str) -> Value:
    return lambda evaluation, row: int(getattr(evaluation.snapshot.open_transactions, name)[row])


def _number(name: str) -> Value:
    return lambda evaluation, row: int(getattr(evaluation.transactions, name)[row])


_OF_EVIDENCE: Final[Mapping[str, Callable[[Evidence], Any]]] = {
    "topic": lambda evidence: evidence.key.topic,
    "partition": lambda evidence: evidence.key.partition,
    "topic_id": lambda evidence: evidence.key.topic_id,
    "producer_id": lambda evidence: evidence.key.producer_id,
    "producer_epoch": lambda evidence: evidence.producer_epoch,
    "start_offset": lambda evidence: evidence.key.start_offset,
    "transactional_id": lambda evidence: evidence.transactional_id,
    "coordinator": _of_coordinator(lambda transaction: transaction.coordinator),
    "coordinator_state": _of_coordinator(lambda transaction: transaction.state.value),
    "coordinator_producer_epoch": _of_coordinator(lambda of: of.producer_epoch if of.is_described else None),
    "timeout_ms": _of_coordinator(lambda of: of.timeout_ms if of.is_described else None),
    "outcome_evidence": outcome_of,
    "outcome_seen": outcome_seen,
    "outcome_unsearched": lambda evidence: evidence.unsearched,
    "takes_new_ids": lambda evidence: evidence.logged is not None and evidence.logged.takes_new_ids,
}
_OF_ROW: Final[Mapping[str, Value]] = {
    "coordinator_epoch": _of_leader("coordinator_epoch"),
    "last_sequence": _of_leader("last_sequence"),
    "last_timestamp_ms": _of_leader("last_timestamp"),
    "start_ms": _number("start_ms"),
    "start_source": lambda evaluation, row: StartSource(int(evaluation.transactions.start_source[row])),
    "duration_ms": _number("duration_ms"),
    "idle_ms": lambda evaluation, row: _known(evaluation.transactions.idle_ms[row]),
    "silent_ms": lambda evaluation, row: (
        _known(evaluation.transactions.silent_ms[row]) if evaluation.evidence[row].was_seen_before else None
    ),
    "owner": lambda evaluation, row: owner_state(
        evaluation.evidence[row],
        _verdict(evaluation, row),
        evaluation.policy,
        int(evaluation.transactions.silent_ms[row]),
        is_usual=None if evaluation.usual[row] is None else not evaluation.transactions.is_unusually_long[row],
        silences=evaluation.memory.silences,
    ),
    "usual_silence_ms": _usual_silence_ms,
    "ends_at_ms": lambda evaluation, row: ends_at_ms(evaluation.evidence[row], _verdict(evaluation, row)),
    "is_late": lambda evaluation, row: bool(evaluation.transactions.is_late[row]),
    "unusual": lambda evaluation, row: (
        evaluation.usual[row] if evaluation.transactions.is_unusually_long[row] else None
    ),
    "last_stable_offset_lag": _lag,
    "held_bytes": _held_bytes,
    "groups": _groups,
    "verdict": _verdict,
    "inconclusive_reason": _missing,
    "reason": _reason,
}
FOUND: Final = frozenset({*_OF_EVIDENCE, *_OF_ROW})
"""Fields whose value is found here."""


def _known(number: Any) -> int | None:
    return None if number == NULL else int(number)


_SOURCES: Final = tuple(StartSource)


def _topics(evaluation: Evaluation) -> Any:
    partitions, rows = evaluation.snapshot.partitions, _partition_rows(evaluation)
    return [partitions.topics[topic] for topic in partitions.topic[rows].tolist()]


def _partition_rows(evaluation: Evaluation) -> Any:
    return evaluation.snapshot.open_transactions.partition_row[: evaluation.examined_count]


def _lags(evaluation: Evaluation) -> Any:
    lags = evaluation.partitions.last_stable_offset_lag[_partition_rows(evaluation)]
    return [None if lag < 0 else lag for lag in lags.tolist()]


def _leaders_column(name: str) -> Callable[[Evaluation], Any]:
    return lambda of: getattr(of.snapshot.open_transactions, name)[: of.examined_count]


def _evaluated_column(name: str) -> Callable[[Evaluation], Any]:
    return lambda of: getattr(of.transactions, name)[: of.examined_count]


_COLUMNS: Final[Mapping[str, Callable[[Evaluation], Any]]] = {
    "topic": _topics,
    "partition": lambda of: of.snapshot.partitions.partition[_partition_rows(of)],
    "producer_id": _leaders_column("producer_id"),
    "producer_epoch": _leaders_column("producer_epoch"),
    "coordinator_epoch": _leaders_column("coordinator_epoch"),
    "start_offset": _leaders_column("current_txn_start_offset"),
    "last_sequence": _leaders_column("last_sequence"),
    "last_timestamp_ms": _leaders_column("last_timestamp"),
    "start_ms": _evaluated_column("start_ms"),
    "start_source": lambda of: [_SOURCES[source] for source in _evaluated_column("start_source")(of).tolist()],
    "duration_ms": _evaluated_column("duration_ms"),
    "idle_ms": lambda of: list(map(_known, _evaluated_column("idle_ms")(of).tolist())),
    "is_late": _evaluated_column("is_late"),
    "verdict": lambda of: [Verdict.ranked(rank) for rank in _evaluated_column("verdict")(of).tolist()],
    "last_stable_offset_lag": _lags,
}
"""Values that are in columns already: a cycle with 50,000 transactions records them without an object for each."""
