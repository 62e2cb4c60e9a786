"""Findings about `__transaction_state`, its coordinators, and the transactional ids that they show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from exporter.doctor.acls import denials, hiding, rules_in_words
from exporter.doctor.findings import DESCRIBE_IS_ENOUGH, Finding, FindingLevel, Grant, ok
from exporter.evaluation.humanize import humanize_count
from exporter.snapshot import STATE_TOPIC, IdVisibility, Preconditions, Resource, StateTopic
from exporter.snapshot.proof import FAILURES_IN_WORDS, IDS_IN_WORDS

_DESCRIBE_IDS = Grant(operation="Describe", resource=Resource.TRANSACTIONAL_ID, names=("*",))
_NOT_PROVED = "no hang can be proved"
_NOT_PROBED = "no ACL hides one; whether the coordinators show all is unknown"


def of_state_topic(pre: Preconditions, connection: str) -> Finding:
    """`connection` has the options of Kafka's own tools that name the cluster."""
    check = "transaction log"
    if pre.state_topic is StateTopic.HIDDEN:
        return Finding(
            check=check,
            level=FindingLevel.MISSING,
            result=f"{STATE_TOPIC} is not visible",
            consequence=f"the coordinators are unknown: {_NOT_PROVED}",
            advice=DESCRIBE_IS_ENOUGH,
            grants=(Grant(operation="Read", resource=Resource.TOPIC, names=(STATE_TOPIC,)),),
            denied_by=denials(pre, Resource.TOPIC, STATE_TOPIC),
        )
    if pre.state_topic is StateTopic.UNKNOWN:
        return Finding(
            check=check,
            level=FindingLevel.MISSING,
            result=f"no broker responded about {STATE_TOPIC}",
            consequence=_NOT_PROVED,
        )
    if pre.state_topic is StateTopic.ABSENT:
        return Finding(
            check=check,
            level=FindingLevel.MISSING,
            result=f"brokers show no topic {STATE_TOPIC}: a proxy hides it, or no producer has ever used an id",
            consequence=f"the coordinators are unknown: {_NOT_PROVED}",
            advice="connect to the brokers themselves, or create it by a command that fails, as there is no such id: "
            f"kafka-transactions.sh {connection} describe --transactional-id any",
        )
    return ok(check, f"{STATE_TOPIC} is visible")


def of_coordinators(pre: Preconditions) -> Iterable[Finding]:
    failures = Counter(
        proof.failure for proof in pre.state_partitions if proof.failure not in {None, "transactional_ids_hidden"}
    )
    count = len(pre.state_partitions)
    if count and all(proof.failure is None for proof in pre.state_partitions):
        leaders = len({proof.leader for proof in pre.state_partitions})
        loaded = f"{humanize_count(count, 'partition')} of {STATE_TOPIC}, all loaded"
        result = f"{humanize_count(leaders, 'coordinator')} with {loaded}"
        yield ok("coordinators", result)
    of = humanize_count(count, "partition")
    for failure, times in failures.items():
        failed = (proof.leader for proof in pre.state_partitions if proof.failure == failure)
        brokers = sorted({leader for leader in failed if leader >= 0})
        at = f" (broker {', '.join(map(str, brokers))})" if brokers else ""
        are = "is" if times == 1 else "are"
        yield Finding(
            check="coordinators",
            level=FindingLevel.MISSING,
            result=f"{times} of {of} of {STATE_TOPIC} {are} {FAILURES_IN_WORDS[str(failure)]}{at}",
            consequence="suspects whose transactional id belongs to them, or is unknown, stay inconclusive",
        )


def of_ids(pre: Preconditions) -> Finding:
    check = "transactional ids"
    denied = hiding(pre.acls.denied, Resource.TRANSACTIONAL_ID)
    if pre.is_id_refused or any(proof.failure == "transactional_ids_hidden" for proof in pre.state_partitions):
        return Finding(
            check=check,
            level=FindingLevel.MISSING,
            result="not all visible",
            consequence=f"{_NOT_PROVED}: suspects stay inconclusive (transactional_ids_hidden)",
            grants=(_DESCRIBE_IDS,),
            denied_by=denied,
        )
    if pre.id_visibility is IdVisibility.ALL:
        is_every_one_probed = pre.state_topic is StateTopic.PRESENT and not any(
            proof.failure for proof in pre.state_partitions
        )
        return ok(check, "all visible" if is_every_one_probed else _NOT_PROBED)
    is_by_name = pre.id_visibility is IdVisibility.BY_NAME_ONLY
    result = (
        f"an ACL hides some: {rules_in_words(denied)}" if is_by_name and denied else IDS_IN_WORDS[pre.id_visibility]
    )
    return Finding(
        check=check,
        level=FindingLevel.MISSING,
        result=result,
        consequence="suspects whose producer no coordinator knows stay inconclusive",
        grants=(_DESCRIBE_IDS,) if is_by_name and not denied else (),
        denied_by=denied if is_by_name else (),
    )
