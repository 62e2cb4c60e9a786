"""Decides what a snapshot and the preconditions of a proof mean. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from exporter.doctor.acls import of_acls, of_groups
from exporter.doctor.brokers import of_brokers, of_clock, of_settings
from exporter.doctor.coordinators import IN_WORDS, of_coordinators, of_ids, of_state_topic
from exporter.doctor.findings import Diagnosis, Finding, Level
from exporter.doctor.topics import of_unread, of_visible_topics, topics_of
from exporter.evaluation.humanize import humanize_count
from exporter.snapshot import STATE_TOPIC, IdVisibility, Preconditions, Snapshot, StateTopic


def diagnose(
    snapshot: Snapshot, read: Preconditions, *, principal: str | None = None, local: Iterable[Finding] = ()
) -> Diagnosis:
    """Every finding in the order in which an operator mends them; `local` are those of this machine.

    `principal` is the exporter's own, None if it is unknown: then every DENY rule may be about it.
    """
    denied = tuple(rule for rule in read.acls.denied if rule.concerns(principal))
    pre = replace(read, acls=replace(read.acls, denied=denied))
    others = tuple(rule for rule in read.acls.denied if rule not in pre.acls.denied)
    readable, unread = topics_of(snapshot)
    findings = (
        *of_brokers(snapshot, pre.contacts),
        *of_acls(pre),
        *of_visible_topics(snapshot, pre, others),
        *of_unread(snapshot, pre, unread),
        of_state_topic(pre),
        *of_coordinators(pre),
        of_ids(pre, others),
        of_settings(snapshot, denied),
        of_groups(pre),
        of_clock(snapshot),
        *local,
    )
    visible = readable + len(unread)
    obstacle = _obstacle(pre, visible)
    return Diagnosis(
        findings=findings,
        sentence=_sentence(snapshot, pre, readable, visible)
        if obstacle is None
        else f"No hang can be proved: {obstacle}.",
        topics_provable=readable if obstacle is None else 0,
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
        kinds = [IN_WORDS[failure] for failure in dict.fromkeys(failures) if failure is not None]
        ids = "transactional ids are hidden"
        return ids if kinds == [IN_WORDS["transactional_ids_hidden"]] else f"{STATE_TOPIC} is {', '.join(kinds)}"
    return None


def _sentence(snapshot: Snapshot, pre: Preconditions, readable: int, visible: int) -> str:
    topics = humanize_count(visible, "included topic" if snapshot.partitions.excluded_count else "visible topic")
    where = f"{readable:,} of {topics}" if readable < visible else f"all {topics}" if visible > 1 else f"the {topics}"
    failed = sum(proof.failure is not None for proof in pre.state_partitions)
    if failed:
        of = f"{failed} of {len(pre.state_partitions)} partitions of {STATE_TOPIC}"
        return f"Hangs can be proved on {where}, except those of transactional ids that belong to {of}."
    if pre.id_visibility is not IdVisibility.ALL:
        return f"Hangs can be proved on {where}, except those of producers that no coordinator knows."
    return f"Hangs can be proved on {where}."
