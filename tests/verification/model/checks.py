"""Checks the invariants of one cycle: what must be true of every output of the exporter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from exporter.evaluation.verdicts import Evaluation, InconclusiveReason, OutcomeEvidence, TransactionRow, Verdict
from exporter.snapshot import TransactionKey
from tests.verification.model import rights
from tests.verification.model.cluster import Cluster
from tests.verification.model.drive import POLICY, is_complete, rows_of
from tests.verification.model.image import STATE_TOPIC
from tests.verification.model.truth import Fate, OpenKey, Standing
from tests.verification.model.world import Moment, World

FAILED_READS = frozenset(
    {
        "second_read_failed",
        "coordinator_unanswered",
        "transaction_state_unknown",
        "state_partition_offline",
        "loading",
    }
)
MARGIN_MS = 60_000
"""Between what a coordinator's timer may do and what is called wrong."""


class Violation(NamedTuple):
    """One lie."""

    invariant: str
    kind: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.invariant} {self.kind}: {self.sentence}"


class Cycle(NamedTuple):
    """One evaluation, and the moments in which it was made."""

    world: World
    evaluation: Evaluation
    rows: tuple[TransactionRow, ...]
    began: int
    """The moment at which it began."""
    seen_before: frozenset[str]
    """Topics that an earlier cycle has shown."""
    is_settled: bool
    """Nothing has happened for some cycles."""
    is_elsewhere: bool = False
    """It is the cycle of a process that has seen another cluster."""

    @property
    def moments(self) -> list[Moment]:
        """From its beginning to its end."""
        return self.world.moments[self.began :]


def violations_of(cycle: Cycle) -> list[Violation]:
    """Every lie of one cycle."""
    found: list[Violation] = []
    if _is_source_behind(cycle):
        cycle = cycle._replace(is_settled=False)
    can_be_known = is_any_in_touch(cycle.world.cluster)
    for row in cycle.rows:
        key = OpenKey(row.topic, row.partition, row.producer_id, row.start_offset)
        if not row.has_producer:
            found += _of_offset(cycle, row)
            continue
        if row.verdict.is_hanging and not (_is_right_back(cycle) or _is_progress_unknown(cycle)):
            found += _of_hanging(cycle, row, key)
        elif row.verdict in {Verdict.REPLICA_DIVERGED, Verdict.STUCK_COMPLETING}:
            found += _of_closed(cycle, row, key)
        found += _of_outcome(cycle, row, key)
        if can_be_known or row.verdict is Verdict.OVERDUE_AT_COORDINATOR:
            found += _of_ages(cycle, row, key)
    if is_complete(cycle.evaluation):
        found += _of_coverage(cycle)
        if cycle.is_settled and not can_be_known and _shows_progress(cycle.world.cluster):
            found.append(
                Violation("I4", "source", "coverage is complete, and no broker that answers knows the cluster")
            )
        if cycle.is_elsewhere:
            found.append(
                Violation(
                    "I8", "another cluster", "coverage is complete, and this is not the cluster that was seen before"
                )
            )
    return found


def is_any_in_touch(cluster: Cluster) -> bool:
    """True if some responding broker knows everything that its controller decided. Otherwise no better view exists."""
    return any(
        broker.is_connected and not broker.is_silent and broker.view.offset == cluster.image.offset
        for broker in cluster.brokers.values()
    )


def _shows_progress(cluster: Cluster) -> bool:
    """True if DescribeQuorum is granted; without it a broker's progress is unknown."""
    return rights.allows(cluster.image.rights, rights.DESCRIBE, rights.CLUSTER)


def _last_reads(cycle: Cycle, key: OpenKey) -> list[int]:
    """The moments of the reads after the coordinators responded; the last read if there are none."""
    reads = cycle.world.reads.get((key.topic, key.partition), [])
    last = [read for read in reads if read.request > _last_asked(cycle)] or reads[-1:]
    return [read.moment for read in last]


def _last_asked(cycle: Cycle) -> int:
    """The last request to a coordinator about producers: a proof by offsets comes after it, and asks again.

    That one begins with the ends of partitions whose producers were not read before.
    """
    world = cycle.world
    first = {partition: reads[0].request for partition, reads in world.reads.items()}
    ends = [
        read.request
        for partition, reads in world.reads_of_end.items()
        for read in reads
        if read.request < first.get(partition, read.request + 1)
    ]
    asked = world.asked_coordinators
    before = [request for request in asked if request < min(ends, default=asked[-1] + 1)]
    return (before or asked)[-1]


def _of_hanging(cycle: Cycle, row: TransactionRow, key: OpenKey) -> Iterable[Violation]:
    """I1: at some moment of the cycle it was true, and the last read showed the very same records.

    Where no transaction log is shown in the whole cycle, nothing can be known to be true.
    """
    moments, reads = cycle.world.moments, _last_reads(cycle, key)
    if not _is_state_topic_shown(cycle):
        return [Violation("I1", "absent", f"{_claim(row)}, and no broker has shown {STATE_TOPIC}")]
    for read in reads:
        shown = moments[read].standings.get(key)
        if shown is None:
            continue
        for moment in moments[cycle.began : read + 1]:
            then = moment.standings.get(key)
            if then is not None and then.identity == shown.identity and _is_true(row.verdict, then):
                return _of_replicas(row, key, [moment.standings.get(key) for moment in moments[cycle.began :]])
    now = moments[-1 if not reads else reads[-1]].standings.get(key)
    if now is None:
        return [Violation("I1", "ended", f"{_claim(row)}, and it had ended")]
    if all(topic_id != now.topic_id for name, topic_id, _ in moments[cycle.began].topics if name == key.topic):
        return [Violation("I1", "made again", f"{_claim(row)}, and its topic was deleted and made again meanwhile")]
    return [Violation("I1", now.fate.value, f"{_claim(row)}, and it was {now.fate.value}")]


def _of_offset(cycle: Cycle, row: TransactionRow) -> Iterable[Violation]:
    """I1 and I5 where only the offset is known: a transaction that may hold it is open, and hangs if that is said.

    The last stable offset stands at the start of the log where the records before it are deleted.
    """
    seen = [
        {
            (key, standing.topic_id): standing.fate
            for key, standing in moment.standings.items()
            if (key.topic, key.partition) == (row.topic, row.partition) and key.start_offset <= row.start_offset
        }
        for moment in cycle.moments
    ]
    is_judged = cycle.is_settled and row.verdict is Verdict.OPEN_WITHIN_TIMEOUT and is_any_in_touch(cycle.world.cluster)
    if not any(seen) and (row.verdict.is_hanging or is_judged):
        return [Violation("I5", "ended", f"{_claim(row)}, and nothing is open there")]
    if not row.verdict.is_hanging or _is_right_back(cycle) or _is_progress_unknown(cycle):
        return []
    if not _is_state_topic_shown(cycle):
        return [Violation("I1", "absent", f"{_claim(row)}, and no broker has shown {STATE_TOPIC}")]
    at_last = seen[cycle.world.last_listed_at - cycle.began]
    is_taken_in = bool(at_last) and Fate.HANGING not in at_last.values()
    for read in () if is_taken_in else cycle.world.reads_of_end.get((row.topic, row.partition), []):
        until = read.moment - cycle.began
        hung = {key for moment in seen[: until + 1] for key, fate in moment.items() if fate is Fate.HANGING}
        if hung & seen[until].keys():
            return []
    if (row.topic, row.partition) in cycle.world.lost_markers:
        return []  # a log that loses records within a leader epoch: docs/proof.md assumes that none does
    fates = sorted({fate.value for moment in seen for fate in moment.values()})
    return [Violation("I1", "by offsets", f"{_claim(row)}, and it was {' or '.join(fates)}")]


def _is_progress_unknown(cycle: Cycle) -> bool:
    """The remaining gap of docs/proof.md, which may have been there for a part of the cycle only."""
    return any(moment.is_progress_unknown for moment in cycle.moments)


def _is_source_behind(cycle: Cycle) -> bool:
    """Another remaining gap: the broker that returned the metadata was behind, and its progress could not be read."""
    world = cycle.world
    return world.metadata_from in world.moments[world.metadata_at].unknown_progress


def _is_right_back(cycle: Cycle) -> bool:
    """An ACL was added and removed within the cycle, or the other way round: docs/proof.md assumes that none is."""
    changes: Counter[rights.Acl] = Counter()
    for one, other in zip(cycle.moments, cycle.moments[1:], strict=False):
        if one.rights is not other.rights:
            changes.update(set(one.rights.acls) ^ set(other.rights.acls))
    return any(count > 1 for count in changes.values())


def _is_state_topic_shown(cycle: Cycle) -> bool:
    is_there = any(name == STATE_TOPIC for moment in cycle.moments for name, _, _ in moment.topics)
    return is_there and not cycle.world.cluster.kind.gateway


def _is_true(verdict: Verdict, standing: Standing) -> bool:
    if verdict is Verdict.HANGING_STALE_EPOCH:
        return standing.fate is Fate.STALE
    has_id = verdict is Verdict.HANGING_NOT_IN_TRANSACTION
    return standing.fate is Fate.HANGING and (standing.transaction is not None) is has_id


def _of_replicas(row: TransactionRow, key: OpenKey, seen: list[Standing | None]) -> Iterable[Violation]:
    if all(standing is not None and standing.is_closed_in_sync for standing in seen):
        return [Violation("I1", "replica", f"{_claim(row)}, and an in-sync follower of {key.topic} has its marker")]
    return []


def _of_closed(cycle: Cycle, row: TransactionRow, key: OpenKey) -> Iterable[Violation]:
    """I1, of other verdicts for an operator: it was open at some moment of the cycle."""
    if any(key in moment.standings for moment in cycle.moments):
        return _of_stuck(cycle, row, key)
    return [Violation("I1", "closed", f"{_claim(row)}, and it had ended")]


def _of_stuck(cycle: Cycle, row: TransactionRow, key: OpenKey) -> Iterable[Violation]:
    """I5: what is called stuck has been completing for as long as the policy says, by the cluster's clock."""
    cluster = cycle.world.cluster
    seen = [
        standing.transaction.serial
        for moment in cycle.moments
        if (standing := moment.standings.get(key)) and standing.transaction
    ]
    decided = [cluster.decided_ms[serial] for serial in seen if serial in cluster.decided_ms]
    if row.verdict is not Verdict.STUCK_COMPLETING or not decided:
        return []
    if cluster.now_ms - min(decided) >= POLICY.stuck_after_ms:
        return []
    return [Violation("I5", "hasty", f"{_claim(row)}, and it was decided a moment ago")]


def _of_outcome(cycle: Cycle, row: TransactionRow, key: OpenKey) -> Iterable[Violation]:
    """I2: no outcome that the truth contradicts."""
    judged = row.verdict.is_hanging or row.verdict in {Verdict.REPLICA_DIVERGED, Verdict.INCONCLUSIVE}
    if not judged or row.outcome_evidence is OutcomeEvidence.NONE:
        return []
    reads = _last_reads(cycle, key)
    if not reads:
        return []
    moment = cycle.world.moments[reads[0]]
    standing = moment.standings.get(key)
    if standing is None or not standing.serials:
        return []
    if row.outcome_evidence is OutcomeEvidence.ABORTED and standing.serials & moment.committed:
        return [Violation("I2", "aborted", f"{_claim(row)}, outcome aborted, and its transaction was committed")]
    if row.outcome_evidence is OutcomeEvidence.COMMITTED and not _may_be_taken_for_committed(cycle, key, standing):
        return [Violation("I2", "committed", f"{_claim(row)}, outcome committed, and its transaction was not")]
    return []


def _may_be_taken_for_committed(cycle: Cycle, key: OpenKey, standing: Standing) -> bool:
    """True when it was committed; or another of its producer was, which may share its epoch: that errs on the safe side."""
    committed = frozenset[int]().union(*(moment.committed for moment in cycle.moments))
    begun = {**cycle.world.cluster.begun, **(behind.begun if (behind := cycle.world.cluster.behind) else {})}
    return bool(standing.serials & committed) or any(begun[serial] == key.producer_id for serial in committed)


def _of_ages(cycle: Cycle, row: TransactionRow, key: OpenKey) -> Iterable[Violation]:
    """I5: what is owned, and for how long, as the truth has it."""
    if row.verdict not in {Verdict.OPEN_WITHIN_TIMEOUT, Verdict.OVERDUE_AT_COORDINATOR}:
        return []
    seen = [moment.standings.get(key) for moment in cycle.moments]
    now_ms = cycle.world.cluster.now_ms
    if row.verdict is Verdict.OVERDUE_AT_COORDINATOR:
        young = any(seen) and all(standing is None or not _is_older(standing, now_ms, 0) for standing in seen)
        if young and all(standing is None or standing.fate is Fate.LIVE for standing in seen):
            return [Violation("I5", "young", f"{_claim(row)}, and it was younger than its time-out")]
    if row.verdict is Verdict.OPEN_WITHIN_TIMEOUT and not cycle.is_settled:
        return []  # rests on the source of the metadata, which is checked every third cycle
    if all(standing is None for standing in seen):
        return [Violation("I5", "ended", f"{_claim(row)}, and it had ended")]
    if all(standing is not None and standing.fate in {Fate.HANGING, Fate.STALE} for standing in seen):
        return [Violation("I5", "hanging", f"{_claim(row)}, and it hangs")]
    if row.verdict is Verdict.OVERDUE_AT_COORDINATOR:
        return []
    slack_ms = POLICY.overdue_slack_ms + MARGIN_MS
    if all(
        standing is not None and standing.fate is Fate.LIVE and _is_older(standing, now_ms, slack_ms)
        for standing in seen
    ):
        return [Violation("I5", "overdue", f"{_claim(row)}, and it is overdue")]
    return []


def _is_older(standing: Standing, now_ms: int, slack_ms: int) -> bool:
    txn = standing.transaction
    return txn is not None and txn.start_ms >= 0 and now_ms - txn.start_ms > txn.timeout_ms + slack_ms


def _of_coverage(cycle: Cycle) -> Iterable[Violation]:
    """I4 and I7: complete only where all was seen."""
    world, partitions = cycle.world, cycle.evaluation.snapshot.partitions
    read = {partitions.name(row) for row in np.flatnonzero(partitions.is_covered).tolist()}
    shown = {topic for topic, _ in read} - {STATE_TOPIC}
    shown |= _visible_topics(world.moments[world.metadata_at])
    lasting = frozenset.intersection(*(moment.topics for moment in cycle.moments))
    for name, _, count in sorted(lasting):
        if all((name, index) in read for index in range(count)):
            continue
        kind = _why_unseen(cycle, name, bool(shown))
        if kind:
            yield Violation(kind[0], kind[1], f"coverage is complete, and {name} was not read")
            break
    yield from _unseen(cycle, read)
    for row in cycle.rows:
        if row.verdict is Verdict.INCONCLUSIVE and _name(row.inconclusive_reason) in FAILED_READS:
            yield Violation("I4", "inconclusive", f"coverage is complete, and {_claim(row)}")
    if (
        cycle.is_settled
        and cycle.rows
        and any(not _is_coordinated(world, index) for index in world.cluster.transaction_log)
    ):
        yield Violation("I4", "coordinator", "coverage is complete, and a coordinator could not be read")


def _unseen(cycle: Cycle, read: set[tuple[str, int]]) -> Iterable[Violation]:
    """What was open from the cycle's beginning to its end on a partition that was read, and is not shown.

    Not if a replica was made without it within the cycle: if that replica led the partition before, its log is read.
    """
    if not (cycle.is_settled or _is_known_everywhere(cycle)):
        return
    shown = {OpenKey(row.topic, row.partition, row.producer_id, row.start_offset) for row in cycle.rows}
    # Of several on one partition, offsets show the first.
    by_offset = {(row.topic, row.partition) for row in cycle.rows if not row.has_producer}
    for key, standing in cycle.moments[0].standings.items():
        lasts = all(
            key in each.standings
            and each.standings[key].topic_id == standing.topic_id
            and each.standings[key].is_unknown_in_sync == standing.is_unknown_in_sync
            for each in cycle.moments
        )
        # One whose records are all deleted holds nothing back that offsets could show.
        is_shown = key in shown or (key.topic, key.partition) in by_offset
        is_shown |= not (
            all(key in each.standings and each.standings[key].serials for each in cycle.moments)
            or cycle.evaluation.snapshot.partitions.shows(TransactionKey(*key))
        )
        if lasts and (key.topic, key.partition) in read and not is_shown:
            where = f"{key.topic}-{key.partition} from {key.start_offset}, producer {key.producer_id}"
            yield Violation("I4", "unseen", f"coverage is complete, and {where} is open and not shown")


def _visible_topics(moment: Moment) -> set[str]:
    """Topics that were visible when the metadata were read; one may have been deleted before it was read."""
    names = {name for name, _, _ in moment.topics} - {STATE_TOPIC}
    return {name for name in names if rights.allows(moment.rights, rights.DESCRIBE, rights.TOPIC, name)}


def _why_unseen(cycle: Cycle, name: str, is_anything_shown: bool) -> tuple[str, str] | None:  # noqa: FBT001
    """The invariant that an unread topic violates; None if no broker could know the topic, or not yet."""
    allowed = cycle.world.moments[cycle.world.metadata_at].rights
    if name == STATE_TOPIC and cycle.world.cluster.kind.gateway and not cycle.rows:
        return None  # nothing shows that it must exist
    if not rights.allows(allowed, rights.DESCRIBE, rights.TOPIC, name):
        if not is_anything_shown:
            return "I7", "nothing shown"
        if name == STATE_TOPIC:
            return "I7", "state topic hidden"
        return ("I7", "fewer topics") if name in cycle.seen_before else None
    # Who believes a broker that lags, or is cut off, may take some cycles to find out.
    return ("I4", "topic") if cycle.is_settled or _is_known_everywhere(cycle) else None


def _is_known_everywhere(cycle: Cycle) -> bool:
    """From the beginning of the cycle to its end: the broker that returned the metadata knew everything."""
    return all(moment.is_known_everywhere for moment in cycle.moments)


def _is_coordinated(world: World, index: int) -> bool:
    """True if a partition of the transaction log has a leader that can be queried."""
    partition = world.cluster.image.partition(STATE_TOPIC, index)
    broker = world.cluster.brokers.get(-1 if partition is None else partition.leader)
    return broker is not None and broker.is_up and not broker.is_silent


def _claim(row: TransactionRow) -> str:
    reason = "" if row.inconclusive_reason is None else f" ({_name(row.inconclusive_reason)})"
    return (
        f"{row.topic}-{row.partition} from {row.start_offset}, producer {row.producer_id} epoch {row.producer_epoch}, is "
        f"called {row.verdict.label}{reason}"
    )


def _name(reason: InconclusiveReason | None) -> str:
    return "" if reason is None else str(reason.value)


def rows(evaluation: Evaluation) -> tuple[TransactionRow, ...]:
    """What is published of each open transaction."""
    return rows_of(evaluation)
