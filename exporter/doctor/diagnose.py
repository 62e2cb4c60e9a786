"""Decides what a snapshot and the preconditions of a proof mean. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from exporter.doctor.acls import of_acls, of_groups
from exporter.doctor.brokers import of_brokers, of_clock, of_settings
from exporter.doctor.coordinators import of_coordinators, of_ids, of_state_topic
from exporter.doctor.findings import Diagnosis, Finding, FindingLevel, missing_checks
from exporter.doctor.topics import (
    by_offsets,
    is_provable_by_offsets,
    of_topics_by_offsets,
    of_unread,
    of_visible_topics,
    topics_of,
)
from exporter.evaluation.humanize import humanize_count
from exporter.snapshot import (
    OFFSETS_TOPIC,
    STATE_TOPIC,
    IdVisibility,
    Preconditions,
    ProofLevel,
    Provable,
    Snapshot,
    StateTopic,
)
from exporter.snapshot.proof import FAILURES_IN_WORDS


def diagnose(
    snapshot: Snapshot,
    read: Preconditions,
    *,
    principal: str | None = None,
    local: Iterable[Finding] = (),
    connection: str = "",
) -> Diagnosis:
    """Every finding in the order in which an operator mends them; `local` are those of this machine.

    `principal` is the exporter's own, None if it is unknown: then every DENY rule may be about it. `connection` has the
    options of Kafka's own tools that name the cluster.
    """
    denied = tuple(rule for rule in read.acls.denied if rule.concerns(principal))
    pre = replace(read, acls=replace(read.acls, denied=denied))
    readable, unread = topics_of(snapshot)
    visible = readable + len(unread)
    if not is_provable_by_offsets(pre):
        readable -= len(by_offsets(snapshot))
    local = tuple(local)
    of_cluster = (
        *of_brokers(snapshot, pre.contacts),
        *of_acls(pre, connection),
        *of_visible_topics(snapshot, pre),
        *of_unread(snapshot, pre, unread),
        *of_topics_by_offsets(snapshot, pre),
        of_state_topic(pre, connection),
        *of_coordinators(pre),
        of_ids(pre),
        of_settings(snapshot, denied),
        of_groups(pre),
        of_clock(snapshot),
    )
    findings = (*of_cluster, *local)
    obstacle = _obstacle(snapshot, pre, readable, visible)
    if obstacle is not None:
        is_watched = bool(snapshot.partitions.is_covered.any())
        return nothing_provable(obstacle, findings, topics_visible=visible, is_watched=is_watched)
    return Diagnosis(
        findings=findings,
        level=ProofLevel.BY_OFFSETS if by_offsets(snapshot) and is_provable_by_offsets(pre) else ProofLevel.FULL,
        provable=Provable.SOME if missing_checks(of_cluster) else Provable.ALL,
        sentence=_sentence(snapshot, pre, findings, readable, visible),
        topics_provable=readable,
        topics_visible=visible,
    )


def unreachable(why: str, local: Iterable[Finding] = (), *, obstacle: str = "no broker responds") -> Diagnosis:
    """Returns the diagnosis if nothing can be read of the cluster. `why` has each address's reason."""
    found = Finding(check="connection", level=FindingLevel.MISSING, result=why, consequence="nothing can be read")
    return nothing_provable(obstacle, (found, *local), topics_visible=0)


def nothing_provable(
    why: str, findings: tuple[Finding, ...], *, topics_visible: int, is_watched: bool = False
) -> Diagnosis:
    """The diagnosis if `why` prevents every proof; `is_watched`: what is open is shown all the same."""
    return Diagnosis(
        findings=findings,
        level=ProofLevel.WATCH_ONLY if is_watched else ProofLevel.NONE,
        provable=Provable.NONE,
        sentence=f"No hang can be proved: {why}.",
        topics_provable=0,
        topics_visible=topics_visible,
    )


def _obstacle(snapshot: Snapshot, pre: Preconditions, readable: int, visible: int) -> str | None:
    """Returns why nothing can be proved; None if something can."""
    if all(contact.failure for contact in pre.contacts):
        return "no broker responds"
    brokers = {contact.broker for contact in pre.contacts if contact.broker is not None}
    if brokers and brokers <= {*snapshot.visibility.strangers}:
        return "no broker is reached at an address of its own"
    if visible == 0 and snapshot.partitions.excluded_count:
        return f"scan.topics excludes {_all_of(len(snapshot.partitions.topics), 'visible topic')}"
    if visible == 0:
        return "no topic is visible" if pre.hidden_topics or pre.acls.unread else "there is no topic"
    if readable == 0 and snapshot.partitions.is_unread.any():
        return f"{_all_of(visible, 'visible topic')} could not be read completely"
    if pre.state_topic is not StateTopic.PRESENT:
        return _NO_COORDINATORS[pre.state_topic]
    failures = [proof.failure for proof in pre.state_partitions]
    if not failures:
        return f"no partition of {STATE_TOPIC} was probed"
    if all(failures):
        kinds = [FAILURES_IN_WORDS[failure] for failure in dict.fromkeys(failures) if failure is not None]
        ids = "transactional ids are hidden"
        return (
            ids if kinds == [FAILURES_IN_WORDS["transactional_ids_hidden"]] else f"{STATE_TOPIC} is {', '.join(kinds)}"
        )
    return "without READ that needs every coordinator and transactional id" if readable == 0 else None


def _sentence(snapshot: Snapshot, pre: Preconditions, findings: Iterable[Finding], readable: int, visible: int) -> str:
    noun = "included topic" if snapshot.partitions.excluded_count else "visible topic"
    where = _all_of(visible, noun) if readable == visible else f"{readable:,} of {humanize_count(visible, noun)}"
    if not {OFFSETS_TOPIC, STATE_TOPIC}.isdisjoint(snapshot.partitions.topics):
        where += " (Kafka's internal ones included)"
    offsets_alone = len(by_offsets(snapshot))
    if offsets_alone and is_provable_by_offsets(pre):
        where += f", on {offsets_alone:,} by offsets alone"
    missing = missing_checks(findings)
    more = f" Missing: {', '.join(missing)}." if missing else ""
    failed = sum(proof.failure is not None for proof in pre.state_partitions)
    except_ = ""
    if failed:
        of = f"{failed} of {humanize_count(len(pre.state_partitions), 'partition')} of {STATE_TOPIC}"
        except_ = f", except those of transactional ids that belong to {of}"
    elif pre.id_visibility is not IdVisibility.ALL:
        except_ = ", except those of producers that no coordinator knows"
    return f"Hangs can be proved on {where}{except_}.{more}"


def _all_of(count: int, noun: str) -> str:
    return f"{'all' if count > 1 else 'the'} {humanize_count(count, noun)}"


_NO_COORDINATORS = {
    StateTopic.HIDDEN: f"{STATE_TOPIC} is not visible",
    StateTopic.ABSENT: f"brokers show no topic {STATE_TOPIC}",
    StateTopic.UNKNOWN: "the coordinators are unknown",
}
