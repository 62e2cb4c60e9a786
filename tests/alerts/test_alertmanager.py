"""The example for Alertmanager: Alertmanager's own tools load it, its routes are as documented, and it has no secret."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import yaml

from alerts import FOLDER
from exporter.artifacts.rules import ALERTS, key_of, load, rules_of
from hangbench.waiting import until
from tests.alerts.monitoring import alerting, alerts_at, post_alerts

CONFIGURATION: Final = FOLDER / "alertmanager.yaml"
HOSTILE: Final = "<!channel> & <b>bold</b>"
VARIABLES: Final = "export TOPIC=orders PARTITION=3 START_OFFSET=1234"
GROUPS: Final = 'Blocked consumer groups: "payments" (lag 506 offsets).'
LINKS: Final = {
    "runbook_url": "https://wiki/runbook",
    "page_url": "https://ktx/incidents",
    "dashboard_url": "https://grafana/d",
}
KUBE_PROMETHEUS: Final = [
    {
        "source_matchers": ["severity = critical"],
        "target_matchers": ["severity =~ warning|info"],
        "equal": ["namespace", "alertname"],
    },
    {
        "source_matchers": ["severity = warning"],
        "target_matchers": ["severity = info"],
        "equal": ["namespace", "alertname"],
    },
    {"source_matchers": ["alertname = InfoInhibitor"], "target_matchers": ["severity = info"], "equal": ["namespace"]},
    {"target_matchers": ["alertname = InfoInhibitor"]},
]
"""The inhibitions that come with kube-prometheus and its chart."""
RECEIVERS: Final = {"critical": "pager", "warning": "team", "info": "nobody", "none": "dead-mans-switch"}


def amtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["amtool", *arguments], capture_output=True, text=True, check=False)


@pytest.mark.programs
def test_amtool_takes_it() -> None:
    """Configuration and templates."""
    run = amtool("check-config", str(CONFIGURATION))

    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 templates" in run.stdout


@pytest.mark.programs
def test_amlint_finds_nothing() -> None:
    """No unreachable route, no too wide inhibition; one mutes alerts of others, and one receiver sends nothing."""
    program = Path(sys.executable).parent / "amlint"
    run = subprocess.run(
        [program, "check", "--strict", "--format", "json", "--rules", str(ALERTS), str(CONFIGURATION)],
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r'"code": *"([^"]+)"', run.stdout)

    assert found == ["empty-receiver", "inhibit-unknown-alertname"], run.stdout
    assert "Receiver 'nobody'" in run.stdout
    assert "Consumer.*Lag" in run.stdout


@pytest.mark.programs
@pytest.mark.parametrize("rule", [pytest.param(rule, id=key_of(rule)) for rule in rules_of(load(ALERTS))])
def test_every_alert_reaches_its_receiver(rule: dict[str, dict[str, str]]) -> None:
    """Critical pages, a warning is mail, info notifies no one, and the watchdog goes to the switch and nowhere else."""
    severity = rule["labels"]["severity"]
    labels = [f"alertname={rule['alert']}", f"severity={severity}", "cluster_id=east", "topic=orders", "partition=3"]
    run = amtool(
        *("config", "routes", "test", f"--config.file={CONFIGURATION}", f"--verify.receivers={RECEIVERS[severity]}"),
        *labels,
    )

    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.programs
def test_alerts_of_others_are_not_paged() -> None:
    run = amtool(
        "config", "routes", "test", f"--config.file={CONFIGURATION}", "alertname=NodeDown", "severity=critical"
    )

    assert run.stdout.strip() == "team"


def test_secrets_are_files() -> None:
    """No secret is in the file: each is named by the path of its file."""
    names = re.findall(
        r"^\s*-?\s*(\w*(?:password|key|token|secret|credentials|api_url)\w*):", CONFIGURATION.read_text(), re.MULTILINE
    )

    assert names
    assert all(name.endswith("_file") for name in names)


def test_no_alert_can_mute_itself() -> None:
    """No inhibition has one alert on both sides: source and target differ in name or in severity."""
    alerts = [{"alertname": rule["alert"], **rule["labels"]} for rule in rules_of(load(ALERTS))]
    for rule in yaml.safe_load(CONFIGURATION.read_text())["inhibit_rules"]:
        for alert in alerts:
            assert not (_matches(rule["source_matchers"], alert) and _matches(rule["target_matchers"], alert)), alert


@pytest.mark.programs
def test_kube_prometheus_mutes_nothing_about_another_cluster(tmp_path: Path) -> None:
    """Its rules compare namespace and name only: every alert at once, about two clusters that one exporter watches.

    An alert of the same name at two severities, put beside them, is muted: else this would find nothing.
    """
    configuration = {
        "route": {"receiver": "all"},
        "receivers": [{"name": "all"}],
        "inhibit_rules": KUBE_PROMETHEUS,
    }
    ours = [
        {"alertname": rule["alert"], "namespace": "monitoring", "cluster_id": cluster, **rule["labels"]}
        for rule in rules_of(load(ALERTS))
        for cluster in ("east", "west")
    ]
    twice = [
        {"alertname": "Twice", "namespace": "monitoring", "cluster_id": cluster, "severity": severity}
        for cluster, severity in (("east", "critical"), ("west", "warning"))
    ]
    with alerting(configuration, tmp_path) as alertmanager:
        post_alerts(alertmanager, *ours, *twice)
        known = until(
            lambda: alerts_at(alertmanager),
            lambda found: len(found) == len(ours) + len(twice) and any(each["status"]["inhibitedBy"] for each in found),
        )

    muted = [each["labels"] for each in known if each["status"]["inhibitedBy"]]
    assert [(each["alertname"], each["cluster_id"]) for each in muted] == [("Twice", "west")]


def _matches(matchers: list[str], labels: dict[str, str]) -> bool:
    for matcher in matchers:
        label, operator, value = re.fullmatch(r'(\w+) (=~?) "?([^"]+)"?', matcher).groups()  # type: ignore[union-attr]
        pattern = value if operator == "=~" else re.escape(value)
        if not re.fullmatch(pattern, labels.get(label, "")):
            return False
    return True


@pytest.mark.programs
def test_a_group_s_owner_is_notified_where_it_is_routed() -> None:
    """The example's child route is by the label `group`."""
    labels = ("alertname=KafkaTransactionBlocksGroup", "severity=info", "group=payments-eu")
    run = amtool("config", "routes", "test", f"--config.file={CONFIGURATION}", "--verify.receivers=team", *labels)

    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.programs
def test_the_route_for_a_fleet_is_taken_as_it_stands(tmp_path: Path) -> None:
    """Its lines are a comment: without their marks ExporterDown is one notification for all clusters of a job."""
    text = CONFIGURATION.read_text()
    (commented,) = re.findall(r"(?:^ +# (?:routes:| +(?:-|group_by)).*\n)+", text, re.MULTILINE)
    path = tmp_path / "alertmanager.yaml"
    path.write_text(
        text.replace(commented, commented.replace("# ", "")).replace("- templates/", f"- {FOLDER}/templates/")
    )
    run = amtool("check-config", str(path))

    assert run.returncode == 0, run.stdout + run.stderr
    (route,) = yaml.safe_load(path.read_text())["route"]["routes"][1]["routes"]
    assert route == {"matchers": ["reason = ExporterDown"], "group_by": ["job", "namespace"]}


def rendered(template: str, folder: Path, *, kind: str = "text", ended_at: str | None = None, **without: None) -> str:
    """The text of a template for one page with all annotations except those of `without`; resolved if it has ended."""
    status = "firing" if ended_at is None else "resolved"
    annotations = {
        "summary": "A transaction hangs.",
        "description": HOSTILE,
        "blocked_groups": GROUPS,
        "variables": VARIABLES,
        **LINKS,
    }
    annotations = {name: text for name, text in annotations.items() if name not in without}
    alert = {
        "status": status,
        "labels": {"alertname": "KafkaTransactionHanging", "severity": "critical"},
        "annotations": annotations,
        "startsAt": "2026-11-21T03:00:00Z",
        "endsAt": ended_at or "0001-01-01T00:00:00Z",
    }
    data = folder / "data.json"
    data.write_text(
        json.dumps(
            {
                "status": status,
                "groupLabels": {"topic": "orders"},
                "commonLabels": {"cluster": "east"},
                "commonAnnotations": annotations,
                "alerts": [alert],
            }
        )
    )
    run = amtool(
        *("template", "render", f"--template.glob={FOLDER / 'templates' / '*.tmpl'}", f"--template.type={kind}"),
        *(f"--template.data={data}", f'--template.text={{{{ template "kafka_transactions.{template}" . }}}}'),
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.programs
def test_the_title_says_what_and_where(tmp_path: Path) -> None:
    assert rendered("title", tmp_path) == "[1 firing] orders: A transaction hangs. (east)"
    assert rendered("chat.title", tmp_path) == "1 firing: orders, A transaction hangs."


@pytest.mark.programs
@pytest.mark.parametrize(("template", "kind"), [("chat.text", "text"), ("email.html", "html")])
def test_chat_and_mail_take_a_description_as_text(template: str, kind: str, tmp_path: Path) -> None:
    """A description can neither mention a whole channel nor format text; the variables can be pasted unchanged."""
    page = rendered(template, tmp_path, kind=kind)

    assert "&lt;!channel&gt; &amp; &lt;b&gt;bold" in page
    assert VARIABLES in re.sub(r"</?pre>", "\n", page).splitlines()
    assert GROUPS in page.replace("&#34;", '"')
    assert all(link in page for link in LINKS.values())


@pytest.mark.programs
def test_the_text_holds_everything(tmp_path: Path) -> None:
    """For mail without HTML, and for a pager's details."""
    page = rendered("text", tmp_path).splitlines()

    assert "KafkaTransactionHanging, critical, since 2026-11-21 03:00:00 UTC" in page
    assert {HOSTILE, GROUPS, VARIABLES} <= set(page)
    assert {f"Runbook: {LINKS['runbook_url']}", f"Page: {LINKS['page_url']}"} <= set(page)
    assert f"Dashboard: {LINKS['dashboard_url']}" in page


@pytest.mark.programs
@pytest.mark.parametrize(
    ("template", "kind"), [("text", "text"), ("chat.text", "text"), ("email.html", "html")], ids=lambda name: name
)
def test_a_resolved_alert_is_past(template: str, kind: str, tmp_path: Path) -> None:
    """The text was true until its end, and has nothing to be pasted any more."""
    page = rendered(template, tmp_path, kind=kind, ended_at="2026-11-21T03:07:00Z")
    heading, _, rest = page.partition("from 2026-11-21 03:00:00 to 2026-11-21 03:07:00 UTC. Until then:")

    assert "resolved" in heading.lower()
    assert "bold" in rest
    assert VARIABLES not in page
    assert "since" not in page


@pytest.mark.programs
@pytest.mark.parametrize(
    ("template", "kind"), [("text", "text"), ("chat.text", "text"), ("email.html", "html")], ids=lambda name: name
)
def test_what_an_alert_lacks_is_left_out(template: str, kind: str, tmp_path: Path) -> None:
    """An alert about the exporter has neither groups nor variables, and no link but its runbook."""
    less = rendered(
        template, tmp_path, kind=kind, blocked_groups=None, variables=None, page_url=None, dashboard_url=None
    )

    assert LINKS["runbook_url"] in less
    assert not re.search("incidents|dashboard|<pre>|```|export|<no value>", less, re.IGNORECASE)
