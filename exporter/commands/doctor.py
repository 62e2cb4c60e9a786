"""`doctor`: says before the first hang whether one could be proved, and what to grant if not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from exporter.commands.clusters import at_the_same_time
from exporter.commands.context import Context
from exporter.commands.lines import fit_terminal, say
from exporter.commands.report import opened_collector
from exporter.commands.rows import as_json
from exporter.commands.serve import require_startable, web_server, why_baseline_unusable
from exporter.commands.status import ExitStatus
from exporter.config.loading import ConfigurationError
from exporter.config.settings import ClusterSettings, Settings
from exporter.doctor.diagnose import diagnose, unreachable
from exporter.doctor.findings import Diagnosis, Finding, FindingLevel
from exporter.doctor.local import local_findings
from exporter.doctor.prometheus import prometheus_findings
from exporter.doctor.protection import of_protection
from exporter.doctor.remedies import PLACEHOLDER, acl_lines, strimzi_rules
from exporter.doctor.topics import of_patterns, of_transaction_log
from exporter.evaluation.humanize import printable
from exporter.evaluation.protection import ADMIN_FILE
from exporter.kafka.client.credentials import CredentialsError
from exporter.kafka.client.principal import principal_of
from exporter.kafka.collect.preconditions import preconditions
from exporter.kafka.collect.protection import read_protection
from exporter.kafka.errors import AnotherClusterError, ClusterUnavailableError
from exporter.snapshot import Provable

ENOUGH = {
    "all": frozenset({Provable.ALL}),
    "some": frozenset({Provable.ALL, Provable.SOME}),
}
"""`--require`: with these the status is 0."""
LEVEL_WIDTH = 8
CHECK_WIDTH = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """Diagnosis of one cluster, with its remedies."""

    diagnosis: Diagnosis
    status: ExitStatus
    principal: str | None
    needed: tuple[str, ...]
    """Remedies for what is missing."""
    optional: tuple[str, ...]
    """Remedies for what is limited only."""


def run(context: Context, settings: Settings) -> int:
    """Prints the diagnosis of each cluster; returns the exit status."""
    options = context.options
    examine = partial(
        _examined,
        context,
        settings,
        start_problems=_start_problems(settings),
        baseline_problem=why_baseline_unusable(settings),
    )
    found = at_the_same_time(examine, settings.watched)
    if options.format == "json":
        documents = [_document(examined) for examined in found]
        names = [cluster.name for cluster in settings.clusters]
        fleet = {"clusters": [{"cluster_name": name, **one} for name, one in zip(names, documents, strict=False)]}
        print(as_json(fleet if settings.clusters else documents[0]))
    else:
        for cluster, examined in zip(settings.watched, found, strict=True):
            heading = [] if cluster.name is None else [f"== {printable(cluster.name)}"]
            print("\n".join([*heading, *_text(examined)]))
            for is_needed, lines in ((True, examined.needed), (False, examined.optional)):
                if lines:
                    say(f"\n{_heading(options.acls, lines, is_needed=is_needed)}")
                    print("\n".join(map(printable, lines)))  # to paste: never on more lines
    statuses = {examined.status for examined in found}
    return statuses.pop() if len(statuses) == 1 else ExitStatus.INCOMPLETE


def _examined(
    context: Context,
    common: Settings,
    cluster: ClusterSettings,
    *,
    start_problems: Sequence[str],
    baseline_problem: str | None,
) -> Examination:
    options, settings = context.options, cluster.settings
    principal = options.principal or principal_of(settings.kafka)
    state_path = context.state_path(common, settings)
    local = tuple(
        local_findings(
            settings, state_path=state_path, start_problems=start_problems, baseline_problem=baseline_problem
        )
    )
    try:
        with opened_collector(settings) as collector:
            snapshot = collector.collect()
            read = collector.query(preconditions)
            protection = collector.query(read_protection) if options.cluster is not None else None
    except (ClusterUnavailableError, CredentialsError) as error:
        local += tuple(prometheus_findings(options.prometheus, None))
        diagnosis = unreachable(str(error), local, obstacle=_obstacle(error))
        status = ExitStatus.COULD_NOT_RUN
    else:
        local += () if protection is None else tuple(of_protection(protection, settings.kafka.connection_of_tools))
        local += tuple(of_transaction_log(snapshot)) if settings.transaction_log.enabled else ()
        local += tuple(of_patterns(settings.scan, snapshot.partitions.topics))
        local += tuple(prometheus_findings(options.prometheus, snapshot.cluster_id))
        diagnosis = diagnose(
            snapshot,
            read,
            principal=principal,
            local=local,
            connection=settings.kafka.connection_of_tools,
        )
        is_enough = diagnosis.provable in ENOUGH[options.require]
        is_enough &= options.require == "some" or not diagnosis.problems
        status = ExitStatus.ANSWERED if is_enough else ExitStatus.INCOMPLETE

    def remedies(findings: Sequence[Finding]) -> tuple[str, ...]:
        if options.acls == "strimzi":
            return strimzi_rules(findings)
        return acl_lines(findings, principal=principal, bootstrap=settings.kafka.bootstrap)

    needed = remedies([finding for finding in diagnosis.findings if finding.level is FindingLevel.MISSING])
    optional = remedies([finding for finding in diagnosis.findings if finding.level is not FindingLevel.MISSING])
    return Examination(diagnosis=diagnosis, status=status, principal=principal, needed=needed, optional=optional)


def _start_problems(settings: Settings) -> tuple[str, ...]:
    """Says what prevents a start of `serve` with these settings, apart from the cluster."""
    try:
        require_startable(settings)
        web_server(settings)
    except ConfigurationError as error:
        return error.problems
    return ()


def _obstacle(error: Exception) -> str:
    if isinstance(error, CredentialsError):
        return "the credentials cannot be used"
    return "the brokers are of another cluster" if isinstance(error, AnotherClusterError) else "no broker responds"


def _heading(form: str, remedies: tuple[str, ...], *, is_needed: bool) -> str:
    if form == "strimzi":
        rules = "Missing rules" if is_needed else "Optional rules"
        return f"{rules}, for spec.authorization.acls of the KafkaUser:"
    is_unknown = any(PLACEHOLDER in line for line in remedies)
    unknown = f"; replace {PLACEHOLDER} by the exporter's principal" if is_unknown else ""
    what = "To mend it" if is_needed else "Optional, for what is limited"
    return f"{what}, as an administrator whose login is in {ADMIN_FILE}{unknown}:"


def _text(examined: Examination) -> Iterable[str]:
    for finding in examined.diagnosis.findings:
        yield from _finding(finding)
    yield from ("", fit_terminal(f"{examined.diagnosis.sentence} {examined.diagnosis.level.in_words}".rstrip()))


def _finding(finding: Finding) -> Iterable[str]:
    hang = LEVEL_WIDTH + CHECK_WIDTH + 2
    lines = [f"{finding.level.value:<{LEVEL_WIDTH}} {finding.check:<{CHECK_WIDTH}} {printable(finding.result)}"]
    if finding.consequence:
        lines.append(f"{' ' * hang}-> {printable(finding.consequence)}")
    if finding.advice:
        lines.append(f"{' ' * hang}{printable(finding.advice)}")
    return (fit_terminal(line, hang) for line in lines)


def _document(examined: Examination) -> Mapping[str, Any]:
    diagnosis = examined.diagnosis
    return {
        "provable": diagnosis.provable.value,
        "level": diagnosis.level.value,
        "sentence": diagnosis.sentence,
        "topics_provable": diagnosis.topics_provable,
        "topics_visible": diagnosis.topics_visible,
        "principal": examined.principal,
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
        "remedies": [*examined.needed, *examined.optional],
    }
