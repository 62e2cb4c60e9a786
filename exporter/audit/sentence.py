"""Says in a few lines what a run of the audit has found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from exporter.audit.verdicts import ACCUSATIONS, AuditVerdict
from exporter.evaluation.humanize import humanize_count, humanize_names

if TYPE_CHECKING:
    from exporter.audit.job import AuditResult

_NAMED = 5
"""Reasons why something could not be read that are shown, and names of each."""


def sentence_of(result: AuditResult) -> Iterator[str]:
    """The lines: what was audited, what contradicts, what is unknown, what waits, and what was not read."""
    yield f"{_audited(result)}: {_verdict(result)}."
    yield from (f"  {example}" for example in result.examples)
    found = result.findings.total()
    if found > len(result.examples):
        yield f"  and {found - len(result.examples):,} more, in audit_transactions"
    if result.findings[AuditVerdict.MARKER_WITHOUT_DECISION]:
        yield "A marker without a decision is what each `abort` leaves; nothing else should."
    if unknown := result.transactions[AuditVerdict.UNKNOWN]:
        yield f"{unknown:,} of them unknown, because evidence is missing: audit_transactions has the reasons."
    if result.waiting:
        lacks = f"transaction_log lacks the newest {humanize_count(result.log_behind, 'record')}"
        behind = f" ({lacks}: `pipeline transaction-log` reads them)" if result.log_behind else ""
        waiting = humanize_count(result.waiting, "transaction")
        yield f"{waiting} on single partitions: open, or still without a decision{behind}."
    if result.copies or result.copies_unread:
        yield f"{humanize_count(result.copies, 'replica')} compared with their leaders{_not_compared(result)}."
    if result.unread:
        failures = {f"{topic}-{number}": why for (topic, number), why in sorted(result.unread.items())}
        yield f"{humanize_count(len(failures), 'partition')} not read: {_by_reason(failures)}."


def _not_compared(result: AuditResult) -> str:
    unread = sorted(result.copies_unread.items())
    failures = {f"{topic}-{number} on broker {broker}": why for (topic, number, broker), why in unread}
    return f"; not compared: {_by_reason(failures)}" if failures else ""


def _by_reason(failures: Mapping[str, str]) -> str:
    """Names what was not read, with each reason once."""
    names: dict[str, list[str]] = defaultdict(list)
    for name, why in failures.items():
        names[why].append(name)
    reasons = [f"{humanize_names(some, shown_max=_NAMED)} ({why})" for why, some in names.items()]
    return humanize_names(reasons, shown_max=_NAMED)


def _audited(result: AuditResult) -> str:
    return (
        f"{humanize_count(result.transactions.total(), 'transaction')} audited on "
        f"{humanize_count(result.partitions, 'partition')} ({humanize_count(result.read_bytes, 'byte')} read)"
    )


def _verdict(result: AuditResult) -> str:
    accused = sum(result.transactions[verdict] for verdict in ACCUSATIONS)
    others = result.findings.total()
    if accused:
        return f"{accused:,} not as decided"
    unknown = result.transactions[AuditVerdict.UNKNOWN]
    if others:
        nothing_new = "no new decision is a minute old"
        each = "each new decision was carried out" if result.transactions else nothing_new
        return f"{each}{' or is unknown' if unknown else ''}, but {humanize_count(others, 'finding')} beside them"
    if not result.transactions:
        return "no new decision is a minute old, so nothing was compared"
    return "all as decided" + (", but for unknown ones" if unknown else "")
