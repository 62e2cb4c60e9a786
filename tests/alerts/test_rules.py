"""The rule files as text: every name in them exists, and they contain what the documents promise."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Final

import pytest

from exporter import PROGRAM
from exporter.artifacts.rules import (
    ALERTS,
    RECORDING,
    RUNBOOK_BASE,
    key_of,
    load,
    page_of,
    reason_of,
    rules_of,
    thresholds,
)
from exporter.audit.verdicts import AuditVerdict
from exporter.evaluation.verdicts import InconclusiveReason, Verdict
from exporter.publication.metrics.table import METRICS
from exporter.snapshot import CLUSTER_ID_VARIABLE, PartitionResult
from exporter.transaction_log.events import Outcome
from tests.alerts.promtool import TIMELINES, timeline_file
from tests.alerts.timeline import read_pages
from tests.each import each

RUNBOOKS: Final = Path(__file__).parents[2] / "alerts" / "runbooks"
DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "alerting.md"

RECORDED: Final = list(rules_of(load(RECORDING)))
ALERTING: Final = list(rules_of(load(ALERTS)))
PAGES: Final = sorted({page_of(rule) for rule in ALERTING})
NAMES_MAX: Final = 12
OBJECTIVES: Final = {
    rule["record"] for group in load(RECORDING) if "objectives" in group["name"] for rule in group["rules"]
}
"""Signals that are for an objective of the user's."""
every_step: Final = each(ALERTING, name=key_of)
every_page: Final = each(PAGES)

CHANGES_WITH_A_POD: Final = "instance, pod, node, container, endpoint, pod_template_hash"
TARGET_LABELS: Final = {*CHANGES_WITH_A_POD.split(", "), "cluster_id"}
PROMQL: Final = {
    *("and", "or", "unless", "ignoring", "group_left", "without"),
    *("max", "min", "sum", "count", "topk", "time", "timestamp", "clamp_min", "increase", "rate", "histogram_quantile"),
    *("on", "group", "ALERTS", "alertstate", "component", "severity"),  # these read alerts, for objectives
    *("max_over_time", "min_over_time", "last_over_time", "absent_over_time", "offset"),
}
LABEL_VALUES: Final = {
    "verdict": {verdict.label for verdict in Verdict} | {verdict.value for verdict in AuditVerdict},
    "reason": {reason.value for reason in InconclusiveReason},
    "answer": {answer.label for answer in PartitionResult}
    | {"current", "behind", "unread"},  # of partitions; of those of the log
    "outcome": {outcome.value for outcome in Outcome},
}


@pytest.mark.programs
@pytest.mark.parametrize("path", [RECORDING, ALERTS], ids=lambda path: path.name)
def test_promtool_finds_nothing(path: Path) -> None:
    """Prometheus loads the files unchanged, and its linter is content."""
    run = subprocess.run(
        ["promtool", "check", "rules", "--lint=all", "--lint-fatal", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr


@each([*RECORDED, *ALERTING], name=lambda rule: rule.get("record") or rule["alert"])
def test_every_name_in_an_expression_is_published(rule: dict[str, str]) -> None:
    """An alert on a metric or label that is not published can never fire."""
    known = (
        {metric.name for metric in METRICS}
        | {f"{metric.name}_bucket" for metric in METRICS if metric.kind == "histogram"}
        | {label for metric in METRICS for label in metric.labels}
        | {rule["record"] for rule in RECORDED}
        | TARGET_LABELS
        | PROMQL
    )
    text = re.sub(r'"[^"]*"|#.*|\[\w+\]', "", rule["expr"])

    assert set(re.findall(r"\b[a-zA-Z_][\w:]*", text)) - known == set()


@every_step
def test_every_value_of_a_label_exists(rule: dict[str, str]) -> None:
    """A verdict or reason that was renamed would make an alert that can never fire."""
    for label, values in re.findall(r'(verdict|reason|answer|outcome)=~?"([^"]+)"', rule["expr"]):
        for pattern in values.split("|"):
            assert any(re.fullmatch(pattern, value) for value in LABEL_VALUES[label]), pattern


def test_every_signal_is_read_by_an_alert() -> None:
    """A signal that only a panel reads belongs into the panel's query."""
    read = {name for rule in [*ALERTING, *RECORDED] for name in re.findall(r"\w+:\w+:\w+", rule["expr"])}

    assert read == {rule["record"] for rule in RECORDED} - OBJECTIVES


@every_step
def test_a_new_pod_is_the_same_alert(rule: dict[str, str]) -> None:
    """Every alert aggregates away whatever a restart changes; which labels these are is the same everywhere."""
    without = re.findall(r"without \(\s*([^)]*?)\s*\)", rule["expr"])

    assert any(labels == CHANGES_WITH_A_POD for labels in without)
    for labels in without:
        assert not labels.startswith("instance") or labels.replace("\n", "").startswith(CHANGES_WITH_A_POD)


@every_step
def test_every_alert_says_what_it_promises(rule: dict[str, dict[str, str]]) -> None:
    """A constant summary, a runbook, a severity and a team; topic, partition, age and verdict where there are any."""
    annotations = rule["annotations"]
    name = str(rule["alert"])

    assert "{{" not in annotations["summary"]
    assert annotations["runbook_url"] == f"{RUNBOOK_BASE}/{page_of(rule)}.md"
    assert rule["labels"]["severity"] in ({"none"} if name.endswith("Watchdog") else {"critical", "warning", "info"})
    assert rule["labels"]["component"] in {"kafka-transactions", "kafka-transaction-exporter"}
    shown = re.split(r"\bunless\b", str(rule["expr"]))[0]
    if "transaction:kafka_suspect" in shown and "lag" not in shown and "count" not in shown:
        for word in (
            "$labels.topic",
            "$labels.partition",
            "$labels.verdict",
            "humanizeDuration $value",
            "$labels.producer_id",
        ):
            assert word in annotations["description"]


@every_step
def test_a_description_is_two_sentences(rule: dict[str, dict[str, str]]) -> None:
    """A page is read at three in the morning: what is wrong and what it means; the commands are in the runbook."""
    description = re.sub(r"\{\{.*?\}\}", "X", rule["annotations"]["description"])

    assert len(re.findall(r"[.](?= |$)", description)) in {1, 2}, description
    assert not re.search(rf"{PROGRAM} [a-z-]+ --", description)
    assert "\n" not in description


@every_step
def test_a_number_may_be_one(rule: dict[str, dict[str, str]]) -> None:
    """No noun in the plural follows a number that can be 1: "1 offsets" is read as a fault of the program."""
    can_be_one = not re.search(r">=? *(?:[2-9]|\d\d)", str(rule["expr"])) and "cluster_wide" not in str(rule["expr"])

    plurals = re.findall(r"\$value \}\} \w+s\b", rule["annotations"]["description"])

    assert not (can_be_one and plurals), plurals


@every_step
def test_an_alert_about_a_partition_names_groups_variables_and_page(rule: dict[str, dict[str, str]]) -> None:
    """A page about a partition has these three; of the others only those that a page of the exporter shows have a link."""
    optional = set(rule["annotations"]) - {"summary", "description", "runbook_url"}
    name = str(rule["alert"])

    if "$labels.partition" in rule["annotations"]["description"]:
        blocked = set() if name == "KafkaTransactionBlocksGroup" else {"blocked_groups"}
        assert optional == {"variables", "page_url", *blocked}
        return
    has_page = "$labels.producer_id" in rule["annotations"]["description"] or name == "KafkaTransactionGroupFails"
    has_page |= page_of(rule) in {"KafkaTransactionHangingClusterWide", "KafkaTransactionSuspectsHidden"}
    has_page |= name == "KafkaTransactionFillsDisk" or rule["labels"]["reason"] == "AuditFinding"
    assert ("page_url" in optional) is has_page
    is_of_cluster = "cluster_id" in timeline_file(page_of(rule))["labels"]
    assert ("variables" in optional) is (is_of_cluster or name == "KafkaTransactionWatchdog")
    assert optional <= {"variables", "page_url"}


@every_step
def test_the_link_of_an_alert_about_a_partition_names_its_place_escaped(rule: dict[str, dict[str, str]]) -> None:
    """Prometheus escapes nothing in an annotation. A live transaction has no incident: its link is the status page.

    The group is in the fragment, which a browser keeps where the exporter redirects to the status page: it searches there.
    """
    _, _, place = rule["annotations"].get("page_url", "").partition("/incidents")
    query, _, fragment = place.partition("#")
    fields = re.findall(r"[?&](\w+)=\{\{ (\S+) (.*?) \}\}", query)

    assert query.count("=") == len(fields)
    if "$labels.partition" in rule["annotations"]["description"] and rule["labels"]["reason"] != "OwnerSilent":
        of_labels = [("topic", "."), ("partition", "$labels.partition"), ("start_offset", ".")]
        assert fields == [(*each, "| urlquery") for each in of_labels]
        assert fragment.startswith('search={{ . | urlquery | reReplaceAll "[+]" "%20" }}')


@every_page
def test_the_variables_are_a_line_for_a_shell(name: str) -> None:
    """`variables` of each page, pasted unchanged, sets names of the runbooks' table to the alert's values."""
    file = timeline_file(name)
    lines = [page["variables"] for page in file["pages"].values() if "variables" in page]

    if name == "KafkaTransactionWatchdog":
        assert lines == ["export PROMETHEUS=http://prometheus:9090"]
        return
    assert bool(lines) == ("cluster_id" in file["labels"])
    for line in lines:
        export, *words = shlex.split(line)
        assert export == "export"
        variables = dict(word.split("=", 1) for word in words)
        assert variables.pop(CLUSTER_ID_VARIABLE) == file["labels"]["cluster_id"]
        labels = {**file["labels"], "transactional_id": "billing-7"}  # the alert's own drop it
        assert variables == {variable: labels[variable.lower()] for variable in variables}
        places = {"partition": {"TOPIC", "PARTITION"}, "producer_id": {"PRODUCER_ID"}, "broker": {"BROKER"}}
        assert next((place for label, place in places.items() if label in file["labels"]), set()) <= set(variables)


@every_step
def test_a_transactional_id_is_never_shown_as_it_is(rule: dict[str, dict[str, str]]) -> None:
    """It is whatever a client chose: always through the filter."""
    description = " ".join(rule["annotations"].values())
    shown = re.findall(
        r"\{\{ with \$labels\.transactional_id \}\}(?:, transactional id| TRANSACTIONAL_ID=)", description
    )
    safely = '{{ . | reReplaceAll "[^-_.:/=+a-zA-Z0-9]" "?" '

    assert description.count("transactional_id") == len(shown)
    for text in re.split(r"\{\{ with \$labels\.transactional_id \}\}", description)[1:]:
        assert text.partition("{{")[1] + text.partition("{{")[2][: len(safely) - 2] == safely


@every_step
def test_a_group_is_never_shown_as_it_is(rule: dict[str, dict[str, str]]) -> None:
    """A consumer group's name is what its client chose, and a group of the transaction log the beginning of such an id."""
    text = " ".join(rule["annotations"].values())

    assert not re.search(r'label "group" }}|label "group" \| (?!reReplaceAll)', text)
    filtered = text.count('$labels.group | reReplaceAll "[^-_.:/=+a-zA-Z0-9]" "?"')
    escaped = text.count("with $labels.group }}#search={{ . | urlquery | ")
    assert text.count("$labels.group") == filtered + escaped


@every_step
def test_a_large_number_has_all_its_digits(rule: dict[str, dict[str, str]]) -> None:
    """A bare value of 12345678 would be shown as 1.2345678e+07."""
    assert "{{ $value }}" not in " ".join(rule["annotations"].values())


def test_the_time_lines_are_those_of_the_alerts() -> None:
    assert sorted(path.stem for path in TIMELINES.glob("*.yaml")) == PAGES


@every_page
def test_every_alert_has_all_cases(name: str) -> None:
    """Positive, negative, boundary, restart, stale and recovery, each with its sentence; and each severity has its page."""
    file = timeline_file(name)

    assert set(file["cases"]) >= {"positive", "negative", "boundary", "restart", "stale", "recovery"}
    assert all(case["says"].endswith(".") for case in file["cases"].values())
    assert "page_at" in file["cases"]["positive"]
    assert set(file["pages"]) == {rule["labels"]["severity"] for rule in ALERTING if page_of(rule) == name}
    read = {severity for case in file["cases"].values() if "page_at" in case for severity in read_pages(file, case)}
    assert read == set(file["pages"]), "a page that no case reads"


@every_page
def test_every_alert_has_a_runbook(name: str) -> None:
    """`runbook_url` leads to a page with the name of the reason, and its first lines have the names of its alerts."""
    text = (RUNBOOKS / f"{name}.md").read_text()
    rules = [rule for rule in ALERTING if page_of(rule) == name]

    assert text.startswith(f"# {name}\n")
    assert {f"KafkaTransaction{reason_of(rule)}" for rule in rules} == {name}
    assert all(f"`{rule['alert']}`" in text.split("## ")[0] for rule in rules)


def test_no_alert_has_two_severities() -> None:
    """kube-prometheus mutes a warning by a critical alert of the same name and namespace, also about another cluster."""
    severities = {(rule["alert"], rule["labels"]["severity"]) for rule in ALERTING}

    assert len(severities) == len({name for name, _ in severities}) <= NAMES_MAX


def test_a_reason_has_one_rule_for_each_severity() -> None:
    keys = [key_of(rule) for rule in ALERTING]

    assert sorted(keys) == sorted(set(keys))


def test_every_runbook_has_an_alert() -> None:
    assert {path.stem for path in RUNBOOKS.glob("Kafka*.md")} <= set(PAGES)


def test_the_document_gives_a_reason_for_every_threshold() -> None:
    document = DOCUMENT.read_text()
    without = [name for name in thresholds([*load(RECORDING), *load(ALERTS)]) if f"(`{name}`)" not in document]

    assert not without, f"{DOCUMENT.name}, Thresholds and their reasons, has no reason for {without}"
