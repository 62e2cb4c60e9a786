"""Compares the decisions about one producer id with what partitions' logs have of it: pure. docs/audit.md has the rules.

A coordinator sends the markers of a decision with one producer epoch, after it has written the decision and before it
writes that all markers are there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from exporter.audit.alignment import (
    MatchedBefore,
    align,
    has_epoch_of,
    has_older_records,
    is_as_decided,
    misfit_ms,
)
from exporter.audit.decisions import Decision, ProducerDecisions
from exporter.audit.log_transactions import LogTransaction, MarkerKind, joined
from exporter.audit.verdicts import (
    CLOCKS_APART_MS,
    REPEATED_WITHIN_MS,
    SETTLED_MS,
    AuditFinding,
    AuditVerdict,
    Horizon,
    Judgement,
    NotRead,
    PartitionRead,
    Reason,
    is_reached,
)
from exporter.snapshot import TopicPartition


def judge(
    decisions: Sequence[Decision],
    parts: Iterable[LogTransaction],
    partitions: Mapping[TopicPartition, PartitionRead | NotRead],
    horizon: Horizon,
) -> Judgement:
    """Judges one producer id.

    `decisions` are all of its own, also open ones, in the order of the log; `parts` what earlier runs have left and this
    one has read; `partitions` all that exist, as far as is known.
    """
    by_partition: dict[TopicPartition, list[LogTransaction]] = defaultdict(list)
    for part in parts:
        by_partition[part.topic, part.partition].append(part)
    known = ProducerDecisions.of(decisions)
    findings: list[AuditFinding] = []
    pending: list[LogTransaction] = []
    not_yet: set[Decision] = set()
    for partition in sorted(known.on_partition.keys() | by_partition.keys()):
        read = partitions.get(partition)
        if not isinstance(read, PartitionRead):
            new = [each for each in known.on_partition.get(partition, ()) if horizon.is_new(each)]
            if read is None:
                findings += [AuditFinding(AuditVerdict.UNKNOWN, *partition, Reason.HIDDEN, each) for each in new]
            else:
                pending += by_partition.get(partition, ())
            if read is NotRead.FAILED:
                not_yet.update(new)
            continue
        in_log = joined(part for part in by_partition.get(partition, ()) if part.topic_id == read.topic_id)
        of_partition = _OnePartition(partition, known, read, horizon)
        of_partition.judge(in_log)
        findings += of_partition.findings
        pending += of_partition.pending
    findings = _with_torn(findings)
    worst: dict[Decision, AuditVerdict] = {
        decision: AuditVerdict.UNKNOWN if decision in not_yet else AuditVerdict.AS_DECIDED
        for decision in decisions
        if horizon.is_new(decision)
    }
    for finding in findings:
        if finding.decision in worst:
            worst[finding.decision] = min(worst[finding.decision], finding.verdict, key=_RANK.__getitem__)
    return Judgement(tuple(findings), tuple(pending), Counter(worst.values()))


_RANK: Final = {verdict: rank for rank, verdict in enumerate(AuditVerdict)}


def _with_torn(findings: Sequence[AuditFinding]) -> list[AuditFinding]:
    """A decision that is contradicted on one partition, and carried out on records of another, has torn its transaction."""
    carried_out: dict[Decision | None, set[TopicPartition]] = defaultdict(set)
    for finding in findings:
        if finding.verdict is AuditVerdict.AS_DECIDED and finding.in_log is not None and finding.in_log.has_records:
            carried_out[finding.decision].add((finding.topic, finding.partition))
    return [
        replace(finding, verdict=AuditVerdict.TORN)
        if finding.verdict is AuditVerdict.CONTRADICTED
        and carried_out.get(finding.decision, set()) - {(finding.topic, finding.partition)}
        else finding
        for finding in findings
    ]


class _OnePartition:
    """Judges one producer id on one partition."""

    def __init__(
        self, partition: TopicPartition, decisions: ProducerDecisions, read: PartitionRead, horizon: Horizon
    ) -> None:
        self.findings: list[AuditFinding] = []
        self.pending: list[LogTransaction] = []
        self._partition = partition
        self._all = decisions
        self._included = decisions.on_partition.get(partition, ())
        self._decided = [each for each in self._included if each.commit is not None]
        self._read = read
        self._horizon = horizon
        self._matched: dict[int, Decision] = {}
        """The decision of a marker, by the marker's offset."""
        self._matched_before = MatchedBefore({})
        self._decided_markers = {
            (each.marker_epoch, (MarkerKind.COMMIT if each.commit else MarkerKind.ABORT).value)
            for each in self._decided
        }
        self._ongoing = [each for each in self._included if each.commit is None]
        self._unsure = set(decisions.of_unknown_partitions)
        """Marker epochs whose decisions and markers may belong together in another way."""
        self._by_hand: set[Decision] = set()
        """Decisions that a marker which is not the coordinator's own has carried out."""
        self._opener: Decision | None = None
        """The last decision that the records without a marker may be of."""

    def judge(self, in_log: Sequence[LogTransaction]) -> None:
        still_open = in_log[-1] if in_log and not in_log[-1].is_ended else None
        if still_open is not None:
            self._opener = next((each for each in reversed(self._included) if has_epoch_of(each, still_open)), None)
        unmatched = self._match(in_log, still_open)
        for number, each in enumerate(in_log):
            following = in_log[number + 1] if number + 1 < len(in_log) else None
            decision = self._decision_of(each)
            if decision is not None:
                self._judge_pair(decision, each)
            elif each.marker == MarkerKind.GONE.value:
                self._unknown(Reason.COMPACTED, None, each)
            elif each.is_ended and (on_records := self._decision_on_records(each, following, unmatched)) is not None:
                self._judge_by_hand(on_records, each, unmatched)
            elif each.is_ended:
                self._judge_surplus(each)
        for decision in reversed(unmatched):
            if self._horizon.is_settled(decision):
                still_open = self._judge_without_marker(decision, still_open)
        if still_open is not None:
            self._judge_open(still_open)

    def _match(self, in_log: Sequence[LogTransaction], still_open: LogTransaction | None) -> dict[Decision, None]:
        """Pairs decisions and markers; returns the decisions without one, in their order."""
        by_epoch: dict[int, list[Decision]] = defaultdict(list)
        for decision in self._decided:
            if not is_reached(self._read.judged, decision):
                by_epoch[decision.marker_epoch].append(decision)
        ended: dict[int, list[LogTransaction]] = defaultdict(list)
        for each in in_log:
            if each.marker_epoch is not None:
                ended[each.marker_epoch].append(each)
        unmatched: dict[Decision, None] = {}
        for epoch in sorted(by_epoch.keys() | ended.keys()):
            decided, marked = by_epoch.get(epoch, ()), ended.get(epoch, ())
            pairs, is_sure = align(decided, marked, still_open, self._horizon)
            for decision, each in pairs:
                self._matched[each.marker_offset or 0] = decision
            if len(pairs) < len(decided):
                matched = {decision for decision, _ in pairs}
                unmatched.update((decision, None) for decision in decided if decision not in matched)
            if not is_sure:
                self._unsure.add(epoch)
        self._matched_before = MatchedBefore(self._matched)
        return unmatched

    def _decision_of(self, each: LogTransaction | None) -> Decision | None:
        return None if each is None or each.marker_offset is None else self._matched.get(each.marker_offset)

    def _add(self, verdict: AuditVerdict, decision: Decision | None, in_log: LogTransaction | None = None) -> None:
        self.findings.append(AuditFinding(verdict, *self._partition, None, decision, in_log))

    def _unknown(self, reason: Reason, decision: Decision | None, in_log: LogTransaction | None) -> None:
        self.findings.append(AuditFinding(AuditVerdict.UNKNOWN, *self._partition, reason, decision, in_log))

    def _judge_pair(self, decision: Decision, each: LogTransaction) -> None:
        if not self._horizon.is_settled(decision):
            self.pending.append(each)
        elif each.marker == MarkerKind.GONE.value:
            self._unknown(Reason.COMPACTED, decision, each)
        elif has_older_records(decision, each):
            if self._read.has_gap(each.begins_at, each.marker_offset):
                self._unknown(Reason.COMPACTED, decision, each)
            else:
                self._add(AuditVerdict.CLOSED_BY_ANOTHER, decision, each)
        elif not is_as_decided(decision, each):
            self._add_contradiction(decision, each)
        elif decision.has_own_epoch or misfit_ms(decision, each) <= CLOCKS_APART_MS:
            if decision not in self._by_hand:  # otherwise the marker that has ended the records counts
                self._add(AuditVerdict.AS_DECIDED, decision, each)
        else:
            self._unknown(Reason.TWO_FIT, decision, each)

    def _add_contradiction(self, decision: Decision, each: LogTransaction) -> None:
        if decision.marker_epoch in self._unsure:
            self._unknown(Reason.TWO_FIT, decision, each)
        elif not decision.has_own_epoch and not self._is_recorded(each):
            self._unknown(Reason.NOT_RECORDED, decision, each)
        else:
            self._add(AuditVerdict.CONTRADICTED, decision, each)

    def _judge_by_hand(self, decision: Decision, each: LogTransaction, unmatched: dict[Decision, None]) -> None:
        """Judges a marker that is not the coordinator's own, on records about which it has decided."""
        if not self._horizon.is_settled(decision):
            self.pending.append(each)
            return
        unmatched.pop(decision, None)
        if not is_as_decided(decision, each):
            self._add_contradiction(decision, each)
        else:
            self._add(AuditVerdict.AS_DECIDED, decision, each)
            self._by_hand.add(decision)

    def _judge_surplus(self, each: LogTransaction) -> None:
        """Judges a marker that no decision is about."""
        done = self._all.of_unknown_partitions.get(-1 if each.marker_epoch is None else each.marker_epoch, ())
        if self._horizon.is_newer(each) or self._is_ongoing(each):
            self.pending.append(each)
        elif self._is_repeated(each):
            return
        elif any(is_as_decided(other, each) for other in done):
            self._add(AuditVerdict.AS_DECIDED, None, each)
        elif done:
            self._unknown(Reason.NOT_RECORDED, None, each)
        elif (outside := self._without_partition(each)) is not None:
            self._add(AuditVerdict.RECORDS_OUTSIDE, outside, each)
        elif each.marker_epoch in self._unsure:
            self._unknown(Reason.TWO_FIT, None, each)
        elif not self._is_recorded(each):
            self._unknown(Reason.NOT_RECORDED, None, each)
        else:
            self._add(AuditVerdict.MARKER_WITHOUT_DECISION, None, each)

    def _is_recorded(self, each: LogTransaction) -> bool:
        """True if the decision that has its marker written, if there is one, is in the transaction log as it was read.

        Its last record comes after the marker; but a marker without records may be one that was sent again, even later.
        """
        late_ms = CLOCKS_APART_MS if each.has_records else REPEATED_WITHIN_MS
        return (each.marker_timestamp_ms or 0) >= self._horizon.log_complete_from_ms + late_ms

    def _decision_on_records(
        self, each: LogTransaction, following: LogTransaction | None, unmatched: Collection[Decision]
    ) -> Decision | None:
        """The decision about the records that another's marker has ended: its own marker follows alone, or is missing."""
        if not each.has_records:
            return None
        decision = self._decision_of(following)
        is_alone = following is not None and not following.has_records
        if decision is not None and is_alone and decision.open_epoch == each.last_epoch:
            start_ms = (decision.start_ms or 0) - CLOCKS_APART_MS
            return decision if (each.marker_timestamp_ms or 0) >= start_ms else None
        return next(
            (
                decision
                for decision in unmatched
                if decision.open_epoch == each.last_epoch and decision.marker_epoch != each.marker_epoch
            ),
            None,
        )

    def _is_repeated(self, each: LogTransaction) -> bool:
        """True for a marker that a new coordinator has sent again: it changes nothing."""
        return not each.has_records and (each.marker_epoch, each.marker) in self._decided_markers

    def _is_ongoing(self, each: LogTransaction) -> bool:
        """True if the coordinator has still to decide about its records."""
        epoch = each.last_epoch if each.has_records else each.marker_epoch
        return any(decision.open_epoch == epoch for decision in self._ongoing)

    def _without_partition(self, each: LogTransaction) -> Decision | None:
        """The decision about the transaction of these records, if it is known to leave their partition out."""
        found = self._all.without(self._partition, each.last_epoch)
        return next((decision for decision in found if self._horizon.is_settled(decision)), None)

    def _judge_open(self, each: LogTransaction) -> None:
        outside = self._without_partition(each)
        if outside is None:
            self.pending.append(each)
        else:
            self._add(AuditVerdict.RECORDS_OUTSIDE, outside, each)

    def _judge_without_marker(self, decision: Decision, still_open: LogTransaction | None) -> LogTransaction | None:
        """Judges a decision whose marker was not found; returns `still_open` unless its records are those."""
        if still_open is not None and decision is self._opener:
            assert still_open.last_offset is not None
            if (still_open.first_timestamp_ms or 0) > (decision.completed_ms or 0) + CLOCKS_APART_MS:
                # Of a later transaction that is not recorded yet, or of a client whose clock is wrong.
                self._unknown(Reason.TWO_FIT, decision, None)
                return still_open
            if self._read.has_gap(still_open.last_offset, None):
                self._unknown(Reason.COMPACTED, decision, still_open)
            else:
                self._add(AuditVerdict.MARKER_MISSING, decision, still_open)
            return None
        since = self._read_since(decision)
        if decision.marker_epoch in self._unsure:
            self._unknown(Reason.TWO_FIT, decision, None)
        elif since is None:
            self._unknown(Reason.NOT_READ_THEN, decision, None)
        elif self._read.has_gap(since, None):
            self._unknown(Reason.COMPACTED, decision, None)
        else:
            self._add(AuditVerdict.MARKER_MISSING, decision)
        return still_open

    def _read_since(self, decision: Decision) -> int | None:
        """An offset from which the log was read to its end, and before which the marker cannot be; None if it can."""
        start_ms = decision.start_ms or 0
        if self._read.read_from_ms is not None and start_ms >= self._read.read_from_ms + SETTLED_MS:
            return self._read.read_from
        # Markers of one epoch may belong to their decisions in another way, as far as clocks may be apart.
        margin_ms = 0 if decision.has_own_epoch else 2 * CLOCKS_APART_MS
        return self._matched_before.offset(decision, (decision.decided_ms or 0) - margin_ms)
