"""Findings about topics and their partitions: which are visible, and which were read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from exporter.config.settings import ScanSettings
from exporter.doctor.acls import denials, hiding, rules_in_words
from exporter.doctor.findings import DESCRIBE_IS_ENOUGH, NAMED_MAX, NOT_AUTHORIZED, Finding, FindingLevel, Grant, ok
from exporter.evaluation.humanize import humanize_count, humanize_names
from exporter.patterns import is_matched, meant_by_glob
from exporter.snapshot import (
    STATE_TOPIC,
    DenyRule,
    IdVisibility,
    PartitionResult,
    Preconditions,
    Resource,
    Snapshot,
    StateTopic,
)

_GRANTS_BY_NAME_MAX = 20
"""Topics with a grant of their own; for more a grant on `*` is shown."""
_NOT_HIDDEN_BY_ACLS = "no ACL hides one; whether a proxy does is unknown"
_READ_ALL = Grant(operation="Read", resource=Resource.TOPIC, names=("*",))


@dataclass(frozen=True, slots=True)
class Unread:
    topic: str
    partitions: int
    reason: str


def topics_of(snapshot: Snapshot) -> tuple[int, tuple[Unread, ...]]:
    """Returns the number of topics read in full, and the others with their first reason. `serve` calls this each cycle."""
    partitions = snapshot.partitions
    rows = np.flatnonzero(partitions.is_unread)
    index, first, count = np.unique(partitions.topic[rows], return_index=True, return_counts=True)
    reasons = partitions.reason[rows[first]]
    unread = tuple(
        Unread(partitions.topics[topic], partitions_unread, partitions.reasons[reason])
        for topic, partitions_unread, reason in zip(index.tolist(), count.tolist(), reasons.tolist(), strict=True)
    )
    excluded = np.unique(partitions.topic[partitions.answer == int(PartitionResult.EXCLUDED)])
    return len(partitions.topics) - len(unread) - len(excluded), unread


def of_visible_topics(snapshot: Snapshot, pre: Preconditions) -> Iterable[Finding]:
    topics, hidden = snapshot.partitions.topics, snapshot.visibility.hidden_topics
    unseen = "transactions on topics that are not visible are not seen"
    shows_nothing = all(topic == STATE_TOPIC for topic in topics)
    if shows_nothing and pre.acls.has_authorizer and (hidden or pre.hidden_topics or pre.acls.unread):
        yield Finding(
            check="topics",
            level=FindingLevel.MISSING,
            result="no topic is visible",
            consequence=unseen,
            advice=DESCRIBE_IS_ENOUGH,
            grants=(_READ_ALL,),
            denied_by=denials(pre, Resource.TOPIC, "*"),
        )
    elif hidden or pre.hidden_topics:
        denied = hiding(pre.acls.denied, Resource.TOPIC)
        result = f"an ACL hides some: {rules_in_words(denied)}" if denied else pre.hidden_topics
        if hidden:
            result = f"not visible any more: {humanize_names(hidden, shown_max=NAMED_MAX)}"
        needs = () if denied or pre.acls.unread else (_READ_ALL,)
        yield Finding(
            check="topics",
            level=FindingLevel.MISSING,
            result=result,
            consequence=unseen,
            advice=DESCRIBE_IS_ENOUGH if needs else "",
            grants=needs,
            denied_by=denied,
        )
    else:
        # A proxy that hides the coordinators' topic may hide others.
        visible = "all visible" if pre.state_topic is StateTopic.PRESENT else _NOT_HIDDEN_BY_ACLS
        yield ok("topics", f"{humanize_count(len(topics), 'topic')}, {visible}")


def of_patterns(scan: ScanSettings, topics: Sequence[str]) -> Iterable[Finding]:
    """Finds expressions of scan.topics that match no visible topic, or fewer than a glob like them would."""
    visible = humanize_count(len(topics), "visible topic")
    for name, pattern in scan.topic_patterns:
        count = sum(is_matched(pattern, topic) for topic in topics)
        meant = meant_by_glob(pattern.pattern)
        if not count or meant is not None:
            chooses = "chooses" if name.endswith("include") else "excludes"
            yield Finding(
                check="topics",
                level=FindingLevel.LIMITED,
                result=f"{name} {pattern.pattern!r} matches {count or 'none'} of {visible}",
                consequence=f"it {chooses} {'only these' if count else 'no topic'}",
                advice="" if meant is None else f"for all such names write {meant!r}",
            )


def by_offsets(snapshot: Snapshot) -> tuple[str, ...]:
    """Returns the topics with partitions of which only the offsets are known."""
    partitions = snapshot.partitions
    index = np.unique(partitions.topic[partitions.answer == int(PartitionResult.BY_OFFSETS)])
    return tuple(partitions.topics[topic] for topic in index.tolist())


def of_topics_by_offsets(snapshot: Snapshot, pre: Preconditions) -> Iterable[Finding]:
    """Finds topics without READ: a hang is proved there, once no active transaction may own it.

    What else that needs has a finding of its own: READ is one more way, and never the only one.
    """
    names = by_offsets(snapshot)
    if not names:
        return
    is_refused = not _reasons_of(snapshot, names).isdisjoint(NOT_AUTHORIZED)
    denied, lacking = _denied_and_lacking(pre, names) if is_refused else ((), ())
    needs = "without READ" if is_refused else "brokers do not offer DescribeProducers"
    is_proved = is_provable_by_offsets(pre)
    yield Finding(
        check="partitions",
        level=FindingLevel.LIMITED,
        result=f"known by their offsets alone, {needs}: {humanize_names(names, shown_max=NAMED_MAX)}",
        consequence="a hang there is proved once the transactions beside it have completed; its producer stays unknown"
        if is_proved
        else "no hang there is proved: without READ that needs every coordinator, and every transactional id visible",
        grants=_read(lacking),
        denied_by=denied,
    )


def of_transaction_log(snapshot: Snapshot) -> Iterable[Finding]:
    """Finds that the transaction log, which the settings have read, cannot be; the finding of its topic has the grant."""
    if not _reasons_of(snapshot, [STATE_TOPIC]).isdisjoint(NOT_AUTHORIZED):
        yield Finding(
            check="transaction log",
            level=FindingLevel.LIMITED,
            result=f"{STATE_TOPIC} cannot be read, needs READ (transaction_log.enabled)",
            consequence="no transaction is counted by its outcome, and no alert about outcomes fires",
        )


def _reasons_of(snapshot: Snapshot, names: Sequence[str]) -> set[str]:
    """Returns why only the offsets of these topics are known."""
    partitions, wanted = snapshot.partitions, frozenset(names)
    is_named = np.isin(partitions.topic, [number for number, name in enumerate(partitions.topics) if name in wanted])
    reasons = partitions.reason[is_named & (partitions.answer == int(PartitionResult.BY_OFFSETS))]
    return {partitions.reasons[reason] for reason in np.unique(reasons).tolist()}


def is_provable_by_offsets(pre: Preconditions) -> bool:
    """True if offsets can prove a hang: every coordinator and every transactional id counts, as any may be its owner."""
    failed = any(proof.failure for proof in pre.state_partitions)
    return bool(pre.state_partitions) and not failed and pre.id_visibility is IdVisibility.ALL


def _denied_and_lacking(pre: Preconditions, names: Sequence[str]) -> tuple[tuple[DenyRule, ...], tuple[str, ...]]:
    denied = tuple(dict.fromkeys(rule for name in names for rule in denials(pre, Resource.TOPIC, name)))
    return denied, tuple(name for name in names if not denials(pre, Resource.TOPIC, name))


def _read(lacking: tuple[str, ...]) -> tuple[Grant, ...]:
    listed = lacking if len(lacking) <= _GRANTS_BY_NAME_MAX else ("*",)
    return (Grant(operation="Read", resource=Resource.TOPIC, names=listed),) if lacking else ()


def of_unread(snapshot: Snapshot, pre: Preconditions, unread: Sequence[Unread]) -> Iterable[Finding]:
    refused = [topic for topic in unread if topic.reason in NOT_AUTHORIZED]
    excluded = snapshot.partitions.excluded_count
    if excluded:
        result = f"{humanize_count(excluded, 'partition')} excluded by scan.topics: hangs on them are not found"
        is_all = excluded == len(snapshot.partitions)
        yield Finding(check="partitions", level=FindingLevel.MISSING if is_all else FindingLevel.OK, result=result)
    included = snapshot.partitions.included_count
    if included and not unread and not snapshot.partitions.by_offsets_count:
        yield ok("partitions", f"{humanize_count(included, 'partition')}, all read")
    if refused:
        names = [topic.topic for topic in refused]
        denied, lacking = _denied_and_lacking(pre, names)
        yield Finding(
            check="partitions",
            level=FindingLevel.MISSING,
            result=f"not authorized to read {humanize_names(names, shown_max=NAMED_MAX)}: needs READ",
            consequence="transactions on them are not seen",
            grants=_read(lacking),
            denied_by=denied,
        )
    others: dict[str, list[Unread]] = {}
    for topic in unread:
        if topic.reason not in NOT_AUTHORIZED:
            others.setdefault(topic.reason, []).append(topic)
    for reason, topics in others.items():
        count = humanize_count(sum(topic.partitions for topic in topics), "partition")
        names = [topic.topic for topic in topics]
        yield Finding(
            check="partitions",
            level=FindingLevel.MISSING,
            result=f"{count} unread ({reason}) of {humanize_names(names, shown_max=NAMED_MAX)}",
            consequence="transactions on them are not seen",
        )
