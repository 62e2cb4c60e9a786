"""Pastes what every alert says, as Alertmanager delivers it, and the first command of its runbook, and edits nothing.

A real Prometheus has the shipped rules, and those of the chart for one cluster and for a fleet. It scrapes the replayed
time lines of all alerts, and a real Alertmanager delivers what fires.
"""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from examples.workload.producers import run_transaction
from exporter.artifacts.rules import Choices, Group, key_of, rule_groups, rules_of
from exporter.commands.arguments import build_parser
from exporter.commands.rules import function_of
from exporter.commands.status import ExitStatus
from hangbench.kafka.cluster import CLUSTER_ID as REAL_ID
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.groups import commit
from hangbench.kafka.ports import free_ports
from hangbench.waiting import until
from tests.alerts.monitoring import Alert, Receiver, monitoring, quick_durations
from tests.alerts.pasting import (
    BROKERS,
    IN_POD,
    ON_HOST,
    OWN_LOGIN,
    Pasted,
    Shell,
    fences,
    fences_for,
    first_command,
    lines_for,
    variables_in,
)
from tests.alerts.replay import MINUTE_S, hurried, replaying, replays
from tests.alerts.timeline import CLUSTER_ID
from tests.helm.chart import render_values
from tests.helm.manifests import Manifest, only
from tests.helm.pod_files import PROGRAM, Outside, lay_out, moved, running
from tests.marks import starts

ALERTS: Final = sorted({key_of(rule) for rule in rules_of(rule_groups()) if "alert" in rule})
"""The runbook and the severity of each."""
HOST, HOST_FLEET, POD, FLEET = "host", "fleet on a host", "pod", "fleet"
ETC: Final = "/etc/kafka-transaction-exporter"
CLUSTER: Final = "north"
"""The name of the fleet's cluster that has the transactions."""
UNREACHABLE: Final = "west"
PATIENCE_S: Final = 300
SETTINGS: Final = {"scan.interval": "10s", "scan.deadline": "9s", "transaction_log.enabled": True}
"""The commands read these too, and a busy machine keeps them waiting."""
READ: Final = ("kafka_open_transactions", "kafka_transaction_marker_seconds_count", "exporter_history_writing")
"""Metrics that are there when cluster and transaction log were read."""
VALUES: Final[Mapping[str, dict[str, Any]]] = {
    POD: {},
    FLEET: {
        "kafka": {"bootstrapServers": []},
        "clusters": {name: {"kafka.bootstrap.servers": f"{name}:9092"} for name in (CLUSTER, "south")},
    },
}
INSTALLATIONS: Final = (HOST, HOST_FLEET, POD, FLEET)
OF_LABELS: Final = {"TOPIC": "topic", "PARTITION": "partition", "START_OFFSET": "start_offset", "GROUP": "group"}
Delivered = Mapping[str, Mapping[str, Mapping[str, Alert | None]]]
"""Installation -> alert -> replay -> as it was delivered first, None where it was not."""


@pytest.fixture(scope="module")
@starts("programs")
def charts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Manifest]]:
    """The objects of the chart by installation; each alert has a label with its name."""
    folder = tmp_path_factory.mktemp("charts")
    return {
        where: render_values(
            {
                **values,
                "prometheusRule": {
                    "enabled": True,
                    "durations": quick_durations(),
                    "additionalRuleLabels": {"installation": where},
                },
            },
            folder,
        )
        for where, values in VALUES.items()
    }


@pytest.fixture(scope="module")
@starts("programs")
def delivered(charts: dict[str, list[Manifest]], tmp_path_factory: pytest.TempPathFactory) -> Delivered:
    """Every alert of every time line with a page, from each of the three sets of rules."""
    of_host = rule_groups(Choices(durations=quick_durations(), labels={"installation": HOST}))
    function = function_of(f"{ETC}/config.yaml", f"{ETC}/clusters.yaml")
    of_fleet = rule_groups(Choices(durations=quick_durations(), labels={"installation": HOST_FLEET}, function=function))
    groups = [
        *of_host,
        *alerting_groups(of_fleet, HOST_FLEET),
        *(group for where in VALUES for group in alerting_groups(groups_of(charts[where]), where)),
    ]
    single, fleet = replays(), replays(CLUSTER)
    times = {"group_wait": "1s", "group_interval": "1s"}
    with (
        replaying([*single, *fleet]) as targets,
        monitoring(
            targets,
            hurried(groups),
            tmp_path_factory.mktemp("monitoring"),
            scrape_interval=f"{MINUTE_S}s",
            route=times,
            mutes=False,
        ) as pair,
    ):
        expected = {
            (where, replay.job, alert)
            for where, played in ((HOST, single), (HOST_FLEET, fleet), (POD, single), (FLEET, fleet))
            for replay in played
            for alert in replay.alerts
        }
        ends_at = time.monotonic() + PATIENCE_S
        until(
            lambda: expected <= fired(pair.receiver).keys() or time.monotonic() > ends_at,
            patience_s=2 * PATIENCE_S,
            pause_s=0.2,
        )
        found = fired(pair.receiver)
    return {
        where: {
            name: {key[1]: found.get(key) for key in sorted(expected) if key[::2] == (where, name)} for name in ALERTS
        }
        for where in INSTALLATIONS
    }


def groups_of(objects: list[Manifest]) -> list[Group]:
    """The groups of the rendered PrometheusRule."""
    groups: list[Group] = only(objects, "PrometheusRule")["spec"]["groups"]
    return groups


def alerting_groups(groups: list[Group], where: str) -> list[Group]:
    """The groups with alerts, under names of their own; all installations have the same signals."""
    return [
        {**group, "name": f"{group['name']} of {where}"}
        for group in groups
        if any("alert" in rule for rule in group["rules"])
    ]


def fired(receiver: Receiver) -> dict[tuple[str, str, str], Alert]:
    """(installation, job, alert) -> the alert as it was delivered first."""
    found: dict[tuple[str, str, str], Alert] = {}
    for notification in list(receiver.notifications):
        for alert in notification.alerts("firing"):
            labels = alert["labels"]
            name = f"KafkaTransaction{labels['reason']}.{labels['severity']}"
            found.setdefault((labels["installation"], labels.get("job", ""), name), alert)
    return found


@pytest.fixture(scope="module")
def shells(charts: dict[str, list[Manifest]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Shell]:
    return {
        where: Shell(tmp_path_factory.mktemp("shell"), variables_of(charts[where]) if where in VALUES else {})
        for where in INSTALLATIONS
    }


def variables_of(objects: list[Manifest]) -> dict[str, str]:
    """Returns the variables that the chart gives the exporter's container."""
    (container,) = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    return {variable["name"]: variable["value"] for variable in container["env"]}


@pytest.mark.parametrize("name", ALERTS)
@pytest.mark.parametrize("where", INSTALLATIONS)
def test_the_first_command_runs_as_it_is_pasted(
    where: str, name: str, delivered: Delivered, shells: dict[str, Shell]
) -> None:
    """No variable is unset, the values of the alert arrive as they are shown, and the program accepts its arguments."""
    for job, alert in delivered[where][name].items():
        assert alert is not None, f"{name} was not delivered: tests/alerts/timelines, {job}"
        for fence in fences_for(alert, has_command=where != HOST, is_pod=where in VALUES):
            pasted = shells[where].paste(lines_for(alert, fence))

            assert pasted.errors == "", pasted
            assert pasted.status in (0, 1), pasted  # 1: grep found nothing in a page that no exporter served
            assert_values_arrive(alert, pasted)
            if fence is None:
                assert pasted.kubectl[: len(IN_POD)] == (IN_POD if where in VALUES else []), pasted
                assert_cluster_is_chosen(alert, pasted, is_fleet=where in (FLEET, HOST_FLEET))
            else:
                assert not pasted.kubectl, pasted
                assert ("--command-config" in (pasted.arguments or [])) == (fence != ON_HOST), pasted


@pytest.mark.parametrize("where", INSTALLATIONS)
def test_the_exporter_s_own_commands_come_back_after_a_login(
    where: str, delivered: Delivered, shells: dict[str, Shell]
) -> None:
    """The alert's line, or the host line, brings them back; that for Kafka's tools leaves them, and sets the brokers."""
    (alert, *_) = delivered[where]["KafkaTransactionExporterNoTopicVisible.critical"].values()
    assert alert is not None
    first = alert["annotations"].get("variables", "")
    back = fences(alert)[ON_HOST] if where == HOST else first
    after_login = shells[where].paste([first, fences(alert)[OWN_LOGIN], back, "kafka-transaction-exporter doctor"])
    after_brokers = shells[where].paste([first, fences(alert)[BROKERS], "kafka-transaction-exporter doctor"])

    for pasted in (after_login, after_brokers):
        assert (pasted.status, pasted.errors) == (0, ""), pasted
        assert "--command-config" not in (pasted.arguments or []), pasted
        assert pasted.kubectl[: len(IN_POD)] == (IN_POD if where in VALUES else []), pasted
        assert pasted.variables["BOOTSTRAP"] == "127.0.0.1:1", pasted


@pytest.mark.parametrize("name", ["KafkaTransactionHanging.critical", "KafkaTransactionBlocksGroup.info"])
def test_a_hostile_name_is_pasted_too(name: str, delivered: Delivered) -> None:
    """One with quotes, blanks and `$(`, of which the rules show a question mark each, is among those of the test above."""
    for alerts in delivered.values():
        lines = [alert["annotations"]["variables"] for alert in alerts[name].values() if alert is not None]
        assert any("=??channel????reboot????" in line for line in lines)


def assert_values_arrive(alert: Alert, pasted: Pasted) -> None:
    """Arguments are accepted, and the shell has read nothing but text in what a client chose."""
    assert pasted.arguments is not None, pasted
    options = build_parser().parse_args(pasted.arguments)
    shown = variables_in(alert)
    assert shown.items() <= pasted.variables.items(), pasted
    for variable, label in OF_LABELS.items():
        if variable in shown:
            assert shown[variable] == re.sub(r"[^-_.:/=+a-zA-Z0-9]", "?", alert["labels"][label]), pasted
    if "$TOPIC" in first_command(alert).text:
        assert (options.topic, str(options.partition)) == (shown["TOPIC"], shown["PARTITION"]), pasted


def assert_cluster_is_chosen(alert: Alert, pasted: Pasted, *, is_fleet: bool) -> None:
    """By its name in a fleet, where the alert is about one cluster of it, and not at all elsewhere."""
    last = [argument for argument in pasted.arguments or [] if argument.startswith("--cluster=")][-1:]
    about_one = alert["labels"]["cluster"] == CLUSTER
    assert last == ([f"--cluster={CLUSTER if about_one else ''}"] if is_fleet else []), pasted


@dataclass(frozen=True, slots=True)
class Installed:
    """A running exporter, and the shell of an operator."""

    where: str
    shell: Shell


@pytest.fixture(scope="module")
@starts("broker")
def orders() -> Iterator[KafkaCluster]:
    """A cluster with the topic of the time lines, a transaction in its log, and a group."""
    with KafkaCluster("4.3.1") as cluster:
        cluster.topics.create("orders", partitions=4)
        run_transaction(cluster.bootstrap, "billing-1", [("orders", 3)])
        commit(cluster, "payments", "orders", 3)
        yield cluster


@pytest.fixture(scope="module", params=INSTALLATIONS)
def installed(
    request: pytest.FixtureRequest, orders: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    """The exporter as it is installed there, on a free port; below `root` are the files of the host or of the pod."""
    folder, (port,) = tmp_path_factory.mktemp("installed"), free_ports(1)
    root, shell = folder / "root", folder / "shell"
    if request.param not in VALUES:
        arguments, variables = host_files(request.param, orders, port, root)
    else:
        arguments, variables = pod_files(request.param, orders, port, root)
    operator = Shell(shell, variables)
    operator.has_program_below(root, orders.bootstrap)
    with running([str(PROGRAM), *arguments], folder / "log"):
        until(
            lambda: all(name in page(port) for name in READ), patience_s=PATIENCE_S, status=(folder / "log").read_text
        )
        yield Installed(request.param, operator)


def host_files(where: str, cluster: KafkaCluster, port: int, root: Path) -> tuple[list[str], dict[str, str]]:
    """The settings files where a runbook names them; returns the arguments of the service, and no variables."""
    folder = Path(f"{root}{ETC}")
    folder.mkdir(parents=True)
    config, clusters = folder / "config.yaml", folder / "clusters.yaml"
    settings = {
        **SETTINGS,
        "publish.listen_address": f"127.0.0.1:{port}",
        "history.directory": str(root / "history"),
    }
    brokers = {"kafka.bootstrap.servers": cluster.bootstrap}
    arguments = ["serve", f"--config.file={config}", "--state.file=none"]
    if where == HOST_FLEET:
        blocks = {CLUSTER: brokers, UNREACHABLE: {"kafka.bootstrap.servers": "127.0.0.1:1"}}
        clusters.write_text(yaml.safe_dump({"clusters": blocks}))
        arguments.append(f"--clusters={clusters}")
    else:
        settings |= brokers
    config.write_text(yaml.safe_dump(settings))
    return arguments, {}


def pod_files(where: str, cluster: KafkaCluster, port: int, root: Path) -> tuple[list[str], dict[str, str]]:
    """The files of the rendered pod; returns the arguments and variables of its container."""
    brokers = {"kafka.bootstrap.servers": cluster.bootstrap}
    values: dict[str, Any] = {"kafka": {"bootstrapServers": [cluster.bootstrap]}}
    if where == FLEET:
        clusters = {CLUSTER: brokers, UNREACHABLE: {"kafka.bootstrap.servers": "127.0.0.1:1"}}
        values = {"kafka": {"bootstrapServers": []}, "clusters": clusters}
    more = {
        "containerPort": port,
        "config": dict(SETTINGS),
        "history": {"enabled": True},
        "persistence": {"enabled": True},
    }
    objects = render_values({**values, **more}, root.parent)
    pod = only(objects, "Deployment")["spec"]["template"]["spec"]
    lay_out(pod, objects, root, Outside(root.parent / "outside"))
    variables = {name: moved(value, root) for name, value in variables_of(objects).items()}
    return [moved(argument, root) for argument in pod["containers"][0]["args"]], variables


def page(port: int) -> str:
    """What the exporter publishes; empty before it listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
            return str(answer.read().decode())
    except urllib.error.URLError:
        return ""


def test_every_first_command_reads_what_it_must(delivered: Delivered, installed: Installed) -> None:
    """With the real program, on a real broker, and next to an exporter that listens on a port of its own choice."""
    alerts = {
        first_command(alert).text: alert
        for of_name in delivered[installed.where].values()
        for alert in of_name.values()
        if alert is not None
    }
    for alert in alerts.values():
        fence, *_ = fences_for(alert, has_command=installed.where != HOST, is_pod=installed.where in VALUES)
        # The alert is of the time line's cluster; the line says which one it is of.
        pasted = installed.shell.paste([line.replace(CLUSTER_ID, REAL_ID) for line in lines_for(alert, fence)])

        if alert["labels"]["reason"] == "Hanging":  # the plan: nothing hangs on this broker
            assert pasted.status == ExitStatus.COULD_NOT_RUN, pasted
            assert pasted.errors.endswith(": no transaction at start offset 1234 is open on orders-3\n"), pasted
            continue
        assert pasted.errors == "" or "a plan to abort 0 proved hanging transactions" in pasted.errors, pasted
        if alert["labels"]["reason"] == "ExporterSnapshotStale":
            assert (UNREACHABLE in pasted.output) == (installed.where in (FLEET, HOST_FLEET)), pasted
        else:
            assert pasted.status == 0, pasted
            assert pasted.output or "config check" in pasted.script, pasted


def test_the_plan_of_another_cluster_s_alert_is_refused(delivered: Delivered, installed: Installed) -> None:
    """The first command of a hang, with brokers of a cluster that the alert is not of; the pod has its own cluster."""
    alert = next(alert for alert in delivered[installed.where]["KafkaTransactionHanging.critical"].values() if alert)
    fence, *_ = fences_for(alert, has_command=installed.where != HOST, is_pod=installed.where in VALUES)
    pasted = installed.shell.paste(lines_for(alert, fence))

    is_refused = f"its cluster id is {REAL_ID}, not {CLUSTER_ID}" in pasted.errors
    assert is_refused is (installed.where not in VALUES), pasted
