"""Runs what a node would run: the rendered command, settings, files and probes, with a real broker.

No pod is started: there is no container here, no other root and no other user.
"""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

import pytest

from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import init_producer_id
from hangbench.kafka.ports import free_ports
from hangbench.waiting import until
from tests.helm.chart import render, render_values
from tests.helm.manifests import Manifest, of_kind, only
from tests.helm.pod_files import ENVIRONMENT, PROGRAM, Outside, lay_out, moved, running

PATIENCE_S: Final = 60


def status_of(probe: Manifest, port: int) -> int:
    """The status of an HTTP probe; 0 without a listener."""
    http: dict[str, Any] = probe["httpGet"]
    url = f"{http['scheme'].lower()}://127.0.0.1:{port}{http['path']}"
    try:
        with urllib.request.urlopen(url, timeout=probe["timeoutSeconds"]) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except urllib.error.URLError:
        return 0


def test_the_rendered_deployment_serves(kafka_4_3_1: KafkaCluster, tmp_path: Path) -> None:
    """Its probes pass within the time that the startup probe gives, metrics are served, SIGTERM ends it with 0."""
    (port,) = free_ports(1)
    objects = render("minimal", f"--set=kafka.bootstrapServers[0]={kafka_4_3_1.bootstrap},containerPort={port}")
    pod = only(objects, "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    lay_out(pod, objects, tmp_path / "root", Outside(tmp_path / "outside"))
    words = [PROGRAM, *(moved(argument, tmp_path / "root") for argument in container["args"])]
    probes = [container[f"{name}Probe"] for name in ("startup", "liveness", "readiness")]

    with running(words, tmp_path / "log"):
        until(
            lambda: [status_of(probe, port) for probe in probes] == [200, 200, 200],
            patience_s=PATIENCE_S,
            status=(tmp_path / "log").read_text,
        )
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert b"kafka_transaction_exporter_coverage_complete 1" in answer.read()

    state = tmp_path / "root/var/lib/kafka-transaction-exporter/state.json"
    assert state.is_file()


@pytest.mark.parametrize("clusters", [(), ("east", "west")])
def test_the_rendered_test_pod_examines_each_cluster(
    kafka_4_3_1: KafkaCluster, tmp_path: Path, clusters: tuple[str, ...]
) -> None:
    """Status 0 where every hang could be proved, and nothing is left behind."""
    brokers = kafka_4_3_1.bootstrap
    init_producer_id(brokers, "first")  # before anybody has used a transactional id there are no coordinators to ask
    kafka = {"bootstrapServers": [] if clusters else [brokers]}
    named = {name: {"kafka.bootstrap.servers": brokers} for name in clusters}
    objects = render_values({"kafka": kafka, "clusters": named}, tmp_path)
    (pod,) = (manifest["spec"] for manifest in of_kind(objects, "Pod"))
    (container,) = pod["containers"]
    lay_out(pod, objects, tmp_path / "root", Outside(tmp_path / "outside"))
    words = [PROGRAM, *(moved(argument, tmp_path / "root") for argument in container["args"])]
    run = subprocess.run(
        words, cwd="/", env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )

    assert run.returncode == 0, run.stderr
    assert all(name in run.stdout for name in clusters)
