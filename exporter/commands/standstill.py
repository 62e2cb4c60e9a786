"""Decides who stands still behind which transaction: the answer of `why`, as data and as a text. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from exporter.commands.lines import next_line
from exporter.evaluation.blocked import is_held
from exporter.evaluation.document import stuck_transaction
from exporter.evaluation.evaluate import by_impact
from exporter.evaluation.field_types import Output
from exporter.evaluation.fields import project
from exporter.evaluation.humanize import humanize_bytes, humanize_count, humanize_duration, humanize_names
from exporter.evaluation.reasons import START_IN_WORDS, until_in_words
from exporter.evaluation.stuck import stuck_in_words
from exporter.evaluation.stuck_transaction import StuckTransaction
from exporter.evaluation.table import transaction_row
from exporter.evaluation.verdicts import Evaluation, StartSource, TransactionRow, Verdict
from exporter.kafka.state_partitions import java_hash_partition
from exporter.snapshot import OFFSETS_TOPIC, UNKNOWN_OFFSET, TopicPartition

PROGRAM: Final = "kafka-transaction-exporter"
NAMES_MAX: Final = 5
_UNSEEN: Final = "something open holds it on {}, which was not examined or has begun since: run it again"
_BEGUN: Final = "It stands at a transaction that has just begun, which is normal."


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPosition:
    """The committed offset of the group on one partition, and the ends of that."""

    committed: int
    last_stable_offset: int
    high_watermark: int
    next_offset: int | None = None
    """Offset of the next record that it can read; see `GroupOffset`."""

    @property
    def lag(self) -> int:
        """Offsets up to the high watermark; 0 where that is unknown."""
        return 0 if self.high_watermark == UNKNOWN_OFFSET else max(self.high_watermark - self.committed, 0)

    @property
    def is_held(self) -> bool:
        """True at the last stable offset, with something behind it."""
        return is_held(self.committed, self.last_stable_offset, self.high_watermark, self.next_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A transaction that holds somebody up on one partition."""

    row: TransactionRow
    position: GroupPosition | None = None
    """The group's, where the question names one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The transactions that hold somebody up, and what could not be known."""

    subject: str
    """The subject of the question, as the beginning of a sentence: `group G`, `topic T`."""
    holds: tuple[Hold, ...] = ()
    partitions: int = 0
    """The partitions that the question is about."""
    stuck: tuple[StuckTransaction, ...] = ()
    """The transactions of the id or producer that a coordinator cannot complete."""
    lag: int | None = None
    """The group's, on all of them; None if no group was named."""
    unknown: tuple[str, ...] = ()
    """Parts that could not be looked at, a sentence each without its full stop."""
    aside: str = ""
    """A sentence that explains a negative answer further."""
    has_moved: bool = False
    """True if the group stands at a transaction that has begun since the partition was read, or was not examined."""
    connection: tuple[str, ...] = ()
    """Options by which the next command finds the cluster, as they were given."""

    blocked_after_ms: int = 0
    """A live transaction that is open for less holds nobody up yet (`blocked.after`)."""

    @property
    def is_held(self) -> bool:
        return bool(self.stuck) or not all(self.is_young(hold.row) for hold in self.holds)

    def is_young(self, row: TransactionRow) -> bool:
        is_live = row.verdict in {Verdict.OPEN_WITHIN_TIMEOUT, Verdict.COMPLETING}
        return is_live and row.start_source is StartSource.COORDINATOR and row.duration_ms < self.blocked_after_ms


def holding(evaluation: Evaluation) -> dict[TopicPartition, TransactionRow]:
    """Partition -> the examined transaction at which its last stable offset stands, with something behind it.

    The last stable offset is beyond the start of a transaction whose first records are deleted. It is also beyond one that
    has just ended; so only a proved hang, which nothing ends, is taken for the former.
    """
    open_, count = evaluation.snapshot.open_transactions, evaluation.examined_count
    starts, stable = open_.current_txn_start_offset[:count], open_.last_stable_offset
    hangs = np.array([Verdict.ranked(rank).is_hanging for rank in evaluation.transactions.verdict[:count].tolist()])
    is_cut = (starts < stable) & (stable < open_.high_watermark) & hangs.astype(np.bool_)
    held = [*np.flatnonzero(is_cut).tolist(), *np.flatnonzero(open_.holds_back).tolist()]
    return {(row.topic, row.partition): row for row in (transaction_row(evaluation, place) for place in held)}


def about_group(
    evaluation: Evaluation, group: str, positions: Mapping[TopicPartition, GroupPosition], *, is_pending: bool = False
) -> Answer:
    """`positions` are all that the group has committed. `is_pending`: one of its offsets is pending in a transaction."""
    rows = holding(evaluation)
    holds = [
        Hold(row=rows[partition], position=position)
        for partition, position in positions.items()
        if position.is_held and partition in rows
    ]
    holds += [Hold(row=rows[home]) for home in [home_of(evaluation, group)] if is_pending and home in rows]
    unknown = list(_unread(evaluation, positions))
    moved = [name for name, position in positions.items() if position.is_held and name not in rows]
    partitions, open_ = evaluation.snapshot.partitions, evaluation.snapshot.open_transactions
    had_one = {partitions.name(row) for row in set(open_.partition_row.tolist())}
    unseen = [f"{topic}-{partition}" for topic, partition in moved if (topic, partition) in had_one]
    # Where nothing was open when the partition was read, it is young.
    is_young = moved and not unseen and not unknown
    if unseen:
        unknown.append(_UNSEEN.format(humanize_names(unseen, shown_max=NAMES_MAX)))
    if not positions and not holds:
        unknown.append("it has committed no offset to Kafka, so where it stands cannot be seen")
    return Answer(
        subject=f"group {group}",
        holds=_worst_first(holds),
        partitions=len(positions),
        lag=sum(position.lag for position in positions.values()),
        unknown=tuple(unknown),
        aside=_BEGUN if is_young else "",
        has_moved=bool(unseen),
    )


def about_topic(evaluation: Evaluation, topic: str, partition: int | None) -> Answer:
    """One partition, or all of the topic."""
    wanted = [name for name in names_of(evaluation) if name[0] == topic and partition in (None, name[1])]
    rows = holding(evaluation)
    return Answer(
        subject=f"topic {topic}" if partition is None else f"{topic}-{partition}",
        holds=_worst_first(Hold(row=rows[name]) for name in wanted if name in rows),
        partitions=len(wanted),
        unknown=(*_unread(evaluation, wanted), *_unexamined(evaluation, wanted)),
    )


def about_producer(evaluation: Evaluation, subject: str, producer_ids: Iterable[int], *, aside: str = "") -> Answer:
    """The transactions of these producer ids, whether they hold somebody up or stand behind another one."""
    rows = rows_of_producer(evaluation, frozenset(producer_ids))
    names = names_of(evaluation)
    return Answer(
        subject=subject,
        holds=_worst_first(Hold(row=row) for row in rows),
        partitions=evaluation.snapshot.partitions.included_count,
        unknown=(*_unread(evaluation, names), *_unexamined(evaluation, names)),
        aside="" if rows else aside,
    )


def rows_of_producer(evaluation: Evaluation, producer_ids: AbstractSet[int]) -> list[TransactionRow]:
    """The examined transactions of these producers."""
    of_producer = evaluation.snapshot.open_transactions.producer_id[: evaluation.examined_count].tolist()
    return [transaction_row(evaluation, row) for row, producer in enumerate(of_producer) if producer in producer_ids]


def names_of(evaluation: Evaluation) -> list[TopicPartition]:
    """The partitions of the snapshot, in its order."""
    partitions = evaluation.snapshot.partitions
    return [partitions.name(row) for row in range(len(partitions))]


def _worst_first(holds: Iterable[Hold]) -> tuple[Hold, ...]:
    return tuple(sorted(holds, key=lambda hold: by_impact(hold.row)))


def home_of(evaluation: Evaluation, group: str) -> TopicPartition:
    """The partition of `__consumer_offsets` that has the group's own offsets."""
    count = sum(topic == OFFSETS_TOPIC for topic, _ in names_of(evaluation))
    return OFFSETS_TOPIC, java_hash_partition(group, count) if count else -1


def _unread(evaluation: Evaluation, wanted: Iterable[TopicPartition]) -> Iterator[str]:
    """Says which of these partitions were not read, or are not there."""
    is_covered = dict(zip(names_of(evaluation), evaluation.snapshot.partitions.is_covered.tolist(), strict=True))
    unread = [f"{topic}-{partition}" for topic, partition in wanted if not is_covered.get((topic, partition), False)]
    if unread:
        yield f"{humanize_names(unread, shown_max=NAMES_MAX)} could not be read, or is not visible"


def _unexamined(evaluation: Evaluation, wanted: Iterable[TopicPartition]) -> Iterator[str]:
    """Says which of these partitions have a transaction beyond the limit of what is examined."""
    partitions, open_ = evaluation.snapshot.partitions, evaluation.snapshot.open_transactions
    beyond = {partitions.name(row) for row in set(open_.partition_row[open_.examined_count :].tolist())}
    names = [f"{topic}-{partition}" for topic, partition in wanted if (topic, partition) in beyond]
    if names:
        named = humanize_names(names, shown_max=NAMES_MAX)
        yield f"{named} has transactions that were not examined (scan.transactions_limit)"


def document(evaluation: Evaluation, answer: Answer) -> dict[str, Any]:
    """docs/schema/why.schema.json."""
    return {
        "cluster_id": evaluation.snapshot.cluster_id,
        "taken_at_ms": evaluation.snapshot.taken_at_ms,
        "subject": answer.subject,
        "is_held": answer.is_held,
        "partitions": answer.partitions,
        "lag": answer.lag,
        "unknown": list(answer.unknown),
        "holds": [
            {
                "committed_offset": None if hold.position is None else hold.position.committed,
                "waiting_offsets": None if hold.position is None else hold.position.lag,
                "is_young": answer.is_young(hold.row),
                "transaction": project(hold.row, Output.JSON),
            }
            for hold in answer.holds
        ],
        "stuck": [stuck_transaction(each) for each in answer.stuck],
        "text": in_words(answer),
    }


def in_words(answer: Answer) -> str:
    """A paragraph for each transaction, or a sentence that says that there is none; first whether all are young."""
    paragraphs = [_paragraph(answer, hold) for hold in answer.holds]
    if answer.holds and not answer.is_held:
        paragraphs.insert(0, _all_young(answer))
    paragraphs += [stuck_in_words(each) for each in answer.stuck]
    if not paragraphs:
        paragraphs = [" ".join(filter(None, (_nothing(answer), answer.aside)))]
    paragraphs += [f"Not known: {sentence}." for sentence in answer.unknown]
    return "\n\n".join(paragraphs)


def _nothing(answer: Answer) -> str:
    if answer.unknown:
        return f"No open transaction that could be examined holds {answer.subject}; whether one does is not known."
    among = f"any of its {answer.partitions:,} partitions" if answer.partitions != 1 else "its partition"
    if answer.lag is not None:
        has_own = answer.lag and answer.partitions and not answer.aside
        own = f"; its lag of {humanize_count(answer.lag, 'offset')} is its own" if has_own else ""
        return f"No open transaction holds {answer.subject}{f' on {among}' if answer.partitions else ''}{own}."
    if answer.subject.startswith(("transactional id", "producer id")):
        return f"No transaction of {answer.subject} is open on any partition that was read."
    return f"No open transaction holds {answer.subject} on {among}."


def _paragraph(answer: Answer, hold: Hold) -> str:
    row = hold.row
    named = "" if row.transactional_id is None else f", transactional id {row.transactional_id!r},"
    opened = f"open from offset {row.start_offset} on for {_age(row)}"
    whose = f"producer {row.producer_id}{named}" if row.has_producer else "an unknown producer,"
    since = "" if row.age_by_last_write_ms is not None else f"{START_IN_WORDS[row.start_source]}; "
    behind = f"behind a transaction of {whose} {opened} ({since}verdict {row.verdict.label})"
    lines = [
        f"{_who(answer, hold)} {behind}. {row.reason}",
        " ".join(filter(None, (_waiting(hold), _on_disk(row), _until(row)))),
        *_what_to_do(answer, row),
    ]
    return "\n".join(filter(None, lines))


_YOUNG: Final = "It is young, which is normal."


def _all_young(answer: Answer) -> str:
    count, where = len(answer.holds), " in what could be read" if answer.unknown else ""
    which, one = ("the transaction is", "it") if count == 1 else (f"all {count} transactions are", "one")
    return f"Nothing unusual{where}: {which} young. If {one} is still open in a minute, run this again."


def _what_to_do(answer: Answer, row: TransactionRow) -> tuple[str, ...]:
    if not answer.is_held:
        return ()  # said above all of them
    return (_YOUNG,) if answer.is_young(row) else (_effect(row), _next(row, answer.connection))


def _age(row: TransactionRow) -> str:
    """A command has just seen it first, where its start is not visible."""
    if row.age_by_last_write_ms is not None:
        return f"at least {humanize_duration(row.age_by_last_write_ms)}, by its last write"
    return humanize_duration(row.duration_ms)


def _who(answer: Answer, hold: Hold) -> str:
    row = hold.row
    here = f"{row.topic}-{row.partition}"
    subject = f"{answer.subject[0].upper()}{answer.subject[1:]}"
    if hold.position is not None:
        return f"{subject} stands at offset {hold.position.committed} of {here},"
    if answer.lag is not None:
        return f"{subject} has an offset pending on {here}, which no consumer of it can read,"
    if answer.subject.startswith(("transactional id", "producer id")):
        return f"On {here} everybody who reads committed records waits"
    return f"Readers of committed records stand at offset {row.start_offset} of {here},"


def _waiting(hold: Hold) -> str:
    row = hold.row
    if hold.position is not None:
        return f"{humanize_count(hold.position.lag, 'offset')} {_verb(hold.position.lag, 'waits', 'wait')} for it."
    lag = row.last_stable_offset_lag
    offsets = "" if lag is None else f"{humanize_count(lag, 'offset')} {_verb(lag, 'is', 'are')} held back."
    groups = [group.group for group in row.groups]
    if groups:
        offsets += f" Groups behind it: {humanize_names(groups, shown_max=NAMES_MAX)}."
    else:
        offsets += " No group is seen behind it; readers that commit no offsets cannot be seen."
    return offsets.strip()


def _verb(count: int, of_one: str, of_more: str) -> str:
    return of_one if count == 1 else of_more


def _on_disk(row: TransactionRow) -> str:
    if not row.held_bytes:
        return ""
    return f"About {humanize_bytes(row.held_bytes)} of its log can be neither compacted nor tiered until it ends."


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
    effect = "After an abort its own records are skipped, after a commit they are read; those behind it are read then."
    if row.verdict is not Verdict.OPEN_WITHIN_TIMEOUT:
        return effect
    return (
        f"{effect} A restart of its application with the same id ends it; terminate it only if that does not come back."
    )


def _next(row: TransactionRow, connection: tuple[str, ...]) -> str:
    """A command that prints a plan or a list, and who may carry the plan out: often not the one who asks."""
    place = ["--topic", row.topic, "--partition", str(row.partition)]
    who = ""
    if row.verdict.is_hanging:
        who = _OPERATORS
        words = ["abort", *place, "--start-offset", str(row.start_offset), "--dry-run"]
    elif row.verdict is Verdict.STUCK_COMPLETING:
        who = _OPERATORS
        words = ["complete", *place, "--start-offset", str(row.start_offset), "--dry-run"]
    elif row.transactional_id is not None and row.verdict in _CAN_BE_TERMINATED:
        who = f"the owner of this id or {_OPERATORS}"
        words = ["force-terminate", "--transactional-id", row.transactional_id, "--dry-run"]
    else:
        who = _OPERATORS if row.verdict is Verdict.INCONCLUSIVE else ""
        words = ["find-hanging", *place, "--all"]
    if who == _OPERATORS and "--command-config" in connection:  # the login of whoever asks is not theirs
        at = connection.index("--command-config")
        connection = connection[:at] + connection[at + 2 :]
    return next_line(f"{PROGRAM} {shlex.join([*words, *connection])}", who)


_OPERATORS: Final = "the operators of Kafka"
_CAN_BE_TERMINATED: Final = frozenset({Verdict.OPEN_WITHIN_TIMEOUT, Verdict.OVERDUE_AT_COORDINATOR})
