"""Audits a world without Spark, in several runs, with its logs read in any ranges."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from exporter.audit.decisions import Decision, decisions_of
from exporter.audit.judge import judge
from exporter.audit.log_transactions import LogTransaction, RangeOfLog
from exporter.audit.verdicts import AuditFinding, AuditVerdict, Horizon, NotRead, PartitionRead, read_to_ms
from exporter.kafka.messages.log_batches import batches_from
from exporter.snapshot import TopicPartition
from exporter.transaction_log.records import StateLogRecord, decode
from tests.audit.world import TOPIC_ID, Appended, StateRecord, World

SETTLED_MS = 10_000


@dataclass(slots=True)
class Audit:
    """Result of several runs."""

    findings: list[AuditFinding] = field(default_factory=list)
    transactions: Counter[AuditVerdict] = field(default_factory=Counter)
    pending: dict[int, list[LogTransaction]] = field(default_factory=dict)
    """Transactions that the last run has left, by producer id."""


def parts_of(
    partition: TopicPartition, log: Sequence[Appended], first: int, end: int
) -> tuple[list[LogTransaction], RangeOfLog]:
    """What a range of the log has."""
    reading = RangeOfLog(partition[0], TOPIC_ID, partition[1], first, end)
    data = b"".join(each.data for each in log)
    found: list[LogTransaction] = []
    for batch in batches_from(data, first):
        found += reading.take(batch, data)
    reading.skip_to(end)
    return [*found, *reading.rest()], reading


def decisions_by_producer(state: Iterable[StateRecord]) -> dict[int, list[Decision]]:
    by_id: dict[bytes, list[StateLogRecord]] = defaultdict(list)
    for each in state:
        content = decode(each.key, each.value)
        by_id[each.key].append(StateLogRecord(each.log_partition, each.offset, each.at_ms, content))  # type: ignore[arg-type]
    found: dict[int, list[Decision]] = defaultdict(list)
    for records in by_id.values():
        for decision in decisions_of(sorted(records, key=lambda record: record.offset)):
            found[decision.producer_id].append(decision)
    return found


@dataclass(slots=True)
class _Reader:
    """Reads a world's logs, and remembers how far."""

    world: World
    cut: random.Random
    next_offset: dict[TopicPartition, int] = field(default_factory=dict)
    first: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """Instant and end of the first reading."""
    judged: dict[TopicPartition, dict[int, int]] = field(default_factory=dict)
    gaps: dict[TopicPartition, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    def read(
        self, partition: TopicPartition, now_ms: int, settled: dict[int, int]
    ) -> tuple[list[LogTransaction], PartitionRead]:
        there = [each for each in self.world.logs[partition] if each.at_ms <= now_ms]
        begin, end = self.next_offset.get(partition, 0), _end(there)
        there = [each for each in there if (partition, each.offset) not in self.world.removed]
        parts: list[LogTransaction] = []
        for first, last in _ranges(begin, max(end, begin), self.cut):
            found, reading = parts_of(partition, there, first, last)
            if reading.first_gap is not None and reading.last_gap is not None:
                self.gaps[partition].append((reading.first_gap, reading.last_gap))
            parts += found
        since = self.first.get(partition)
        read = PartitionRead(
            topic_id=TOPIC_ID,
            judged=self.judged.get(partition, {}),
            read_from_ms=None if since is None else since[0],
            read_from=0 if since is None else since[1],
            gaps=tuple(self.gaps[partition]),
        )
        self.next_offset[partition] = max(end, begin)
        self.first.setdefault(partition, (now_ms, end))
        self.judged[partition] = settled
        return parts, read


def audit(
    world: World,
    runs: Sequence[int],
    cut: random.Random,
    *,
    complete_from_ms: int = 0,
    failing: float = 0.0,
    behind_ms: Mapping[int, int] | None = None,
) -> Audit:
    """Audits at these instants; each run has read the transaction log first, and then the partitions' ends.

    `failing` is the share of partitions that all runs but the last one cannot read. All runs but the last one have read a
    partition of the transaction log up to `behind_ms` before their instant.
    """
    result, reader = Audit(), _Reader(world, cut)
    judged: dict[int, int] = {}
    for now_ms in runs:
        behind = behind_ms or {} if now_ms != runs[-1] else {}
        state = [each for each in world.state if each.at_ms <= now_ms - behind.get(each.log_partition, 0)]
        settled = {each.log_partition: each.offset for each in state if each.at_ms <= now_ms - SETTLED_MS}
        horizon = Horizon(
            settled=settled,
            log_read_to_ms=_read_to_ms(world, state, now_ms) - SETTLED_MS,
            log_complete_from_ms=complete_from_ms,
            first_judged=judged,
        )
        read: dict[TopicPartition, PartitionRead | NotRead] = {}
        parts: dict[int, list[LogTransaction]] = defaultdict(list, result.pending)
        for partition in world.logs:
            if now_ms != runs[-1] and cut.random() < failing:
                read[partition] = NotRead.FAILED
                continue
            found, read[partition] = reader.read(partition, now_ms, settled)
            for part in found:
                parts[part.producer_id].append(part)
        decisions = decisions_by_producer(state)
        result.pending = {}
        for producer_id in sorted(decisions.keys() | parts.keys()):
            judgement = judge(decisions.get(producer_id, ()), parts.get(producer_id, ()), read, horizon)
            result.findings += judgement.findings
            result.transactions += judgement.transactions
            if judgement.pending:
                result.pending[producer_id] = list(judgement.pending)
        judged = settled
    return result


def _read_to_ms(world: World, state: Sequence[StateRecord], now_ms: int) -> int:
    newest_ms = {each.log_partition: each.at_ms for each in state}
    newer = {
        each.log_partition
        for each in world.state
        if each.at_ms <= now_ms and each.at_ms > newest_ms.get(each.log_partition, 0)
    }
    return read_to_ms({**dict.fromkeys(newer, 0), **newest_ms}, newer)


def _end(log: Sequence[Appended]) -> int:
    return next(batches_from(log[-1].data, 0)).next_offset if log else 0


def _ranges(begin: int, end: int, cut: random.Random) -> list[tuple[int, int]]:
    """Any ranges, also empty ones; a batch belongs to the range in which it begins."""
    cuts = sorted({begin, end, *(cut.randint(begin, end) for _ in range(cut.randint(0, 4)))})
    return list(pairwise(cuts))
