"""`doctor`: says before the first hang whether one could be proved, and what to grant if not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any

from exporter.commands.context import Context
from exporter.commands.rows import as_json, printable
from exporter.commands.serve import lacks_arrow
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.doctor.diagnose import diagnose, unreachable
from exporter.doctor.findings import Diagnosis, Finding
from exporter.doctor.local import local_findings
from exporter.doctor.prometheus import prometheus_findings
from exporter.doctor.remedies import PLACEHOLDER, acl_lines, strimzi_rules
from exporter.kafka.client.principal import principal_of
from exporter.kafka.collect.collector import open_collector
from exporter.kafka.collect.preconditions import preconditions
from exporter.kafka.errors import ClusterUnavailableError

LEVEL_WIDTH = 8
CHECK_WIDTH = 17


def run(context: Context, settings: Settings) -> int:
    """Print the diagnosis; returns the exit status."""
    options = context.options
    principal = options.principal or principal_of(settings.kafka)
    state_path = context.state_path(settings, settings.kafka)
    local = tuple(local_findings(settings, state_path=state_path, lacks_package=lacks_arrow(settings)))
    with closing(open_collector(settings.kafka, settings.scan)) as collector:
        try:
            snapshot = collector.collect()
            read = collector.query(preconditions)
        except ClusterUnavailableError as error:
            beside = () if options.prometheus is None else tuple(prometheus_findings(options.prometheus, None))
            diagnosis = unreachable(str(error), (*local, *beside))
            status = ExitStatus.COULD_NOT_RUN
        else:
            if options.prometheus is not None:
                local += tuple(prometheus_findings(options.prometheus, snapshot.cluster_id))
            diagnosis = diagnose(snapshot, read, principal=principal, local=local)
            status = ExitStatus.ANSWERED if diagnosis.can_prove_all else ExitStatus.INCOMPLETE
    remedies = _remedies(options.acls, diagnosis, principal, settings.kafka.bootstrap)
    print(_document(diagnosis, principal, remedies) if options.format == "json" else _text(diagnosis, remedies))
    return status


def _remedies(form: str, diagnosis: Diagnosis, principal: str | None, bootstrap: str) -> tuple[str, ...]:
    if form == "strimzi":
        return strimzi_rules(diagnosis.findings)
    return acl_lines(diagnosis.findings, principal=principal, bootstrap=bootstrap)


def _text(diagnosis: Diagnosis, remedies: Iterable[str]) -> str:
    lines = [line for finding in diagnosis.findings for line in _finding(finding)]
    lines += ["", diagnosis.sentence]
    if remedies:
        lines += ["", _heading(remedies), *(printable(remedy) for remedy in remedies)]
    return "\n".join(lines)


def _heading(remedies: Iterable[str]) -> str:
    first = next(iter(remedies))
    if not first.startswith("kafka-acls.sh"):
        return "Missing rules, for spec.authorization.acls of the KafkaUser:"
    unknown = f"; replace {PLACEHOLDER} by the exporter's principal" if PLACEHOLDER in first else ""
    return f"To mend it, as an administrator whose login is in admin.properties{unknown}:"


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
