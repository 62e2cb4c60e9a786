"""examples/compose.yaml without an engine: the file itself, and every program's own reading of what is mounted for it."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from exporter.cli import main
from hangbench.kafka.cluster import KafkaCluster
from helm.made import ROOT
from tests.tools import ToolUnavailable, compose

FILE: Final = ROOT / "examples" / "compose.yaml"
SERVICES: Final[dict[str, Any]] = yaml.safe_load(FILE.read_text())["services"]
OWN_PORTS: Final = {"exporter": 9814, "prometheus": 9090, "alertmanager": 9093, "grafana": 3000}
"""The default ports of these programs, which nothing here changes."""
OF_THE_HOST: Final = ("KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS", "KAFKA_CONTROLLER_QUORUM_VOTERS")
"""Properties that the tests' own broker replaces, as it has other ports."""
IN_THE_IMAGE: Final = {"confluent_kafka", "kafka", "numpy", "exporter"}
BOOTSTRAP: Final = "kafka:9092"


def read_by_compose(path: Path) -> subprocess.CompletedProcess[str]:
    try:
        program = compose()
    except ToolUnavailable as missing:
        pytest.skip(str(missing))
    words = [str(program), "--format=json", str(path)]
    return subprocess.run(words, cwd=path.parent, capture_output=True, text=True, check=False)


def mounts(service: str) -> Iterator[tuple[Path, str]]:
    """(what is mounted, where it is seen)."""
    for volume in SERVICES[service].get("volumes", ()):
        yield (FILE.parent / volume["source"]).resolve(), volume["target"]


def as_mounted(service: str, place: Path) -> Path:
    """A tree in which the service's mounts are where it sees them."""
    for source, target in mounts(service):
        copy = place / target.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy)
        else:
            shutil.copy(source, copy)
    return place


@pytest.mark.programs
def test_the_compose_specification_takes_it() -> None:
    """Its schema, with paths and merges as the reader of the specification has them; it does not follow dependencies."""
    run = read_by_compose(FILE)

    assert run.returncode == 0, run.stderr
    read = json.loads(run.stdout)["services"]
    assert set(read) == set(SERVICES)
    assert read["hang"]["profiles"] == ["hang"], "a hang comes only when it is asked for"
    assert read["hang"]["volumes"] == read["workload"]["volumes"]
    assert {name for service in read.values() for name in service.get("depends_on", ())} <= set(read)
    assert read["workload"]["build"]["context"] == str(ROOT)


@pytest.mark.programs
@pytest.mark.parametrize(
    ("right", "wrong", "sentence"),
    [
        ("entrypoint:", "entripoint:", "entripoint"),
        ("condition: service_healthy", "condition: healthy", "condition"),
        ("<<: *workload", "<<: *nothing", "nothing"),
    ],
)
def test_the_compose_specification_would_refuse(right: str, wrong: str, sentence: str, tmp_path: Path) -> None:
    """The test above sees a misspelt key, a condition that is none, and a merge with nothing."""
    path = tmp_path / "compose.yaml"
    path.write_text(FILE.read_text().replace(right, wrong))

    run = read_by_compose(path)

    assert run.returncode != 0
    assert sentence in run.stderr


def test_every_mount_is_there_and_cannot_be_written() -> None:
    """A path that is not there would be made as an empty folder, and the program would start without its rules."""
    for name, service in SERVICES.items():
        assert all(source.exists() for source, _ in mounts(name))
        for volume in service.get("volumes", ()):
            assert (volume["type"], volume["read_only"]) == ("bind", True)
            assert volume["bind"] == {"create_host_path": False}


def test_services_listen_on_their_own_ports_for_this_machine_alone() -> None:
    """Nothing here asks for a password."""
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}

    assert published == {name: [f"127.0.0.1:{port}:{port}"] for name, port in OWN_PORTS.items()}


def test_services_find_each_other(tmp_path: Path) -> None:
    """Every address of a name and a port is a service that listens there."""
    prometheus = yaml.safe_load((as_mounted("prometheus", tmp_path) / "etc/prometheus/prometheus.yml").read_text())
    grafana = as_mounted("grafana", tmp_path) / "etc/grafana/provisioning/datasources/datasources.yaml"
    (source,) = yaml.safe_load(grafana.read_text())["datasources"]
    settings = yaml.safe_load(next(mounts("exporter"))[0].read_text())
    environment = SERVICES["kafka"]["environment"]

    addresses = [
        target for job in prometheus["scrape_configs"] for group in job["static_configs"] for target in group["targets"]
    ]
    for one in prometheus["alerting"]["alertmanagers"]:
        addresses += [target for static in one["static_configs"] for target in static["targets"]]
    addresses.append(source["url"].removeprefix("http://"))
    assert set(addresses) == {f"{name}:{OWN_PORTS[name]}" for name in ("exporter", "alertmanager", "prometheus")}
    assert settings["kafka"]["bootstrap.servers"] == BOOTSTRAP
    assert environment["KAFKA_ADVERTISED_LISTENERS"] == f"PLAINTEXT://{BOOTSTRAP}"
    assert f"PLAINTEXT://:{BOOTSTRAP.partition(':')[2]}" in environment["KAFKA_LISTENERS"].split(",")
    for name in ("topics", "workload", "hang"):
        assert BOOTSTRAP in " ".join(SERVICES[name]["command"])
    assert f"--topic={SERVICES['topics']['command'][5]}" in SERVICES["workload"]["command"]


@pytest.mark.programs
def test_prometheus_takes_its_configuration_and_the_rules(tmp_path: Path) -> None:
    """From the places where they are mounted; all rules of the project, and the job that the alerts have in their texts."""
    place = as_mounted("prometheus", tmp_path)
    (argument,) = (argument for argument in SERVICES["prometheus"]["command"] if argument.startswith("--config.file="))
    configuration = place / argument.partition("=")[2].lstrip("/")
    run = subprocess.run(
        ["promtool", "check", "config", str(configuration)], capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert "2 rule files found" in run.stdout
    assert run.stdout.count("rules found") == 2
    read = yaml.safe_load(configuration.read_text())
    assert [job["job_name"] for job in read["scrape_configs"]] == ["kafka-transaction-exporter"]


@pytest.mark.programs
def test_alertmanager_takes_its_configuration(tmp_path: Path) -> None:
    """The example of alerts/, with its templates found."""
    place = as_mounted("alertmanager", tmp_path)
    (argument,) = (
        argument for argument in SERVICES["alertmanager"]["command"] if argument.startswith("--config.file=")
    )
    configuration = place / argument.partition("=")[2].lstrip("/")
    run = subprocess.run(["amtool", "check-config", str(configuration)], capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 templates" in run.stdout


def test_grafana_is_given_every_dashboard(tmp_path: Path) -> None:
    """In the provider's folder, with a data source of the type that the dashboards use."""
    place = as_mounted("grafana", tmp_path)
    provisioning = place / "etc/grafana/provisioning"
    dashboards = yaml.safe_load((provisioning / "dashboards/dashboards.yaml").read_text())
    sources = yaml.safe_load((provisioning / "datasources/datasources.yaml").read_text())
    (provider,) = dashboards["providers"]
    (source,) = sources["datasources"]

    assert dashboards["apiVersion"] == sources["apiVersion"] == 1
    folder = place / provider["options"]["path"].lstrip("/")
    shown = {path.name: json.loads(path.read_text()) for path in folder.rglob("*.json")}
    assert set(shown) == {path.name for path in (ROOT / "grafana").glob("*.json")}
    assert (provider["type"], source["type"], source["access"]) == ("file", "prometheus", "proxy")
    for dashboard in shown.values():
        (variable,) = (variable for variable in dashboard["templating"]["list"] if variable["type"] == "datasource")
        assert variable["query"] == source["type"]
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (place / home.lstrip("/")).is_file()


def test_the_exporter_takes_its_settings(capsys: pytest.CaptureFixture[str]) -> None:
    ((source, target),) = mounts("exporter")
    command = SERVICES["exporter"]["command"]

    assert command == ["serve", f"--config.file={target}"]
    assert main(["config", "check", f"--config.file={source}"]) == 0, capsys.readouterr().err
    state = Path(yaml.safe_load(source.read_text())["state"]["file"])
    assert SERVICES["exporter"]["read_only"]
    assert str(state.parent) in SERVICES["exporter"]["tmpfs"]


def test_the_workload_needs_nothing_that_the_image_has_not() -> None:
    """It runs in the exporter's image with two folders mounted: nothing of the tests, no other package."""
    imported: set[str] = set()
    writes_with = [ROOT / "hangbench" / "kafka" / f"{name}.py" for name in ("coordinators", "planting", "wire")]
    for path in (*(ROOT / "examples" / "workload").rglob("*.py"), *writes_with):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.module is not None
                imported.add(node.module)

    foreign = {name for name in imported if name.partition(".")[0] not in sys.stdlib_module_names}
    mounted = ("examples.workload", "hangbench.kafka.coordinators", "hangbench.kafka.planting", "hangbench.kafka.wire")
    packages = {name.partition(".")[0] for name in foreign if not name.startswith(mounted)}
    assert packages
    assert packages <= IN_THE_IMAGE
    working_dir = Path(SERVICES["workload"]["working_dir"])
    assert list(mounts("workload")) == [(ROOT / name, str(working_dir / name)) for name in ("examples", "hangbench")]


@pytest.mark.slow
def test_kafka_runs_as_configured_and_a_hang_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    """A broker of the image's version knows every property that the environment names.

    With those about transactions, what the service `hang` runs plants what the exporter then proves.
    """
    service = SERVICES["kafka"]
    version = service["image"].partition(":")[2]
    settings = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): value
        for name, value in service["environment"].items()
        if name.startswith("KAFKA_") and name not in OF_THE_HOST
    }
    ours = {name: settings[name] for name in settings if name.startswith(("transaction.", "offsets."))}
    with KafkaCluster(version, properties=ours) as cluster:
        broker = ConfigResource(ResourceType.BROKER, "1")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        known = admin.describe_configs([broker])[broker].result(30)
        # a broker hides the value of what it does not know, as it may be a secret
        assert [name for name in settings if name not in known or known[name].is_sensitive] == []
        cluster.topics.create("orders", partitions=3)
        command = [word.replace(BOOTSTRAP, cluster.bootstrap) for word in SERVICES["hang"]["command"]]
        subprocess.run([sys.executable, *command], cwd=ROOT, check=True, capture_output=True, timeout=60)
        main(["find-hanging", f"--bootstrap-server={cluster.bootstrap}", "--format=json"])

    (found,) = json.loads(capsys.readouterr().out)["transactions"]
    assert (found["topic"], found["partition"], found["transactional_id"]) == ("orders", 1, "abandoned-app")
    assert found["verdict"].startswith("hanging_")
