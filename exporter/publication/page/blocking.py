"""Makes the section of the status page about live transactions that block a consumer group. `_e` escapes."""

from __future__ import annotations

from html import escape as _e

from exporter.evaluation.humanize import humanize_count, humanize_duration, humanize_names
from exporter.evaluation.reasons import START_IN_WORDS
from exporter.evaluation.verdicts import OwnerState, TransactionRow
from exporter.publication.page.advice import terminate_command
from exporter.publication.page.humanize import humanize_groups, humanize_id, humanize_instant
from exporter.publication.page.summary import Severity
from exporter.publication.page.suspects import (
    GROUPS_SHOWN_MAX,
    SUSPECTS_SHOWN_MAX,
    article,
    held_back,
    pairs_of,
    step_of,
    what_to_paste,
)
from exporter.publication.publication import Publication


def blocking_section(publication: Publication) -> str:
    """Renders who stands still behind transactions that are not suspects, worst first; empty if nobody does."""
    rows, evaluation = publication.blocking, publication.evaluation
    if evaluation is None or not rows:
        return ""
    now_ms = evaluation.snapshot.cluster_time_ms
    shown = "\n".join(_blocking(row, now_ms, publication) for row in rows[:SUSPECTS_SHOWN_MAX])
    hidden = len(rows) - SUSPECTS_SHOWN_MAX
    rest = f"<p>{humanize_count(hidden, 'more live transaction')} not shown here.</p>" if hidden > 0 else ""
    title = humanize_count(len(rows), "live transaction")
    ended = "its owner or coordinator will end it" if len(rows) == 1 else "their owners or coordinators will end them"
    means = f"{ended}; until then groups that have come to it stand still"
    return (
        f'<section id="blocking"><h2>Behind {title} <span class="quiet">({means})</span></h2>\n{shown}</section>{rest}'
    )


def _blocking(row: TransactionRow, now_ms: int, publication: Publication) -> str:
    """Renders who waits and until when, then the owner."""
    is_silent = row.owner is OwnerState.SILENT
    level = Severity.WARNING if is_silent else Severity.WAITING
    groups = humanize_groups(row, now_ms)
    first = (
        ("consumer groups", humanize_names(groups, shown_max=GROUPS_SHOWN_MAX)),
        ("ends", end_in_words(row.ends_at_ms, now_ms)),
        ("owner", owner_in_words(row, publication.status.interval_ms)),
        ("age", f"{humanize_duration(row.duration_ms)} ({START_IN_WORDS[row.start_source]})"),
    )
    evidence = (
        *held_back(row, publication),
        ("transactional id", humanize_id(row.transactional_id, is_shown=publication.options.transactional_ids)),
        ("producer id / epoch", f"{row.producer_id} / {row.producer_epoch}"),
        ("start offset", str(row.start_offset)),
    )
    tag = f'<span class="tag {level.value}">{"owner silent" if is_silent else _e(row.verdict.label)}</span>'
    otherwise = ""
    if is_silent and row.transactional_id is not None and row.transactional_id.isprintable():
        command = terminate_command(row.transactional_id, publication.bootstrap)
        otherwise = step_of("if its application does not come back: dry run", command)
    step = what_to_paste(row, publication.bootstrap, publication.options.runbook_url, publication.cluster_id, otherwise)
    return article(row, tag, f"{pairs_of(first)}{step}<p>{_e(row.reason)}</p>{pairs_of(evidence)}")


def end_in_words(ends_at_ms: int | None, now_ms: int) -> str:
    """Says by when the coordinator ends a transaction."""
    if ends_at_ms is None:
        return "when its owner ends it: no time-out is known"
    left_ms = ends_at_ms - now_ms
    within = f"within {humanize_duration(left_ms)}" if left_ms > 0 else "now"
    return f"{within}, by {humanize_instant(ends_at_ms)}, its coordinator aborts it, unless its owner ends it before"


def owner_in_words(row: TransactionRow, interval_ms: int) -> str:
    """Says whether its producer writes, as far as this exporter has seen; a silence is seen but for one interval."""
    if row.silent_ms is None:
        return "unknown"
    silent = f"no write seen for {humanize_duration(row.silent_ms)}"
    if row.usual_silence_ms is not None:
        usual = humanize_duration(row.usual_silence_ms + interval_ms)
        silent += f" (usual for its id or prefix: {usual} at most)"
    if row.owner is not OwnerState.SILENT:
        return silent
    new_ids = "; ids of its prefix that came before were not used since, so a restart with a new one ends nothing"
    return f"{silent}: it has stopped, is paused, or computes{new_ids if row.takes_new_ids else ''}"
