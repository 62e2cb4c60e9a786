"""Formats durations, instants (UTC), counts and consumer groups for the status page and the command line."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from exporter.evaluation.verdicts import WaitingGroup

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))


def humanize_duration(duration_ms: int) -> str:
    """The two largest units: `3 h 0 min`, `45 s`, `250 ms`."""
    if duration_ms < 1000:  # noqa: PLR2004  # one second
        return f"{duration_ms} ms"
    largest = next(index for index, (_, unit_ms) in enumerate(_UNITS_MS) if duration_ms >= unit_ms)
    words = []
    for name, unit_ms in _UNITS_MS[largest : largest + 2]:
        words.append(f"{duration_ms // unit_ms} {name}")
        duration_ms %= unit_ms
    return " ".join(words)


def humanize_instant(instant_ms: int) -> str:
    """`2027-01-15 08:00:00 UTC`; an instant beyond the calendar (client clocks can be anything) as milliseconds."""
    try:
        return (_EPOCH + timedelta(milliseconds=instant_ms)).strftime("%Y-%m-%d %H:%M:%S UTC")
    except OverflowError:
        return f"{instant_ms} ms"


def humanize_count(count: int, noun: str, plural: str | None = None) -> str:
    """`1 broker`, `2 brokers`, `2,500 partitions`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def humanize_group(group: WaitingGroup, now_ms: int) -> str:
    """`invoices (blocked for 2 min 0 s, 10 records wait)`."""
    words = []
    if group.blocked_since_ms is not None:
        blocked_ms = now_ms - group.blocked_since_ms
        words.append(f"blocked for {humanize_duration(blocked_ms)}" if blocked_ms > 0 else "blocked")
    if group.waiting_records is not None:
        words.append(humanize_count(group.waiting_records, "record waits", "records wait"))
    return f"{group.group} ({', '.join(words)})" if words else group.group
