"""A real API server takes every object of every example, in namespaces that enforce the Pod Security Standard `restricted`.

Releases come and go on it. No controller makes pods of a Deployment there: the tests make them of its template.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pytest

from hangbench.waiting import until
from helm.made import CHART
from tests.helm.chart import EXAMPLES, MAJORS, NAMESPACE, RELEASE, Refused, example, render, run_helm
from tests.helm.crds import all_crds
from tests.helm.kubernetes import Answer, ApiServer, namespace_of, running_api_server
from tests.helm.manifests import Manifest, of_kind, only
from tests.marks import starts
from tests.tools import ToolUnavailable, api_server

pytestmark = [pytest.mark.slow, pytest.mark.api_server]

NAMESPACES: Final = (NAMESPACE, "monitoring")
STANDARD: Final = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}
ADMINISTRATORS: Final[tuple[Manifest, ...]] = (
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "monitoring"}, "value": 1000},
    {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "runc"}, "handler": "runc"},
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": NAMESPACE}},
)
"""Objects that an example expects; the last of them would come from a controller."""
ASKING: Final = "authorization.k8s.io"
RIGHTS: Final = "rbac.authorization.k8s.io"
EVERYBODY_MAY: Final = {"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}
"""Kubernetes lets every account ask about itself."""


@pytest.fixture(scope="module")
@starts("programs")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """With the kinds of other operators, and what an administrator makes."""
    try:
        crds = all_crds()
        api_server()
    except ToolUnavailable as missing:
        pytest.skip(str(missing))
    with running_api_server(tmp_path_factory.mktemp("api-server")) as running:
        namespaces = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": STANDARD}}
            for name in NAMESPACES
        ]
        for made in (*crds, *namespaces, *ADMINISTRATORS):
            _is_taken(running.create(made))
        for crd in crds:
            running.wait_for_kind(crd)
        yield running


@pytest.fixture
def account(server: ApiServer) -> Iterator[Manifest]:
    """The service account of the minimal example: a pod is refused without it."""
    made = only(render("minimal"), "ServiceAccount")
    _is_taken(server.create(made))
    yield made
    server.delete(made)


def _is_taken(answer: Answer) -> None:
    assert (answer.status, answer.message, answer.warnings) == (201, "", ())


def _pod_of(owner: Manifest) -> Manifest:
    """Of a Deployment or CronJob, as the controllers would make it."""
    spec = owner["spec"]
    template = spec["jobTemplate"]["spec"]["template"] if owner["kind"] == "CronJob" else spec["template"]
    metadata = {**template["metadata"], "name": "of-template", "namespace": owner["metadata"]["namespace"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_server_takes_every_object_and_pod(server: ApiServer, name: str) -> None:
    """Strictly, without a warning: its objects, the pod of `helm test`, and a pod of each template."""
    objects = render(name)
    accounts = of_kind(objects, "ServiceAccount")
    others = [manifest for manifest in objects if manifest not in accounts]
    owners = [manifest for manifest in objects if manifest["kind"] in ("Deployment", "CronJob")]
    for account in accounts:
        _is_taken(server.create(account))
    try:
        for manifest in (*others, *map(_pod_of, owners)):
            _is_taken(server.create(manifest, is_rehearsal=True))
    finally:
        for account in accounts:
            server.delete(account)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("securityContext.allowPrivilegeEscalation=true", "allowPrivilegeEscalation != false"),
        ("securityContext.capabilities=null", "unrestricted capabilities"),
        ("securityContext.privileged=true,securityContext.allowPrivilegeEscalation=null", "privileged"),
        ("podSecurityContext.runAsNonRoot=false", "runAsNonRoot != true"),
        ("podSecurityContext.runAsUser=0", "runAsUser=0"),
        ("podSecurityContext.seccompProfile=null", "seccompProfile"),
        ("extraVolumes[0].name=host,extraVolumes[0].hostPath.path=/", "restricted volume types"),
    ],
)
def test_a_pod_that_may_more_is_refused(server: ApiServer, account: Manifest, value: str, reason: str) -> None:
    """Each of the values that keep the standard is needed: without one no pod starts, and the Deployment is warned of."""
    deployment = only(render("minimal", f"--set={value}"), "Deployment")

    refused = server.create(_pod_of(deployment), is_rehearsal=True)
    warned = server.create(deployment, is_rehearsal=True)

    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == account["metadata"]["name"]
    assert refused.status == 403
    assert 'violates PodSecurity "restricted:latest"' in refused.message
    assert reason in refused.message
    assert warned.status == 201
    assert "would violate PodSecurity" in warned.warnings[0]


@pytest.mark.parametrize(
    ("name", "kind", "place"),
    [
        ("minimal", "Deployment", ("template", "spec")),
        ("everything", "NetworkPolicy", ("podSelector",)),
        ("everything", "ServiceMonitor", ("endpoints", 0)),
        ("everything", "PrometheusRule", ("groups", 0, "rules", 0)),
        ("everything", "AlertmanagerConfig", ("route",)),
        ("everything", "GrafanaDashboard", ()),
        ("multi-cluster", "PodMonitor", ("podMetricsEndpoints", 0)),
        ("spark", "CronJob", ("jobTemplate", "spec", "template", "spec")),
        ("spark-operator", "ScheduledSparkApplication", ("template", "driver")),
    ],
)
def test_a_misspelt_field_is_refused(server: ApiServer, name: str, kind: str, place: tuple[str | int, ...]) -> None:
    """The kinds of operators as well: the tests above would see one."""
    misspelt = copy.deepcopy(of_kind(render(name), kind)[0])
    part: Any = misspelt["spec"]
    for step in place:
        part = part[step]
    part["intreval"] = "30s"

    refused = server.create(misspelt, is_rehearsal=True)

    assert refused.status in (400, 422)
    assert 'unknown field "spec.' in refused.message
    assert "intreval" in refused.message


class Release:
    """Helm's own commands, with what is the same in all of them. The release is gone with the block."""

    def __init__(self, server: ApiServer, major: int, home: Path) -> None:
        self._major = major
        self._home = home
        self._cluster = (f"--kubeconfig={server.kubeconfig}", f"--namespace={NAMESPACE}")

    def helm(self, *words: str) -> str:
        return run_helm(self._major, *words, *self._cluster, home=str(self._home))

    def have(self, command: str, name: str, *more: str) -> str:
        """`install` or `upgrade` to an example."""
        return self.helm(command, RELEASE, str(CHART), f"--values={example(name)}", *more)

    def __enter__(self) -> Release:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.helm("uninstall", RELEASE, "--ignore-not-found")


@pytest.mark.parametrize("major", MAJORS)
def test_a_release_comes_changes_goes_back_and_goes(server: ApiServer, major: int, tmp_path: Path) -> None:
    """Through every example: after each step just what it renders is there, after a rollback just what was there, and after
    the end nothing but the claim that was to be kept.
    """
    before = server.inventory()
    kept: set[tuple[str, str, str]] = set()
    with Release(server, major, tmp_path) as release:
        release.have("install", "minimal", "--dry-run=server")
        assert server.inventory() == before, "a rehearsal leaves something behind"

        release.have("install", "minimal")
        _is_just(server, "minimal", before)
        for name in EXAMPLES:
            release.have("upgrade", name, "--history-max=0")
            _is_just(server, name, before | kept)
            if name == "persistence":
                kept.add(("PersistentVolumeClaim", NAMESPACE, f"{RELEASE}-kafka-transaction-exporter"))
        release.helm("rollback", RELEASE, "1")
        _is_just(server, "minimal", before | kept)
        release.helm("uninstall", RELEASE)

    assert server.inventory() - before == kept
    for claim in of_kind(render("persistence"), "PersistentVolumeClaim"):
        assert server.delete(claim).status == 200
    assert server.inventory() == before


def _is_just(
    server: ApiServer, name: str, besides: frozenset[tuple[str, str, str]] | set[tuple[str, str, str]]
) -> None:
    """The example's objects are there as rendered, and no other is; Helm's own notes and addresses of Services aside."""
    wanted = [
        manifest for manifest in render(name) if "helm.sh/hook" not in manifest["metadata"].get("annotations", {})
    ]
    there = {key for key in server.inventory() - besides if key[0] not in ("Secret", "IPAddress")}

    assert (
        there
        == {(manifest["kind"], namespace_of(manifest), manifest["metadata"]["name"]) for manifest in wanted} - besides
    )
    for manifest in wanted:
        missing = list(_missing(manifest, server.get(manifest).body, manifest["kind"]))
        assert missing == []


def _missing(wanted: Any, kept: Any, place: str) -> Iterator[str]:
    """Where the server keeps something else than it was given; what it adds is its own business."""
    if isinstance(wanted, dict) and isinstance(kept, dict):
        for key, value in wanted.items():
            # an empty mapping or list is not kept
            if value not in ({}, [], None):
                yield from _missing(value, kept.get(key), f"{place}.{key}")
    elif isinstance(wanted, list) and isinstance(kept, list) and len(wanted) == len(kept):
        for number, (one, other) in enumerate(zip(wanted, kept, strict=True)):
            yield from _missing(one, other, f"{place}[{number}]")
    elif wanted != kept:
        yield f"{place}: {wanted!r}, kept {kept!r}"


def test_a_claim_never_becomes_smaller(server: ApiServer, tmp_path: Path) -> None:
    """Kubernetes forbids it: a history that is switched off would make each upgrade fail."""
    volume = "--set=persistence.enabled=true"
    (claim,) = of_kind(render("minimal", volume), "PersistentVolumeClaim")
    with Release(server, 4, tmp_path) as release:
        release.have("install", "minimal", volume, "--set=history.enabled=true")
        release.have("upgrade", "minimal", volume)
        kept = server.get(claim).body["spec"]["resources"]["requests"]["storage"]

    assert (claim["spec"]["resources"]["requests"]["storage"], kept) == ("64Mi", "4Gi")


def test_a_release_whose_kinds_are_missing_says_so_and_leaves_nothing(server: ApiServer, tmp_path: Path) -> None:
    """Which is why nothing of another operator is on by default."""
    before = server.inventory()
    stranger = 'extraManifests=[{"apiVersion":"operators.example/v1","kind":"Stranger","metadata":{"name":"x"}}]'

    with (
        Release(server, 4, tmp_path) as release,
        pytest.raises(Refused, match='no matches for kind "Stranger"'),
    ):
        release.have("install", "minimal", f"--set-json={stranger}")
    assert server.inventory() == before


def test_the_service_account_has_no_rights(server: ApiServer, tmp_path: Path) -> None:
    """In no example: it may ask what it may do, as every account may, and cannot even read its own settings."""
    with Release(server, 4, tmp_path) as release:
        release.have("install", "minimal")
        for name in EXAMPLES:
            release.have("upgrade", name)
            account = only(render(name), "Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
            with _somebody_with_a_right(server):
                assert _may(server, account) == EVERYBODY_MAY
            for kind in ("secrets", "configmaps", "pods"):
                path = f"/api/v1/namespaces/{NAMESPACE}/{kind}"
                refused = server.call("GET", path, as_account=f"{NAMESPACE}:{account}")
                assert refused.status == 403
                assert f'{account}" cannot list resource "{kind}"' in refused.message


def _may(server: ApiServer, name: str) -> set[str]:
    """The resources with which an account may do anything in the namespace, by its own question."""
    question = {"apiVersion": f"{ASKING}/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": NAMESPACE}}
    path = f"/apis/{ASKING}/v1/selfsubjectrulesreviews"
    answer = server.call("POST", path, question, as_account=f"{NAMESPACE}:{name}")
    assert answer.status == 201, answer.message
    assert not answer.body["status"]["incomplete"]
    return {resource for rule in answer.body["status"]["resourceRules"] for resource in rule["resources"]}


@contextmanager
def _somebody_with_a_right(server: ApiServer) -> Iterator[None]:
    """Another account that gets one, until the server goes by it: what was bound before shows by then."""
    metadata = {"name": "somebody", "namespace": NAMESPACE}
    made: list[Manifest] = [
        {
            "apiVersion": f"{RIGHTS}/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
        },
        {
            "apiVersion": f"{RIGHTS}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": RIGHTS, "kind": "Role", "name": "somebody"},
            "subjects": [{"kind": "ServiceAccount", "name": "somebody", "namespace": NAMESPACE}],
        },
    ]
    try:
        for manifest in made:
            _is_taken(server.create(manifest))
        until(lambda: _may(server, "somebody"), lambda rights: "secrets" in rights)
        yield
    finally:
        for manifest in made:
            server.delete(manifest)
