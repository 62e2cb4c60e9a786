"""examples/compose.yaml is brought up by podman-compose, to an alert that fires and a data source that answers.

The images have the names that the file uses, and are made here. Grafana's is a stand-in that reads its provisioning and
passes queries on: no dashboard is drawn. Ports are free ones, as others may use those of the file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from hangbench.kafka.ports import free_ports
from helm.made import ROOT
from tests.images.engine import configuration, fetched, podman
from tests.images.stand_ins import stand_in
from tests.marks import starts

pytestmark = pytest.mark.slow

FILE: Final = ROOT / "examples" / "compose.yaml"
PROJECT: Final = f"compose-{os.getpid()}"
OURS: Final = "kafka-transaction-exporter:compose"
PATIENCE_S: Final = 240


class Composed:
    """The services of the file, under another project's name and on other ports."""

    def __init__(self, folder: Path) -> None:
        self.services: dict[str, Any] = yaml.safe_load(FILE.read_text())["services"]
        published = [name for name, service in self.services.items() if "ports" in service]
        self.ports = dict(zip(published, free_ports(len(published)), strict=True))
        for name, service in self.services.items():
            service.pop("build", None)
            for mount in service.get("volumes", ()):
                mount["source"] = str((FILE.parent / mount["source"]).resolve())
            if name in self.ports:
                service["ports"] = [f"127.0.0.1:{self.ports[name]}:{service['ports'][0].rpartition(':')[2]}"]
        self.file = folder / "compose.yaml"
        self.file.write_text(yaml.safe_dump({"name": PROJECT, "services": self.services}))

    def run(self, *words: str) -> str:
        program = Path(sys.executable).with_name("podman-compose")
        run = subprocess.run(
            [str(program), f"--file={self.file}", *words],
            env={**os.environ, "CONTAINERS_CONF": configuration()},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    def start(self, name: str) -> None:
        """One service, once its dependencies have the condition of the file: podman 4.3 waits for none by itself."""
        for dependency, wanted in self._dependencies(name).items():
            self._wait(f"{PROJECT}_{dependency}_1", wanted)
        self.run("up", "--detach", "--no-build", "--no-deps", name)

    def _dependencies(self, name: str) -> dict[str, str]:
        given = self.services[name].get("depends_on", [])
        return {name: given[name]["condition"] if isinstance(given, dict) else "service_started" for name in given}

    def _wait(self, container: str, wanted: str) -> None:
        words = {
            "service_started": ["container", "exists", container],
            "service_healthy": ["healthcheck", "run", container],
            "service_completed_successfully": ["container", "exists", container],
        }[wanted]
        deadline = time.monotonic() + PATIENCE_S
        while podman(*words, check=False).returncode != 0:
            assert time.monotonic() < deadline, podman("logs", container, check=False).stderr
            time.sleep(1)
        if wanted == "service_completed_successfully":
            assert podman("wait", container).stdout.strip() == "0", podman("logs", container).stdout

    def json(self, name: str, path: str) -> Any:
        return json.loads(fetched(f"http://127.0.0.1:{self.ports[name]}{path}"))


@pytest.fixture(scope="module")
@starts("engine", "broker")
def composed(exporter_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composed]:
    podman("tag", exporter_image, f"localhost/{OURS}")
    made = Composed(tmp_path_factory.mktemp("compose"))
    for image in {service["image"] for service in made.services.values()} - {OURS}:
        stand_in(image)
    try:
        for name, service in made.services.items():
            if "profiles" not in service:
                made.start(name)
        yield made
    finally:
        made.run("down", "--timeout=2")


def test_a_planted_hang_fires_and_the_data_source_answers(composed: Composed) -> None:
    """From the service `hang` to Alertmanager, and to what Grafana's dashboards would ask; hardened as the file says."""
    output = composed.run("--profile=hang", "run", "--rm", "--no-deps", "-T", "hang")
    assert "abandoned-app" in output

    alerts = f"http://127.0.0.1:{composed.ports['alertmanager']}/api/v2/alerts"
    fetched(alerts, shows='"alertname":"KafkaTransactionHanging"', timeout_s=PATIENCE_S)
    assert len(composed.json("grafana", "/api/search")) == 3
    query = urllib.parse.quote('kafka_open_transactions{verdict=~"hanging_.*"} > 0')
    response = composed.json("grafana", f"/api/datasources/proxy/Prometheus/api/v1/query?query={query}")
    assert [sample["value"][1] for sample in response["data"]["result"]] == ["1"]
    rules = composed.json("prometheus", "/api/v1/rules")["data"]["groups"]
    assert {rule["health"] for group in rules for rule in group["rules"]} == {"ok"}
    (exporter,) = json.loads(podman("inspect", f"{PROJECT}_exporter_1").stdout)
    assert exporter["HostConfig"]["ReadonlyRootfs"]
    assert exporter["EffectiveCaps"] in ([], None)


@pytest.mark.usefixtures("composed")
def test_the_workload_runs() -> None:
    """It runs from the exporter's image, with the folder mounted."""
    assert podman("inspect", "--format={{.State.Running}}", f"{PROJECT}_workload_1").stdout.strip() == "true"
