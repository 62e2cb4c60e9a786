"""Decides who stands still behind which transaction: the answer of `why` as data. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from exporter.commands.group_position import GroupPosition, Stand
from exporter.evaluation.evaluate import by_impact
from exporter.evaluation.humanize import humanize_names
from exporter.evaluation.stuck_transaction import StuckTransaction
from exporter.evaluation.table import transaction_row
from exporter.evaluation.verdicts import Evaluation, Policy, StartSource, TransactionRow, Verdict
from exporter.kafka.state_partitions import java_hash_partition
from exporter.snapshot import NO_PRODUCER_ID, OFFSETS_TOPIC, UNKNOWN_OFFSET, TopicPartition

NAMES_MAX: Final = 5
_UNSEEN: Final = "something open holds it on {}, which was not examined or has begun since: run it again"
_UNREAD: Final = (
    "on {} it stands before an open transaction, and what lies between was not read (needs READ on the topic): if that is "
    "end markers and aborted records only, the transaction holds it"
)
_ASSUMED: Final = (
    "on {} it stands one offset before the transaction, and what is there was not read (needs READ on the topic): it is "
    "taken for an end marker; if it is a record, the group can read that first"
)
_WITHOUT_OFFSET: Final = (
    "on {} it has no committed offset, and a transaction is open there: whether it waits for that cannot be seen; "
    "why --topic says more"
)
_BEYOND: Final = (
    "on {} it is beyond the last stable offset: it reads uncommitted records, or its offsets were set past the "
    "transaction, and it gets nothing before that ends"
)
_NO_OFFSET: Final = (
    "it has committed no offset to Kafka{}, so where it stands cannot be seen; why --topic TOPIC says what holds the "
    "readers of a topic"
)
NO_SHARED_OFFSET: Final = (
    "it is a share group of which Kafka has no offset: it has just begun, or what it has read cannot be kept; why --topic "
    "TOPIC says what holds the readers of a topic"
)
PENDING_UNSEEN: Final = (
    "an offset of it is pending in a transaction, in which one this login does not see (needs DESCRIBE on "
    "__consumer_offsets); if that is so for longer than a moment, none of its consumers can start"
)
_FIRST_UNSEEN: Final = (
    "whether its first offset is pending in a transaction is seen with DESCRIBE on __consumer_offsets alone"
)
NOT_LISTED: Final = "partitions of topics without DESCRIBE for this login are not listed"
OF_THOSE_SEEN: Final = "of those that this login sees"
_WITHOUT_PRODUCER: Final = "on {} a transaction is open whose producer is not visible (needs READ on the topic)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A transaction that holds somebody up on one partition."""

    row: TransactionRow
    position: GroupPosition | None = None
    """The group's, where the question names one."""
    first: TransactionRow | None = None
    """The transaction that holds the readers of this partition now, if it is another one."""
    behind: tuple[TransactionRow, ...] = ()
    """The transactions that hold them afterwards: open on this partition behind it, and not young."""
    next_start: int | None = None
    """Start offset of the next one on this partition, also of a young one."""

    @property
    def stand(self) -> Stand:
        """The place of the group; AT, too, where no group is named, or it waits for a pending offset."""
        return (None if self.position is None else self.position.stand) or Stand.AT


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The transactions that hold somebody up, and what could not be known."""

    subject: str
    """The subject of the question, as the beginning of a sentence: `group G`, `topic T`."""
    holds: tuple[Hold, ...] = ()
    partitions: int = 0
    """The partitions that the question is about."""
    names: AbstractSet[TopicPartition] | None = None
    """Their names; None where the question is about all that were read."""
    stuck: tuple[StuckTransaction, ...] = ()
    """The transactions of the id or producer that a coordinator cannot complete."""
    lag: int | None = None
    """The group's, on all of them; None if no group was named."""
    rest: tuple[GroupPosition, ...] = ()
    """The positions of the group with a lag that none of `holds` is about."""
    unknown: tuple[str, ...] = ()
    """Parts that could not be looked at, a sentence each without its full stop."""
    hides_topics: bool = False
    """True if Kafka may hide offsets of the group, or partitions of the id: this login does not see every topic."""
    aside: str = ""
    """A sentence that explains a negative answer further."""
    has_begun: bool = False
    """True if the group stands at a transaction that has begun since its partition was read, on which nothing was open."""
    may_be_young: bool = False
    """True if the group may wait for a transaction that has just begun, at which it is not known to stand, or soon will."""
    has_moved: bool = False
    """True if the group stands at a transaction that has begun since the partition was read, or was not examined."""
    connection: tuple[str, ...] = ()
    """Options by which the next command finds the cluster, as they were given."""

    connection_of_tools: tuple[str, ...] = ()
    """Options by which Kafka's own tools find it."""

    blocked_after_ms: int = 0
    """A live transaction that is open for less holds nobody up yet (`blocked.after`)."""

    @property
    def is_unproved(self) -> bool:
        """True if it is not known whether what holds somebody up will end."""
        rows = (row for hold in self.holds for row in (hold.row, *hold.behind))
        return any(row.verdict is Verdict.INCONCLUSIVE for row in rows)

    @property
    def is_held(self) -> bool:
        return bool(self.stuck) or any(
            hold.stand is Stand.AT and (bool(hold.behind) or not self.is_young(hold.row)) for hold in self.holds
        )

    def is_stuck(self, row: TransactionRow) -> bool:
        """True if its own marker is the one that does not come: an older epoch of the same producer may hang as well."""
        is_decided = row.verdict in {Verdict.COMPLETING, Verdict.STUCK_COMPLETING}
        return is_decided and any(each.producer_id == row.producer_id for each in self.stuck)

    def is_young(self, row: TransactionRow) -> bool:
        return not self.is_stuck(row) and _is_young(row, self.blocked_after_ms)


def _is_young(row: TransactionRow, blocked_after_ms: int) -> bool:
    is_live = row.verdict in {Verdict.OPEN_WITHIN_TIMEOUT, Verdict.COMPLETING}
    return is_live and row.start_source is StartSource.COORDINATOR and row.duration_ms < blocked_after_ms


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


def lasting(rows: Mapping[TopicPartition, TransactionRow], policy: Policy) -> set[TopicPartition]:
    """The partitions of `holding` whose transaction is not young."""
    return {name for name, row in rows.items() if not _is_young(row, policy.blocked_after_ms)}


def about_group(
    evaluation: Evaluation,
    group: str,
    positions: Mapping[TopicPartition, GroupPosition],
    *,
    is_pending: bool = False,
    hides_topics: bool = False,
    hides_offsets: bool = False,
    unread_positions: Sequence[str] = (),
) -> Answer:
    """`positions` are all that the group has committed. `is_pending`: one of its offsets is pending in a transaction.

    `unread_positions` says which of its positions could not be read.

    `hides_topics`: this login may not see some topics; `hides_offsets`: `__consumer_offsets` is one of them.
    """
    rows = {
        name: row
        for name, row in holding(evaluation).items()
        if name not in positions or _is_still_held(row, positions[name].last_stable_offset)
    }
    long_held = lasting(rows, evaluation.policy)
    holds = [
        Hold(row=rows[partition], position=position)
        for partition, position in positions.items()
        if partition in (rows if position.is_held else long_held) and position.stand is not None
    ]
    beyond = [(hold.row.topic, hold.row.partition) for hold in holds if hold.stand is Stand.BEYOND]
    holds += [Hold(row=rows[home]) for home in [home_of(evaluation, group)] if is_pending and home in rows]
    unknown = list(_unread(evaluation, positions))
    moved = [name for name, position in positions.items() if position.is_held and name not in rows]
    partitions, open_ = evaluation.snapshot.partitions, evaluation.snapshot.open_transactions
    had_one = {partitions.name(row) for row in set(open_.partition_row.tolist())}
    unseen = [name for name in moved if name in had_one]
    # Where nothing was open when the partition was read, it is young.
    is_young = bool(moved) and not unseen and not unknown
    if unseen:
        unknown.append(_UNSEEN.format(_named(unseen)))
    unread, without = _may_wait(positions, long_held)
    young = rows.keys() - long_held
    if unread:
        unknown.append(_UNREAD.format(_named(unread)))
    assumed = [name for name in positions.keys() & rows.keys() if positions[name].is_assumed]
    if assumed:
        unknown.append(_ASSUMED.format(_named(sorted(assumed))))
    if without:
        unknown.append(_WITHOUT_OFFSET.format(_named(without)))
    if beyond:
        unknown.append(_BEYOND.format(_named(beyond)))
    unknown += unread_positions
    if not positions and not holds and not unread_positions:
        seen = " that this login sees (topics without DESCRIBE are hidden)" if hides_topics else ""
        unknown.append(_NO_OFFSET.format(seen))
        if hides_offsets:
            unknown.append(_FIRST_UNSEEN)
    held = {(hold.row.topic, hold.row.partition) for hold in holds}
    return Answer(
        subject=f"group {group}",
        holds=_in_order(evaluation, holds),
        partitions=len(positions),
        names=positions.keys(),
        lag=sum(position.lag for position in positions.values()),
        rest=tuple(position for name, position in positions.items() if position.lag and name not in held),
        unknown=tuple(unknown),
        hides_topics=hides_topics,
        has_begun=is_young,
        may_be_young=any(_may_wait(positions, young))
        or any(positions[name].stand in {Stand.BEFORE, Stand.BEYOND} for name in young & positions.keys()),
        has_moved=bool(unseen),
    )


def _is_still_held(row: TransactionRow, last_stable_offset: int) -> bool:
    """False if the transaction has ended since: positions are read after the cycle. Deleted records end no hang."""
    return row.verdict.is_hanging or last_stable_offset in {UNKNOWN_OFFSET, row.start_offset}


def _may_wait(
    positions: Mapping[TopicPartition, GroupPosition], held: AbstractSet[TopicPartition]
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Returns where the group may wait on the partitions `held`: before what was not read, and without an offset.

    Clients such as librdkafka commit an offset only where they have read a record.
    """
    topics = {topic for topic, _ in positions}
    unread = [name for name, position in positions.items() if name in held and position.is_unread]
    without = sorted(name for name in held - positions.keys() if name[0] in topics)
    return unread, without


def _named(partitions: Iterable[TopicPartition]) -> str:
    return humanize_names([f"{topic}-{number}" for topic, number in partitions], shown_max=NAMES_MAX)


def about_topic(evaluation: Evaluation, topic: str, partition: int | None) -> Answer:
    """One partition, or all of the topic."""
    wanted = [name for name in names_of(evaluation) if name[0] == topic and partition in (None, name[1])]
    rows = holding(evaluation)
    holds = _in_order(evaluation, (Hold(row=rows[name]) for name in wanted if name in rows))
    return Answer(
        subject=f"topic {topic}" if partition is None else f"{topic}-{partition}",
        holds=holds,
        partitions=len(wanted),
        names=frozenset(wanted),
        unknown=(*_unread(evaluation, wanted), *_unexamined(evaluation, wanted), *_unread_groups(evaluation, holds)),
    )


def about_producer(evaluation: Evaluation, subject: str, producer_ids: Iterable[int]) -> Answer:
    """The transactions of these producer ids, whether they hold somebody up or stand behind another one."""
    rows = rows_of_producer(evaluation, frozenset(producer_ids))
    names = names_of(evaluation)
    holds = _in_order(evaluation, (Hold(row=row) for row in rows))
    return Answer(
        subject=subject,
        holds=holds,
        partitions=evaluation.snapshot.partitions.included_count,
        unknown=(
            *_unread(evaluation, names),
            *_unexamined(evaluation, names),
            *_without_producer(evaluation),
            *_unread_groups(evaluation, holds),
        ),
    )


def _unread_groups(evaluation: Evaluation, holds: Sequence[Hold]) -> Iterator[str]:
    """Says which groups behind these transactions could not be read."""
    impact = evaluation.snapshot.impact
    for failure in impact.unread if holds and impact is not None else ():
        yield f"which other groups wait: {failure}"


def _without_producer(evaluation: Evaluation) -> Iterator[str]:
    """Says where something is open that may be of any producer."""
    open_, partitions = evaluation.snapshot.open_transactions, evaluation.snapshot.partitions
    held = open_.partition_row[open_.producer_id == NO_PRODUCER_ID].tolist()
    if held:
        yield _WITHOUT_PRODUCER.format(_named(map(partitions.name, sorted(set(held)))))


def rows_of_producer(evaluation: Evaluation, producer_ids: AbstractSet[int]) -> list[TransactionRow]:
    """The examined transactions of these producers."""
    of_producer = evaluation.snapshot.open_transactions.producer_id[: evaluation.examined_count].tolist()
    return [transaction_row(evaluation, row) for row, producer in enumerate(of_producer) if producer in producer_ids]


def names_of(evaluation: Evaluation) -> list[TopicPartition]:
    """The partitions of the snapshot, in its order."""
    partitions = evaluation.snapshot.partitions
    return [partitions.name(row) for row in range(len(partitions))]


def _in_order(evaluation: Evaluation, holds: Iterable[Hold]) -> tuple[Hold, ...]:
    """The worst first, each with the transactions before and behind it on its partition."""
    holds, open_ = tuple(holds), evaluation.snapshot.open_transactions
    wanted = {(hold.row.topic, hold.row.partition) for hold in holds}
    of: dict[TopicPartition, list[TransactionRow]] = {}
    for place, partition_row in enumerate(open_.partition_row[: evaluation.examined_count].tolist()):
        name = evaluation.snapshot.partitions.name(partition_row)
        if name in wanted:
            of.setdefault(name, []).append(transaction_row(evaluation, place))

    def placed(hold: Hold) -> Hold:
        rows = sorted(of[hold.row.topic, hold.row.partition], key=lambda row: row.start_offset)
        behind = [row for row in rows if row.start_offset > hold.row.start_offset]
        return replace(
            hold,
            first=None if rows[0].start_offset >= hold.row.start_offset else rows[0],
            behind=tuple(row for row in behind if not _is_young(row, evaluation.policy.blocked_after_ms)),
            next_start=behind[0].start_offset if behind else None,
        )

    return tuple(sorted(map(placed, holds), key=lambda hold: by_impact(hold.row)))


def home_of(evaluation: Evaluation, group: str) -> TopicPartition:
    """The partition of `__consumer_offsets` that has the group's own offsets."""
    count = sum(topic == OFFSETS_TOPIC for topic, _ in names_of(evaluation))
    return OFFSETS_TOPIC, java_hash_partition(group, count) if count else -1


def _unread(evaluation: Evaluation, wanted: Iterable[TopicPartition]) -> Iterator[str]:
    """Says which of these partitions were not read, or are not there."""
    is_covered = dict(zip(names_of(evaluation), evaluation.snapshot.partitions.is_covered.tolist(), strict=True))
    unread = [name for name in wanted if not is_covered.get(name, False)]
    if unread:
        yield f"{_named(unread)} could not be read, or is not visible"


def _unexamined(evaluation: Evaluation, wanted: Iterable[TopicPartition]) -> Iterator[str]:
    """Says which of these partitions have a transaction beyond the limit of what is examined."""
    partitions, open_ = evaluation.snapshot.partitions, evaluation.snapshot.open_transactions
    beyond = {partitions.name(row) for row in set(open_.partition_row[open_.examined_count :].tolist())}
    names = [name for name in wanted if name in beyond]
    if names:
        yield f"{_named(names)} has transactions that were not examined (scan.transactions_limit)"
