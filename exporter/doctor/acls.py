"""Findings about ACLs and consumer groups, and which DENY rules are behind others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from exporter.doctor.findings import NAMED_MAX, NOT_AUTHORIZED, Finding, FindingLevel, Grant, ok
from exporter.evaluation.humanize import humanize_names
from exporter.snapshot import DenyRule, Preconditions, Resource

DESCRIBE_CLUSTER = Grant(operation="Describe", resource=Resource.CLUSTER)


def of_acls(pre: Preconditions, connection: str) -> Iterable[Finding]:
    """`connection` has the options of Kafka's own tools that name the cluster."""
    check = "ACLs"
    if not pre.acls.has_authorizer:
        yield ok(check, "there is no authorizer: nothing is hidden")
    elif not pre.acls.unread:
        yield ok(check, "readable")
    else:
        is_refused = pre.acls.unread in NOT_AUTHORIZED
        yield Finding(
            check=check,
            level=FindingLevel.MISSING,
            result="unread: needs DESCRIBE on the cluster" if is_refused else f"unread: {pre.acls.unread}",
            consequence="whether topics or transactional ids are hidden is unknown",
            advice="grant it and run this again, as other missing rights show only then; if it is granted, a DENY takes it "
            f"away, which an administrator sees: kafka-acls.sh {connection} --list --cluster"
            if is_refused
            else "",
            grants=(DESCRIBE_CLUSTER,) if is_refused else (),
        )


def of_groups(pre: Preconditions) -> Finding:
    check = "consumer groups"
    denied = hiding(pre.acls.denied, Resource.GROUP)
    result = pre.groups_hidden
    if not result and denied:
        result = f"an ACL hides some: {rules_in_words(denied)}"
    elif not result and pre.acls.has_authorizer and pre.acls.unread:
        result = "visible, but whether an ACL hides some is unknown"
    if not result:
        return ok(check, "all visible")
    return Finding(
        check=check,
        level=FindingLevel.LIMITED,
        result=result,
        consequence="groups that a suspect blocks may not be named",
        grants=(Grant(operation="Describe", resource=Resource.GROUP, names=("*",)),) if pre.are_groups_refused else (),
        denied_by=denied if pre.are_groups_refused or not pre.groups_hidden else (),
    )


def denials(pre: Preconditions, resource: Resource, name: str) -> tuple[DenyRule, ...]:
    return tuple(rule for rule in pre.acls.denied if rule.matches(resource, name))


def hiding(denied: Iterable[DenyRule], resource: Resource) -> tuple[DenyRule, ...]:
    """Returns the rules that hide resources of this type: with a DENY on READ alone a topic is visible."""
    return tuple(rule for rule in denied if rule.resource is resource and rule.operation != "Read")


def rules_in_words(denied: Sequence[DenyRule]) -> str:
    return humanize_names([_rule(rule) for rule in denied], shown_max=NAMED_MAX)


def _rule(rule: DenyRule) -> str:
    name = f"{rule.name}*" if rule.is_prefixed else rule.name
    return f"DENY {rule.operation.upper()} on {rule.resource.value} {name} for {rule.principal}"
