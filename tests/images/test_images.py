"""Both images, built by a real engine: their size, what they contain, and what they do without any right."""

from __future__ import annotations

import http.server
import json
import os
import re
import shlex
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.ports import free_ports
from helm.made import ROOT
from tests.images.engine import HARDENED, fetched, podman, run_once, running
from tests.release.artifacts import requirements_of
from tests.release.images import version

pytestmark = pytest.mark.slow

LIMIT_MB: Final = 255
ANY_USER: Final = "--user=12345:12345"
USES: Final = """
import importlib, pkgutil, ssl, sys
import exporter
missing = []
for module in pkgutil.walk_packages(exporter.__path__, "exporter."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        missing.append(error.name)
import pyarrow, pyarrow.compute, pyarrow.parquet
pyarrow.parquet.write_table(pyarrow.table({"a": [1, 2]}), "/tmp/a.parquet", compression="zstd")
print(sorted(set(missing)))
print(pyarrow.parquet.read_table("/tmp/a.parquet").num_rows)
print(len(ssl.create_default_context().get_ca_certs()) > 100)
"""
SIGNS: Final = """
from kafka.net.sasl.msk import SaslMechanismAwsMskIam
mechanism = SaslMechanismAwsMskIam(security_protocol="SASL_SSL", host="b-1.example")
print(mechanism.auth_bytes().decode())
"""
CREDENTIALS: Final = """\
<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>
<Credentials><AccessKeyId>AKIDOFTHEROLE</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>
<SessionToken>session</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>
</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"""


def python(tag: str, program: str, *options: str) -> list[str]:
    """The output of a program in the image's own Python."""
    run = run_once(tag, "-c", program, options=["--entrypoint=python", *options])
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout.splitlines()


def megabytes(tag: str) -> float:
    """As `docker images` shows it."""
    return int(podman("image", "inspect", "--format={{.Size}}", tag).stdout) / 1e6


def test_the_exporter_s_image_is_small(exporter_image: str) -> None:
    """Unpacked, with its base; docs/install.md says how large both are."""
    size = megabytes(exporter_image)
    print(f"{exporter_image}: {size:.0f} MB")

    assert size <= LIMIT_MB
    (documented,) = re.findall(r"The exporter's image is about (\d+) MB", (ROOT / "docs" / "install.md").read_text())
    assert size == pytest.approx(float(documented), rel=0.02)


def test_the_image_has_no_shell_and_no_installer(exporter_image: str) -> None:
    """Nothing for an intruder to work with; scanners find Debian's packages."""
    found = python(
        exporter_image,
        "import os; print([f for p in ('/bin', '/sbin', '/usr/sbin') for f in os.listdir(p)]);"
        "print(sorted(os.listdir('/var/lib/dpkg/status.d')));"
        "print([1 for d, _, fs in os.walk('/usr') for f in fs if os.lstat(os.path.join(d, f)).st_mode & 0o6000])",
    )

    programs = re.findall(r"'(\S+)'", found[0])
    assert not {"sh", "bash", "dash", "apt", "dpkg", "perl", "pip", "pip3"} & set(programs)
    assert "python3.13" in programs
    assert {"libc6", "libssl3t64", "python3.13-minimal"} <= set(re.findall(r"'(\S+)'", found[1]))
    assert found[2] == "[]"


def test_everything_but_spark_is_in_the_image(exporter_image: str) -> None:
    """Each module is imported, Parquet is written, public authorities are known; whatever user it is."""
    for user in ("--user=65532:65532", ANY_USER):
        assert python(exporter_image, USES, user) == ["['deltalake', 'py4j', 'pyspark']", "2", "True"]


@pytest.mark.parametrize("image", ["exporter", "pipeline"])
def test_the_packages_of_an_image_are_those_of_its_list(image: str, request: pytest.FixtureRequest) -> None:
    """The release's list of packages, with their versions; and the program itself."""
    program = (
        "from importlib.metadata import distributions as d; print(*(f'{x.name}=={x.version}' for x in d()), sep='\\n')"
    )
    found = {
        re.sub(r"[_.]", "-", each.partition("==")[0]).lower() + "==" + each.partition("==")[2]
        for each in python(request.getfixturevalue(f"{image}_image"), program)
    }

    assert found == {*requirements_of(image, ROOT), f"kafka-transaction-exporter=={version()}"}


@contextmanager
def aws() -> Iterator[tuple[str, list[dict[str, list[str]]]]]:
    """An endpoint of AWS' STS on the loopback, and what it was asked."""
    requests: list[dict[str, list[str]]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(CREDENTIALS.encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", requests
        server.shutdown()
        thread.join()


def test_msk_s_login_is_signed_with_the_role_of_the_service_account(exporter_image: str, tmp_path: Path) -> None:
    """As IRSA sets it up: a token in a file, a role, a region. AWS' own endpoint is replaced by one on the loopback."""
    token = tmp_path / "token"
    token.write_text("of the service account")
    tmp_path.chmod(0o755)
    with aws() as (url, requests):
        environment = {
            "AWS_ROLE_ARN": "arn:aws:iam::111122223333:role/exporter",
            "AWS_WEB_IDENTITY_TOKEN_FILE": "/token",
            "AWS_DEFAULT_REGION": "eu-west-1",
            "AWS_ENDPOINT_URL_STS": url,
        }
        options = [f"--env={name}={value}" for name, value in environment.items()]
        (signed,) = python(exporter_image, SIGNS, f"--volume={token}:/token:ro", *options)

    assert [request["WebIdentityToken"] for request in requests] == [["of the service account"]]
    fields = json.loads(signed)
    assert fields["x-amz-credential"].startswith("AKIDOFTHEROLE/")
    assert fields["x-amz-security-token"] == "session"


def test_the_exporter_serves_without_any_right(exporter_image: str, hanging: KafkaCluster) -> None:
    """A read-only root, no capability, no new privilege, a numeric user; the hang of a real broker is in /metrics.

    Nor is there any place to write to: Docker has none below a read-only root, where podman has /tmp.
    """
    (port,) = free_ports(1)
    words = [f"--kafka.bootstrap.servers={hanging.bootstrap}", f"--publish.listen-address=127.0.0.1:{port}"]
    rights = [option for option in HARDENED if option != "--tmpfs=/tmp"] + ["--read-only-tmpfs=false"]
    with running(exporter_image, "serve", *words, name=f"exporter-{os.getpid()}", hardened=rights) as container:
        fetched(f"http://127.0.0.1:{port}/-/ready")
        metrics = fetched(f"http://127.0.0.1:{port}/metrics")
        status = container.execute("python", "-c", "print(open('/proc/1/status').read())")
        assert container.inspect()["HostConfig"]["ReadonlyRootfs"]

    assert 'kafka_open_transactions{verdict="hanging_not_in_transaction"} 1' in metrics
    assert "kafka_transaction_exporter_coverage_complete 1" in metrics
    assert re.findall(r"Uid:\s+(\d+)", status) == ["65532"]
    assert re.findall(r"CapBnd:\s+(\w+)", status) == ["0" * 16]
    assert re.findall(r"NoNewPrivs:\s+(\d)", status) == ["1"]


def test_commands_in_the_container_of_the_document_find_its_brokers(exporter_image: str, hanging: KafkaCluster) -> None:
    """`docker exec` has the variables of the container, and not the flags that an operator gave `serve`.

    The container has the document's rights and no more.
    """
    text = (ROOT / "docs" / "install.md").read_text()
    (fence,) = re.findall(r"^```sh\ndocker run (.*?)\n```$", text, re.DOTALL | re.MULTILINE)
    (command,) = re.findall(r"`docker exec ktx kafka-transaction-exporter (.+?)`", text)
    *words, tag = shlex.split(fence.replace("\\\n", "").replace("kafka:9092", hanging.bootstrap))
    assert tag.startswith("kafka-transaction-exporter:")
    words.remove("--read-only")
    options = [f"{name}={value}" for name, value in zip(words[::2], words[1::2], strict=True)]
    (port,) = free_ports(1)
    given = [
        *(option for option in options if not option.startswith(("--name=", "--publish="))),
        f"--env=KAFKA_TRANSACTION_EXPORTER__PUBLISH__LISTEN_ADDRESS=127.0.0.1:{port}",
    ]
    read_only = ["--read-only", "--read-only-tmpfs=false"]
    with running(exporter_image, name=f"documented-{os.getpid()}", options=given, hardened=read_only) as container:
        fetched(f"http://127.0.0.1:{port}/-/ready")
        assert "hanging_not_in_transaction" in container.execute("kafka-transaction-exporter", command)
        assert " open " in container.execute("kafka-transaction-exporter", "incident")
        assert container.execute("kafka-transaction-exporter", "get", "/-/ready") == "Ready.\n"


def test_the_pipeline_s_image_makes_tables_and_reads_the_log(
    pipeline_image: str, exporter_image: str, hanging: KafkaCluster, tmp_path: Path
) -> None:
    """From a history that the exporter's image has written; Spark's Kafka source is in the image, without `--jars`."""
    print(f"{pipeline_image}: {megabytes(pipeline_image):.0f} MB")
    (documented,) = re.findall(r"pipeline's image, (\S+) GB", (ROOT / "docs" / "install.md").read_text())
    assert megabytes(pipeline_image) / 1000 == pytest.approx(float(documented), rel=0.05)
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o777)
    mount = f"--volume={data}:/data"
    (port,) = free_ports(1)
    words = [f"--kafka.bootstrap.servers={hanging.bootstrap}", f"--publish.listen-address=127.0.0.1:{port}"]
    name = f"history-{os.getpid()}"
    with running(exporter_image, "serve", *words, "--history.directory=/data/history", name=name, options=[mount]):
        fetched(f"http://127.0.0.1:{port}/-/ready")
        podman("stop", "--time=20", name)  # waiting rows are written at the end

    tables = run_once(
        pipeline_image, "pipeline", "run", "--history=/data/history", "--tables=/data/tables", options=[mount]
    )
    assert tables.returncode == 0, tables.stdout + tables.stderr
    assert (data / "tables/v1/report.html").is_file()
    log = run_once(
        pipeline_image,
        *("pipeline", "transaction-log", "--tables=/data/tables", f"--kafka.bootstrap.servers={hanging.bootstrap}"),
        options=[mount],
    )
    assert log.returncode == 0, log.stdout + log.stderr
    assert list((data / "tables/v1/transaction_log").rglob("*.parquet"))


def test_the_pipeline_s_image_is_a_driver_and_an_executor_of_spark(pipeline_image: str) -> None:
    """The image takes the words of Spark on Kubernetes: the driver's program runs, the executor looks for its driver."""
    file = "/opt/kafka-transaction-exporter/pipeline.py"
    bound = "--env=SPARK_DRIVER_BIND_ADDRESS=127.0.0.1"
    driver = run_once(pipeline_image, "driver", "--master", "local[1]", f"local://{file}", "--version", options=[bound])
    assert (driver.returncode, driver.stdout) == (0, run_once(pipeline_image, "--version").stdout), driver.stderr

    names = re.findall(r"\$SPARK_([A-Z_]+)", (ROOT / "examples/spark/entrypoint.sh").read_text())
    variables = {**dict.fromkeys(names, "1"), "EXECUTOR_MEMORY": "256m", "EXECUTOR_POD_IP": "127.0.0.1"}
    variables |= {"DRIVER_URL": "spark://CoarseGrainedScheduler@127.0.0.1:9", "CLASSPATH": ""}
    given = [f"--env=SPARK_{name}={text}" for name, text in variables.items() if name not in {"HOME", "CONF_DIR"}]
    executor = run_once(pipeline_image, "executor", options=given)
    assert executor.returncode != 0
    assert "Connection refused: /127.0.0.1:9" in executor.stdout + executor.stderr
