"""The rights of every pod of every rendering of the chart."""

from __future__ import annotations

import json
import subprocess
from typing import Any, Final

import pytest

from exporter.config import values
from exporter.config.settings import SETTINGS
from exporter.web.routes import _PATHS
from tests.helm.chart import EXAMPLES, render, render_text
from tests.helm.manifests import Manifest, containers, of_kind, only, pods
from tests.helm.pod_files import container_of
from tests.tools import ToolUnavailable, kube_score

pytestmark = pytest.mark.programs

VOLUMES: Final = {"configMap", "secret", "emptyDir", "persistentVolumeClaim"}
"""A part of what `restricted` allows: the chart needs no more."""

PLACES: Final = [setting.name for setting in SETTINGS if setting.kind is values.PLACE]
"""Settings that may name an object store."""

EXPLAINED: Final = {
    "container-resources": "what is needed grows with the cluster: a value, and the README says where to begin",
    "container-ephemeral-storage-request-and-limit": "both of its own volumes have a limit, and the root cannot be written",
    "container-image-pull-policy": "a version's tag is one image; `Always` keeps pods from starting without a registry",
    "pod-networkpolicy": "off by default, as who scrapes is not known here; on in some of the examples",
    "pod-probes-identical": "where a password is asked for, all a probe can do is to connect",
    "deployment-replicas": "one is enough, two are a value",
    "service-type": "the example with everything asks for a NodePort",
    "deployment-strategy": "a volume is for one pod",
}
"""Objections of kube-score that are accepted, with the reason."""


@pytest.mark.slow
def test_kube_score_finds_what_is_explained() -> None:
    """In no example anything else; and each explanation is still needed."""
    try:
        program = kube_score()
    except ToolUnavailable as missing:
        pytest.skip(str(missing))
    found: set[str] = set()
    for name in EXAMPLES:
        words = [str(program), "score", "--output-format=json", "-"]
        run = subprocess.run(words, input=render_text(name), capture_output=True, text=True, check=False)
        for scored in json.loads(run.stdout):
            found |= {rule["check"]["id"] for rule in scored["checks"] if not rule["skipped"] and rule["grade"] < 10}

    assert found == set(EXPLAINED)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_pod_meets_restricted(name: str) -> None:
    """The Pod Security Standard's rules, one by one, and on top: a numeric user, a root that cannot be written."""
    found = list(pods(render(name)))

    assert len(found) == {"existing-config": 1, "spark": 3}.get(name, 2)
    for pod in found:
        assert {"hostNetwork", "hostPID", "hostIPC", "hostUsers"}.isdisjoint(pod)
        assert all(set(volume) - {"name"} <= VOLUMES for volume in pod["volumes"])
        security = pod["securityContext"]
        assert security["runAsNonRoot"] is True
        assert security["runAsUser"] > 0
        assert security["runAsGroup"] > 0
        assert security["fsGroup"] > 0
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert "sysctls" not in security
        for container in containers(pod):
            _is_restricted(container)


def _is_restricted(container: Manifest) -> None:
    security: dict[str, Any] = container["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["readOnlyRootFilesystem"] is True
    assert {"privileged", "procMount", "runAsUser", "runAsNonRoot", "seccompProfile"}.isdisjoint(security)
    assert not any("hostPort" in port for port in container.get("ports", []))
    assert not any("exec" in container.get(probe, {}) for probe in ("livenessProbe", "readinessProbe"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_pod_has_a_token_or_rights(name: str) -> None:
    """Nothing here ever speaks with the API server."""
    objects = render(name)

    assert not {manifest["kind"] for manifest in objects} & {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
    assert all(manifest["automountServiceAccountToken"] is False for manifest in of_kind(objects, "ServiceAccount"))
    for pod in pods(objects):
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False


@pytest.mark.parametrize("name", EXAMPLES)
def test_secrets_are_files_that_only_the_exporter_reads(name: str) -> None:
    """Read-only, by folder rather than subPath so that they follow a change, readable by the group of the pod alone."""
    for pod in pods(render(name)):
        secrets = {volume["name"] for volume in pod["volumes"] if "secret" in volume}
        assert all(volume["secret"]["defaultMode"] == 0o440 for volume in pod["volumes"] if "secret" in volume)
        mounts = [mount for mount in container_of(pod)["volumeMounts"] if mount["name"] in secrets]
        assert {mount["name"] for mount in mounts} == secrets
        assert all(mount["readOnly"] and "subPath" not in mount for mount in mounts)


def test_probes_ask_for_paths_that_exist() -> None:
    """Liveness depends on the loop and readiness on the first cycle; `/` would show neither."""
    (container,) = only(render("minimal"), "Deployment")["spec"]["template"]["spec"]["containers"]
    paths = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}

    assert paths == {"startup": "/-/healthy", "liveness": "/-/healthy", "readiness": "/-/ready"}
    assert set(paths.values()) | {"/metrics"} <= set(_PATHS)


def test_probes_and_monitors_speak_tls_where_the_web_port_does() -> None:
    objects = render("tls-scram", "--set=webConfig.tcpProbes=false")
    (container,) = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]

    schemes = {container[f"{name}Probe"]["httpGet"]["scheme"] for name in ("startup", "liveness", "readiness")}
    assert schemes == {"HTTPS"}
    assert only(objects, "ServiceMonitor")["spec"]["endpoints"][0]["scheme"] == "https"


def test_probes_only_connect_where_a_password_is_asked_for() -> None:
    """The kubelet has none: an answer of 401 would restart the pod for ever."""
    (container,) = only(render("tls-scram"), "Deployment")["spec"]["template"]["spec"]["containers"]

    for name in ("startup", "liveness", "readiness"):
        assert container[f"{name}Probe"]["tcpSocket"] == {"port": "metrics"}
        assert "httpGet" not in container[f"{name}Probe"]


def test_the_network_policy_lets_out_what_is_needed() -> None:
    """DNS and the ports of the brokers out, Prometheus in; whatever is not named is refused, as both types are listed."""
    policy = only(render("tls-scram"), "NetworkPolicy")["spec"]

    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["egress"] == [
        {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
        {"ports": [{"port": 9094, "protocol": "TCP"}, {"port": 9095, "protocol": "TCP"}]},
    ]
    prometheus = {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}
    assert policy["ingress"] == [
        {
            "from": [{"namespaceSelector": {}, "podSelector": prometheus}],
            "ports": [{"port": "metrics", "protocol": "TCP"}],
        }
    ]


def test_the_network_policy_can_be_narrowed() -> None:
    policy = only(render("everything"), "NetworkPolicy")["spec"]
    dns, brokers, extra = policy["egress"]

    assert dns["to"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}]
    assert brokers == {
        "ports": [{"port": 9093, "protocol": "TCP"}, {"port": 9094, "protocol": "TCP"}],
        "to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}],
    }
    assert extra == {"ports": [{"port": 443, "protocol": "TCP"}]}
    assert len(policy["ingress"]) == 2


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("https://login/oauth2/token", 443),
        ("HTTPS://login/token", 443),
        ("http://login/token", 80),
        ("https://login:8443/token", 8443),
        ("${env:TOKEN_URL}", 443),
        ("https://${env:HOST}/token", 443),
    ],
)
def test_the_network_policy_lets_out_to_the_token_endpoint(url: str, port: int) -> None:
    """Without its port there is no token and no login. Of a reference it is taken to be that of https."""
    policy = only(render("oauthbearer", f"--set=kafka.sasl.oauthbearer.tokenEndpointUrl={url}"), "NetworkPolicy")[
        "spec"
    ]

    assert policy["egress"][2] == {"ports": [{"port": port, "protocol": "TCP"}]}


@pytest.mark.parametrize(
    ("example", "setting", "ports"),
    [
        ("minimal", "config.history.directory=s3://kafka/history", [443, 80]),
        ("minimal", "config.baseline.file=gs://kafka/baselines.json", [443, 80]),
        ("minimal", "config.kafka.sasl.mechanism=AWS_MSK_IAM,config.kafka.security.protocol=SASL_SSL", [443, 80]),
        ("fleet", "clusters.orders.kafka.sasl.oauthbearer.token.endpoint.url=https://login/token", [443]),
        ("minimal", "config.history.directory=/history", None),
        ("minimal", "config.history.directory=/gs://history", None),
        *[("minimal", f"config.{name}=S3://kafka/{name}", [443, 80]) for name in PLACES],
        *[
            ("minimal", f"config.publish.report={scheme}://kafka/report.html", [443, 80])
            for scheme in ("s3", "s3a", "gs")
        ],
        *[
            ("minimal", f"config.history.directory={scheme}://kafka@account.dfs.core.windows.net/history", [443, 80])
            for scheme in ("abfs", "abfss")
        ],
        ("fleet", "config.publish.report=s3://kafka/report.html", [443, 80]),
    ],
)
def test_the_network_policy_lets_out_to_what_the_settings_name(
    example: str, setting: str, ports: list[int] | None
) -> None:
    """Object stores with the endpoints of their credentials, tokens: of each cluster, however the setting is given."""
    flags = ("--set=networkPolicy.enabled=true", f"--set={setting}")
    egress = only(render(example, *flags), "NetworkPolicy")["spec"]["egress"]

    assert [[port["port"] for port in rule["ports"]] for rule in egress[2:]] == ([] if ports is None else [ports])


def test_the_network_policy_is_not_about_spark_s_pods() -> None:
    """Driver and executors must reach each other and the API server; the CronJob's pod reaches nobody."""
    selectors = {
        name: only(render(name, "--set=networkPolicy.enabled=true"), "NetworkPolicy")["spec"]["podSelector"]
        for name in ("spark", "spark-operator")
    }
    chosen = {name: selector["matchExpressions"][0]["values"] for name, selector in selectors.items()}

    assert chosen == {"spark": ["exporter", "test", "pipeline"], "spark-operator": ["exporter", "test"]}
