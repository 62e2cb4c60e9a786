"""A real API server of Kubernetes on the loopback, on etcd.

There are no controllers and no nodes: it validates and stores objects, and derives none from others.
"""

from __future__ import annotations

import functools
import json
import secrets
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from hangbench.kafka.ports import free_ports
from hangbench.kafka.process import JavaProcess
from hangbench.waiting import until
from tests.certificates import Authority
from tests.helm.chart import NAMESPACE
from tests.helm.manifests import Manifest
from tests.tools import api_server

START_TIMEOUT_S: Final = 240
"""Seven seconds on a machine that has nothing else to do."""
ITS_OWN: Final = frozenset({"kube-system"})
"""Where the server writes things of its own, whenever it likes."""
WITHOUT_CONTROLLER: Final = "StorageObjectInUseProtection"
"""Has a controller say when a claim may go; there is none here, so claims would stay for ever."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Of the server: status, body, and what it warns of."""

    status: int
    body: Any
    warnings: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """Why it refuses; empty where it does not."""
        return "" if self.status < 400 else str(self.body.get("message", self.body))


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object, as discovery has it."""

    root: str
    plural: str
    kind: str
    is_namespaced: bool
    verbs: frozenset[str]


def namespace_of(manifest: Manifest) -> str:
    """The release's where it says none, as Helm has it."""
    return str(manifest["metadata"].get("namespace", NAMESPACE))


class ApiServer:
    """One that runs. `kubeconfig` and `token_file` are its administrator's."""

    def __init__(self, url: str, authority: Path, token: str, folder: Path) -> None:
        self.url = url
        self.authority = authority
        self.token_file = folder / "token"
        self.token_file.write_text(token)
        self._token = token
        self._tls = ssl.create_default_context(cafile=str(authority))
        self.kubeconfig = folder / "kubeconfig"
        cluster = {"server": url, "certificate-authority": str(authority)}
        self.kubeconfig.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "tests", "cluster": cluster}],
                    "users": [{"name": "admin", "user": {"token": token}}],
                    "contexts": [{"name": "admin", "context": {"cluster": "tests", "user": "admin"}}],
                    "current-context": "admin",
                }
            )
        )

    def call(self, method: str, path: str, body: Manifest | None = None, *, as_account: str = "") -> Answer:
        """One request. `as_account` is `namespace:name` of a service account that is spoken for."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(
            self.url + path, data=None if body is None else json.dumps(body).encode(), headers=headers, method=method
        )
        if as_account:
            request.add_header("Impersonate-User", f"system:serviceaccount:{as_account}")
        try:
            with urllib.request.urlopen(request, timeout=60, context=self._tls) as answer:
                return Answer(answer.status, _body(answer), tuple(answer.headers.get_all("Warning", ())))
        except urllib.error.HTTPError as refused:
            return Answer(refused.code, _body(refused))

    def create(self, manifest: Manifest, *, is_rehearsal: bool = False) -> Answer:
        """By the strictest reading: a field that is unknown or there twice is refused. A rehearsal keeps nothing."""
        query = "?fieldValidation=Strict" + ("&dryRun=All" if is_rehearsal else "")
        return self.call("POST", self._collection(manifest) + query, manifest)

    def get(self, manifest: Manifest) -> Answer:
        """The server's object of this name."""
        return self.call("GET", f"{self._collection(manifest)}/{manifest['metadata']['name']}")

    def delete(self, manifest: Manifest) -> Answer:
        return self.call("DELETE", f"{self._collection(manifest)}/{manifest['metadata']['name']}")

    def inventory(self) -> frozenset[tuple[str, str, str]]:
        """(kind, namespace, name) of every object of every kind, but those of the server itself."""
        found: set[tuple[str, str, str]] = set()
        for root in self._roots():
            for resource in self._resources(root):
                if "list" not in resource.verbs:
                    continue
                answer = self.call("GET", f"{root}/{resource.plural}")
                assert answer.status == 200, answer.message
                for item in answer.body["items"]:
                    metadata = item["metadata"]
                    found.add((resource.kind, metadata.get("namespace", ""), metadata["name"]))
        return frozenset(key for key in found if key[1] not in ITS_OWN)

    def wait_for_kind(self, crd: Manifest) -> None:
        """Until objects of it are taken."""
        spec = crd["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        until(lambda: self.call("GET", path).status, (200).__eq__, patience_s=START_TIMEOUT_S)
        self._resources.cache_clear()

    def wait_until_ready(self, process: JavaProcess, log: Path) -> None:
        """Raises AssertionError where it ends or takes too long."""

        def is_ready() -> bool:
            assert process.exit_code is None, log.read_text()[-2000:]
            try:
                return self.call("GET", "/readyz").status == 200
            except OSError:
                return False

        until(is_ready, patience_s=START_TIMEOUT_S, pause_s=0.2)

    def _collection(self, manifest: Manifest) -> str:
        version = manifest["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        (resource,) = (one for one in self._resources(root) if one.kind == manifest["kind"])
        if resource.is_namespaced:
            return f"{root}/namespaces/{namespace_of(manifest)}/{resource.plural}"
        return f"{root}/{resource.plural}"

    def _roots(self) -> Iterator[str]:
        yield "/api/v1"
        for group in self.call("GET", "/apis").body["groups"]:
            yield from (f"/apis/{version['groupVersion']}" for version in group["versions"])

    @functools.cache  # noqa: B019  # of one server, for as long as the tests run
    def _resources(self, root: str) -> tuple[Resource, ...]:
        listed = self.call("GET", root).body["resources"]
        return tuple(
            Resource(root, entry["name"], entry["kind"], entry["namespaced"], frozenset(entry["verbs"]))
            for entry in listed
            if "/" not in entry["name"]
        )


@contextmanager
def running_api_server(folder: Path) -> Iterator[ApiServer]:
    """Both processes, ended with the block. Logs and data are in the folder. Raises ToolUnavailable."""
    programs = api_server()
    client, peer, secure = free_ports(3)
    authority = Authority(folder, "kubernetes")
    issued = authority.issue("api-server")
    token = secrets.token_hex()
    (folder / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
    etcd = [
        *(str(programs / "etcd"), f"--data-dir={folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=warn"),
        *(f"--listen-client-urls=http://127.0.0.1:{client}", f"--advertise-client-urls=http://127.0.0.1:{client}"),
        *(f"--listen-peer-urls=http://127.0.0.1:{peer}", f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
        f"--initial-cluster=default=http://127.0.0.1:{peer}",
    ]
    server = [
        *(str(programs / "kube-apiserver"), f"--etcd-servers=http://127.0.0.1:{client}"),
        *("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={secure}"),
        *(f"--tls-cert-file={issued.certificate}", f"--tls-private-key-file={issued.key}", f"--cert-dir={folder}"),
        *(
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={issued.certificate}",
        ),
        *(f"--service-account-signing-key-file={issued.key}", "--service-cluster-ip-range=10.0.0.0/24,fd00::/108"),
        *("--authorization-mode=RBAC", f"--token-auth-file={folder / 'tokens.csv'}", "--endpoint-reconciler-type=none"),
        f"--disable-admission-plugins={WITHOUT_CONTROLLER}",
        # so that it is Pod Security which refuses what is privileged
        "--allow-privileged=true",
    ]
    with ExitStack() as stack:
        store = JavaProcess(etcd, folder, folder / "etcd.log")
        stack.callback(store.end)
        log = folder / "kube-apiserver.log"
        process = JavaProcess(server, folder, log)
        stack.callback(process.end)
        running = ApiServer(f"https://127.0.0.1:{secure}", authority.path, token, folder)
        running.wait_until_ready(process, log)
        yield running


def _body(answer: Any) -> Any:
    """The text itself where it is not JSON."""
    text = answer.read().decode()
    return json.loads(text) if "json" in answer.headers.get("Content-Type", "") else {"message": text}
