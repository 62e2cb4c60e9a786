"""Files generated from the rules: the mixin with real jsonnet, PrometheusRules, and the chart's choices."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from alerts.mixin_source import MIXIN
from exporter.artifacts import DASHBOARDS
from exporter.artifacts.rules import (
    ALERTS,
    RECORDING,
    RUNBOOK_BASE,
    WITHOUT_EXPORTER,
    Choices,
    UnknownChoiceError,
    load,
    page_of,
    reason_of,
    rule_groups,
    rules_of,
    thresholds,
)
from exporter.cli import main
from exporter.commands.context import CLUSTERS_FILE, CONFIG_FILE
from exporter.commands.status import ExitStatus

ROOT: Final = Path(__file__).parents[2]


def jsonnet(program: str) -> Any:
    """The output of Debian's jsonnet for a program that may use `mixin`."""
    text = f"local mixin = import '{MIXIN}'; {program}"
    return json.loads(subprocess.run(["jsonnet", "-e", text], capture_output=True, check=True).stdout)


ALERTING: Final = [rule for rule in rules_of(load(ALERTS)) if "alert" in rule]


def alert(groups: list[dict[str, Any]], reason: str) -> dict[str, Any]:
    (found,) = (rule for rule in rules_of(groups) if "alert" in rule and reason_of(rule) == reason)
    return found


@pytest.mark.programs
def test_the_mixin_agrees_with_the_files() -> None:
    """The real jsonnet makes of the mixin what the YAML files say, to the last blank."""
    made = jsonnet("{ rules: mixin.prometheusRules.groups, alerts: mixin.prometheusAlerts.groups }")

    assert made == {"rules": load(RECORDING), "alerts": load(ALERTS)}


@pytest.mark.programs
def test_the_mixin_takes_its_configuration() -> None:
    """Thresholds, the base of the runbooks and the list of alerts are set as in every mixin."""
    config = (
        "{ runbookBase: 'https://wiki', grafanaUrl: 'https://grafana', disabledAlerts: ['KafkaTransactionWatchdog'], "
        "thresholds+: { inconclusive_seconds: '60' } }"
    )
    made = jsonnet(f"(mixin + {{ _config+:: {config} }}).prometheusAlerts.groups")

    assert made == [
        group
        for group in rule_groups(
            Choices(
                disabled=frozenset({"KafkaTransactionWatchdog"}),
                thresholds={"inconclusive_seconds": "60"},
                runbook_base="https://wiki/",
                grafana_url="https://grafana",
            )
        )
        if group["name"] not in {"kafka-transaction-signals", "kafka-transaction-objectives"}
    ]
    assert "> 60 # threshold" in alert(made, "Inconclusive")["expr"]


@pytest.mark.programs
def test_the_mixin_hands_on_the_dashboards() -> None:
    """Each is the file of grafana/, and a mixin without dashboards can be asked for its rules alone."""
    made = jsonnet("mixin.grafanaDashboards")

    assert made == {
        f"kafka-transactions-{name}.json": json.loads((ROOT / "grafana" / f"{name}.json").read_text())
        for name in DASHBOARDS
    }


def test_the_dashboard_of_an_alert_is_that_of_its_cluster() -> None:
    """Several clusters may have a topic of the same name; without the label the page shows all of them."""
    made = rule_groups(Choices(grafana_url="https://grafana"))
    urls = [rule["annotations"]["dashboard_url"] for group in made for rule in group["rules"] if "alert" in rule]

    assert {url.partition("?")[0].rpartition("-")[2] for url in urls} == {"overview", "partition"}
    assert all(url.endswith("{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}") for url in urls)


def test_nothing_chosen_is_what_is_written() -> None:
    assert rule_groups() == [*load(RECORDING), *load(ALERTS)]


def test_every_threshold_can_be_chosen() -> None:
    """Each by its name, as text, so that a template may replace it; every other number stays."""
    written = thresholds(rule_groups())
    values = {name: "{{ .Values." + name + " }}" for name in written}
    changed = rule_groups(Choices(thresholds=values))

    for rule, was in zip(rules_of(changed), rules_of(rule_groups()), strict=True):
        text = rule["expr"]
        for name, value in values.items():
            text = text.replace(value, written[name])
        assert text == was["expr"]
        assert all(f" {name}" not in was["expr"] or value in rule["expr"] for name, value in values.items())


def test_durations_are_chosen_for_one_severity() -> None:
    """The other form of an alert keeps its own."""
    page = "KafkaTransactionSuspectsHidden"
    key = f"{page}.warning"
    changed = rule_groups(Choices(durations={key: {"for": "1h"}}))
    waits = [rule["for"] for rule in rules_of(changed) if "alert" in rule and page_of(rule) == page]

    assert waits == ["1h", "1m"]


def test_an_alert_that_is_left_out_is_gone() -> None:
    """A name leaves out all its reasons; a reason, or its runbook, all severities of this reason."""
    for name, count in (
        ("KafkaTransactionExporterBlind", 3),
        ("KafkaTransactionStuckCompleting", 2),
        ("StuckCompleting", 2),
        ("ExporterClockSkew", 1),
    ):
        left = list(rules_of(rule_groups(Choices(disabled=frozenset({name})))))
        assert len(left) == len(list(rules_of(rule_groups()))) - count


@pytest.mark.parametrize(
    "choices",
    [
        Choices(disabled=frozenset({"KafkaTransactionHangs"})),
        Choices(thresholds={"inconclusive": "1"}),
        Choices(durations={"KafkaTransactionHanging.warning": {"for": "1m"}}),
    ],
    ids=["alert", "threshold", "severity"],
)
def test_a_choice_that_names_nothing_is_refused(choices: Choices) -> None:
    """A misspelt name would leave things as they were, without a word."""
    with pytest.raises(UnknownChoiceError, match="no rule has this"):
        rule_groups(choices)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (
            Choices(disabled=frozenset({"ExporterClockSkw", "KafkaTransactionHangs"})),
            (
                "no rule has this alert: ExporterClockSkw, KafkaTransactionHangs; "
                "did you mean ExporterClockSkew, KafkaTransactionHanging?"
            ),
        ),
        (
            Choices(thresholds={"fresh_cycle": "1"}),
            "no rule has this threshold: fresh_cycle; did you mean fresh_cycles?",
        ),
        (
            Choices(thresholds={"foo": "1"}),
            f"no rule has this threshold: foo; there are {', '.join(sorted(thresholds(rule_groups())))}",
        ),
        (
            Choices(disabled=frozenset({"foo", "ExporterClockSkw"})),
            "no rule has this alert: ExporterClockSkw, foo; there are "
            + ", ".join(sorted({name for rule in ALERTING for name in (str(rule["alert"]), reason_of(rule))})),
        ),
    ],
    ids=["near alerts", "near threshold", "thresholds", "alerts and reasons"],
)
def test_a_refusal_leads_to_the_names(choices: Choices, message: str) -> None:
    """An unknown name is answered by the nearest one, or where there is none by all of them."""
    with pytest.raises(UnknownChoiceError) as refused:
        rule_groups(choices)

    assert str(refused.value) == message


def test_the_command_prints_a_prometheus_rule(capsys: pytest.CaptureFixture[str]) -> None:
    """It holds what the files hold, but for what is chosen."""
    assert main(["rules", "--format", "prometheus-rule", "--name", "kafka", "--threshold", "fresh_cycles=7"]) == 0

    assert yaml.safe_load(capsys.readouterr().out) == {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "kafka"},
        "spec": {"groups": rule_groups(Choices(thresholds={"fresh_cycles": "7"}))},
    }


@pytest.mark.programs
def test_the_command_prints_a_file_that_prometheus_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a label of one's own on every alert, which does not replace the alert's."""
    assert main(["rules", "--label", "team=streams", "--label", "severity=none"]) == ExitStatus.WRONG_USAGE
    assert "the rules have the label severity themselves" in capsys.readouterr().err
    assert main(["rules", "--label", "team=streams"]) == 0
    path = tmp_path / "rules.yaml"
    path.write_text(capsys.readouterr().out)
    alerts = [rule for rule in rules_of(yaml.safe_load(path.read_text())["groups"]) if "alert" in rule]
    own = [rule for rule in rules_of(load(ALERTS)) if "alert" in rule]

    assert {rule["labels"]["team"] for rule in alerts} == {"streams"}
    assert [rule["labels"]["severity"] for rule in alerts] == [rule["labels"]["severity"] for rule in own]
    run = subprocess.run(["promtool", "check", "rules", path], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_rules_for_a_host_have_its_files_and_its_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Alerts that are needed when the exporter has ended have the files, too; their pages are not at the exporter."""
    config = tmp_path / "the config.yaml"
    config.write_text("publish.external_url: https://ktx.example.org/\nscan.interval: wrong, which does not matter\n")
    assert main(["rules", f"--config.file={config}", f"--clusters={tmp_path}/clusters.yaml"]) == 1
    assert f"{tmp_path}/clusters.yaml: cannot be read: there is no such file" in capsys.readouterr().err
    (tmp_path / "clusters.yaml").write_text("clusters: {}")
    assert main(["rules", f"--config.file={config}", f"--clusters={tmp_path}/clusters.yaml"]) == 0

    alerts = {
        reason_of(rule): rule["annotations"]
        for rule in rules_of(yaml.safe_load(capsys.readouterr().out)["groups"])
        if "alert" in rule
    }
    files = f"{CONFIG_FILE}='{config}' {CLUSTERS_FILE}={tmp_path}/clusters.yaml"
    for name, shown in alerts.items():
        assert f"; export {files}" in shown["variables"], name
        base = RUNBOOK_BASE if name in WITHOUT_EXPORTER else "https://ktx.example.org/runbooks/"
        assert shown["runbook_url"].startswith(base)


def test_rules_refuse_a_mistake_in_what_they_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt address would be found when a page leads elsewhere."""
    config = tmp_path / "config.yaml"
    config.write_text("publish.external_ur: https://ktx.example.org/\nscan.interval: wrong, which does not matter\n")

    assert main(["rules", f"--config.file={config}"]) == ExitStatus.COULD_NOT_RUN
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "config.yaml:1: publish.external_ur: unknown setting; did you mean publish.external_url?" in printed.err
    assert "scan.interval" not in printed.err


def test_rules_say_that_no_alert_names_the_file_of_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a pod the variable names a file that an operator's machine lacks; the file's address is used either way."""
    config = tmp_path / "config.yaml"
    config.write_text("publish.external_url: https://ktx.example.org/\n")
    monkeypatch.setenv(CONFIG_FILE, str(config))

    assert main(["rules"]) == 0
    unnamed = capsys.readouterr()
    assert f"on a host use --config.file={config}, so that" in unnamed.err
    assert CONFIG_FILE not in unnamed.out
    assert "https://ktx.example.org/runbooks/" in unnamed.out

    assert main(["rules", f"--config.file={config}"]) == 0
    named = capsys.readouterr()
    assert f"export {CONFIG_FILE}={config}" in named.out
    assert named.err == ""


def test_rules_need_a_settings_file_that_can_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", f"--config.file={tmp_path}/none.yaml"]) == 1
    assert "none.yaml: cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("choice", ["--disable=KafkaTransactionHangs", "--threshold=fresh=7"])
def test_the_command_refuses_an_unknown_name(choice: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", choice]) == 2
    assert "no rule has this" in capsys.readouterr().err


@pytest.mark.parametrize(
    "choice",
    ["fresh_cycles=nan", "fresh_cycles=1_0", "fresh_cycles=-5", "fresh_cycles=0", "fresh_cycles", "read_ratio=80"],
)
def test_a_threshold_that_makes_no_sense_is_refused(choice: str, capsys: pytest.CaptureFixture[str]) -> None:
    """NaN is greater than nothing: the alert would be silent for ever."""
    with pytest.raises(SystemExit) as ended:
        main(["rules", f"--threshold={choice}"])
    assert ended.value.code == 2
    assert choice.partition("=")[0] in capsys.readouterr().err


@pytest.mark.parametrize("name", ["group", "topic", "partition", "check", "cluster_id", "job", "alertname", "__x"])
def test_a_label_that_tells_alerts_apart_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Two blocked groups would be one alert, which Prometheus refuses: none would fire."""
    try:
        status = main(["rules", f"--label={name}=z"])
    except SystemExit as ended:
        status = int(str(ended.code))
    assert status == 2
    assert name in capsys.readouterr().err


def test_a_name_is_of_a_manifest_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """The rules themselves have none: it would be dropped without a word."""
    assert main(["rules", "--name", "kafka"]) == 2
    assert "--format prometheus-rule" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["rules", "--format=prometheus-rule", "--name=My_Rules"])
    assert "Kubernetes refuses it" in capsys.readouterr().err


def test_dashboards_are_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As they are in grafana/."""
    assert main(["dashboards", "fleet"]) == 0
    assert capsys.readouterr().out == (ROOT / "grafana" / "fleet.json").read_text()
    assert main(["dashboards", "--output", str(tmp_path / "new")]) == 0
    written = {path.name: path.read_text() for path in (tmp_path / "new").iterdir()}
    assert written == {
        f"kafka-transactions-{name}.json": (ROOT / "grafana" / f"{name}.json").read_text() for name in DASHBOARDS
    }
    assert main(["dashboards"]) == 2
