"""Formats instants (UTC) and consumer groups for the status page and the command line."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from exporter.evaluation.blocked import is_assumed
from exporter.evaluation.humanize import humanize_count, humanize_duration
from exporter.evaluation.verdicts import TransactionRow, WaitingGroup

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def humanize_instant(instant_ms: int) -> str:
    """`2027-01-15 08:00:00 UTC`; an instant beyond the calendar (client clocks can be anything) as milliseconds."""
    try:
        return (_EPOCH + timedelta(milliseconds=instant_ms)).strftime("%Y-%m-%d %H:%M:%S UTC")
    except OverflowError:
        return f"{instant_ms} ms"


def humanize_id(transactional_id: str | None, *, is_shown: bool) -> str:
    """Returns the id; else that it is not known, or that ids are not shown (`publish.transactional_ids`)."""
    return transactional_id or ("unknown" if is_shown else "not shown here")


def humanize_groups(row: TransactionRow, now_ms: int | None = None) -> list[str]:
    """`invoices (seen blocked for 2 min 0 s, lag 10 offsets)`; markers and the transaction's own records have offsets, too.

    Without `now_ms`, as in a command, it is `blocked`: a command knows only since when it has itself looked.
    """
    return [_group(group, now_ms, is_assumed=is_assumed(row, group)) for group in row.groups]


def _group(group: WaitingGroup, now_ms: int | None, *, is_assumed: bool) -> str:
    words = []
    if group.blocked_since_ms is not None:
        blocked_ms = 0 if now_ms is None else now_ms - group.blocked_since_ms
        seen = f"seen blocked for {humanize_duration(blocked_ms)}" if blocked_ms > 0 else "blocked"
        words.append(f"{seen} if the offset before it is an end marker" if is_assumed else seen)
    if group.waiting_records is not None:
        words.append(f"lag {humanize_count(group.waiting_records, 'offset')}")
    return f"{group.group} ({', '.join(words)})" if words else group.group
