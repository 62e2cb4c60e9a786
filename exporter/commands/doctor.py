"""`doctor`: says before the first hang whether one could be proved, and what to grant if not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any

from exporter.commands.context import Context
from exporter.commands.rows import as_json, printable
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.doctor.diagnose import diagnose, unreachable
from exporter.doctor.findings import Diagnosis, Finding
from exporter.doctor.local import local_findings
from exporter.doctor.prometheus import prometheus_findings
from exporter.doctor.protection import of_protection
from exporter.doctor.remedies import PLACEHOLDER, acl_lines, strimzi_rules
from exporter.kafka.client.principal import principal_of
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.collector import Collector, open_collector
from exporter.kafka.collect.preconditions import preconditions
from exporter.kafka.collect.protection import read_protection
from exporter.kafka.errors import ClusterUnavailableError
from exporter.snapshot.origin import Protection

LEVEL_WIDTH = 8
CHECK_WIDTH = 17


def run(context: Context, settings: Settings) -> int:
    """Print the diagnosis; returns the exit status."""
    options = context.options
    principal = options.principal or principal_of(settings.kafka)
    state_path = context.state_path(settings, settings.kafka)
    local = tuple(local_findings(settings, state_path=state_path))
    with closing(open_collector(settings.kafka, settings.scan)) as collector:
        try:
            snapshot = collector.collect()
            read = collector.query(preconditions)
            protection = _protection(collector) if options.cluster else None
        except ClusterUnavailableError as error:
            diagnosis = unreachable(str(error), (*local, *prometheus_findings(options.prometheus, None)))
            status = ExitStatus.COULD_NOT_RUN
        else:
            local += () if protection is None else tuple(of_protection(protection))
            local += tuple(prometheus_findings(options.prometheus, snapshot.cluster_id))
            diagnosis = diagnose(snapshot, read, principal=principal, local=local)
            status = ExitStatus.ANSWERED if diagnosis.can_prove_all else ExitStatus.INCOMPLETE
    remedies = _remedies(options.acls, diagnosis, principal, settings.kafka.bootstrap)
    if options.format == "json":
        print(_document(diagnosis, principal, remedies))
    else:
        print("\n".join(_text(diagnosis, remedies, _heading(options.acls, remedies))))
    return status


def _protection(collector: Collector) -> Protection:
    """Raises ClusterUnavailableError."""

    async def question(client: ClusterClient) -> Protection:
        return await read_protection(client, await client.topology())

    return collector.query(question)


def _remedies(form: str, diagnosis: Diagnosis, principal: str | None, bootstrap: str) -> tuple[str, ...]:
    if form == "strimzi":
        return strimzi_rules(diagnosis.findings)
    return acl_lines(diagnosis.findings, principal=principal, bootstrap=bootstrap)


def _heading(form: str, remedies: tuple[str, ...]) -> str:
    if form == "strimzi":
        return "Missing rules, for spec.authorization.acls of the KafkaUser:"
    is_unknown = any(PLACEHOLDER in line for line in remedies)
    unknown = f"; replace {PLACEHOLDER} by the exporter's principal" if is_unknown else ""
    return f"To mend it, as an administrator whose login is in admin.properties{unknown}:"


def _text(diagnosis: Diagnosis, remedies: tuple[str, ...], heading: str) -> Iterable[str]:
    for finding in diagnosis.findings:
        yield from _finding(finding)
    yield from ("", diagnosis.sentence)
    if remedies:
        yield from ("", heading, *map(printable, remedies))


def _finding(finding: Finding) -> Iterable[str]:
    yield f"{finding.level.value:<{LEVEL_WIDTH}} {finding.check:<{CHECK_WIDTH}} {printable(finding.result)}"
    indent = " " * (LEVEL_WIDTH + CHECK_WIDTH + 2)
    if finding.consequence:
        yield f"{indent}-> {printable(finding.consequence)}"
    if finding.advice:
        yield f"{indent}{printable(finding.advice)}"


def _document(diagnosis: Diagnosis, principal: str | None, remedies: tuple[str, ...]) -> str:
    document: Mapping[str, Any] = {
        "can_prove_all": diagnosis.can_prove_all,
        "sentence": diagnosis.sentence,
        "topics_provable": diagnosis.topics_provable,
        "topics_visible": diagnosis.topics_visible,
        "principal": principal,
        "findings": [
            {
                "check": finding.check,
                "level": finding.level.value,
                "result": finding.result,
                "consequence": finding.consequence or None,
                "advice": finding.advice or None,
            }
            for finding in diagnosis.findings
        ],
        "remedies": list(remedies),
    }
    return as_json(document)
