"""Findings about `__transaction_state`, its coordinators, and the transactional ids that they show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from exporter.doctor.acls import denials, hiding, rules_in_words
from exporter.doctor.findings import Finding, Grant, Level, ok
from exporter.evaluation.humanize import humanize_count
from exporter.snapshot import STATE_TOPIC, DenyRule, IdVisibility, Preconditions, Resource, StateTopic

IN_WORDS = {
    "state_partition_offline": "offline",
    "loading": "still loading",
    "coordinator_unanswered": "without a response from their leader",
    "coordinator_moved": "moving to another broker",
    "leadership_unconfirmed": "at leaders that could not be confirmed",
    "transactional_ids_hidden": "not authorized",
}
"""Failures of a state partition."""
_DESCRIBE_IDS = Grant(operation="Describe", resource=Resource.TRANSACTIONAL_ID, names=("*",))
_NOT_PROVED = "no hang can be proved"


def of_state_topic(pre: Preconditions) -> Finding:
    check = "transaction log"
    if pre.state_topic is StateTopic.HIDDEN:
        return Finding(
            check=check,
            level=Level.MISSING,
            result=f"{STATE_TOPIC} is not visible",
            consequence=f"the coordinators are unknown: {_NOT_PROVED}",
            grants=(Grant(operation="Read", resource=Resource.TOPIC, names=(STATE_TOPIC,)),),
            denied_by=denials(pre, Resource.TOPIC, STATE_TOPIC),
        )
    if pre.state_topic is StateTopic.UNKNOWN:
        return Finding(
            check=check, level=Level.MISSING, result=f"no broker responded about {STATE_TOPIC}", consequence=_NOT_PROVED
        )
    if pre.state_topic is StateTopic.ABSENT:
        return ok(check, f"{STATE_TOPIC} does not exist: no producer has used a transactional id")
    return ok(check, f"{STATE_TOPIC} is visible")


def of_coordinators(pre: Preconditions) -> Iterable[Finding]:
    failures = Counter(
        proof.failure for proof in pre.state_partitions if proof.failure not in {None, "transactional_ids_hidden"}
    )
    count = len(pre.state_partitions)
    if count and all(proof.failure is None for proof in pre.state_partitions):
        leaders = len({proof.leader for proof in pre.state_partitions})
        result = f"{humanize_count(leaders, 'coordinator')} with {count} partitions of {STATE_TOPIC}, all loaded"
        yield ok("coordinators", result)
    for failure, times in failures.items():
        failed = (proof.leader for proof in pre.state_partitions if proof.failure == failure)
        brokers = sorted({leader for leader in failed if leader >= 0})
        at = f" (broker {', '.join(map(str, brokers))})" if brokers else ""
        yield Finding(
            check="coordinators",
            level=Level.MISSING,
            result=f"{times} of {count} partitions of {STATE_TOPIC} are {IN_WORDS[str(failure)]}{at}",
            consequence="suspects whose transactional id belongs to them, or is unknown, stay inconclusive",
        )


def of_ids(pre: Preconditions, others: Sequence[DenyRule]) -> Finding:
    check = "transactional ids"
    denied = hiding(pre.acls.denied, Resource.TRANSACTIONAL_ID)
    of_others = hiding(others, Resource.TRANSACTIONAL_ID)
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
        return ok(check, "all visible")
    if pre.id_visibility is IdVisibility.BY_NAME_ONLY:
        return Finding(
            check=check,
            level=Level.MISSING,
            result="some are visible, and not all that the ACLs name",
            consequence=unknown_only,
            grants=(_DESCRIBE_IDS,),
        )
    if denied:
        result = f"an ACL hides some: {rules_in_words(denied)}"
        return Finding(check=check, level=Level.MISSING, result=result, consequence=unknown_only, denied_by=denied)
    if of_others:
        rules = rules_in_words(of_others)
        result = f"an ACL hides some from others, and a broker does not show which principal is asking: {rules}"
        return Finding(check=check, level=Level.LIMITED, result=result, consequence=unknown_only)
    if pre.id_visibility is IdVisibility.DENY_POSSIBLE:
        result = "visible, but whether an ACL hides some is unknown"
        return Finding(check=check, level=Level.LIMITED, result=result, consequence=unknown_only)
    return Finding(
        check=check, level=Level.MISSING, result="a coordinator did not respond about them", consequence=unknown_only
    )
