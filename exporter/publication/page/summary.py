"""Makes the headline of the status page: the worst state, and everything that limits it.

Pure. It is green only when a recent snapshot has read everything and has no suspect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from exporter.evaluation.blocked import names_of_blocked
from exporter.evaluation.gaps import gaps
from exporter.evaluation.humanize import as_sentence, humanize_count
from exporter.evaluation.verdicts import Evaluation, OwnerState, TransactionRow
from exporter.publication.page.humanize import humanize_instant
from exporter.snapshot import MarkerFinding, Provable
from exporter.status import ClusterStatus, ProofStatus

GAPS_SHOWN_MAX = 10
"""Maximum in the first lines of the page; its section `Unread` and the log have more."""
GAPS_ABOVE_SUSPECTS_MAX = 2
"""Maximum if suspects follow: the first of them is to be seen at once."""
SUSPECT_MEANS = "an open transaction that needs attention"


class Severity(Enum):
    """Severity of the headline; the values are CSS classes."""

    BAD = "bad"
    WARNING = "warning"
    UNKNOWN = "unknown"
    WAITING = "waiting"
    """All was read and nothing is suspect, and groups stand still behind live transactions."""
    GOOD = "good"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Title of the page, and sentences that a reader must not miss."""

    level: Severity
    title: str
    notes: tuple[str, ...]


def summarize(evaluation: Evaluation | None, status: ClusterStatus) -> Summary:
    """Decides the precedence: no snapshot, then proofs, other suspects, gaps, and only then health."""
    failure = _failure_notes(status)
    if evaluation is None:
        return Summary(level=Severity.UNKNOWN, title=_no_rows_title(status), notes=failure)
    unread = coverage_gaps(evaluation, GAPS_ABOVE_SUSPECTS_MAX if evaluation.suspect_count else GAPS_SHOWN_MAX)
    hanging = [row for row in evaluation.suspects if row.verdict.is_hanging]
    proof = _proof_notes(status.proof, is_complete=not unread, has_proved=bool(hanging))
    rest = (*_lateness_notes(evaluation), *failure, *proof)
    notes = (*unread, *_blocking_notes(evaluation), *rest)
    stuck = (f"{_stuck_title(evaluation)}.",) if evaluation.stuck else ()
    others = evaluation.suspect_count - len(hanging)
    if hanging:
        proved = f"Proved: no coordinator will write {'its marker' if len(hanging) == 1 else 'their markers'}."
        more = (f"{humanize_count(others, 'more suspect transaction')}.",) if others else ()
        hang = humanize_count(len(hanging), "transaction hangs", "transactions hang")
        title = f"{_blocked(hanging) or _stopped(hanging)}: {hang}"
        return Summary(level=Severity.BAD, title=title, notes=(proved, *more, *stuck, *notes))
    if evaluation.stuck and (not others or _is_contradicted(evaluation)):
        level = Severity.BAD if _is_contradicted(evaluation) else Severity.WARNING
        return Summary(level=level, title=_stuck_title(evaluation), notes=notes)
    if others:
        title = ": ".join(filter(None, (_blocked(evaluation.suspects), humanize_count(others, "suspect transaction"))))
        return Summary(level=Severity.WARNING, title=title, notes=(*stuck, *notes))
    if any(row.owner is OwnerState.SILENT for row in evaluation.blocking):
        title = f"{_blocked(evaluation.blocking)} behind {_silent(evaluation.blocking)}"
        return Summary(level=Severity.WARNING, title=title, notes=(*unread, _end_note(evaluation), *rest))
    if unread:
        return Summary(level=Severity.WARNING, title="No suspect in the read part, but a part is unread", notes=notes)
    if failure:
        return Summary(level=Severity.WARNING, title="No suspect in the last snapshot, but it is old", notes=notes)
    if status.proof is not None and status.proof.provable is not Provable.ALL:
        which = "no hang" if status.proof.provable is Provable.NONE else "not every hang"
        return Summary(level=Severity.WARNING, title=f"No suspect, but {which} could be proved", notes=notes)
    partitions = evaluation.snapshot.partitions
    excluded = partitions.excluded_count
    read = humanize_count(partitions.included_count, "partition")
    aside = f"{humanize_count(excluded, 'partition')} excluded by scan.topics: hangs on them are not found."
    notes = (*((_end_note(evaluation),) if evaluation.blocking else ()), *rest, *((aside,) if excluded else ()))
    notes = (f"A suspect is {SUSPECT_MEANS}.", *notes)
    by_offsets = partitions.by_offsets_count
    title = f"No suspect in {read}, all read{f', {by_offsets:,} by offsets alone' if by_offsets else ''}"
    if evaluation.blocking:
        behind = humanize_count(len(evaluation.blocking), "live transaction")
        title = f"{_blocked(evaluation.blocking)} behind {behind}: {title[0].lower()}{title[1:]}"
        return Summary(level=Severity.WAITING, title=title, notes=notes)
    return Summary(level=Severity.GOOD, title=title, notes=notes)


def _is_contradicted(evaluation: Evaluation) -> bool:
    return any(each.markers_state is MarkerFinding.CONTRADICTED for each in evaluation.stuck)


def _stuck_title(evaluation: Evaluation) -> str:
    """Says that an outcome is contradicted, or who cannot start."""
    count = len(evaluation.stuck)
    cannot = f"{humanize_count(count, 'producer')} cannot start"
    return f"{cannot}, and a log contradicts its coordinator" if _is_contradicted(evaluation) else cannot


def _blocked(suspects: Iterable[TransactionRow]) -> str:
    """The groups that stand still; empty if none does."""
    groups = names_of_blocked(suspects)
    if not groups:
        return ""
    return (
        f"Consumer group {groups.pop()} is blocked"
        if len(groups) == 1
        else f"{len(groups):,} consumer groups are blocked"
    )


def _stopped(hanging: Iterable[TransactionRow]) -> str:
    """Says where consumers stop, if no group is seen to do so now."""
    partitions = {f"{row.topic}-{row.partition}" for row in hanging}
    where = partitions.pop() if len(partitions) == 1 else humanize_count(len(partitions), "partition")
    return f"read_committed consumers of {where} stop"


def _no_rows_title(status: ClusterStatus) -> str:
    if status.snapshot_taken_at_ms is not None:
        return f"Stale: the last snapshot is of {humanize_instant(status.snapshot_taken_at_ms)} and not shown any more"
    return "Nothing has been read yet"


def _failure_notes(status: ClusterStatus) -> tuple[str, ...]:
    if status.last_cycle_succeeded is None:
        return ("The first cycle is still running.",)
    if status.last_cycle_succeeded:
        missed = humanize_count(status.missed_in_a_row, "cycle is", "cycles are")
        return (f"{missed} missed: the previous one still runs.",) if status.missed_in_a_row else ()
    return (f"The last cycle failed: {status.last_failure or 'no reason was given.'}",)


def _proof_notes(proof: ProofStatus | None, *, is_complete: bool, has_proved: bool) -> tuple[str, ...]:
    """The sentence about this cycle's topics, with the time of the last check; none where the cycle contradicts it."""
    if proof is None:
        return ()
    if (proof.provable is Provable.ALL and not is_complete) or (proof.provable is Provable.NONE and has_proved):
        return ()
    checked = f"Rights and coordinators were checked at {humanize_instant(proof.checked_at_ms)}."
    return (" ".join(filter(None, (proof.sentence, proof.level.in_words, checked))),)


def _blocking_notes(evaluation: Evaluation) -> tuple[str, ...]:
    """Says who stands still behind live transactions, and by when the last of these ends, under a title about others."""
    if not evaluation.blocking:
        return ()
    behind = humanize_count(len(evaluation.blocking), "live transaction")
    return (f"{_blocked(evaluation.blocking)} behind {behind}, {_end(evaluation)}.",)


def _end_note(evaluation: Evaluation) -> str:
    """Says by when the last of the live transactions that block ends, under a title that names who stands still."""
    return as_sentence(_end(evaluation))


def _end(evaluation: Evaluation) -> str:
    ends = [row.ends_at_ms for row in evaluation.blocking]
    known = [end for end in ends if end is not None]
    endless = len(ends) - len(known)
    until = f"at the latest until {humanize_instant(max(known))}" if known else ""
    if endless:
        until = f"{until}; of {endless:,} no end is known" if until else "no time-out is known"
    return until


def _silent(blocking: Sequence[TransactionRow]) -> str:
    """Counts the live transactions that block, and the owners among theirs that are silent: a producer is one owner."""
    silent = [row for row in blocking if row.owner is OwnerState.SILENT]
    owners = len({row.producer_id for row in silent})
    transactions = "a live transaction" if len(blocking) == 1 else f"{len(blocking):,} live transactions"
    if len(silent) == len(blocking):
        return f"{transactions} whose {'owner is' if owners == 1 else 'owners are'} silent"
    return f"{transactions}, {'an owner is' if owners == 1 else f'{owners:,} owners are'} silent"


def _lateness_notes(evaluation: Evaluation) -> tuple[str, ...]:
    late = humanize_count(evaluation.late_count, "transaction")
    fallback = "the fallback, because it could not be read from any broker"
    limit = fallback if evaluation.max_timeout_is_fallback else "plus padding"
    note = f"{late} late: older than transaction.max.timeout.ms ({limit})."
    return (note,) if evaluation.late_count else ()


def coverage_gaps(evaluation: Evaluation, shown_max: int = GAPS_SHOWN_MAX) -> tuple[str, ...]:
    """Gaps in coverage, in the sentences of the log and the command line; empty when coverage is complete."""
    sentences = gaps(evaluation.snapshot)
    more = len(sentences) - shown_max
    shown = tuple(map(as_sentence, sentences[:shown_max]))
    return (*shown, f"{humanize_count(more, 'more gap')}, see Unread.") if more > 0 else shown
