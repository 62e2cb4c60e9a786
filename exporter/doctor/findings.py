"""Declares the findings of `doctor`, and the diagnosis that they add up to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from exporter.snapshot import DenyRule, ProofLevel, Provable, Resource

DESCRIBE_IS_ENOUGH = "DESCRIBE would be enough; READ, in the command below, implies it, and shows producers"
NAMED_MAX = 10
"""Names in a finding; the others are counted."""
NOT_AUTHORIZED = ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")


class FindingLevel(Enum):
    """Meaning of a finding for proofs."""

    OK = "ok"
    LIMITED = "limited"
    """Something optional is missing: all that can be proved without it is proved."""
    MISSING = "missing"
    """A hang would not be found, or not be proved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """An ALLOW rule that the exporter's principal lacks."""

    operation: str
    """Name of the operation for kafka-acls.sh."""
    resource: Resource
    names: tuple[str, ...] = ()
    """Literal names, or `*`; empty for the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Result of one check."""

    check: str
    """Name of the check, two words at most."""
    level: FindingLevel
    result: str
    consequence: str = ""
    """Consequence for transactions, a sentence; empty if there is none."""
    advice: str = ""
    """Remedy other than a grant."""
    grants: tuple[Grant, ...] = ()
    denied_by: tuple[DenyRule, ...] = ()
    """Rules whose removal mends it."""


def missing_checks(findings: Iterable[Finding]) -> tuple[str, ...]:
    """The checks that found something missing, each once."""
    return tuple(dict.fromkeys(finding.check for finding in findings if finding.level is FindingLevel.MISSING))


def ok(check: str, result: str) -> Finding:
    """Returns the finding of a check that found nothing missing."""
    return Finding(check=check, level=FindingLevel.OK, result=result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Every finding, and what they mean together."""

    findings: tuple[Finding, ...]
    provable: Provable
    """The one value behind the sentence, the exit status and the page."""
    level: ProofLevel
    sentence: str
    """Sentence, with its full stop, about the topics on which hangs can be proved."""
    topics_provable: int
    """Visible topics on which a hang would be seen and proved."""
    topics_visible: int

    @property
    def problems(self) -> tuple[str, ...]:
        """The checks that found something missing: they change less often than the sentence with its counts."""
        return missing_checks(self.findings)
