"""The program takes the settings and the arguments that the chart gives it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from exporter.commands.arguments import build_parser
from exporter.commands.context import CLUSTERS_FILE, CONFIG_FILE
from exporter.config.loading import load_publish
from exporter.config.settings import SETTINGS
from helm.made import ROOT
from tests.helm.chart import EXAMPLES, render, render_values
from tests.helm.manifests import containers, of_kind, only, pods
from tests.helm.pod_files import Outside, container_of, lay_out, moved
from tests.real_brokers.exporting import called
from tests.runbooks.desk import LISTENS

pytestmark = pytest.mark.programs

STATE_FILE: Final = "KAFKA_TRANSACTION_EXPORTER__STATE__FILE"
OF_SERVE: Final = {LISTENS, "KAFKA_TRANSACTION_EXPORTER__PUBLISH__WEB_CONFIG_FILE", STATE_FILE}
SECRETS: Final = {setting.name for setting in SETTINGS if setting.is_secret}


def settings(name: str, *more: str) -> dict[str, Any]:
    """Of the rendered ConfigMap."""
    maps = [manifest for manifest in of_kind(render(name, *more), "ConfigMap") if "config.yaml" in manifest["data"]]
    loaded: dict[str, Any] = yaml.safe_load(maps[0]["data"]["config.yaml"])
    return loaded


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Outside:
    return Outside(tmp_path_factory.mktemp("outside"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_program_takes_its_settings(name: str, tmp_path: Path, outside: Outside) -> None:
    """`config check` finds nothing wrong with the pod's arguments, and the files that its volumes bring.

    It opens certificates, stores and secrets, so that a place that no volume brings is found.
    """
    objects = render(name)
    pod = only(objects, "Deployment")["spec"]["template"]["spec"]
    lay_out(pod, objects, tmp_path, outside)
    arguments = [moved(argument, tmp_path) for argument in container_of(pod)["args"]]
    assert build_parser().parse_args(arguments).command == "serve"
    # a flag of `serve` alone; its file is of the exporter-toolkit's format and not a setting
    checked = [argument for argument in arguments[1:] if not argument.startswith("--web.config.file=")]
    run = called(tmp_path, "config", "check", *checked)

    assert run.returncode == 0, run.stdout + run.stderr
    for argument in set(arguments[1:]) - set(checked):
        assert Path(argument.partition("=")[2]).is_file()


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "existing-config"])
def test_the_test_pod_sees_what_the_exporter_sees(name: str) -> None:
    """Image, rights, settings and Secrets at the same places; only the state and the web server are not its own."""
    objects = render(name)
    exporter = only(objects, "Deployment")["spec"]["template"]["spec"]
    (test,) = (manifest["spec"] for manifest in of_kind(objects, "Pod"))
    own = {"state", "web-config"}

    assert test["volumes"] == [volume for volume in exporter["volumes"] if volume["name"] not in own]
    tested, serve = container_of(test), container_of(exporter)
    assert tested["volumeMounts"] == [mount for mount in serve["volumeMounts"] if mount["name"] not in own]
    for key in ("image", "securityContext", "envFrom"):
        assert tested.get(key) == serve.get(key)
    assert tested["env"] == [variable for variable in serve["env"] if variable["name"] not in OF_SERVE]
    places = [argument for argument in serve["args"] if argument.startswith(("--config.file=", "--clusters="))]
    assert tested["args"] == ["doctor", *places, "--state.file=none", "--require=all"]
    assert build_parser().parse_args(tested["args"]).command == "doctor"


def test_kafka_s_values_become_settings() -> None:
    """Protocol, mechanism and places by the settings' own names."""
    secrets = "/etc/kafka-transaction-exporter/secrets"
    login = f"{secrets}/kafka-sasl"

    assert settings("minimal") == {"kafka.bootstrap.servers": "kafka-bootstrap.kafka:9092"}
    assert settings("tls-scram") == {
        "kafka.bootstrap.servers": "broker-0.example.org:9094,broker-1.example.org:9094,broker-2.example.org:9095",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.ca.location": f"{secrets}/kafka-ca/ca.crt",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": f"${{file:{login}/username}}",
        "kafka.sasl.password_file": f"{login}/password",
    }
    assert settings("strimzi") == {
        "kafka.bootstrap.servers": "orders-kafka-bootstrap:9093",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.ca.location": f"{secrets}/kafka-ca/ca.crt",
        "kafka.ssl.certificate.location": f"{secrets}/kafka-client/user.crt",
        "kafka.ssl.key.location": f"{secrets}/kafka-client/user.key",
    }
    assert settings("strimzi-scram") == {
        "kafka.bootstrap.servers": "orders-kafka-bootstrap:9093",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.location": f"{secrets}/kafka-truststore/ca.p12",
        "kafka.ssl.truststore.password_file": f"{secrets}/kafka-truststore/ca.password",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": "transaction-exporter",
        "kafka.sasl.password_file": f"{login}/password",
    }
    assert settings("msk-iam") == {
        "kafka.bootstrap.servers": "b-1.orders.abc123.c2.kafka.eu-west-1.amazonaws.com:9098",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "AWS_MSK_IAM",
    }


def test_strimzi_s_secrets_are_mounted_by_name() -> None:
    """The keys that Strimzi's operator writes, and no more of each Secret than is read."""

    def mounted(*more: str) -> dict[str, list[str]]:
        volumes = only(render("strimzi", *more), "Deployment")["spec"]["template"]["spec"]["volumes"]
        secrets = [volume["secret"] for volume in volumes if "secret" in volume]
        return {secret["secretName"]: [item["key"] for item in secret["items"]] for secret in secrets}

    assert mounted() == {"orders-cluster-ca-cert": ["ca.crt"], "transaction-exporter": ["user.crt", "user.key"]}
    assert mounted("--set=kafka.strimzi.format=PKCS12") == {
        "orders-cluster-ca-cert": ["ca.p12", "ca.password"],
        "transaction-exporter": ["user.p12", "user.password"],
    }


@pytest.mark.parametrize(
    ("tls", "mechanism", "protocol"),
    [("true", "", "SSL"), ("false", "PLAIN", "SASL_PLAINTEXT"), ("true", "PLAIN", "SASL_SSL")],
)
def test_the_protocol_follows(tls: str, mechanism: str, protocol: str) -> None:
    sasl = f",kafka.sasl.mechanism={mechanism},kafka.sasl.username=u,kafka.sasl.existingSecret=s" if mechanism else ""

    assert settings("minimal", f"--set=kafka.tls.enabled={tls}{sasl}")["kafka.security.protocol"] == protocol


def test_numbers_and_words_arrive_as_they_were_written() -> None:
    """No 2e+06, and nested keys next to dotted ones."""
    found = settings("everything")

    assert found["publish.partition_series_limit"] == 2_000_000
    assert (found["scan.interval"], found["publish.transactional_ids"]) == ("15s", False)
    assert found["kafka.request.timeout.ms"] == 20_000


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_secret_is_rendered(name: str) -> None:
    """The chart makes no Secret, and no setting or variable of its own holds what one would."""
    objects = render(name)

    assert of_kind(objects, "Secret") == []
    for manifest in of_kind(objects, "ConfigMap"):
        if "config.yaml" in manifest["data"]:
            assert not SECRETS & yaml.safe_load(manifest["data"]["config.yaml"]).keys()
    for pod in pods(objects):
        for container in containers(pod):
            assert not any("password" in word.lower() for word in container.get("args", []))
            assert all(
                variable["name"]
                in {"TZ", "AWS_DEFAULT_REGION", "STATE_DIRECTORY", CONFIG_FILE, CLUSTERS_FILE, *OF_SERVE}
                for variable in container.get("env", [])
            )


def test_a_command_in_the_pod_finds_the_state_of_the_exporter() -> None:
    """`incident` and `doctor` read it from a variable, where the exporter has an argument; a fleet has a folder."""
    for name in ("minimal", "fleet"):
        container = container_of(only(render(name), "Deployment")["spec"]["template"]["spec"])
        environment = {variable["name"]: variable["value"] for variable in container["env"]}
        (argument,) = (word for word in container["args"] if word.startswith("--state.file="))
        expected = "auto" if name == "fleet" else environment[STATE_FILE]
        assert argument == f"--state.file={expected}"
        assert (STATE_FILE in environment) is (name != "fleet")
        assert ("STATE_DIRECTORY" in environment) is (name == "fleet")


def test_a_command_in_the_pod_finds_the_web_server() -> None:
    """`get` reads address and certificate from variables, where the exporter has arguments."""
    chosen = "listenHost=127.0.0.1,containerPort=9900,webConfig.existingSecret=exporter-web,webConfig.key=web.yaml"
    container = container_of(only(render("minimal", f"--set={chosen}"), "Deployment")["spec"]["template"]["spec"])
    environment = {variable["name"]: variable["value"] for variable in container["env"]}
    publish = load_publish(file=None, environment=environment, flags={})

    assert f"--publish.listen-address={publish.listen_address}" in container["args"]
    assert f"--web.config.file={publish.web_config_file}" in container["args"]


def test_the_document_s_values_can_be_used(tmp_path: Path) -> None:
    """Every block of values in docs/helm.md renders, on top of the least that works."""
    text = (ROOT / "docs" / "helm.md").read_text()
    blocks = [part.split("```", 1)[0] for part in text.split("```yaml\n")[1:]]

    assert len(blocks) >= 5
    for number, block in enumerate(blocks):
        path = tmp_path / f"{number}.yaml"
        path.write_text(block)
        is_whole = "existingConfig" in block
        assert render("existing-config" if is_whole else "minimal", f"--values={path}"), block


@pytest.mark.programs
@pytest.mark.parametrize(
    ("ingress", "config", "url"),
    [
        ({"enabled": True, "hosts": ["a.example.org", "b"], "tls": [{"secretName": "t"}]}, {}, "https://a.example.org"),
        ({"enabled": True, "hosts": ["a.example.org"]}, {}, "http://a.example.org"),
        ({"enabled": True, "hosts": ["a.example.org"], "path": "/tx/"}, {}, "http://a.example.org/tx"),
        ({"enabled": False, "hosts": ["a.example.org"]}, {}, None),
        ({"enabled": True, "hosts": ["a"]}, {"publish": {"external_url": "https://own"}}, "https://own"),
    ],
)
def test_alerts_link_to_the_host_of_the_ingress(
    tmp_path: Path, ingress: dict[str, Any], config: dict[str, Any], url: str | None
) -> None:
    """Without it they had no link at all, and nothing said so."""
    objects = render_values({"ingress": ingress, "config": config}, tmp_path)
    (text,) = (each["data"]["config.yaml"] for each in of_kind(objects, "ConfigMap") if "config.yaml" in each["data"])

    assert yaml.safe_load(text).get("publish.external_url") == url
