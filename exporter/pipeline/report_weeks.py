"""Renders who waited: this week against the last by application, four weeks as bars, and the same as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from html import escape
from typing import Final

from pyspark.sql import Row

from exporter.evaluation.humanize import humanize_count, humanize_duration
from exporter.history.schema import day_of
from exporter.pipeline.report import WEEK_MS, DayOfReport

_HEIGHT, _BAR, _GAP = 120, 14, 6
_CSV: Final = ("cluster_id", "application", "this_ms", "last_ms", "group", "group_ms", "records_max")
_CSV_HEAD: Final = (
    *("cluster_id", "application", "waited_this_week_ms", "waited_last_week_ms"),
    *("group_that_waited_most", "waited_by_it_this_week_ms", "records_max"),
)


def weeks_as_csv(weeks: Sequence[Row]) -> str:
    """Returns every application that held back a group in the last two weeks."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_CSV_HEAD)
    writer.writerows([_cell(row[name]) for name in _CSV] for row in weeks)
    return text.getvalue()


def _cell(value: object) -> str:
    """A text that a spreadsheet would take for a formula gets a quote before it."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def budget_used(group_ms: int, objective_percent: float) -> float:
    """Returns how often a group's waiting time of a week has used up what the objective allows it."""
    return 100 * group_ms / (WEEK_MS * (100 - objective_percent))


def sentence_of_weeks(waited_ms: tuple[int, int], days: Sequence[DayOfReport]) -> str:
    """The time of all groups in the last seven days and in the seven days before, as far as cycles have shown it."""
    if not days:
        return "Unknown: hours were not counted yet (pipeline stalls)."
    if not any(waited_ms):
        return "In the counted hours of the last two weeks no cycle saw a consumer group wait."
    this_week, last_week = (f"at least {humanize_duration(ms)}" if ms else "0 s" for ms in waited_ms)
    return (
        f"Consumer groups waited for {this_week} in the last seven days, added up, and for {last_week} in the seven days "
        "before: the time between cycles that saw them wait, of each group on the partition on which it waited longest."
    )


def days_as_bars(days: Sequence[DayOfReport]) -> str:
    """A bar for each of 28 days, as an image without a script; a day that was not watched is a frame without a bar."""
    if not days:
        return ""
    most_ms = max(day.hung_ms + day.other_ms for day in days)
    width = len(days) * (_BAR + _GAP)
    bars = "".join(_bar(day, number * (_BAR + _GAP), max(most_ms, 1)) for number, day in enumerate(days))
    watched = sum(day.hours_watched > 0 for day in days)
    text = (
        f"Time that groups waited on each of {humanize_count(len(days), 'day')}; "
        f"at most {humanize_duration(most_ms)} on a day; "
        f"{humanize_count(watched, 'day')} watched"
    )
    return (
        '<p class="quiet">Time that groups waited, by day (UTC). Red: behind a proved hang. Orange: behind other '
        f"transactions. A dashed frame: not watched.</p>"
        f'<svg class="days" viewBox="0 0 {width} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(text)}">{bars}</svg>'
        f'<p class="ends"><span>{day_of(days[0].day_ms)}</span><span>at most {humanize_duration(most_ms)} on a day</span>'
        f"<span>{day_of(days[-1].day_ms)}</span></p>"
    )


def _bar(day: DayOfReport, left: int, most_ms: int) -> str:
    hung, other = (round(value * (_HEIGHT - 2) / most_ms) for value in (day.hung_ms, day.other_ms))
    waited = humanize_duration(day.hung_ms + day.other_ms)
    title = f"{day_of(day.day_ms)}: {waited}, watched in {day.hours_watched} of 24 hours"
    marks = f'<rect class="base" x="{left}" y="{_HEIGHT - 2}" width="{_BAR}" height="2"/>'
    if not day.hours_watched:
        marks = f'<rect class="unwatched" x="{left + 1}" y="1" width="{_BAR - 2}" height="{_HEIGHT - 2}"/>'
    if other:
        marks += f'<rect class="warning" x="{left}" y="{_HEIGHT - other}" width="{_BAR}" height="{other}"/>'
    if hung:
        marks += f'<rect class="bad" x="{left}" y="{_HEIGHT - other - hung}" width="{_BAR}" height="{hung}"/>'
    return f"<g><title>{title}</title>{marks}</g>"
