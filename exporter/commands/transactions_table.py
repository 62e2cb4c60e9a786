"""Prints transactions for people: aligned, ages in words, and below each suspect its evidence and who waits behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from exporter.commands.document import transaction
from exporter.commands.lines import fitted, terminal_width
from exporter.commands.rows import Paint, Row, plain, table_for_people
from exporter.evaluation.humanize import humanize_count, humanize_duration, humanize_names, printable
from exporter.evaluation.reasons import outcome_in_words
from exporter.evaluation.verdicts import Evaluation, TransactionRow
from exporter.publication.page.humanize import humanize_group

HEADINGS = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "producer_id": "PRODUCER",
    "producer_epoch": "EPOCH",
    "start_offset": "START OFFSET",
    "open_for": "OPEN FOR",
    "late": "LATE",
    "transactional_id": "TRANSACTIONAL ID",
    "verdict": "VERDICT",
}
GROUPS_MAX = 5
"""Of each suspect; it prints the number of the others."""


def render_fleet(found: Sequence[tuple[str, Evaluation, Sequence[TransactionRow]]], paint: Paint = plain) -> str:
    """One table for all clusters (name, evaluation, rows), and below it what was read of each."""
    shown = [
        row
        for name, evaluation, rows in found
        for row in _shown(rows, evaluation.snapshot.cluster_time_ms, cluster=name)
    ]
    summaries = "\n".join(f"{printable(name)}: {summary(evaluation)}" for name, evaluation, _ in found)
    listed = _table({"cluster": "CLUSTER", **HEADINGS}, shown, paint) if shown else "No suspect."
    return f"{listed}\n\n{fitted(summaries, terminal_width())}"


def _shown(rows: Iterable[TransactionRow], now_ms: int, **more: str) -> list[Row]:
    return [
        {
            **more,
            **transaction(row),
            "open_for": humanize_duration(row.duration_ms),
            "below": tuple(_below(row, now_ms)),
        }
        for row in rows
    ]


def _table(headings: Mapping[str, str], shown: Sequence[Row], paint: Paint) -> str:
    def with_evidence(row: Row, line: str) -> str:
        evidence = "\n".join(f"  {printable(line_below)}" for line_below in row["below"])
        return "\n".join(filter(None, (paint(row, line), fitted(evidence, terminal_width()))))

    return table_for_people(headings, shown, with_evidence)


def with_summary(evaluation: Evaluation, rows: Sequence[TransactionRow], paint: Paint = plain) -> str:
    """The table and what was read, or one sentence that says that there is nothing, and what was read."""
    if rows:
        shown = _table(HEADINGS, _shown(rows, evaluation.snapshot.cluster_time_ms), paint)
        return f"{shown}\n\n{fitted(summary(evaluation), terminal_width())}"
    left_out = evaluation.suspect_count
    nothing = f"The options leave out {humanize_count(left_out, 'suspect')}" if left_out else "No suspect"
    return fitted(f"{nothing}. {summary(evaluation)}", terminal_width())


def summary(evaluation: Evaluation) -> str:
    """What was read, and what is open, in a sentence."""
    snapshot = evaluation.snapshot
    partitions = snapshot.partitions
    read = int(np.count_nonzero(partitions.was_read))
    took = humanize_duration(snapshot.finished_at_ms - snapshot.taken_at_ms)
    excluded = partitions.excluded_count
    aside = f" ({excluded:,} excluded)" if excluded else ""
    wanted = humanize_count(partitions.included_count, "partition")
    return (
        f"Cluster {snapshot.cluster_id}: {read} of {wanted} read{aside} in {took}, "
        f"{humanize_count(evaluation.open_count, 'open transaction')}, {evaluation.late_count} late, "
        f"{humanize_count(evaluation.suspect_count, 'suspect')}."
    )


def _below(row: TransactionRow, now_ms: int) -> Iterator[str]:
    if not row.verdict.is_suspect:
        return
    yield row.reason
    if row.groups:
        named = humanize_names([humanize_group(group, now_ms) for group in row.groups], shown_max=GROUPS_MAX)
        yield f"Consumer groups: {named}."
    if row.outcome_seen:
        yield f"Outcome elsewhere: {outcome_in_words(row)}"
