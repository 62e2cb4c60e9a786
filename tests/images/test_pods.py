"""The chart's Deployment and the sidecars of examples/sidecar run as pods, by `podman kube play`, and are scraped.

Changed for podman 4.3 only (`for_podman`): the test asks the probes itself; volumes of Secrets are filled here, as podman
mounts their base64.
"""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, plant_hang
from hangbench.kafka.ports import free_ports
from helm.made import ROOT
from tests.brokers.secure import PASSWORD, USER, Certificates, SecureCluster
from tests.helm.chart import render
from tests.helm.manifests import manifests, of_kind, only
from tests.images.engine import Container, fetched, for_podman, played, podman, wait_until_read
from tests.images.stand_ins import stand_in
from tests.marks import starts

pytestmark = pytest.mark.slow

SIDECARS: Final = ROOT / "examples" / "sidecar"


@pytest.fixture(scope="module")
@starts("broker")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    """A broker with a hang that requires TLS and a login."""
    certificates = Certificates.made_in(tmp_path_factory.mktemp("certificates"))
    cluster = SecureCluster("4.3.1", certificates, properties=HANGS_CAN_BE_PLANTED)
    with cluster:
        cluster.add_scram_users()
        cluster.topics.create("orders")
        plant_hang(cluster.bootstrap, "orders", 0, "abandoned-app")
        yield cluster


def status_within(name: str) -> str:
    return podman("exec", name, "python", "-c", "print(open('/proc/1/status').read())").stdout


def test_the_chart_s_deployment_runs_as_a_pod(exporter_image: str, guarded: SecureCluster, tmp_path: Path) -> None:
    """Its own ConfigMap and security context, Secrets under the names of its values; SCRAM over TLS on a real broker."""
    (port,) = free_ports(1)
    release = f"watch-{os.getpid()}"
    ca, login = f"authorities-{os.getpid()}", f"login-{os.getpid()}"
    chosen = (
        f"kafka.bootstrapServers[0]={guarded.door('BOTH')},kafka.tls.ca.existingSecret={ca},kafka.sasl.username={USER}"
        f",kafka.sasl.mechanism=SCRAM-SHA-512,kafka.sasl.existingSecret={login}"
        f",containerPort={port},fullnameOverride={release}"
    )
    objects = render("minimal", f"--set={chosen}")
    deployment = only(objects, "Deployment")
    probes = deployment["spec"]["template"]["spec"]["containers"][0]
    paths = [probes[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")]
    for_podman(deployment["spec"]["template"]["spec"], exporter_image)
    secrets = {
        ca: {"ca.crt": guarded.certificates.authority.path.read_bytes()},
        login: {"password": PASSWORD.encode()},
    }
    made = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": dict.fromkeys(files, "eA==")}
        for name, files in secrets.items()
    ]
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump_all([*of_kind(objects, "ConfigMap"), *made, deployment]))

    with ExitStack() as stack:
        for name in secrets:
            stack.callback(podman, "secret", "rm", name, check=False)
        stack.callback(podman, "volume", "rm", "--force", release, "tmp", *secrets, check=False)
        stack.enter_context(played(file, f"{release}-pod-0", secrets))
        try:
            for path in paths:
                fetched(f"http://127.0.0.1:{port}{path}", timeout_s=30)
        except AssertionError as error:
            raise AssertionError(Container(f"{release}-pod-0-exporter").logs()) from error
        metrics = fetched(f"http://127.0.0.1:{port}/metrics")
        status = status_within(f"{release}-pod-0-exporter")

    assert 'kafka_open_transactions{verdict="hanging_not_in_transaction"} 1' in metrics
    assert re.findall(r"(?m)^[UG]id:\s+(\d+)", status) == ["65532", "65532"]
    assert re.findall(r"CapBnd:\s+(\w+)", status) == ["0" * 16]
    assert re.findall(r"NoNewPrivs:\s+(\d)", status) == ["1"]
    assert re.findall(r"Seccomp:\s+(\d)", status) == ["2"]


def test_a_typo_in_the_brokers_replaces_no_working_pod(exporter_image: str, tmp_path: Path) -> None:
    """The new pod lives and is never ready, and the Deployment takes no pod away before a new one is ready."""
    (port,) = free_ports(1)
    release = f"typo-{os.getpid()}"
    chosen = f"kafka.bootstrapServers[0]=kafka.invalid:9092,containerPort={port},fullnameOverride={release}"
    objects = render("minimal", f"--set={chosen}")
    deployment = only(objects, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    alive, ready = (container[f"{name}Probe"]["httpGet"]["path"] for name in ("liveness", "readiness"))
    for_podman(deployment["spec"]["template"]["spec"], exporter_image)
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump_all([*of_kind(objects, "ConfigMap"), deployment]))

    with ExitStack() as stack:
        stack.callback(podman, "volume", "rm", "--force", release, "tmp", check=False)
        stack.enter_context(played(file, f"{release}-pod-0", {}))
        fetched(f"http://127.0.0.1:{port}{alive}", timeout_s=60)
        fetched(f"http://127.0.0.1:{port}/metrics", shows=r"(?m)^kafka_transaction_exporter_cycles_failed_total [1-9]")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{port}{ready}", timeout=10)

    with refused.value:  # holds the connection
        assert refused.value.code == 503
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


@pytest.fixture
def play(exporter_image: str, tmp_path: Path) -> Iterator[Any]:
    """`play(name, replacements)` runs a file of examples/sidecar under free names and ports; returns the pod's name."""
    with ExitStack() as stack:

        def start(name: str, replaced: dict[str, str]) -> str:
            text = (SIDECARS / f"{name}.yaml").read_text()
            for image in sorted(set(re.findall(r"image: (\S+/\S+)", text))):
                stand_in(image)
            named = f"{name}-with-exporter".replace("broker", "kafka")
            unique = f"{name}-{os.getpid()}"
            for old, new in {named: unique, **replaced}.items():
                assert old in text
                text = text.replace(old, new)
            objects = manifests(text)
            for_podman(only(objects, "Pod")["spec"], exporter_image)
            file = tmp_path / f"{name}.yaml"
            file.write_text(yaml.safe_dump_all(objects))
            stack.callback(podman, "volume", "rm", "--force", unique, "tmp", check=False)
            stack.enter_context(played(file, unique))
            return unique

        yield start


def listening(port: int) -> dict[str, str]:
    """The exporter's port, in an example that leaves it at its default."""
    return {"    kafka:\n": f"    publish.listen_address: 127.0.0.1:{port}\n    kafka:\n"}


def test_next_to_a_broker(play: Any) -> None:
    """The exporter starts together with the broker, waits for it, and reads it through localhost."""
    broker, controller, metrics = free_ports(3)
    play("broker", {":9092": f":{broker}", ":9093": f":{controller}", **listening(metrics)})

    fetched(f"http://127.0.0.1:{metrics}/-/ready")
    assert "kafka_transaction_exporter_visible_topics" in fetched(f"http://127.0.0.1:{metrics}/metrics")


def test_next_to_a_connect_worker(play: Any, hanging: KafkaCluster) -> None:
    """The worker is transactional itself (exactly-once sources); its cluster is the one that is read."""
    rest, metrics = free_ports(2)
    listener = {"    group.id=connect\n": f"    group.id=connect\n    listeners=http://127.0.0.1:{rest}\n"}
    play("connect", {"kafka:9092": hanging.bootstrap, **listener, **listening(metrics)})

    fetched(f"http://127.0.0.1:{metrics}/-/ready")
    wait_until_read(metrics)
    assert json.loads(fetched(f"http://127.0.0.1:{rest}/"))["kafka_cluster_id"]


def test_next_to_prometheus(play: Any, hanging: KafkaCluster) -> None:
    """Prometheus scrapes it on localhost, and has its series. What it knows outlives its container: `incident` finds it."""
    web, metrics = free_ports(2)
    port = {"--storage.tsdb.path": f"--web.listen-address=127.0.0.1:{web}, --storage.tsdb.path"}
    pod = play("prometheus", {"kafka:9092": hanging.bootstrap, "9814": str(metrics), **port})

    query = f"http://127.0.0.1:{web}/api/v1/query?query=kafka_transaction_exporter_coverage_complete"
    fetched(query, shows=r'"result":\[{[^]]*"value":\[[^]]*,"1"\]}\]')
    program = ("kafka-transaction-exporter", "incident", "--config.file=/etc/kafka-transaction-exporter/config.yaml")
    assert " open " in podman("exec", f"{pod}-exporter", *program).stdout
