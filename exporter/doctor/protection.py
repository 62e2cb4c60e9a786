"""Findings about the settings of the cluster that prevent hanging transactions: `doctor --cluster`."""

from __future__ import annotations

from collections.abc import Iterable

from exporter.doctor.findings import Finding, FindingLevel, Grant
from exporter.evaluation.protection import CHECKS, ProtectionState
from exporter.snapshot import STATE_TOPIC, Resource
from exporter.snapshot.origin import Protection

_CHECK = "protection"
_GRANT = Grant(operation="DescribeConfigs", resource=Resource.TOPIC, names=(STATE_TOPIC,))


def of_protection(protection: Protection, connection: str) -> Iterable[Finding]:
    """Yields findings of level `limited` at most: hangs can be proved even if nothing prevents them.

    `connection` has the options of Kafka's own tools that name the cluster.
    """
    for check in CHECKS.values():
        measure = check(protection).on(connection)
        yield Finding(
            check=_CHECK,
            level=FindingLevel.OK if measure.state is ProtectionState.GOOD else FindingLevel.LIMITED,
            result=f"{measure.name}: {measure.found}",
            consequence="the cluster is exposed to transactions that hang"
            if measure.state is ProtectionState.EXPOSED
            else "",
            advice=measure.advice if measure.state is ProtectionState.EXPOSED else "",
        )
    for sentence in protection.unread:
        is_of_topic = protection.is_state_topic_refused and STATE_TOPIC in sentence
        grants = (_GRANT,) if is_of_topic else ()
        yield Finding(check=_CHECK, level=FindingLevel.LIMITED, result=f"unread: {sentence}", grants=grants)
