"""The chart gives Prometheus, Alertmanager and Grafana the files that the project ships."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from exporter import PROGRAM
from exporter.artifacts.rules import RUNBOOK_BASE, WITHOUT_EXPORTER, Choices, key_of, page_of, reason_of, rules_of
from exporter.artifacts.rules import rule_groups as groups_of
from exporter.web.routes import _PATHS
from helm.made import ROOT
from tests.alerts.pasting import WITHOUT_POD
from tests.helm.chart import MAJORS, NAMESPACE, RELEASE, Refused, render, render_values
from tests.helm.manifests import Manifest, of_kind, only

POD: Final = f"-n {NAMESPACE} deploy/{RELEASE}-{PROGRAM}"
IN_POD: Final = f'{PROGRAM}() {{ local t=-i; [ -t 1 ] && t=-it; kubectl exec $t {POD} -- {PROGRAM} "$@"; }}'
"""Without a terminal where the output goes to another program: a terminal would end its lines with CR, too."""
OF_DEPLOYMENT: Final = f"export NAMESPACE={NAMESPACE} DEPLOYMENT={RELEASE}-{PROGRAM}"
ENABLED: Final = "--set=prometheusRule.enabled=true"
OF_ALERTS: Final = [rule for rule in rules_of(groups_of()) if "alert" in rule]
ALERTS: Final = sorted({name for rule in OF_ALERTS for name in (rule["alert"], page_of(rule))})
"""The names of alerts, and of runbooks for one reason."""
REASONS: Final = sorted(set(map(reason_of, OF_ALERTS)))
DASHBOARDS: Final = {path.stem: path.read_text() for path in (ROOT / "grafana").glob("*.json")}
ANNOTATIONS_MAX: Final = 256 * 1024


def rule_groups(choices: Choices | None = None) -> list[dict[str, Any]]:
    """The project's rules, with the command in the chart's pod where it can run there."""
    groups = groups_of(replace(choices or Choices(), function=IN_POD))
    for rule in rules_of(groups):
        if "alert" not in rule:
            continue
        if reason_of(rule) in WITHOUT_POD:
            rule["annotations"]["variables"] = rule["annotations"]["variables"].removeprefix(f"{IN_POD}; ")
        if reason_of(rule) == "ExporterDown":
            rule["annotations"]["variables"] = OF_DEPLOYMENT
    return groups


def groups(values: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Of a PrometheusRule with these values."""
    given = {"prometheusRule": {"enabled": True, **values}}
    found: list[dict[str, Any]] = only(render_values(given, folder), "PrometheusRule")["spec"]["groups"]
    return found


@pytest.mark.programs
@pytest.mark.parametrize("major", [3, 4])
def test_rules_are_those_of_the_project(major: int) -> None:
    """With nothing chosen they are equal to the last letter, Prometheus' own templates included."""
    assert only(render("minimal", ENABLED, major=major), "PrometheusRule")["spec"]["groups"] == rule_groups()


@pytest.mark.programs
def test_promtool_takes_the_rules(tmp_path: Path) -> None:
    """The rendered ones, the default's and those of the example in which everything is changed."""
    for name, more in (("minimal", [ENABLED]), ("everything", [])):
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump({"groups": only(render(name, *more), "PrometheusRule")["spec"]["groups"]}))
        run = subprocess.run(["promtool", "check", "rules", str(path)], capture_output=True, text=True, check=False)

        assert run.returncode == 0, run.stdout + run.stderr
        assert "SUCCESS" in run.stdout


@pytest.mark.programs
@pytest.mark.parametrize("bit", range(len(ALERTS).bit_length()))
def test_each_alert_can_be_switched_off(bit: int, tmp_path: Path) -> None:
    """At every severity, and nothing else changes: of any two alerts one renders without the other."""
    off = [alert for number, alert in enumerate(ALERTS, start=1) if number >> bit & 1]

    assert groups({"disabled": dict.fromkeys(off, True)}, tmp_path) == rule_groups(Choices(disabled=frozenset(off)))


@pytest.mark.programs
def test_all_alerts_can_be_switched_off(tmp_path: Path) -> None:
    """Their groups go with them, and the signals stay: dashboards read them."""
    left = groups({"disabled": dict.fromkeys(ALERTS, True)}, tmp_path)

    assert [group["name"] for group in left] == ["kafka-transaction-signals", "kafka-transaction-objectives"]


@pytest.mark.programs
def test_an_alert_that_is_not_switched_off_is_on(tmp_path: Path) -> None:
    assert groups({"disabled": {ALERTS[0]: False}}, tmp_path) == rule_groups()


@pytest.mark.programs
def test_thresholds_are_values(tmp_path: Path) -> None:
    """Each can be set alone, and large and small numbers arrive."""
    for name, value, text in (("stuck_critical_seconds", 604800, "604800"), ("lost_cycles_ratio", 0.05, "0.05")):
        assert groups({"thresholds": {name: value}}, tmp_path) == rule_groups(Choices(thresholds={name: text}))


@pytest.mark.programs
def test_durations_and_runbooks_are_values(tmp_path: Path) -> None:
    """For one severity of an alert; the other step keeps its own."""
    durations = {key_of(rule): {"for": "1h"} for rule in rules_of(rule_groups()) if rule.get("alert") == ALERTS[0]}
    urls = {"runbookUrl": "https://wiki/runbooks/", "grafanaUrl": "https://grafana/"}
    choices = Choices(durations=durations, runbook_base="https://wiki/runbooks", grafana_url="https://grafana")

    assert groups({"durations": durations, **urls}, tmp_path) == rule_groups(choices)


@pytest.mark.programs
@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_command_in_the_pod_has_a_terminal_where_the_output_is_one(*, is_terminal: bool, tmp_path: Path) -> None:
    """On a terminal it prints a table, and in a pipe lines without CR."""
    stub = tmp_path / "kubectl"
    stub.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/asked\n')
    stub.chmod(0o755)
    master, slave = os.openpty()
    try:
        subprocess.run(
            ["bash", "-uc", f"{IN_POD}\n{PROGRAM} list"],
            stdout=slave if is_terminal else subprocess.PIPE,
            check=True,
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        )
    finally:
        os.close(master)
        os.close(slave)

    words = (tmp_path / "asked").read_text().split()
    assert words == ["exec", "-it" if is_terminal else "-i", *POD.split(), "--", PROGRAM, "list"]


@pytest.mark.programs
@pytest.mark.parametrize("names", [["kafka-transactions"], ["own", "own"]])
def test_a_group_of_rules_has_a_name_of_its_own(names: list[str], tmp_path: Path) -> None:
    """Prometheus refuses a whole file in which a group has the name of another."""
    own = [{"name": name, "rules": [{"record": "one", "expr": "1"}]} for name in names]

    with pytest.raises(Refused, match=f"the name {names[-1]} is taken"):
        groups({"extraGroups": own}, tmp_path)
    assert groups({"extraGroups": [{**own[0], "name": "other"}]}, tmp_path)[-1]["name"] == "other"


@pytest.mark.programs
def test_commands_run_in_the_pod_that_reads_the_alert_s_cluster(tmp_path: Path) -> None:
    """The rules of one release are for all: an alert about the cluster of another one names no pod."""
    rendered = render("multi-cluster", "--set=prometheusRule.enabled=true", '--set-string=clusterLabel=a }}"b')
    lines = {
        reason: line
        for reason, line in _variables_of(rendered)
        if reason in {"Watchdog", "ExporterDown", "ExporterClockSkew"}
    }
    own, other = (_as_prometheus_shows(lines, cluster, tmp_path) for cluster in ('a }}"b', "west"))

    assert {
        reason: "deploy/transactions-east" in line or "=transactions-east" in line for reason, line in own.items()
    } == dict.fromkeys(lines, True)
    assert "unset" not in "".join(own.values())
    assert other == {
        "ExporterClockSkew": f"unset -f {PROGRAM}",
        "ExporterDown": "export KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID=id",
        "Watchdog": f"unset -f {PROGRAM}; export PROMETHEUS=",
    }
    assert _as_prometheus_shows(lines, "", tmp_path) == own


def _variables_of(objects: list[Manifest]) -> Iterator[tuple[str, str]]:
    for rule in rules_of(only(objects, "PrometheusRule")["spec"]["groups"]):
        if "alert" in rule:
            yield reason_of(rule), rule["annotations"].get("variables", "")


def _as_prometheus_shows(lines: Mapping[str, str], cluster: str, folder: Path) -> dict[str, str]:
    """The lines of alerts about this cluster, by Prometheus' own templates: each alert tells its line as a failure."""
    rules = [{"alert": reason, "expr": "up", "annotations": {"line": line}} for reason, line in lines.items()]
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    test = {
        "interval": "1m",
        "input_series": [{"series": f'up{{cluster_id="id", cluster={json.dumps(cluster)}}}', "values": "1"}],
        "alert_rule_test": [{"eval_time": "0m", "alertname": reason, "exp_alerts": []} for reason in lines],
    }
    (folder / "test.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": [test]}))
    run = subprocess.run(
        ["promtool", "test", "rules", str(folder / "test.yaml")], capture_output=True, text=True, check=False
    )
    shown = re.findall(r'alertname="(\w+)".*\n\s*Annotations:{line=("(?:[^"\\]|\\.)*")}', run.stdout + run.stderr)
    return {reason: json.loads(line).rstrip() for reason, line in shown}


@pytest.mark.programs
def test_alerts_link_to_the_runbooks_of_the_exporter_where_its_address_is_known(tmp_path: Path) -> None:
    """Not the alert about an exporter that is gone, and an address of one's own wins."""
    address = {"ingress": {"enabled": True, "hosts": ["ktx.example.org"]}}
    rules = {"prometheusRule": {"enabled": True}}
    own = {"prometheusRule": {"enabled": True, "runbookUrl": "https://wiki"}}

    def links(values: dict[str, Any]) -> dict[str, str]:
        groups = only(render_values(values, tmp_path), "PrometheusRule")["spec"]["groups"]
        return {reason_of(rule): rule["annotations"]["runbook_url"] for rule in rules_of(groups) if "alert" in rule}

    served, ours = "http://ktx.example.org/runbooks", RUNBOOK_BASE
    found = links({**address, **rules})
    assert {reason: url.rpartition("/")[0] for reason, url in found.items()} == {
        reason: ours if reason in WITHOUT_EXPORTER else served for reason in REASONS
    }
    assert {url.rpartition("/")[0] for url in links({**address, **own}).values()} == {"https://wiki"}
    assert {url.rpartition("/")[0] for url in links(rules).values()} == {ours}


@pytest.mark.programs
def test_own_labels_and_groups_are_added(tmp_path: Path) -> None:
    """To alerts and not to signals."""
    own = {"name": "own", "rules": [{"record": "a:b", "expr": "1"}]}
    chosen = {"additionalRuleLabels": {"team": "kafka"}, "extraGroups": [own]}
    *ours, last = groups(chosen, tmp_path)
    expected = rule_groups()
    for rule in rules_of(expected):
        if "alert" in rule:
            rule["labels"] = {"team": "kafka", **rule["labels"]}

    assert (ours, last) == (expected, own)


@pytest.mark.programs
@pytest.mark.parametrize(
    "value",
    [
        {"thresholds": {"fresh_cycles": 0}},
        {"thresholds": {"read_ratio": 2}},
        {"additionalRuleLabels": {"group": "x"}},
        {"additionalRuleLabels": {"bad-name": "x"}},
        {"runbookUrl": "wiki"},
        {"runbookUrl": "https://user:password@wiki"},
        {"grafanaUrl": "grafana"},
        {"grafanaUrl": "https://grafana/?orgId=2"},
    ],
    ids=str,
)
def test_what_would_silence_an_alert_or_lead_nowhere_is_refused(value: dict[str, Any], tmp_path: Path) -> None:
    """The chart refuses what `rules` refuses: its user must not find out by a silence."""
    with pytest.raises(Refused, match=next(iter(value))):
        render_values({"prometheusRule": {"enabled": True, **value}}, tmp_path)


@pytest.mark.programs
@pytest.mark.parametrize(
    "value",
    [
        {"config": {"publish": {"external_url": "ktx.example.org"}}},
        {"config": {"publish.runbook_url": "https://wiki/?a=1"}},
        {"ingress": {"enabled": True, "hosts": ["a.example.org"], "path": "/k?x=1"}},
    ],
    ids=str,
)
def test_an_address_that_the_exporter_refuses_is_refused_before(value: dict[str, Any], tmp_path: Path) -> None:
    """The pod would end at its start, and alerts have the broken address."""
    with pytest.raises(Refused, match="pattern"):
        render_values(value, tmp_path)


@pytest.mark.programs
def test_the_runbooks_are_where_the_pages_lead(tmp_path: Path) -> None:
    """The setting of the pages holds for alerts, also about the exporter's own end; a value for the alerts alone wins."""
    settings = {"publish": {"external_url": "https://ktx", "runbook_url": "https://wiki"}}
    for more, base in (({}, "https://wiki"), ({"runbookUrl": "https://own/"}, "https://own")):
        rules = render_values({"config": settings, "prometheusRule": {"enabled": True, **more}}, tmp_path)
        urls = [
            rule["annotations"]["runbook_url"]
            for rule in rules_of(only(rules, "PrometheusRule")["spec"]["groups"])
            if "alert" in rule
        ]
        assert {url.rpartition("/")[0] for url in urls} == {base}


@pytest.mark.programs
def test_a_reason_is_left_out_as_its_runbook(tmp_path: Path) -> None:
    """The chart takes the names that `rules --disable` takes."""
    left = [
        [rule for rule in rules_of(groups({"disabled": {name: True}}, tmp_path)) if "alert" in rule]
        for name in ("ExporterClockSkew", "KafkaTransactionExporterClockSkew")
    ]
    assert left[0] == left[1]
    assert len(left[0]) < sum("alert" in rule for rule in rules_of(rule_groups()))


@pytest.mark.programs
def test_monitors_scrape_the_metrics() -> None:
    """The path that the site has, and what the values add; the Service and the pod alike."""
    (plain,) = only(render("minimal", "--set=serviceMonitor.enabled=true"), "ServiceMonitor")["spec"]["endpoints"]
    (of_pod,) = only(render("minimal", "--set=podMonitor.enabled=true"), "PodMonitor")["spec"]["podMetricsEndpoints"]
    monitor = only(render("everything"), "ServiceMonitor")
    (full,) = monitor["spec"]["endpoints"]

    assert plain == of_pod == {"port": "metrics", "path": "/metrics"}
    assert plain["path"] in _PATHS
    assert monitor["metadata"]["namespace"] == "monitoring"
    assert monitor["metadata"]["labels"]["release"] == "kube-prometheus-stack"
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["kafka"]}
    assert (monitor["spec"]["jobLabel"], monitor["spec"]["sampleLimit"]) == ("app.kubernetes.io/name", 500_000)
    assert full == {
        **plain,
        "interval": "15s",
        "scrapeTimeout": "10s",
        "honorLabels": True,
        "relabelings": [
            {"action": "labeldrop", "regex": "pod_template_hash"},
            {"action": "replace", "targetLabel": "cluster", "replacement": "north"},
        ],
        "metricRelabelings": [{"action": "drop", "sourceLabels": ["__name__"], "regex": "process_max_fds"}],
    }


@pytest.mark.programs
def test_a_status_page_is_published_on_request_only(tmp_path: Path) -> None:
    """Ingress and HTTPRoute lead whole hosts to the Service's port; each refuses to be without what it needs."""
    assert not [manifest for manifest in render("minimal") if manifest["kind"] in {"Ingress", "HTTPRoute"}]

    objects = render_values(
        {
            "ingress": {"enabled": True, "hosts": ["a.example.org"], "className": "nginx"},
            "httpRoute": {"enabled": True, "parentRefs": [{"name": "gateway"}]},
        },
        tmp_path,
    )
    service = only(objects, "Service")
    (rule,) = only(objects, "Ingress")["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert (rule["host"], path["path"], path["pathType"]) == ("a.example.org", "/", "Prefix")
    assert path["backend"]["service"] == {"name": service["metadata"]["name"], "port": {"name": "metrics"}}
    route = only(objects, "HTTPRoute")["spec"]
    (port,) = service["spec"]["ports"]
    assert route["rules"] == [{"backendRefs": [{"name": service["metadata"]["name"], "port": port["port"]}]}]

    for values, sentence in (
        ({"ingress": {"enabled": True}}, "ingress.hosts is missing"),
        ({"httpRoute": {"enabled": True}}, "httpRoute.parentRefs is missing"),
        (
            {"ingress": {"enabled": True, "hosts": ["a"]}, "service": {"enabled": False}},
            "ingress needs service.enabled",
        ),
    ):
        with pytest.raises(Refused, match=sentence):
            render_values(values, tmp_path)


@pytest.mark.programs
def test_dashboards_are_those_of_the_project() -> None:
    """ConfigMaps with the sidecar's label and GrafanaDashboards have the same JSON, on one line."""
    objects = render("everything")
    labelled = [manifest for manifest in of_kind(objects, "ConfigMap") if "labels" in manifest["metadata"]]
    maps = [manifest for manifest in labelled if manifest["metadata"]["labels"].get("grafana_dashboard") == "1"]

    assert {key: json.loads(text) for manifest in maps for key, text in manifest["data"].items()} == {
        f"kafka-transactions-{name}.json": json.loads(text) for name, text in DASHBOARDS.items()
    }
    assert all(manifest["metadata"]["annotations"]["grafana_folder"] == "Kafka" for manifest in maps)
    custom = of_kind(objects, "GrafanaDashboard")
    by_name = {manifest["metadata"]["name"].rpartition("-")[2]: manifest["spec"]["json"] for manifest in custom}
    assert {name: json.loads(text) for name, text in by_name.items()} == {
        name: json.loads(text) for name, text in DASHBOARDS.items()
    }
    for manifest in custom:
        assert manifest["apiVersion"] == "grafana.integreatly.org/v1beta1"
        assert manifest["spec"]["instanceSelector"] == {"matchLabels": {"dashboards": "grafana"}}
        assert json.loads(manifest["spec"]["json"])["uid"].startswith("kafka-transactions-")


@pytest.mark.programs
@pytest.mark.parametrize("major", MAJORS)
def test_every_object_can_be_applied_by_its_client(major: int) -> None:
    """`kubectl apply`, and so Argo CD, keeps the object as JSON in an annotation; annotations have 256 KiB at most."""
    sizes = {
        f"{manifest['kind']} {manifest['metadata']['name']}": len(json.dumps(manifest, separators=(",", ":")).encode())
        for manifest in render("everything", major=major)
    }

    assert {name: size for name, size in sizes.items() if size >= ANNOTATIONS_MAX} == {}


@pytest.mark.programs
def test_the_alertmanager_config_mutes_what_a_hang_explains() -> None:
    """The rules of the example, the caller's route and receivers; or those alone."""
    made = only(render("everything"), "AlertmanagerConfig")["spec"]
    example = yaml.safe_load((ROOT / "alerts" / "alertmanager.yaml").read_text())["inhibit_rules"]

    assert [rule["equal"] for rule in made["inhibitRules"]] == [rule["equal"] for rule in example]
    assert (made["route"]["receiver"], made["receivers"][0]["name"]) == ("team", "team")
    without = only(render("everything", "--set=alertmanagerConfig.inhibitRules=false"), "AlertmanagerConfig")["spec"]
    assert "inhibitRules" not in without
