"""Says who stands still behind which transaction, until when, and what to do next: the answer of `why` as a text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from exporter.commands.group_position import GroupPosition, Stand
from exporter.commands.lines import CLIENT_FILE, JAVA_FILE, next_line, to_paste, with_another_login
from exporter.commands.standstill import NAMES_MAX, OF_THOSE_SEEN, Answer, Hold
from exporter.evaluation.blocked import is_assumed
from exporter.evaluation.humanize import humanize_bytes, humanize_count, humanize_duration, humanize_names, printable
from exporter.evaluation.reasons import START_IN_WORDS, until_in_words
from exporter.evaluation.stuck import stuck_in_words
from exporter.evaluation.stuck_transaction import StuckTransaction
from exporter.evaluation.verdicts import StartSource, TransactionRow, Verdict
from exporter.snapshot import OFFSETS_TOPIC, MarkerFinding


def in_words(answer: Answer) -> str:
    """A paragraph for each transaction, or a sentence that there is none; first whether all are young, or ahead."""
    paragraphs: list[Sequence[str]] = [_paragraph(answer, hold) for hold in answer.holds]
    if answer.holds and not answer.is_held:
        stands = {hold.stand for hold in answer.holds}
        if stands == {Stand.AT}:
            paragraphs.insert(0, (_all_young(answer),))
        elif Stand.BEYOND not in stands:
            paragraphs.insert(0, (_nothing(answer),))
    paragraphs += [_stuck_paragraph(answer, each) for each in answer.stuck]
    if answer.is_held and not answer.unknown:
        paragraphs += [(sentence,) for sentence in _elsewhere(answer)]
    if not paragraphs:
        paragraphs = [(" ".join(filter(None, (_nothing(answer), answer.aside))),)]
    if answer.hides_topics and answer.lag is None:
        paragraphs.append((_MAY_BE_OPEN_ELSEWHERE,))
    elif answer.hides_topics and (answer.holds or answer.unknown):
        paragraphs.append((_MAY_STAND_ELSEWHERE,))
    paragraphs += [(f"Not known: {sentence}.",) for sentence in answer.unknown]
    return "\n\n".join("\n".join(map(printable, lines)) for lines in paragraphs)


_MAY_STAND_ELSEWHERE: Final = (
    "Topics without DESCRIBE for this login are hidden: if the group reads one, it may stand still there, too."
)

_MAY_BE_OPEN_ELSEWHERE: Final = (
    "Topics without DESCRIBE for this login are hidden: something of it may be open, or hang, there."
)


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
    if answer.may_be_young:
        which = f"transaction that is open for {humanize_duration(answer.blocked_after_ms)} or longer"
        unless = ", or it waits for a transaction that has just begun"
    no = f"No {which} holds {answer.subject}"
    if not answer.partitions:
        return f"{no}."
    seen = (
        "this login sees an offset of it; topics without DESCRIBE are hidden"
        if answer.hides_topics
        else "it has an offset"
    )
    no = f"{no} on {_any_partition(answer, 'the')} where {seen}"
    if not lag:
        return f"{no}."
    later = sum(_behind(hold.position) for hold in answer.holds if hold.position and hold.stand is Stand.BEFORE)
    offsets = humanize_count(lag, "offset")
    if answer.rest and not answer.holds and all(position.has_read_all for position in answer.rest):
        are = _verb(lag, "is an end marker or an aborted record", "are end markers and aborted records")
        return f"{no}, and nothing is left for it to read: the {offsets} of its lag {are}{unless}."
    own = f"its lag of {offsets}, in which markers and aborted records count, {_cause(answer.rest)}"
    if later:
        own = (
            f"of its lag of {offsets}, {later:,} {_verb(later, 'is', 'are')} behind what is below, "
            f"and {lag - later:,}, in which markers and aborted records count, {_verb(lag - later, 'has', 'have')} another "
            "cause"
        )
    return f"{no}; {own}{unless}. {_describe(answer)}"


def _cause(positions: Iterable[GroupPosition]) -> str:
    return "is its own: it has records to read" if any(each.can_read for each in positions) else "has another cause"


def _elsewhere(answer: Answer) -> Iterator[str]:
    """Says that a group which is held here has a lag of its own on other partitions."""
    left = [position for position in answer.rest if not position.has_read_all]
    if left and all(hold.position is not None for hold in answer.holds):
        lag = humanize_count(sum(position.lag for position in left), "offset")
        partitions = humanize_count(len(left), "other partition")
        yield (
            f"On {partitions} no open transaction holds it; its lag of {lag} there, in which markers and aborted records "
            f"count, {_cause(left)}. {_describe(answer)}"
        )


def _describe(answer: Answer) -> str:
    """Says how to see whether the group's members move: the command of Kafka, and which file with a login it needs."""
    words = [*answer.connection_of_tools, "--describe", "--group", answer.subject.removeprefix("group ")]
    *_, file = answer.connection_of_tools or ("",)
    is_to_make = file in {CLIENT_FILE, JAVA_FILE} and file not in answer.connection
    login = f" ({file} has this login as Java's clients write it)" if is_to_make else ""
    return f"See whether its members run and move{login}: {to_paste('kafka-consumer-groups.sh', *words)}"


def _behind(position: GroupPosition) -> int:
    return position.high_watermark - position.last_stable_offset


def _any_partition(answer: Answer, article: str) -> str:
    return f"any of {article} {answer.partitions:,} partitions" if answer.partitions != 1 else f"{article} partition"


def _paragraph(answer: Answer, hold: Hold) -> Sequence[str]:
    row = hold.row
    opened = f"open from offset {row.start_offset} on {_age(row)}"
    comma = "," if not row.has_producer or row.transactional_id is not None else ""
    who = f"{_who(answer, hold)} behind a transaction of {_owner(row)}{comma} {opened}"
    if answer.is_young(row):
        return (f"{who}.{_YOUNG if answer.is_held else ''}", *_then(hold, answer.connection))
    has_start = row.start_source is not StartSource.FIRST_SEEN and not _may_be_of_another(row)
    since = f"{START_IN_WORDS[row.start_source]}; " if has_start else ""
    is_stuck = answer.is_stuck(row)
    lines = [
        f"{who} ({since}verdict {row.verdict.label}). {row.reason}",
        " ".join(filter(None, (_waiting(answer, hold), _on_disk(row), "" if is_stuck else _until(row)))),
        *(() if is_stuck else (_effect(answer, hold), _next(row, answer.connection))),
        *_then(hold, answer.connection),
    ]
    return tuple(filter(None, lines))


def _then(hold: Hold, connection: tuple[str, ...]) -> Iterator[str]:
    """Names the transactions that hold the same readers afterwards, each with its own command."""
    for row in hold.behind[:NAMES_MAX]:
        yield (
            f"Behind it on {row.topic}-{row.partition}, from offset {row.start_offset} on, they wait for a transaction of "
            f"{_owner(row)}: verdict {row.verdict.label}. "
            f"{f'{row.reason} ' if row.verdict is Verdict.INCONCLUSIVE else ''}{_until(row)}"
        )
        yield _next(row, connection)
    if len(hold.behind) > NAMES_MAX:
        yield f"And behind {humanize_count(len(hold.behind) - NAMES_MAX, 'more transaction')}."


def _owner(row: TransactionRow) -> str:
    named = "" if row.transactional_id is None else f", transactional id {row.transactional_id!r}"
    return f"producer {row.producer_id}{named}" if row.has_producer else "an unknown producer"


def _stuck_paragraph(answer: Answer, stuck: StuckTransaction) -> Sequence[str]:
    """The finding, and the plan of each marker that is still missing here, or else the runbook that has what ends it."""
    rows = [hold.row for hold in answer.holds if answer.is_stuck(hold.row)]
    open_ = [row for row in rows if row.producer_id == stuck.producer_id]
    next_ = [_next(row, answer.connection, verdict=Verdict.STUCK_COMPLETING) for row in open_]
    is_contradicted = stuck.markers_state is MarkerFinding.CONTRADICTED
    runbook = f"KafkaTransaction{'OutcomeContradicted' if is_contradicted else 'ProducerCannotStart'}"
    there = (
        f"The operators of Kafka have the next steps in the runbook {runbook}, which the exporter has at /runbooks/."
    )
    return (stuck_in_words(stuck), *((not is_contradicted and next_) or [there]))


_YOUNG: Final = " It is young, which is normal."


def _all_young(answer: Answer) -> str:
    where = " in what could be read" if answer.unknown else " in what this login sees" if answer.hides_topics else ""
    count = len(answer.holds)
    which, one = ("the transaction is", "it") if count == 1 else (f"all {count} transactions are", "one")
    return f"Nothing unusual{where}: {which} young. If {one} is still open in a minute, run this again."


def _may_be_of_another(row: TransactionRow) -> bool:
    """True where only the offset is known: of the active transactions that may own it, perhaps none does."""
    return row.verdict is Verdict.OPEN_WITHIN_TIMEOUT and not row.has_producer


def _age(row: TransactionRow) -> str:
    """A command has just seen it first, where its start is not visible."""
    if row.age_by_last_write_ms is not None:
        return f"for at least {humanize_duration(row.age_by_last_write_ms)}, by its last write"
    if row.start_source is StartSource.FIRST_SEEN:
        return "for an unknown time"
    at_most, if_alive = ("at most ", ", if its owner is alive") if _may_be_of_another(row) else ("", "")
    return f"for {at_most}{humanize_duration(row.duration_ms)}{if_alive}"


def _who(answer: Answer, hold: Hold) -> str:
    row = hold.row
    here = f"{row.topic}-{row.partition}"
    subject = _capitalized(answer.subject)
    if hold.position is not None:
        at = f"{subject} stands at offset {hold.position.committed} of {here},"
        if hold.stand is Stand.BEFORE:
            return f"{at} and will wait from offset {hold.position.last_stable_offset} on"
        if hold.stand is Stand.BEYOND:
            stable = hold.position.last_stable_offset
            return f"{at} beyond its last stable offset {stable}; if it reads committed records, it gets none"
        return at
    if answer.lag is not None:
        return f"{subject} has an offset pending on {here}, which no consumer of it can read,"
    if row.topic == OFFSETS_TOPIC:
        return f"Consumers of a group with an offset pending on {here} cannot start"
    if hold.first is not None:
        return f"Readers of committed records stand at offset {hold.first.start_offset} of {here}, and wait later"
    if answer.subject.startswith(("transactional id", "producer id")):
        return f"On {here} everybody who reads committed records waits"
    return f"Readers of committed records stand at offset {row.start_offset} of {here},"


def _capitalized(subject: str) -> str:
    return f"{subject[0].upper()}{subject[1:]}"


def _waiting(answer: Answer, hold: Hold) -> str:
    row = hold.row
    if hold.position is not None and hold.stand is Stand.BEYOND:
        return f"Its lag on this partition is {hold.position.lag:,}."
    if hold.position is not None:
        behind = _behind(hold.position)
        its_lag = "" if behind == hold.position.lag else f"; its lag on this partition is {hold.position.lag:,}"
        return f"{humanize_count(behind, 'offset')} {_verb(behind, 'waits', 'wait')} for it{its_lag}."
    lag = row.last_stable_offset_lag
    if hold.first is not None:
        lag = None if lag is None else max(lag - row.start_offset + hold.first.start_offset, 0)
        return "" if lag is None else f"{humanize_count(lag, 'offset')} {_verb(lag, 'is', 'are')} behind its start."
    offsets = "" if lag is None else f"{humanize_count(lag, 'offset')} {_verb(lag, 'is', 'are')} held back."
    if answer.lag is not None:
        return offsets
    return " ".join(filter(None, (offsets, *_groups(row))))


_UNSEEN: Final = "readers that commit no offsets, and groups without DESCRIBE, cannot be seen"
_UNSEEN_OF_OFFSETS: Final = "one that commits for the first time is seen by why --group alone"


def _groups(row: TransactionRow) -> Iterator[str]:
    # One with a pending offset has no position of its own. One that stands at a young transaction is not called blocked.
    waiting = [one for one in row.groups if one.stands_still or one.committed_offset == row.start_offset]
    assumed = [one for one in waiting if is_assumed(row, one)]
    waits = [one.group for one in waiting if one not in assumed]
    others = [one for one in row.groups if one not in waiting]
    if assumed:
        yield (
            "One offset before it, which is taken for an end marker and may be a record (needs READ on the topic): "
            f"{humanize_names([one.group for one in assumed], shown_max=NAMES_MAX)}."
        )
    if waits:
        yield f"Groups that wait: {humanize_names(waits, shown_max=NAMES_MAX)} ({OF_THOSE_SEEN})."
    elif not assumed:
        yield f"No group is seen to wait; {_UNSEEN_OF_OFFSETS if row.topic == OFFSETS_TOPIC else _UNSEEN}."
    for is_beyond, words in (
        (False, "Before it, perhaps with records to read"),
        (True, "Beyond it, where readers of committed records get nothing"),
    ):
        names = [one.group for one in others if ((one.committed_offset or 0) > row.start_offset) is is_beyond]
        if names:
            yield f"{words}: {humanize_names(names, shown_max=NAMES_MAX)}."


def _verb(count: int, of_one: str, of_more: str) -> str:
    return of_one if count == 1 else of_more


def _on_disk(row: TransactionRow) -> str:
    if not row.held_bytes:
        return ""
    held = f"About {humanize_bytes(row.held_bytes)} of the partition's log"
    return f"{held} can be neither compacted nor tiered until it ends."


def _until(row: TransactionRow) -> str:
    if _may_be_of_another(row):
        within = until_in_words(row)
        return f"If one of these owns it: {within[:1].lower()}{within[1:]} {_IF_NOT}"
    if row.verdict is Verdict.OPEN_WITHIN_TIMEOUT:
        return until_in_words(row)
    return _UNTIL[row.verdict]


_IF_NOT: Final = (
    "If the last stable offset stays there afterwards, it is held by another one, which may hang: do not restart its "
    "application."
)
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


def _effect(answer: Answer, hold: Hold) -> str:
    """Says what they will read next."""
    row = hold.row
    if hold.position is not None and hold.stand is Stand.BEYOND:
        at = hold.position.committed
        return (
            f"If so, it reads from offset {at} on when that has ended, and never what is committed from {row.start_offset} "
            f"on and before {at}, unless its offsets are set back."
        )
    if row.verdict in {Verdict.STUCK_COMPLETING, Verdict.COMPLETING}:
        return ""
    if row.topic == OFFSETS_TOPIC:
        return f"{_OF_OFFSETS}{_NO_RESTART if _may_hang(row) else ''}"
    if row.verdict.is_hanging:
        return _HANGS.format(_those_behind(hold))
    if row.verdict is Verdict.INCONCLUSIVE:
        return _MAY_HANG.format(_those_behind(hold))
    behind = _those_behind(hold)
    effect = f"After an abort its own records are skipped, after a commit they are read; {behind} are read then."
    if row.verdict is not Verdict.OPEN_WITHIN_TIMEOUT or _may_be_of_another(row):
        return effect
    same_id = [other.row for other in answer.holds if other.row.transactional_id == row.transactional_id]
    if hanging := [f"{each.topic}-{each.partition}" for each in same_id if _may_hang(each)]:
        return f"{effect} {_HANGS_TOO.format(humanize_names(hanging, shown_max=NAMES_MAX))}"
    return (
        f"{effect} A restart of its application with the same id ends it; terminate it only if that does not come back."
    )


def _may_hang(row: TransactionRow) -> bool:
    return row.verdict.is_hanging or row.verdict is Verdict.INCONCLUSIVE


def _those_behind(hold: Hold) -> str:
    return "those behind it" if hold.next_start is None else f"those behind it up to offset {hold.next_start}"


_OF_OFFSETS: Final = (
    "After an abort the group's former offsets count (without one, auto.offset.reset), after a commit those of the "
    "transaction. Groups without a pending offset are not affected."
)
_NO_RESTART: Final = (
    " Do not restart its application to end it: the producer's next commit there would be a commit of these offsets."
)
_HANGS_TOO: Final = (
    "Do not restart its application: it also hangs, or may hang, on {}, and its next commit there would make those records "
    "visible. force-terminate ends this one alone."
)
_HANGS: Final = (
    "After an abort its own records are skipped, and {} are read. Do not restart its application to end it: "
    "the producer's next commit on this partition would make these records visible."
)
_MAY_HANG: Final = (
    "Do not restart its application before they have answered: if it hangs, the producer's next commit on this partition "
    "makes its records visible. After an abort they are skipped, and {} are read."
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
    if who == _OPERATORS and "--command-config" in connection:  # the login of whoever asks is not theirs
        connection, who = with_another_login(connection), f"{who}, whose login is in {CLIENT_FILE}"
    return next_line([*words, *connection], who)


_OPERATORS: Final = "the operators of Kafka"
_CAN_BE_TERMINATED: Final = frozenset({Verdict.OPEN_WITHIN_TIMEOUT, Verdict.OVERDUE_AT_COORDINATOR})
