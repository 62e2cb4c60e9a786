"""Says in a few lines what a run of the audit has found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from exporter.audit.verdicts import ACCUSATIONS, AuditVerdict

if TYPE_CHECKING:
    from exporter.audit.job import AuditResult

_NAMED = 5
"""Partitions that are named of those that could not be read."""


def sentence_of(result: AuditResult) -> Iterator[str]:
    """The lines: what was audited, what contradicts, what is unknown, and what was not read."""
    count, unknown = result.transactions.total(), result.transactions[AuditVerdict.UNKNOWN]
    accused = sum(result.transactions[verdict] for verdict in ACCUSATIONS)
    head = f"{count:,} transactions audited on {result.partitions:,} partitions ({result.read_bytes:,} bytes read)"
    if accused or result.findings:
        yield f"{head}: {accused:,} are not as decided; {result.findings:,} findings are in audit_transactions."
        yield from (
            f"  {verdict.value}: {result.transactions[verdict]:,}"
            for verdict in AuditVerdict
            if verdict in ACCUSATIONS and result.transactions[verdict]
        )
    else:
        yield f"{head}: all as decided" + (", but for unknown ones." if unknown else ".")
    if unknown:
        yield f"{unknown:,} are unknown, because their evidence is missing: audit_transactions has the reasons."
    if result.unread:
        names = [f"{topic}-{number} ({why})" for (topic, number), why in sorted(result.unread.items())[:_NAMED]]
        more = f" and {len(result.unread) - _NAMED:,} more" if len(result.unread) > _NAMED else ""
        yield f"{len(result.unread):,} partitions were not read: {', '.join(names)}{more}."
