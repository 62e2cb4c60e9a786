"""Says who stands still behind which transaction, until when, and what to do next: the answer of `why` as a text. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from exporter.commands.lines import next_line, with_another_login
from exporter.commands.standstill import NAMES_MAX, PROGRAM, Answer, Hold
from exporter.evaluation.humanize import humanize_bytes, humanize_count, humanize_duration, humanize_names
from exporter.evaluation.reasons import START_IN_WORDS, until_in_words
from exporter.evaluation.stuck import stuck_in_words
from exporter.evaluation.stuck_transaction import StuckTransaction
from exporter.evaluation.verdicts import StartSource, TransactionRow, Verdict
from exporter.snapshot import MarkerFinding


def in_words(answer: Answer) -> str:
    """A paragraph for each transaction, or a sentence that says that there is none; first whether all are young."""
    paragraphs = [_paragraph(answer, hold) for hold in answer.holds]
    if answer.holds and not answer.is_held:
        paragraphs.insert(0, _all_young(answer))
    paragraphs += [_stuck_paragraph(answer, each) for each in answer.stuck]
    if not paragraphs:
        paragraphs = [" ".join(filter(None, (_nothing(answer), answer.aside)))]
    paragraphs += [f"Not known: {sentence}." for sentence in answer.unknown]
    return "\n\n".join(paragraphs)


def _nothing(answer: Answer) -> str:
    if answer.unknown:
        return f"No open transaction that could be examined holds {answer.subject}; whether one does is not known."
    if answer.has_begun:
        begun = "stands at a transaction that has just begun, which is normal"
        return f"{_capitalized(answer.subject)} {begun}; no other open transaction holds it."
    if answer.lag is not None:
        return _not_held(answer, answer.lag)
    if answer.subject.startswith(("transactional id", "producer id")):
        return f"No transaction of {answer.subject} is open on any partition that was read."
    where = f" on {_any_partition(answer, 'its')}" if answer.subject.startswith("topic ") else ""
    return f"No open transaction holds {answer.subject}{where}."


def _not_held(answer: Answer, lag: int) -> str:
    """The answer about a group. What may wait for a young transaction is not denied."""
    which, unless = "open transaction", ""
    if answer.is_young_unread:
        which = f"transaction that is open for {humanize_duration(answer.blocked_after_ms)} or longer"
        unless = ", or it waits for a transaction that has just begun"
    no = f"No {which} holds {answer.subject}"
    if not answer.partitions:
        return f"{no}."
    no = f"{no} on {_any_partition(answer, 'the')} where it has an offset"
    if not lag:
        return f"{no}."
    own = f"its lag of {humanize_count(lag, 'offset')}, in which markers and aborted records count, has another cause"
    return f"{no}; {own}{unless}. See whether its members run and move (kafka-consumer-groups.sh --describe)."


def _any_partition(answer: Answer, article: str) -> str:
    return f"any of {article} {answer.partitions:,} partitions" if answer.partitions != 1 else f"{article} partition"


def _paragraph(answer: Answer, hold: Hold) -> str:
    row = hold.row
    named = "" if row.transactional_id is None else f", transactional id {row.transactional_id!r},"
    opened = f"open from offset {row.start_offset} on for {_age(row) or 'an unknown time'}"
    whose = f"producer {row.producer_id}{named}" if row.has_producer else "an unknown producer,"
    who = f"{_who(answer, hold)} behind a transaction of {whose} {opened}"
    if answer.is_young(row):
        return f"{who}.{_YOUNG if answer.is_held else ''}"
    since = f"{START_IN_WORDS[row.start_source]}; " if row.start_source is not StartSource.FIRST_SEEN else ""
    is_stuck = answer.is_stuck(row)
    lines = [
        f"{who} ({since}verdict {row.verdict.label}). {row.reason}",
        " ".join(filter(None, (_waiting(hold), _on_disk(row), "" if is_stuck else _until(row)))),
        *(() if is_stuck else (_effect(row), _next(row, answer.connection))),
    ]
    return "\n".join(filter(None, lines))


def _stuck_paragraph(answer: Answer, stuck: StuckTransaction) -> str:
    """The finding, and the plan of each marker that is still missing here, or else the runbook that has what ends it."""
    rows = [hold.row for hold in answer.holds if answer.is_stuck(hold.row)]
    open_ = [row for row in rows if row.producer_id == stuck.producer_id]
    next_ = [_next(row, answer.connection, verdict=Verdict.STUCK_COMPLETING) for row in open_]
    is_contradicted = stuck.markers_state is MarkerFinding.CONTRADICTED
    runbook = f"KafkaTransaction{'OutcomeContradicted' if is_contradicted else 'ProducerCannotStart'}"
    there = (
        f"The operators of Kafka have the next steps in the runbook {runbook}, which the exporter has at /runbooks/."
    )
    return "\n".join([stuck_in_words(stuck), *((not is_contradicted and next_) or [there])])


_YOUNG: Final = " It is young, which is normal."


def _all_young(answer: Answer) -> str:
    count, where = len(answer.holds), " in what could be read" if answer.unknown else ""
    which, one = ("the transaction is", "it") if count == 1 else (f"all {count} transactions are", "one")
    return f"Nothing unusual{where}: {which} young. If {one} is still open in a minute, run this again."


def _age(row: TransactionRow) -> str:
    """A command has just seen it first, where its start is not visible."""
    if row.age_by_last_write_ms is not None:
        return f"at least {humanize_duration(row.age_by_last_write_ms)}, by its last write"
    return "" if row.start_source is StartSource.FIRST_SEEN else humanize_duration(row.duration_ms)


def _who(answer: Answer, hold: Hold) -> str:
    row = hold.row
    here = f"{row.topic}-{row.partition}"
    subject = _capitalized(answer.subject)
    if hold.position is not None:
        return f"{subject} stands at offset {hold.position.committed} of {here},"
    if answer.lag is not None:
        return f"{subject} has an offset pending on {here}, which no consumer of it can read,"
    if answer.subject.startswith(("transactional id", "producer id")):
        return f"On {here} everybody who reads committed records waits"
    return f"Readers of committed records stand at offset {row.start_offset} of {here},"


def _capitalized(subject: str) -> str:
    return f"{subject[0].upper()}{subject[1:]}"


def _waiting(hold: Hold) -> str:
    row = hold.row
    if hold.position is not None:
        behind = hold.position.high_watermark - hold.position.last_stable_offset
        its_lag = "" if behind == hold.position.lag else f"; the group's lag is {hold.position.lag:,}"
        return f"{humanize_count(behind, 'offset')} {_verb(behind, 'waits', 'wait')} for it{its_lag}."
    lag = row.last_stable_offset_lag
    offsets = "" if lag is None else f"{humanize_count(lag, 'offset')} {_verb(lag, 'is', 'are')} held back."
    # One with a pending offset has no position of its own.
    waits = [one.group for one in row.groups if one.blocked_since_ms is not None or one.committed_offset is None]
    before = [one.group for one in row.groups if one.group not in waits]
    if waits:
        offsets += f" Groups that wait: {humanize_names(waits, shown_max=NAMES_MAX)}."
    else:
        offsets += " No group is seen to wait; readers that commit no offsets cannot be seen."
    if before:
        offsets += f" Before it, perhaps with records to read: {humanize_names(before, shown_max=NAMES_MAX)}."
    return offsets.strip()


def _verb(count: int, of_one: str, of_more: str) -> str:
    return of_one if count == 1 else of_more


def _on_disk(row: TransactionRow) -> str:
    if not row.held_bytes:
        return ""
    held = f"About {humanize_bytes(row.held_bytes)} of the partition's log"
    return f"{held} can be neither compacted nor tiered until it ends."


def _until(row: TransactionRow) -> str:
    if row.verdict is Verdict.OPEN_WITHIN_TIMEOUT:
        return until_in_words(row)
    return _UNTIL[row.verdict]


_UNTIL: Final[Mapping[Verdict, str]] = {
    **dict.fromkeys(
        (verdict for verdict in Verdict if verdict.is_hanging), "No coordinator will end it: waiting does not help."
    ),
    Verdict.REPLICA_DIVERGED: "No coordinator will end it, and a replica has its marker: do not abort it.",
    Verdict.STUCK_COMPLETING: "Its outcome is decided, and the marker does not come.",
    Verdict.OVERDUE_AT_COORDINATOR: "Its coordinator should have aborted it, and may still do so.",
    Verdict.INCONCLUSIVE: "Whether it will end is not known: send this to the operators of Kafka, who complete the proof "
    "by the runbook KafkaTransactionInconclusive, which the exporter has at /runbooks/.",
    Verdict.COMPLETING: "Its outcome is decided, and its coordinator is writing the marker. If it is so after a minute, it "
    "is stuck.",
    Verdict.PREPARED_TWO_PHASE_COMMIT: "No time-out ends it: the transaction manager of its application decides.",
}


def _effect(row: TransactionRow) -> str:
    """Says what they will read next."""
    if row.verdict in {Verdict.STUCK_COMPLETING, Verdict.COMPLETING}:
        return ""
    if row.verdict.is_hanging:
        return _HANGS
    if row.verdict is Verdict.INCONCLUSIVE:
        return _MAY_HANG
    effect = "After an abort its own records are skipped, after a commit they are read; those behind it are read then."
    if row.verdict is not Verdict.OPEN_WITHIN_TIMEOUT:
        return effect
    return (
        f"{effect} A restart of its application with the same id ends it; terminate it only if that does not come back."
    )


_HANGS: Final = (
    "After an abort its own records are skipped, and those behind it are read. Do not restart its application to end it: "
    "the producer's next commit on this partition would make these records visible."
)

_MAY_HANG: Final = (
    "Do not restart its application before they have answered: if it hangs, the producer's next commit on this partition "
    "makes its records visible. After an abort they are skipped, and those behind them are read."
)


def _next(row: TransactionRow, connection: tuple[str, ...], *, verdict: Verdict | None = None) -> str:
    """A command that prints a plan or a list, and who may carry the plan out: often not the one who asks."""
    verdict = verdict or row.verdict
    place = ["--topic", row.topic, "--partition", str(row.partition)]
    who = ""
    if verdict.is_hanging:
        who = _OPERATORS
        words = ["abort", *place, "--start-offset", str(row.start_offset), "--dry-run"]
    elif verdict is Verdict.STUCK_COMPLETING:
        who = _OPERATORS
        words = ["complete", *place, "--start-offset", str(row.start_offset), "--dry-run"]
    elif row.transactional_id is not None and verdict in _CAN_BE_TERMINATED:
        who = f"the owner of this id or {_OPERATORS}"
        words = ["force-terminate", "--transactional-id", row.transactional_id, "--dry-run"]
    else:
        who = _OPERATORS if verdict is Verdict.INCONCLUSIVE else ""
        words = ["find-hanging", *place, "--all"]
    if who == _OPERATORS:  # the login of whoever asks is not theirs
        connection = with_another_login(connection)
    return next_line(f"{PROGRAM} {shlex.join([*words, *connection])}", who)


_OPERATORS: Final = "the operators of Kafka"
_CAN_BE_TERMINATED: Final = frozenset({Verdict.OPEN_WITHIN_TIMEOUT, Verdict.OVERDUE_AT_COORDINATOR})
