"""Decides what a snapshot and the preconditions of a proof mean. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from exporter.doctor.findings import Diagnosis, Finding, Grant, Level
from exporter.evaluation.humanize import humanize_count, humanize_duration, humanize_names
from exporter.snapshot import (
    STATE_TOPIC,
    Answer,
    BrokerContact,
    ClockSource,
    DenyRule,
    IdVisibility,
    Preconditions,
    Resource,
    Snapshot,
    StateTopic,
)

_NAMED_MAX = 10
_GRANTS_BY_NAME_MAX = 20
"""Topics with a grant of their own; for more a grant on `*` is shown."""
_CLOCK_OFF_MS = 60_000
_NOT_AUTHORIZED = ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")
_READ_ALL = Grant(operation="Read", resource=Resource.TOPIC, names=("*",))
_DESCRIBE_IDS = Grant(operation="Describe", resource=Resource.TRANSACTIONAL_ID, names=("*",))
_DESCRIBE_CLUSTER = Grant(operation="Describe", resource=Resource.CLUSTER)
_NOT_PROVED = "no hang can be proved"
_IN_WORDS = {
    "state_partition_offline": "offline",
    "loading": "still loading",
    "coordinator_unanswered": "without a response from their leader",
    "coordinator_moved": "moving to another broker",
    "leadership_unconfirmed": "at leaders that could not be confirmed",
    "transactional_ids_hidden": "not authorized",
}


def diagnose(
    snapshot: Snapshot, read: Preconditions, *, principal: str | None = None, local: Iterable[Finding] = ()
) -> Diagnosis:
    """Every finding in the order in which an operator mends them; `local` are those of this machine.

    `principal` is the exporter's own, None if it is unknown: then every DENY rule may be about it.
    """
    denied = tuple(rule for rule in read.acls.denied if rule.concerns(principal))
    pre = replace(read, acls=replace(read.acls, denied=denied))
    others = tuple(rule for rule in read.acls.denied if rule not in pre.acls.denied)
    readable, unread = _topics(snapshot)
    findings = (
        *_of_brokers(snapshot, pre.contacts),
        *_of_acls(pre),
        *_of_visible_topics(snapshot, pre, others),
        *_of_unread(snapshot, pre, unread),
        _of_state_topic(pre),
        *_of_coordinators(pre),
        _of_ids(pre, others),
        _of_configs(snapshot),
        _of_groups(pre),
        _of_clock(snapshot),
        *local,
    )
    visible, excluded = len(readable) + len(unread), snapshot.partitions.excluded_count
    obstacle = _obstacle(pre, visible)
    return Diagnosis(
        findings=findings,
        sentence=_sentence(pre, len(readable), visible, excluded=excluded)
        if obstacle is None
        else f"No hang can be proved: {obstacle}.",
        topics_provable=len(readable) if obstacle is None else 0,
        topics_visible=visible,
    )


def unreachable(why: str, local: Iterable[Finding] = ()) -> Diagnosis:
    """No broker responds. `why` has the reason of each address."""
    found = Finding(check="connection", level=Level.MISSING, result=why, consequence="nothing can be read")
    return Diagnosis(
        findings=(found, *local),
        sentence="No hang can be proved: no broker responds.",
        topics_provable=0,
        topics_visible=0,
    )


@dataclass(frozen=True, slots=True)
class _Unread:
    topic: str
    partitions: int
    reason: str


def _topics(snapshot: Snapshot) -> tuple[tuple[str, ...], tuple[_Unread, ...]]:
    """Topics of which every partition was read, and the others, each with its first reason."""
    partitions = snapshot.partitions
    rows = np.flatnonzero(partitions.is_unread).tolist()
    unread: dict[str, _Unread] = {}
    count = Counter(partitions.topics[partitions.topic[row]] for row in rows)
    for row in rows:
        topic = partitions.topics[partitions.topic[row]]
        unread.setdefault(topic, _Unread(topic, count[topic], partitions.reasons[partitions.reason[row]]))
    excluded = {partitions.topics[index] for index in np.unique(partitions.topic[partitions.answer == Answer.EXCLUDED])}
    complete = tuple(name for name in partitions.topics if name not in unread and name not in excluded)
    return complete, tuple(unread.values())


def _obstacle(pre: Preconditions, visible: int) -> str | None:
    """Why nothing can be proved; None if something can."""
    if all(contact.failure for contact in pre.contacts):
        return "no broker responds"
    if visible == 0 or pre.state_topic is StateTopic.HIDDEN:
        return "no topic is visible" if visible == 0 else f"{STATE_TOPIC} is not visible"
    if pre.state_topic is StateTopic.UNKNOWN:
        return "the coordinators are unknown"
    failures = [proof.failure for proof in pre.state_partitions]
    if failures and all(failures):
        kinds = [_IN_WORDS[failure] for failure in dict.fromkeys(failures) if failure is not None]
        ids = "transactional ids are hidden"
        return ids if kinds == [_IN_WORDS["transactional_ids_hidden"]] else f"{STATE_TOPIC} is {', '.join(kinds)}"
    return None


def _sentence(pre: Preconditions, readable: int, visible: int, *, excluded: int) -> str:
    topics = humanize_count(visible, "visible topic" if not excluded else "included topic")
    where = f"{readable:,} of {topics}" if readable < visible else f"all {topics}" if visible > 1 else f"the {topics}"
    failed = sum(proof.failure is not None for proof in pre.state_partitions)
    if failed:
        of = f"{failed} of {len(pre.state_partitions)} partitions of {STATE_TOPIC}"
        return f"Hangs can be proved on {where}, except those of transactional ids that belong to {of}."
    if pre.id_visibility is not IdVisibility.ALL:
        return f"Hangs can be proved on {where}, except those of producers that no coordinator knows."
    return f"Hangs can be proved on {where}."


def _of_brokers(snapshot: Snapshot, contacts: Sequence[BrokerContact]) -> Iterable[Finding]:
    led = {broker.broker: broker.partitions for broker in snapshot.brokers}
    reached = [_contact(contact) for contact in contacts if not contact.failure]
    if reached:
        result = f"{len(reached)} of {len(contacts)} respond: {humanize_names(reached, shown_max=_NAMED_MAX)}"
        yield Finding(check="brokers", level=Level.OK, result=result)
    for contact in contacts:
        if contact.failure:
            count = 0 if contact.broker is None else led.get(contact.broker, 0)
            lost = f"transactions on its {humanize_count(count, 'partition')} are not seen" if count else ""
            level = Level.LIMITED if contact.broker is None else Level.MISSING
            yield Finding(check="brokers", level=level, result=contact.failure, consequence=lost)
        elif contact.out_of_date:
            cut_off = "its responses prove nothing: other brokers may lead its partitions"
            yield Finding(check="brokers", level=Level.MISSING, result=contact.out_of_date, consequence=cut_off)
    failed = {contact.broker for contact in contacts if contact.failure}
    for broker in snapshot.brokers:
        if broker.failure is not None and broker.broker not in failed:
            lost = f"transactions on some of its {humanize_count(broker.partitions, 'partition')} are not seen"
            yield Finding(check="brokers", level=Level.MISSING, result=broker.failure, consequence=lost)


def _contact(contact: BrokerContact) -> str:
    name = contact.address if contact.broker is None else f"{contact.broker} at {contact.address}"
    return f"{name} (Kafka {contact.release or 'of unknown version'}, {contact.latency_ms or 0:.1f} ms)"


def _of_acls(pre: Preconditions) -> Iterable[Finding]:
    check = "ACLs"
    if not pre.acls.has_authorizer:
        yield Finding(check=check, level=Level.OK, result="there is no authorizer: nothing is hidden")
    elif not pre.acls.unread:
        yield Finding(check=check, level=Level.OK, result="readable")
    else:
        is_refused = pre.acls.unread in _NOT_AUTHORIZED
        yield Finding(
            check=check,
            level=Level.LIMITED,
            result="unread: needs DESCRIBE on the cluster" if is_refused else f"unread: {pre.acls.unread}",
            consequence="whether topics or transactional ids are hidden is unknown",
            grants=(_DESCRIBE_CLUSTER,) if is_refused else (),
        )


def _of_visible_topics(snapshot: Snapshot, pre: Preconditions, others: Sequence[DenyRule]) -> Iterable[Finding]:
    topics, hidden = snapshot.partitions.topics, snapshot.visibility.hidden_topics
    unseen = "transactions on topics that are not visible are not seen"
    if all(topic == STATE_TOPIC for topic in topics) and pre.acls.has_authorizer:
        yield Finding(
            check="topics",
            level=Level.MISSING,
            result="no topic is visible",
            consequence=unseen,
            grants=(_READ_ALL,),
            denied_by=_denials(pre, Resource.TOPIC, "*"),
        )
    elif hidden or pre.hidden_topics:
        result = (
            f"not visible any more: {humanize_names(hidden, shown_max=_NAMED_MAX)}" if hidden else pre.hidden_topics
        )
        denied = _hiding(pre.acls.denied, Resource.TOPIC)
        needs = () if denied or pre.acls.unread or _hiding(others, Resource.TOPIC) else (_READ_ALL,)
        yield Finding(
            check="topics", level=Level.LIMITED, result=result, consequence=unseen, grants=needs, denied_by=denied
        )
    else:
        yield Finding(check="topics", level=Level.OK, result=f"{humanize_count(len(topics), 'topic')}, all visible")


def _of_unread(snapshot: Snapshot, pre: Preconditions, unread: Sequence[_Unread]) -> Iterable[Finding]:
    refused = [topic for topic in unread if topic.reason in _NOT_AUTHORIZED]
    excluded = snapshot.partitions.excluded_count
    if excluded:
        result = f"{humanize_count(excluded, 'partition')} excluded by scan.topics: hangs on them are not found"
        yield Finding(check="partitions", level=Level.OK, result=result)
    if not unread and len(snapshot.partitions) > excluded:
        result = f"{humanize_count(len(snapshot.partitions) - excluded, 'partition')}, all read"
        yield Finding(check="partitions", level=Level.OK, result=result)
    if refused:
        names = [topic.topic for topic in refused]
        denied = tuple(dict.fromkeys(rule for name in names for rule in _denials(pre, Resource.TOPIC, name)))
        lacking = tuple(name for name in names if not _denials(pre, Resource.TOPIC, name))
        listed = lacking if len(lacking) <= _GRANTS_BY_NAME_MAX else ("*",)
        yield Finding(
            check="partitions",
            level=Level.MISSING,
            result=f"not authorized to read {humanize_names(names, shown_max=_NAMED_MAX)}: needs READ",
            consequence="transactions on them are not seen",
            grants=(Grant(operation="Read", resource=Resource.TOPIC, names=listed),) if lacking else (),
            denied_by=denied,
        )
    others: dict[str, list[_Unread]] = {}
    for topic in unread:
        if topic.reason not in _NOT_AUTHORIZED:
            others.setdefault(topic.reason, []).append(topic)
    for reason, topics in others.items():
        count = humanize_count(sum(topic.partitions for topic in topics), "partition")
        names = [topic.topic for topic in topics]
        yield Finding(
            check="partitions",
            level=Level.MISSING,
            result=f"{count} unread ({reason}) of {humanize_names(names, shown_max=_NAMED_MAX)}",
            consequence="transactions on them are not seen",
        )


def _of_state_topic(pre: Preconditions) -> Finding:
    check = "transaction log"
    if pre.state_topic is StateTopic.HIDDEN:
        return Finding(
            check=check,
            level=Level.MISSING,
            result=f"{STATE_TOPIC} is not visible",
            consequence=f"the coordinators are unknown: {_NOT_PROVED}",
            grants=(Grant(operation="Read", resource=Resource.TOPIC, names=(STATE_TOPIC,)),),
            denied_by=_denials(pre, Resource.TOPIC, STATE_TOPIC),
        )
    if pre.state_topic is StateTopic.UNKNOWN:
        return Finding(
            check=check, level=Level.MISSING, result=f"no broker responded about {STATE_TOPIC}", consequence=_NOT_PROVED
        )
    if pre.state_topic is StateTopic.ABSENT:
        return Finding(
            check=check, level=Level.OK, result=f"{STATE_TOPIC} does not exist: no producer has used a transactional id"
        )
    return Finding(check=check, level=Level.OK, result=f"{STATE_TOPIC} is visible")


def _of_coordinators(pre: Preconditions) -> Iterable[Finding]:
    failures = Counter(
        proof.failure for proof in pre.state_partitions if proof.failure not in {None, "transactional_ids_hidden"}
    )
    count = len(pre.state_partitions)
    if count and all(proof.failure is None for proof in pre.state_partitions):
        leaders = len({proof.leader for proof in pre.state_partitions})
        result = f"{humanize_count(leaders, 'coordinator')} with {count} partitions of {STATE_TOPIC}, all loaded"
        yield Finding(check="coordinators", level=Level.OK, result=result)
    for failure, times in failures.items():
        failed = (proof.leader for proof in pre.state_partitions if proof.failure == failure)
        brokers = sorted({leader for leader in failed if leader >= 0})
        at = f" (broker {', '.join(map(str, brokers))})" if brokers else ""
        yield Finding(
            check="coordinators",
            level=Level.MISSING,
            result=f"{times} of {count} partitions of {STATE_TOPIC} are {_IN_WORDS[str(failure)]}{at}",
            consequence="suspects whose transactional id belongs to them, or is unknown, stay inconclusive",
        )


def _of_ids(pre: Preconditions, others: Sequence[DenyRule]) -> Finding:
    check = "transactional ids"
    denied = _hiding(pre.acls.denied, Resource.TRANSACTIONAL_ID)
    of_others = _hiding(others, Resource.TRANSACTIONAL_ID)
    unknown_only = "suspects whose producer no coordinator knows stay inconclusive (ids_may_be_denied)"
    if pre.is_id_refused or any(proof.failure == "transactional_ids_hidden" for proof in pre.state_partitions):
        return Finding(
            check=check,
            level=Level.MISSING,
            result="not visible",
            consequence=f"{_NOT_PROVED}: suspects stay inconclusive (transactional_ids_hidden)",
            grants=(_DESCRIBE_IDS,),
            denied_by=denied,
        )
    if pre.id_visibility is IdVisibility.ALL:
        return Finding(check=check, level=Level.OK, result="all visible")
    if pre.id_visibility is IdVisibility.BY_NAME_ONLY:
        return Finding(
            check=check,
            level=Level.MISSING,
            result="some are visible, and not all that the ACLs name",
            consequence=unknown_only,
            grants=(_DESCRIBE_IDS,),
        )
    if denied:
        result = f"an ACL hides some: {_rules(denied)}"
        return Finding(check=check, level=Level.MISSING, result=result, consequence=unknown_only, denied_by=denied)
    if of_others:
        result = (
            f"an ACL hides some from others, and a broker does not show which principal is asking: {_rules(of_others)}"
        )
        return Finding(check=check, level=Level.LIMITED, result=result, consequence=unknown_only)
    if pre.id_visibility is IdVisibility.DENY_POSSIBLE:
        result = "visible, but whether an ACL hides some is unknown"
        return Finding(check=check, level=Level.LIMITED, result=result, consequence=unknown_only)
    return Finding(
        check=check, level=Level.MISSING, result="a coordinator did not respond about them", consequence=unknown_only
    )


def _of_configs(snapshot: Snapshot) -> Finding:
    check, limit = "broker settings", snapshot.max_timeout
    if limit.timeout_ms is not None and not limit.unread:
        result = f"transaction.max.timeout.ms is {humanize_duration(limit.timeout_ms)}"
        return Finding(check=check, level=Level.OK, result=result)
    reasons = dict.fromkeys(why for _, why in limit.unread)
    used = "that of the other brokers" if limit.timeout_ms is not None else "verdicts.max_timeout_fallback"
    is_refused = any(why in _NOT_AUTHORIZED for why in reasons)
    return Finding(
        check=check,
        level=Level.LIMITED,
        result=f"transaction.max.timeout.ms could not be read: {humanize_names(tuple(reasons), shown_max=_NAMED_MAX)}",
        consequence=f"late transactions are computed with {used}",
        grants=(Grant(operation="DescribeConfigs", resource=Resource.CLUSTER),) if is_refused else (),
    )


def _of_groups(pre: Preconditions) -> Finding:
    check = "consumer groups"
    if not pre.groups_hidden:
        return Finding(check=check, level=Level.OK, result="all visible")
    denied = tuple(rule for rule in pre.acls.denied if rule.resource is Resource.GROUP)
    return Finding(
        check=check,
        level=Level.LIMITED,
        result=pre.groups_hidden,
        consequence="groups that a suspect blocks may not be named",
        grants=(Grant(operation="Describe", resource=Resource.GROUP, names=("*",)),),
        denied_by=denied,
    )


def _of_clock(snapshot: Snapshot) -> Finding:
    check = "clock"
    if snapshot.clock_source is ClockSource.EXPORTER:
        return Finding(
            check=check,
            level=Level.OK,
            result="the brokers' clock was not needed, or they do not show it: this machine's clock is used",
        )
    offset_ms = abs(snapshot.clock_offset_ms)
    apart = (
        f"{humanize_duration(offset_ms)} {'behind' if snapshot.clock_offset_ms > 0 else 'ahead of'} the controller's"
    )
    if offset_ms < _CLOCK_OFF_MS:
        return Finding(check=check, level=Level.OK, result=f"this machine's clock is {apart}")
    return Finding(
        check=check,
        level=Level.LIMITED,
        result=f"this machine's clock is {apart}",
        consequence="verdicts use the controller's clock; durations that Prometheus computes are wrong by this much",
        advice="synchronize the clocks of this machine and of the brokers (NTP)",
    )


def _denials(pre: Preconditions, resource: Resource, name: str) -> tuple[DenyRule, ...]:
    return tuple(rule for rule in pre.acls.denied if rule.matches(resource, name))


def _hiding(denied: Iterable[DenyRule], resource: Resource) -> tuple[DenyRule, ...]:
    """Those that hide resources of this type: with a DENY on READ alone a topic is visible."""
    return tuple(rule for rule in denied if rule.resource is resource and rule.operation != "Read")


def _rules(denied: Sequence[DenyRule]) -> str:
    return humanize_names([_rule(rule) for rule in denied], shown_max=_NAMED_MAX)


def _rule(rule: DenyRule) -> str:
    name = f"{rule.name}*" if rule.is_prefixed else rule.name
    return f"DENY {rule.operation.upper()} on {rule.resource.value} {name} for {rule.principal}"
