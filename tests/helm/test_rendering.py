"""Every example renders alike on both majors of Helm, and is valid for Kubernetes and the Prometheus operator."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from exporter.config.settings import SETTINGS
from tests.helm.chart import EXAMPLES, MAJORS, Refused, lint, notes, render, render_text, render_values
from tests.helm.crds import all_crds, crds_at_hand, write_schemas
from tests.helm.manifests import Manifest, manifests, of_kind, only, pods
from tests.tools import KUBERNETES_VERSIONS, ToolUnavailable, kubeconform, kubernetes_schemas

pytestmark = pytest.mark.programs

SPARK_EXAMPLES: Final = Path(__file__).parents[2] / "examples" / "spark"
GOLDEN: Final = Path(__file__).parent / "golden" / "minimal.yaml"
OPERATOR_KINDS = ("ServiceMonitor", "PodMonitor", "PrometheusRule", "AlertmanagerConfig", "HTTPRoute")
"""Of the Prometheus operator, whose schemas are made of its types, which takes a minute, and of the Gateway API."""

EXISTING: Final = {"transaction-history"}
"""Claims that the examples take for granted."""


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_helm_lint_finds_nothing(name: str, major: int) -> None:
    assert "0 chart(s) failed" in lint(name, major)


@pytest.mark.parametrize("name", EXAMPLES)
def test_both_majors_make_the_same_objects(name: str) -> None:
    """Helm 4 differs from Helm 3 in empty lines alone."""
    assert render(name, major=4) == render(name, major=3)


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(version, marks=pytest.mark.slow if version in KUBERNETES_VERSIONS[1:-1] else ())
        for version in KUBERNETES_VERSIONS
    ],
)
@pytest.mark.parametrize("kinds", ["Kubernetes'", pytest.param("Prometheus operator's too", marks=pytest.mark.slow)])
def test_kubernetes_takes_every_object(kinds: str, version: str, tmp_path: Path) -> None:
    """Strictly: no unknown field, no field twice, no value of another kind, by this version's own schemas."""
    with_operator = kinds != "Kubernetes'"
    schemas, rendered = tmp_path / "schemas", tmp_path / "rendered"
    schemas.mkdir()
    rendered.mkdir()
    try:
        words = [str(kubeconform()), "-strict", "-summary", f"-kubernetes-version={version}"]
        words += [f"-schema-location={kubernetes_schemas()}/{{{{ .NormalizedKubernetesVersion }}}}-standalone-strict/"]
        write_schemas(all_crds() if with_operator else crds_at_hand(), schemas)
    except ToolUnavailable as missing:
        pytest.skip(str(missing))
    words[-1] += "{{ .ResourceKind }}{{ .KindSuffix }}.json"
    words += [f"-schema-location={schemas}/{{{{ .ResourceKind }}}}_{{{{ .ResourceAPIVersion }}}}.json"]
    if not with_operator:
        words += [f"-skip={','.join(OPERATOR_KINDS)}"]
    for name in EXAMPLES:
        (rendered / f"{name}.yaml").write_text(render_text(name, f"--kube-version={version}"))
    for name in ("application", "audit", "cronjob"):
        shutil.copy(SPARK_EXAMPLES / f"{name}.yaml", rendered)
    run = subprocess.run([*words, str(rendered)], capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout + run.stderr
    assert "Invalid: 0, Errors: 0" in run.stdout
    assert ("Skipped: 0" in run.stdout) is with_operator


def test_minimal_is_what_it_was() -> None:
    """A change of what is installed by default is seen in a review."""
    assert render("minimal") == manifests(GOLDEN.read_text()), "if this is intended: run `make generate`"


def test_nothing_that_needs_an_operator_is_there_by_default() -> None:
    kinds = sorted(manifest["kind"] for manifest in render("minimal"))

    assert kinds == ["ConfigMap", "Deployment", "Pod", "Service", "ServiceAccount"]


def test_an_older_kubernetes_is_refused() -> None:
    with pytest.raises(Refused, match=r"kubeVersion: >=1\.25\.0-0"):
        render("minimal", "--kube-version=1.24.0")


@pytest.mark.parametrize("name", EXAMPLES)
def test_objects_find_each_other(name: str) -> None:
    """Selectors match the pod's labels and not the test's; ports, claims, accounts and settings are there by name."""
    objects = render(name)
    template = only(objects, "Deployment")["spec"]["template"]
    labels, pod = template["metadata"]["labels"], template["spec"]
    test_labels = [manifest["metadata"]["labels"] for manifest in of_kind(objects, "Pod")]
    ports = {port["name"] for container in pod["containers"] for port in container.get("ports", [])}

    for selector in _selectors(objects):
        assert selector.items() <= labels.items()
        assert not any(selector.items() <= labels.items() for labels in test_labels)
    for policy in of_kind(objects, "NetworkPolicy"):
        selector = policy["spec"]["podSelector"]["matchLabels"]
        assert all(selector.items() <= template.items() for template in [labels, *test_labels])
    assert set(_ports_named(objects)) <= ports
    for one in pods(objects):
        assert set(_needed(one, "ServiceAccount")) <= _names(objects, "ServiceAccount") | {"default"}
        assert set(_needed(one, "PersistentVolumeClaim")) <= _names(objects, "PersistentVolumeClaim") | EXISTING
    assert set(_mounted(pod)) == {volume["name"] for volume in pod["volumes"]}


def _selectors(objects: list[Manifest]) -> list[dict[str, str]]:
    """Of whatever is about the pods that serve."""
    found = [manifest["spec"]["selector"] for manifest in of_kind(objects, "Service")]
    for kind in ("Deployment", "PodDisruptionBudget", "PodMonitor"):
        found += [manifest["spec"]["selector"]["matchLabels"] for manifest in of_kind(objects, kind)]
    for monitor in of_kind(objects, "ServiceMonitor"):
        selector = monitor["spec"]["selector"]["matchLabels"]
        assert selector.items() <= only(objects, "Service")["metadata"]["labels"].items()
    return found


def _ports_named(objects: list[Manifest]) -> list[str]:
    found = [port["targetPort"] for manifest in of_kind(objects, "Service") for port in manifest["spec"]["ports"]]
    found += [
        endpoint["port"]
        for monitor in of_kind(objects, "PodMonitor")
        for endpoint in monitor["spec"]["podMetricsEndpoints"]
    ]
    for monitor in of_kind(objects, "ServiceMonitor"):
        names = {port["name"] for port in only(objects, "Service")["spec"]["ports"]}
        assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} <= names
    for policy in of_kind(objects, "NetworkPolicy"):
        found += [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]]
    for deployment in of_kind(objects, "Deployment"):
        exporter = next(
            container
            for container in deployment["spec"]["template"]["spec"]["containers"]
            if container["name"] == "exporter"
        )
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            action = exporter[probe]
            found.append((action.get("httpGet") or action["tcpSocket"])["port"])
    return found


def _needed(pod: Manifest, kind: str) -> list[str]:
    if kind == "ServiceAccount":
        return [pod["serviceAccountName"]]
    return [
        volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"] if "persistentVolumeClaim" in volume
    ]


def _names(objects: list[Manifest], kind: str) -> set[str]:
    return {manifest["metadata"]["name"] for manifest in of_kind(objects, kind)}


def _mounted(pod: Manifest) -> list[str]:
    return [mount["name"] for container in pod["containers"] for mount in container.get("volumeMounts", [])]


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_object_says_whose_it_is(name: str) -> None:
    """Labels that everybody selects by, and a namespace; those are asked of the chart's objects, not of extra ones."""
    for manifest in render(name):
        if manifest["metadata"]["name"].endswith(("-extra", "-text")):
            continue
        labels = manifest["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "kafka-transaction-exporter"
        assert labels["app.kubernetes.io/instance"] == "watch"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert manifest["metadata"]["namespace"] in ("kafka", "monitoring")


def test_everything_s_values_arrive() -> None:
    """Each value that users of charts expect is where it belongs."""
    objects = render("everything")
    deployment = only(objects, "Deployment")
    template = deployment["spec"]["template"]
    pod = template["spec"]
    exporter, neighbour = pod["containers"]

    assert deployment["metadata"]["labels"]["team"] == "kafka"
    assert deployment["metadata"]["annotations"]["example.org/deployment"] == "yes"
    assert template["metadata"]["annotations"]["example.org/pod"] == "yes"
    assert pod["imagePullSecrets"] == [{"name": "mirror-login"}, {"name": "other-login"}]
    assert exporter["image"].startswith("mirror.example.org/kafka-transaction-exporter@sha256:")
    assert (exporter["env"][3:], neighbour["name"]) == ([{"name": "TZ", "value": "UTC"}], "neighbour")
    assert exporter["args"][-1] == "--log.level=debug"
    assert exporter["resources"] == {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}
    assert exporter["envFrom"] == [{"configMapRef": {"name": "proxy-settings"}}]
    assert {"name": "revoked", "mountPath": "/etc/revoked", "readOnly": True} in exporter["volumeMounts"]
    assert pod["initContainers"][0]["name"] == "waits"
    assert pod["topologySpreadConstraints"][0]["labelSelector"] == deployment["spec"]["selector"]
    for key in ("nodeSelector", "tolerations", "affinity", "priorityClassName", "runtimeClassName", "hostAliases"):
        assert pod[key], key
    names = {manifest["metadata"]["name"] for manifest in of_kind(objects, "ConfigMap")}
    assert {"watch-kafka-transaction-exporter-extra", "watch-text"} <= names
    assert only(objects, "PodDisruptionBudget")["spec"]["minAvailable"] == 1


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        *(("Deployment", "deployment"), ("Service", "service"), ("ServiceAccount", "account"), ("Pod", "test")),
        *(("ServiceMonitor", "monitor"), ("PrometheusRule", "rules"), ("GrafanaDashboard", "dashboard")),
    ],
)
def test_annotations_and_labels_are_on_their_object(kind: str, key: str) -> None:
    """Those of one object on it alone, those of all on all."""
    for manifest in render("everything"):
        metadata = manifest["metadata"]
        carries = metadata.get("annotations", {}).get(f"example.org/{key}") == "yes"
        is_dashboard = key == "dashboard" and metadata.get("labels", {}).get("grafana_dashboard") == "1"
        assert carries == (manifest["kind"] == kind or is_dashboard)
        if manifest["kind"] == kind:
            assert metadata["annotations"]["example.org/owner"] == "kafka-team"
            has_labels_of_its_own = key in ("deployment", "service", "account", "test")
            assert (metadata["labels"].get(f"example.org/{key}") == "yes") == has_labels_of_its_own


def test_the_service_is_as_the_values_have_it() -> None:
    spec = only(render("everything"), "Service")["spec"]

    assert (spec["type"], spec["ports"][0]["nodePort"]) == ("NodePort", 30814)
    assert (spec["ipFamilyPolicy"], spec["ipFamilies"]) == ("PreferDualStack", ["IPv4", "IPv6"])


def test_the_test_runs_on_request() -> None:
    """Never at an installation; its pod stays until the next one, so that its log can be read."""
    plain, full = only(render("minimal"), "Pod"), only(render("everything"), "Pod")

    hook = {"helm.sh/hook": "test", "helm.sh/hook-delete-policy": "before-hook-creation"}
    assert plain["metadata"]["annotations"] == hook
    assert plain["spec"]["restartPolicy"] == "Never"
    assert full["spec"]["containers"][0]["resources"] == {"limits": {"memory": "256Mi"}}
    assert "Pod" not in {manifest["kind"] for manifest in render("minimal", "--set=test.enabled=false")}


def test_a_volume_is_for_one_pod() -> None:
    """The old pod goes before the new one takes the volume, and the volume may outlive the release."""
    objects = render("persistence")

    assert only(objects, "Deployment")["spec"]["strategy"] == {"type": "Recreate"}
    claim = only(objects, "PersistentVolumeClaim")
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert claim["spec"]["storageClassName"] == "standard"
    with pytest.raises(Refused, match="persistence is for one pod"):
        render("persistence", "--set=replicaCount=2")


def test_two_releases_do_not_meet() -> None:
    """Two clusters in one namespace: no name is there twice, and no selector matches the other's pods."""
    east = render("multi-cluster")
    west = render("minimal", "--set=nameOverride=transactions-west,clusterLabel=west,podMonitor.enabled=true")

    assert not {(manifest["kind"], manifest["metadata"]["name"]) for manifest in east} & {
        (manifest["kind"], manifest["metadata"]["name"]) for manifest in west
    }
    pod = only(west, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert not any(selector.items() <= pod.items() for selector in _selectors(east))
    cluster = {"action": "replace", "targetLabel": "cluster", "replacement": "east"}
    assert only(east, "PodMonitor")["spec"]["podMetricsEndpoints"][0]["relabelings"] == [cluster]


WITHOUT_EFFECT: Final = {
    "kafka.bootstrapServer=a:9092": "bootstrapServer",
    "kafka.bootstrapServers=no-port": "bootstrapServers",
    "ingress.hosts={https://a.example.org}": "ingress.hosts",
    "kafka.tls.ca.secret=x": "secret",
    "kafka.strimzi.clusterCA=x": "clusterCA",
    "podSecurity.fsGroup=1": "podSecurity",
    "config.scan.intervall=1s": "intervall",
    "config.kafka.bootstrap=x": "bootstrap",
    "serviceMonitor.labels.release=x": "labels",
    "prometheusRule.disabled.KafkaTransactionHangs=true": "KafkaTransactionHangs",
    "prometheusRule.thresholds.inconclusive=1": "inconclusive",
    "prometheusRule.durations.KafkaTransactionHanging\\.warning.for=1m": "KafkaTransactionHanging.warning",
    "replicaCount=two": "replicaCount",
    "kafka.sasl.mechanism=SCRAM-SHA-1": "mechanism",
    "image.digest=latest": "digest",
    "probes.live.periodSeconds=1": "live",
    "config.verdicts.stuck_after=30": "stuck_after",
    "clusters.one.publish.listen_address=:1": "publish",
    "clusters.one.scan.receive_limit=1MB": "receive_limit",
    "clusters.a/b.scan.interval=1m": "a/b",
    "serviceMonitor.interval=soon": "interval",
    "serviceMonitor.spec.endpoints=x": "endpoints",
}
"""Value -> the name in Helm's message."""


@pytest.mark.parametrize("major", MAJORS)
def test_values_without_effect_are_refused(major: int) -> None:
    """A misspelt value would otherwise leave things as they were, without a word."""
    with pytest.raises(Refused) as refused:
        render("minimal", *(f"--set={value}" for value in WITHOUT_EFFECT), major=major)
    message = str(refused.value)
    assert "don't meet the specifications of the schema" in message
    missing = [value for value, name in WITHOUT_EFFECT.items() if not re.search(rf"\b{name}\b", message)]
    assert missing == []
    assert "less than or equal to 0" not in message, "a duration without a unit is not said to be too long"


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize("where", ["config", "clusters.orders"])
def test_a_password_does_not_get_into_a_config_map(where: str, major: int) -> None:
    for name in (setting.name for setting in SETTINGS if setting.is_secret):
        for key in (name, name.replace(".", "\\.")):
            with pytest.raises(Refused) as refused:
                render("fleet", f"--set={where}.{key}=planted", major=major)
            assert f"{where}: {name} would be in a ConfigMap" in str(refused.value)
            assert "planted" not in str(refused.value)
    place = "${file:/etc/login/password}"
    assert place in render_text("fleet", f"--set={where}.kafka.sasl.password={place}", major=major)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("minimal", "kafka.bootstrapServers=", "kafka.bootstrapServers is missing"),
        ("minimal", "kafka.bootstrapServers=https://a:1", 'kafka.bootstrapServers: "https://a:1" is not host:port'),
        ("minimal", "kafka.bootstrapServers={a:1,b:90920}", 'kafka.bootstrapServers: "b:90920" is not host:port'),
        *(
            (name, f"{value}//a:b@c", "has a user or a password in its address")
            for name, value in (
                ("minimal", "config.history\\.directory=s3:"),
                ("minimal", "config.baseline.file=s3:"),
                ("minimal", "config.publish.report=abfs:"),
                ("fleet", "clusters.orders.kafka.sasl.oauthbearer.token.endpoint.url=https:"),
            )
        ),
        ("fleet", "clusters.orders.kafka.bootstrap\\.servers=a", 'clusters.orders: "a" is not host:port'),
        ("minimal", "config.state.file=/x", "state.file is set by the chart, see persistence"),
        ("minimal", "config.publish\\.listen_address=:1", "publish.listen_address is set by the chart"),
        (
            "minimal",
            "config.kafka\\.bootstrap\\.servers=a:1",
            "kafka.bootstrap.servers is set twice, by config and by kafka",
        ),
        ("minimal", "existingConfig.configMap=x", "existingConfig replaces config and kafka"),
        ("fleet", "kafka.bootstrapServers=a:1", "kafka.bootstrapServers is of one cluster"),
        ("fleet", "clusters.more.scan.interval=1m", "clusters.more: kafka.bootstrap.servers is missing"),
        (
            "fleet",
            "clusters.orders.kafka\\.bootstrap\\.servers=b:1",
            "clusters.orders: kafka.bootstrap.servers is set twice",
        ),
        ("fleet", "clusterLabel=east", "clusterLabel is for one cluster"),
        ("fleet", "config.cluster.name=east", "cluster.name is for one cluster"),
        ("minimal", "listenHost=::", "listenHost"),
        ("minimal", "listenHost=[::]:9814", "listenHost"),
        ("oauthbearer", "kafka.sasl.oauthbearer.tokenEndpointUrl=login.example.org", "tokenEndpointUrl"),
        ("multi-cluster", "podMonitor.endpoint.relabelings[0].action=drop", "podMonitor.endpoint"),
        ("everything", "serviceMonitor.endpoint.metricRelabelings[0].action=drop", "serviceMonitor.endpoint"),
        ("existing-fleet", "existingConfig.secret=", "existingConfig.clustersKey needs"),
        ("existing-fleet", "clusters.one.kafka.bootstrap\\.servers=a:1", "existingConfig replaces clusters"),
        ("minimal", "config.scan.interval=15s,config.scan.deadline=20s", "config: scan.deadline must be shorter than"),
        ("minimal", "config.scan.deadline=30s", "config: scan.deadline must be shorter than scan.interval"),
        (
            "fleet",
            "clusters.orders.scan.interval=500ms,config.scan.deadline=0.5s",
            "clusters.orders: scan.deadline must be",
        ),
        ("existing-config", "existingConfig.configMap=x", "configMap and secret cannot both be set"),
        ("existing-config", "networkPolicy.brokerPorts=null", "networkPolicy.brokerPorts is missing"),
        ("existing-config", "serviceMonitor.enabled=true", "serviceMonitor needs service.enabled"),
        ("multi-cluster", "serviceMonitor.enabled=true,service.enabled=true", "cannot both be enabled"),
        ("strimzi", "kafka.tls.ca.existingSecret=x", "kafka.strimzi.clusterCa cannot be combined with kafka.tls.ca"),
        ("strimzi", "kafka.tls.client.existingSecret=x", "kafka.strimzi.user cannot be combined with kafka.tls.client"),
        ("strimzi-scram", "kafka.sasl.username=x", "scram-sha-512 cannot be combined with kafka.sasl"),
        ("tls-scram", "kafka.tls.truststore.existingSecret=x", "ca and truststore cannot both be set"),
        ("msk-iam", "kafka.sasl.existingSecret=x", "AWS_MSK_IAM takes no username and no Secret"),
        ("tls-scram", "kafka.sasl.username=x", "username and usernameKey cannot both be set"),
        ("tls-scram", "kafka.sasl.existingSecret=", "kafka.sasl.existingSecret is missing"),
        ("tls-scram", "kafka.sasl.mechanism=", "kafka.sasl.mechanism is missing"),
        ("oauthbearer", "kafka.sasl.oauthbearer.clientId=", "kafka.sasl.oauthbearer.clientId is missing"),
        ("minimal", "kafka.tls.verifyHostname=false", "has no effect without TLS"),
        ("everything", "alertmanagerConfig.receivers=null", "set both route and receivers"),
        ("minimal", "pipeline.enabled=true", "needs persistence"),
        ("minimal", "history.enabled=true", "history needs persistence"),
        ("spark", "config.history.directory=/x", "the chart sets history.directory"),
        ("spark", "config.baseline.file=/x", "the chart sets baseline.file"),
        ("spark", "persistence.accessModes={ReadWriteOncePod}", "pipeline needs a volume for more than one pod"),
        (
            "spark",
            "pipeline.sparkApplication.enabled=true",
            "pipeline.enabled and pipeline.sparkApplication.enabled cannot both be set",
        ),
        ("spark-operator", "persistence.accessModes={ReadWriteOnce}", "needs a volume for several nodes"),
        ("spark-operator", "pipeline.sparkApplication.serviceAccount=", "serviceAccount is missing"),
    ],
)
def test_what_cannot_work_is_refused(name: str, value: str, sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        render(name, f"--set={value}")
    assert sentence in str(refused.value)


def test_notes_say_what_is_next() -> None:
    """Three steps: may it read, the page, the scrape; and no warning where there is nothing to warn of."""
    text = notes("minimal")

    assert "helm test watch --namespace kafka --logs" in text
    assert "DESCRIBE on every topic" in text
    assert "port-forward --namespace kafka deploy/watch-kafka-transaction-exporter 9814:9814" in text
    assert "No alert is installed" in text
    assert "scrape port 9814 of the Service." in text
    assert "WARNING" not in text


def test_notes_name_no_service_that_is_not_there() -> None:
    """A ServiceMonitor would be refused, too."""
    text = notes("minimal", "--set=service.enabled=false")

    assert "Set podMonitor.enabled, or scrape port 9814 of the pod." in text
    assert "Service" not in text


@pytest.mark.parametrize(
    ("value", "warning"),
    [
        ("serviceMonitor.enabled=true", "serviceMonitor.additionalLabels is empty"),
        ("podMonitor.enabled=true", "podMonitor.additionalLabels is empty"),
        ("prometheusRule.enabled=true", "there are alerts and no monitor"),
        ("webConfig.existingSecret=x", "webConfig.existingSecret is set"),
        ("kafka.tls.enabled=true,kafka.tls.verifyHostname=false", "verifyHostname is off"),
    ],
)
def test_notes_warn(value: str, warning: str) -> None:
    assert warning in notes("minimal", f"--set={value}")


def test_a_probe_can_be_replaced_completed_and_left_out(tmp_path: Path) -> None:
    """Whole with a way of its own to ask, in part with headers, or not at all."""
    probes: dict[str, Any] = {
        "startup": None,
        "liveness": {"tcpSocket": {"port": "metrics"}},
        "readiness": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": "Basic eA=="}]}},
    }
    (container,) = only(render_values({"probes": probes}, tmp_path), "Deployment")["spec"]["template"]["spec"][
        "containers"
    ]

    assert "startupProbe" not in container
    assert "httpGet" not in container["livenessProbe"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/-/ready"
    assert container["readinessProbe"]["httpGet"]["httpHeaders"][0]["name"] == "Authorization"


def test_a_changed_setting_restarts_the_pod_only_if_it_should() -> None:
    """The checksum follows the settings, and is not there where the program is to read them again by itself."""

    def checksum(*more: str) -> str | None:
        template = only(render("minimal", *more), "Deployment")["spec"]["template"]
        found: str | None = template["metadata"]["annotations"].get("checksum/config")
        return found

    assert checksum() is not None
    assert checksum() != checksum("--set=config.scan.interval=20s,config.scan.deadline=10s")
    assert checksum() == checksum("--set=replicaCount=2")
    assert checksum("--set=restartOnConfigChange=false") is None
