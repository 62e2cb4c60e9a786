"""The documented `spark-submit --master k8s://` on a real API server, with pods that the image's entry point runs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from exporter.pipeline.tables import Tables
from hangbench.kafka.ports import free_ports
from hangbench.waiting import until
from helm.made import ROOT
from tests.brokers.jars import spark_jars
from tests.helm.kubernetes import ApiServer, running_api_server
from tests.helm.manifests import Manifest
from tests.helm.spark_node import ENTRYPOINT, Node
from tests.marks import starts
from tests.pipeline.days import taken
from tests.pipeline.log_records import commit, joined_rows, write_hour, write_log
from tests.pipeline.on_a_cluster import fences, shell, with_places
from tests.tools import ToolUnavailable, api_server

NAMESPACE: Final = "kafka"
PATIENCE_S: Final = 600
ACCOUNT: Final = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"


@pytest.fixture
@starts("programs")
def server(tmp_path: Path) -> Iterator[ApiServer]:
    """The API server has the service account of the document, with its rights."""
    try:
        api_server()
    except ToolUnavailable as missing:
        pytest.skip(str(missing))
    subject = {"kind": "ServiceAccount", "name": "spark", "namespace": NAMESPACE}
    group = "rbac.authorization.k8s.io"
    made: list[Manifest] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "spark", "namespace": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": NAMESPACE}},
        *(
            {
                "apiVersion": f"{group}/v1",
                "kind": "RoleBinding",
                "metadata": {"name": part, "namespace": NAMESPACE},
                "subjects": [subject],
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": f"system:aggregate-to-{part}"},
            }
            for part in ("edit", "view")  # a controller makes the role `edit` of these
        ),
    ]
    (tmp_path / "server").mkdir()
    with running_api_server(tmp_path / "server") as running:
        for manifest in made:
            answer = running.create(manifest)
            assert answer.status == 201, answer.message
        yield running


def settings_of(server: ApiServer, folder: Path) -> dict[str, str]:
    """Settings for what a real cluster has by itself: a token in the pod, ports of its own, jars in the image."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = folder / "token"
    token.write_text(server.call("POST", f"{ACCOUNT}/spark/token", request).body["status"]["token"])
    driver, blocks = free_ports(2)
    where = "spark.kubernetes.authenticate"
    return {
        "spark.kubernetes.namespace": NAMESPACE,
        "spark.kubernetes.driver.master": server.url,
        f"{where}.submission.caCertFile": str(server.authority),
        f"{where}.submission.oauthTokenFile": str(server.token_file),
        f"{where}.driver.mounted.caCertFile": str(server.authority),
        f"{where}.driver.mounted.oauthTokenFile": str(token),
        "spark.kubernetes.submission.waitAppCompletion": "false",
        "spark.driver.port": str(driver),
        "spark.driver.blockManager.port": str(blocks),
        "spark.driver.extraClassPath": f"{spark_jars()}/*",
        "spark.executor.extraClassPath": f"{spark_jars()}/*",
        "spark.executor.instances": "2",
        "spark.executor.memory": "512m",
    }


@pytest.mark.slow
@pytest.mark.api_server
def test_driver_and_executors_run_by_the_image_s_entry_point(
    server: ApiServer, spark: SparkSession, tmp_path: Path
) -> None:
    """The driver makes two executors with no more rights than the documented ones; Python runs on them."""
    tables = Tables(tmp_path / "tables")
    write_hour(tmp_path / "history", 0)
    write_log(spark, tables, commit(0), read_to_s=3600)
    taken(spark, tmp_path / "history", tables)
    settings = " ".join(f"--conf '{name}={value}'" for name, value in settings_of(server, tmp_path).items())
    file = "local:///opt/kafka-transaction-exporter/pipeline.py"
    here = f"{settings} local://{ROOT}/examples/spark/serve.py"
    command = with_places(
        fences("sh")[1],
        tmp_path,
        {"https://APISERVER:443": server.url, f"{file} pipeline run": f"{here} pipeline outcomes"},
    )
    (tmp_path / "node").mkdir()

    with Node(server, NAMESPACE, tmp_path / "node") as node:
        submitted = shell(command, tmp_path)
        assert submitted.returncode == 0, submitted.stdout + submitted.stderr
        status = until(node.driver_status, lambda status: status is not None, patience_s=PATIENCE_S, status=node.logs)

        assert status == 0, node.logs()
        assert sorted(node.roles.values()) == ["driver", "executor", "executor"]
        assert "outcomes: 1 hour or day joined" in node.output("driver"), node.logs()
    assert joined_rows(spark, tables) == [(0, "closed", "commit", 40_000)]


@pytest.mark.programs
def test_other_words_are_the_program_s(tmp_path: Path) -> None:
    """The image starts the program; `driver` and `executor` are the words of Spark, with its variables."""
    for name in ("kafka-transaction-exporter", "spark-submit", "java"):
        (tmp_path / name).write_text('#!/bin/sh\necho "$0" "$@"\n')
        (tmp_path / name).chmod(0o755)
    variables = {f"SPARK_{name}": name.lower() for name in re.findall(r"\$SPARK_(\w+)", ENTRYPOINT.read_text())}
    environment = {
        **variables,
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "SPARK_JAVA_OPT_0": "-Da=b c",
        "SPARK_JAVA_OPT_1": "-D1",
    }

    def said(*words: str) -> str:
        run = subprocess.run([str(ENTRYPOINT), *words], env=environment, capture_output=True, text=True, check=True)
        return run.stdout.strip().removeprefix(f"{tmp_path}/")

    assert said("pipeline", "run", "--tables=a b") == "kafka-transaction-exporter pipeline run --tables=a b"
    assert said() == "kafka-transaction-exporter"
    assert said("driver", "--class", "X") == (
        "spark-submit --conf spark.driver.bindAddress=driver_bind_address --deploy-mode client --class X"
    )
    assert said("executor").startswith(
        "java -Da=b c -D1 -Xmsexecutor_memory -Xmxexecutor_memory -cp home/conf:classpath:home/jars/* org.apache.spark."
    )
