"""Prints transactions for people: aligned, ages in words, and below each suspect its evidence and who waits behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from exporter.commands.lines import fit_terminal
from exporter.commands.rows import Paint, Row, plain, table_for_people
from exporter.evaluation.blocked import names_of_blocked
from exporter.evaluation.document import transaction
from exporter.evaluation.humanize import humanize_bytes, humanize_count, humanize_duration, humanize_names, printable
from exporter.evaluation.reasons import open_for_in_words, outcome_in_words, until_in_words
from exporter.evaluation.stuck import stuck_in_words
from exporter.evaluation.verdicts import Evaluation, StartSource, TransactionRow
from exporter.publication.page.humanize import humanize_groups

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
"""Maximum of groups printed per suspect; the number of the others is printed."""


def render_tables(
    found: Sequence[tuple[str | None, Evaluation, Sequence[TransactionRow]]], paint: Paint = plain, *, is_fleet: bool
) -> str:
    """One table for all clusters (name, evaluation, rows), and below it what was read of each.

    For a cluster alone, one sentence that says that there is nothing, and what was read.
    """
    shown = [
        {
            "cluster": name,
            **transaction(row),
            "open_for": _open_for(row),
            **({} if row.has_producer else {"producer_id": None, "producer_epoch": None}),
            "below": tuple(_below(row)),
        }
        for name, evaluation, rows in found
        for row in rows
    ]
    read = "\n".join(
        f"{'' if name is None else f'{printable(name)}: '}{summary(evaluation, rows)}"
        for name, evaluation, rows in found
    )
    stuck = [each for _, evaluation, _ in found for each in evaluation.stuck]
    read = "\n\n".join([*(printable(f"Stuck at its coordinator: {stuck_in_words(each)}") for each in stuck), read])
    if not shown and not is_fleet:
        left_out = sum(evaluation.suspect_count for _, evaluation, _ in found)
        nothing = f"The options leave out {humanize_count(left_out, 'suspect')}" if left_out else "No suspect"
        apart = "\n\n" if stuck else " "
        return fit_terminal(f"{nothing}.{apart}{read}")
    headings = {"cluster": "CLUSTER", **HEADINGS} if is_fleet else HEADINGS
    return f"{_table(headings, shown, paint) if shown else 'No suspect.'}\n\n{fit_terminal(read)}"


def _table(headings: Mapping[str, str], shown: Sequence[Row], paint: Paint) -> str:
    def with_evidence(row: Row, line: str) -> str:
        evidence = "\n".join(f"  {printable(line_below)}" for line_below in row["below"])
        return "\n".join(filter(None, (paint(row, line), fit_terminal(evidence))))

    return table_for_people(headings, shown, with_evidence)


def summary(evaluation: Evaluation, rows: Sequence[TransactionRow] = ()) -> str:
    """Returns a sentence about the partitions read, and the open transactions."""
    snapshot = evaluation.snapshot
    partitions = snapshot.partitions
    read = partitions.covered_count
    took = humanize_duration(snapshot.finished_at_ms - snapshot.taken_at_ms)
    excluded = partitions.excluded_count
    by_offsets = partitions.by_offsets_count
    notes = [f"{by_offsets:,} by offsets alone"] if by_offsets else []
    notes += [f"{excluded:,} excluded"] if excluded else []
    aside = f" ({', '.join(notes)})" if notes else ""
    wanted = humanize_count(partitions.included_count, "partition")
    return (
        f"Cluster {snapshot.cluster_id}: {read} of {wanted} read{aside} in {took}, "
        f"{humanize_count(evaluation.open_count, 'open transaction')}, {evaluation.late_count} late, "
        f"{humanize_count(evaluation.suspect_count, 'suspect')}.{_behind_live(evaluation, rows)}"
    )


def _behind_live(evaluation: Evaluation, rows: Sequence[TransactionRow]) -> str:
    """Says that groups are blocked although none of the printed rows names them."""
    if {row.key for row in evaluation.blocking} <= {row.key for row in rows}:
        return ""
    behind = humanize_count(len(evaluation.blocking), "live transaction")
    groups = humanize_count(len(names_of_blocked(evaluation.blocking)), "consumer group")
    return f" {groups} blocked behind {behind}: --all names them."


def _open_for(row: TransactionRow) -> str:
    """Returns its duration, or the time since its last write where a command has just seen it first."""
    if row.age_by_last_write_ms is not None:
        return f"idle {humanize_duration(row.age_by_last_write_ms)}"
    if row.start_source is StartSource.FIRST_SEEN and not row.duration_ms:
        return "unknown"
    return open_for_in_words(row)


def _below(row: TransactionRow) -> Iterator[str]:
    if row.verdict.is_suspect:
        yield row.reason
    if row.groups:
        named = humanize_names(humanize_groups(row), shown_max=GROUPS_MAX)
        yield f"Consumer groups: {named}."
        if not row.verdict.is_suspect:
            yield until_in_words(row)
    if row.held_bytes:
        yield f"Bytes held on disk: about {humanize_bytes(row.held_bytes)}."
    if row.verdict.is_suspect and row.outcome_seen:
        yield f"Outcome elsewhere: {outcome_in_words(row)}"
