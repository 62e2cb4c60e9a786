"""Says in a few lines what a run of the audit has found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from exporter.audit.verdicts import ACCUSATIONS, AuditVerdict
from exporter.evaluation.humanize import humanize_count

if TYPE_CHECKING:
    from exporter.audit.job import AuditResult

_NAMED = 5
"""Partitions that are named of those that could not be read."""


def sentence_of(result: AuditResult) -> Iterator[str]:
    """The lines: what was audited, what contradicts, what is unknown, and what was not read."""
    unknown = result.transactions[AuditVerdict.UNKNOWN]
    accused = sum(result.transactions[verdict] for verdict in ACCUSATIONS)
    head = (
        f"{humanize_count(result.transactions.total(), 'transaction')} audited on "
        f"{humanize_count(result.partitions, 'partition')} ({humanize_count(result.read_bytes, 'byte')} read)"
    )
    if accused or result.findings:
        found = humanize_count(result.findings, "finding")
        yield f"{head}: {accused:,} {'is' if accused == 1 else 'are'} not as decided; {found} in audit_transactions."
        yield from (
            f"  {verdict.value}: {result.transactions[verdict]:,}"
            for verdict in AuditVerdict
            if verdict in ACCUSATIONS and result.transactions[verdict]
        )
    else:
        yield f"{head}: all as decided" + (", but for unknown ones." if unknown else ".")
    if unknown:
        yield f"{unknown:,} of them unknown, because evidence is missing: audit_transactions has the reasons."
    if result.unread:
        names = [f"{topic}-{number} ({why})" for (topic, number), why in sorted(result.unread.items())[:_NAMED]]
        more = f" and {len(result.unread) - _NAMED:,} more" if len(result.unread) > _NAMED else ""
        yield f"{humanize_count(len(result.unread), 'partition')} not read: {', '.join(names)}{more}."
