"""Counts the alarms of a run by family and alert, decides whether the run was quiet, and makes the tables of README.md."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hangbench.report import markdown_table
from tests.verification.noise.plans import HOUR_MS, MINUTE_MS
from tests.verification.noise.rules import Alarm
from tests.verification.noise.workload import FAMILIES, OWNERS, family_of
from tests.verification.noise.world import CYCLE_MS

DOCUMENT: Final = Path(__file__).with_name("README.md")
BEGINNING: Final = "<!-- From here on made by `python -m tests.verification.noise`. -->\n"
PAGE, WARNING, INFO = "critical", "warning", "info"
WARNINGS_A_DAY_MAX: Final = 1
CYCLES_A_DAY: Final = 24 * HOUR_MS // CYCLE_MS
MODES: Final = {"none": "without a baseline file", "all": "with baselines of all ids and topics"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The alarms of one family by one alert."""

    family: str
    """Empty for an alert that is not about a topic."""
    alert: str
    reason: str
    severity: str
    fired: int
    """Number of times that it fired: each is a notification."""
    owners: int
    """Number of partitions about which it fired."""
    only_pending: int
    """Number of times that it was pending and did not fire then."""
    most: int
    """Greatest number of alerts at once, of severity info."""
    first: Alarm
    """The first one that fired, or was pending."""
    minutes: float
    """Mean time for which it fired."""


def rows_of(alarms: Iterable[Alarm]) -> Sequence[Row]:
    """Returns the rows, pages first."""
    by_kind: defaultdict[tuple[str, ...], list[Alarm]] = defaultdict(list)
    for alarm in alarms:
        kind = [alarm["severity"], alarm["alertname"], alarm["reason"], family_of(alarm["topic"])]
        by_kind[tuple(kind)].append(alarm)
    order = [PAGE, WARNING, INFO]
    return [_row(kind, by_kind[kind]) for kind in sorted(by_kind, key=lambda kind: (order.index(kind[0]), *kind[1:]))]


def _row(kind: tuple[str, ...], alarms: Sequence[Alarm]) -> Row:
    severity, alert, reason, family = kind
    fired = [alarm for alarm in alarms if alarm.is_firing]
    starts = {(_subject(alarm), alarm.first) for alarm in fired}
    only_pending = [
        alarm
        for alarm in alarms
        if not alarm.is_firing
        and not any((_subject(alarm), number) in starts for number in range(alarm.last, alarm.last + 3))
    ]
    cycles = sum(alarm.last - alarm.first + 1 for alarm in fired)
    return Row(
        family=family,
        alert=alert,
        reason=reason,
        severity=severity,
        fired=len(fired),
        owners=len({(alarm["topic"], alarm["partition"]) for alarm in fired}),
        only_pending=len(only_pending),
        most=max((int(alarm.most) for alarm in fired), default=0),
        first=min(fired or alarms, key=lambda alarm: alarm.first),
        minutes=cycles * CYCLE_MS / MINUTE_MS / len(fired) if fired else 0,
    )


def _subject(alarm: Alarm) -> tuple[tuple[str, str], ...]:
    """Returns the labels without the state."""
    return tuple(label for label in alarm.labels if label[0] != "alertstate")


def wrong(rows: Iterable[Row], cycles: int) -> Sequence[str]:
    """Says what a cluster in which all is well must not raise: any page, and more than one warning a day."""
    rows = list(rows)
    warnings = sum(row.fired for row in rows if row.severity == WARNING)
    found = [in_words(row) for row in rows if row.severity == PAGE and row.fired]
    if warnings > WARNINGS_A_DAY_MAX * max(cycles / CYCLES_A_DAY, 1):
        found += [in_words(row) for row in rows if row.severity == WARNING and row.fired]
    return found


def in_words(row: Row) -> str:
    """One line about a row."""
    if row.severity == INFO:
        return f"{row.severity}: {row.alert} ({row.reason}) fires for up to {row.most} at once"
    about = f"; {row.family}" if row.family else ""
    fired = f"fired {row.fired} times on {row.owners} partitions, for {row.minutes:.1f} minutes each"
    return (
        f"{row.severity}: {row.alert} ({row.reason}){about}: {fired}; only pending {row.only_pending} times; "
        f"first {alarm_in_words(row.first)}"
    )


def alarm_in_words(alarm: Alarm) -> str:
    """One line about an alarm: from when until when, and its labels."""
    labels = ", ".join(f'{name}="{value}"' for name, value in alarm.labels)
    return f"{time_of(alarm.first)} to {time_of(alarm.last)}: {{{labels}}}"


def time_of(number: int) -> str:
    """The time of a cycle since the beginning, such as 3:05:30."""
    seconds = number * CYCLE_MS // 1000
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def workload_table() -> str:
    """The table of the families."""
    lines = [(f"`{each.name}`", each.says, str(each.owners(OWNERS)), _duration(each.timeout_ms)) for each in FAMILIES]
    return markdown_table(("family", "owner", "number", "time-out"), lines)


def document(before: str, results: Mapping[str, Sequence[Row]], *, date: str, seed: int) -> str:
    """Returns the README `before` with new tables; `results` has the rows of each mode for a whole day."""
    by_hand, mark, _ = before.partition(BEGINNING)
    assert mark, f"{DOCUMENT} lacks the line {BEGINNING}"
    parts = [f"## The workload\n\n{workload_table()}", f"## The last run\n\nRun on {date}: 24 hours, seed {seed}.\n"]
    heading = ("family", "alert", "severity", "fired in the day", "partitions", "minutes each", "first", "only pending")
    for mode, rows in results.items():
        cells = list(map(_cells, rows))
        parts.append(
            f"### {MODES[mode].capitalize()}\n\n" + (markdown_table(heading, cells) if cells else "No alert.\n")
        )
    return f"{by_hand}{mark}\n" + "\n".join(parts)


def _cells(row: Row) -> tuple[str, ...]:
    is_counted = row.severity == INFO
    return (
        row.family and f"`{row.family}`",
        f"`{row.alert}`, `{row.reason}`",
        row.severity,
        f"up to {row.most} at once" if is_counted else f"{row.fired:,}",
        "" if is_counted else str(row.owners),
        "" if is_counted else f"{row.minutes:.1f}",
        time_of(row.first.first),
        "" if is_counted else str(row.only_pending),
    )


def _duration(milliseconds: int) -> str:
    for unit, length in (("h", HOUR_MS), ("min", MINUTE_MS)):
        if milliseconds % length == 0:
            return f"{milliseconds // length} {unit}"
    return f"{milliseconds // 1000} s"
