"""Writes the grants that are missing as lines of kafka-acls.sh, or as rules of a Strimzi KafkaUser."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from exporter.doctor.acls import rules_in_words
from exporter.doctor.findings import Finding, Grant
from exporter.evaluation.protection import ADMIN_FILE
from exporter.snapshot import DenyRule, Resource

PLACEHOLDER = "User:NAME"
"""The principal where it is unknown."""
_STRIMZI_TYPES = {
    Resource.TOPIC: "topic",
    Resource.GROUP: "group",
    Resource.CLUSTER: "cluster",
    Resource.TRANSACTIONAL_ID: "transactionalId",
}


def acl_lines(findings: Sequence[Finding], *, principal: str | None, bootstrap: str) -> tuple[str, ...]:
    """Commands for an administrator, each once."""
    removals = (_removal(rule, bootstrap) for rule in _denied(findings))
    return (*removals, *(_addition(grant, principal or PLACEHOLDER, bootstrap) for grant in _missing(findings)))


def _denied(findings: Sequence[Finding]) -> tuple[DenyRule, ...]:
    """Returns each rule to remove once."""
    return tuple(dict.fromkeys(rule for finding in findings for rule in finding.denied_by))


def _missing(findings: Sequence[Finding]) -> tuple[Grant, ...]:
    """Returns each grant once, without those that a grant on every name includes."""
    grants = tuple(dict.fromkeys(grant for finding in findings for grant in finding.grants))
    for_all = {(grant.operation, grant.resource) for grant in grants if grant.names == ("*",)}
    return tuple(grant for grant in grants if grant.names == ("*",) or (grant.operation, grant.resource) not in for_all)


def _tool(bootstrap: str) -> list[str]:
    return ["kafka-acls.sh", "--bootstrap-server", bootstrap, "--command-config", ADMIN_FILE]


def _addition(grant: Grant, principal: str, bootstrap: str) -> str:
    words = [*_tool(bootstrap), "--add", "--allow-principal", principal, "--operation", grant.operation]
    words += [word for name in grant.names for word in (f"--{grant.resource.value}", name)] or ["--cluster"]
    return shlex.join(words)


def _removal(rule: DenyRule, bootstrap: str) -> str:
    words = [*_tool(bootstrap), "--remove", "--force", "--deny-principal", rule.principal]
    words += [] if rule.host == "*" else ["--deny-host", rule.host]
    words += ["--operation", rule.operation, f"--{rule.resource.value}"]
    words += [] if rule.resource is Resource.CLUSTER else [rule.name]
    words += ["--resource-pattern-type", "prefixed"] if rule.is_prefixed else []
    return shlex.join(words)


def strimzi_rules(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Lines for `spec.authorization.acls` of a KafkaUser, after comments that name the rules to remove."""
    lines = [f"# remove {rules_in_words((rule,))}" for rule in _denied(findings)]
    grants_by_name = [(grant, name) for grant in _missing(findings) for name in grant.names or ("",)]
    for grant, name in grants_by_name:
        lines += ["- resource:", f"    type: {_STRIMZI_TYPES[grant.resource]}"]
        if name:  # a topic's name contains no quotes
            lines += [f'    name: "{name}"', "    patternType: literal"]
        lines += [f"  operations: [{grant.operation}]", '  host: "*"']
    return tuple(lines)
