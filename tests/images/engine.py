"""Podman for the tests: base images that are made here, builds, containers and pods that end with their test.

`python -m tests.images.engine` makes the base images. Nothing is pulled: Debian's base is made by debootstrap.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tests.helm.manifests import Manifest
from tests.release.images import IMAGES, build, version
from tests.tools import ToolUnavailable

PROGRAMS: Final = {"podman": "podman", "runc": "runc", "debootstrap": "debootstrap", "catatonit": "catatonit"}
"""Program -> its Debian package; the Makefile's target `engine` installs these and netavark."""
SUITE: Final = "trixie"
BASE: Final = f"localhost/debian:{SUITE}-slim"
PATIENCE_S: Final = 120
HARDENED: Final = ("--read-only", "--cap-drop=all", "--security-opt=no-new-privileges", "--tmpfs=/tmp")
"""The options for Kubernetes' Pod Security Standard `restricted` and a root that cannot be written."""

_CUT: Final = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/info",
    "usr/share/locale",
    "var/lib/apt/lists",
    "var/cache/apt",
)
_DOCKER_CLEAN: Final = """\
DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin || true"; };
Dir::Cache::pkgcache ""; Dir::Cache::srcpkgcache "";
Acquire::Languages "none";
"""


class ImageFailed(AssertionError):
    """The engine refused; the message is its own."""


@functools.cache
def configuration() -> str:
    """A containers.conf for machines whose limits and cgroups are not podman's defaults."""
    text = (
        '[containers]\ndefault_ulimits = ["nofile=16384:16384", "nproc=4096:4096"]\n'
        '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\n[network]\nnetwork_backend = "netavark"\n'
    )
    path = Path(tempfile.mkdtemp(prefix="containers-"), "containers.conf")
    path.write_text(text, encoding="utf-8")
    return str(path)


def podman(*words: str, check: bool = True, timeout_s: int = 1800) -> subprocess.CompletedProcess[str]:
    """Raises ImageFailed with what podman says, and ToolUnavailable where it is missing."""
    if shutil.which("podman") is None:
        raise ToolUnavailable("podman is missing: `make engine` installs it as root on Debian")
    run = subprocess.run(
        ["podman", *words],
        env={**os.environ, "CONTAINERS_CONF": configuration()},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if check and run.returncode != 0:
        raise ImageFailed(f"podman {' '.join(words[:4])} ...: {(run.stdout + run.stderr).strip()[-3000:]}")
    return run


def base_image() -> str:
    """BASE: Debian as its published slim image has it, without documents, manuals and translations."""
    if podman("image", "exists", BASE, check=False).returncode == 0:
        return BASE
    for program, package in PROGRAMS.items():
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is None:
            raise ToolUnavailable(f"{program} is missing (on Debian: {package}): `make engine` installs it as root")
    if os.geteuid() != 0:
        raise ToolUnavailable(f"{BASE} is missing: `make engine` makes it as root, or tag an image of yours so")
    with tempfile.TemporaryDirectory(prefix="debian-") as folder:
        root = Path(folder, "root")
        words = ["debootstrap", "--variant=minbase", SUITE, str(root)]
        run = subprocess.run(words, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise ToolUnavailable(f"debootstrap {SUITE}: {(run.stdout + run.stderr).strip()[-1000:]}")
        for name in _CUT:
            shutil.rmtree(root / name)
            (root / name).mkdir()
        (root / "etc/apt/apt.conf.d/docker-clean").write_text(_DOCKER_CLEAN)
        packed = Path(folder, "root.tar")
        subprocess.run(["tar", "--directory", str(root), "--create", f"--file={packed}", "."], check=True)
        podman("import", str(packed), BASE)
    return BASE


@functools.cache
def image(target: str) -> str:
    """The project's image, built by the Dockerfile; layers of earlier builds are used again."""
    tag = f"localhost/{IMAGES[target]}:{version()}"
    with alone(), certificates() as mounts, podman_environment():
        base = base_image()
        options = ("--isolation=chroot", "--network=host", "--layers", "--quiet", *mounts)
        try:
            build("podman", target, tag, base=base, options=options)
        except subprocess.CalledProcessError as error:
            raise ImageFailed(f"the target {target} cannot be built: {error}") from error
    return tag


@contextmanager
def alone() -> Iterator[None]:
    """One build at a time on this machine: the next worker finds its layers made."""
    with Path(tempfile.gettempdir(), "kafka-transaction-exporter-images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def podman_environment() -> Iterator[None]:
    """CONTAINERS_CONF for the program of `make images`."""
    before = os.environ.get("CONTAINERS_CONF")
    os.environ["CONTAINERS_CONF"] = configuration()
    try:
        yield
    finally:
        if before is None:
            del os.environ["CONTAINERS_CONF"]
        else:
            os.environ["CONTAINERS_CONF"] = before


@contextmanager
def certificates() -> Iterator[list[str]]:
    """Mounts for builds where pip and Maven need an authority of this machine's own: pip's PIP_CERT says so."""
    bundle, java = os.environ.get("PIP_CERT"), Path("/etc/ssl/certs/java/cacerts")
    if bundle is None:
        yield []
        return
    with tempfile.TemporaryDirectory(prefix="certificates-") as folder:
        pip, maven = Path(folder, "pip.conf"), Path(folder, "mavenrc")
        pip.write_text("[global]\ncert = /run/certificates.crt\n")
        trusted = "-Djavax.net.ssl.trustStore=/run/cacerts -Djavax.net.ssl.trustStorePassword=changeit"
        maven.write_text(f'MAVEN_OPTS="{trusted}"\n' if java.exists() else "")
        files = {bundle: "/run/certificates.crt", str(pip): "/etc/pip.conf", str(maven): "/etc/mavenrc"}
        if java.exists():
            files[str(java.resolve())] = "/run/cacerts"
        yield [f"--volume={source}:{target}:ro" for source, target in files.items()]


@dataclass(frozen=True, slots=True)
class Container:
    """One that runs."""

    name: str

    def logs(self) -> str:
        run = podman("logs", self.name, check=False)
        return run.stdout + run.stderr

    def execute(self, *words: str) -> str:
        return podman("exec", self.name, *words).stdout

    def inspect(self) -> dict[str, Any]:
        (found,) = json.loads(podman("inspect", "--type=container", self.name).stdout)
        return dict(found)


def run_once(tag: str, *words: str, options: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """A container that ends by itself, on the host's network."""
    return podman("run", "--rm", "--network=host", *HARDENED, *options, tag, *words, check=False)


@contextmanager
def running(
    tag: str, *words: str, name: str, options: Sequence[str] = (), hardened: Sequence[str] = HARDENED
) -> Iterator[Container]:
    """A container on the host's network, removed at the end."""
    podman("run", "--detach", f"--name={name}", "--network=host", *hardened, *options, tag, *words)
    try:
        yield Container(name)
    finally:
        podman("rm", "--force", "--time=10", name, check=False)


def fill(volume: str, files: Mapping[str, bytes]) -> None:
    """Writes files into a named volume, for everybody to read."""
    place = Path(podman("volume", "inspect", "--format={{.Mountpoint}}", volume).stdout.strip())
    for name, content in files.items():
        (place / name).write_bytes(content)
        (place / name).chmod(0o444)


@contextmanager
def played(path: Path, pod: str, volumes: Mapping[str, Mapping[str, bytes]] = MappingProxyType({})) -> Iterator[None]:
    """The pod of a Kubernetes file, by `podman kube play`; before it starts, `volumes` are filled."""
    try:
        podman("kube", "play", "--start=false", str(path))
        for name, files in volumes.items():
            fill(name, files)
        podman("pod", "start", pod)
        yield
    finally:
        podman("kube", "down", str(path), check=False)


def fetched(url: str, *, shows: str = "", timeout_s: float = PATIENCE_S) -> str:
    """The page as soon as it has status 200 and a match of the pattern `shows`."""
    deadline = time.monotonic() + timeout_s
    page = "no response"
    while True:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=10) as response:
            page = str(response.read().decode())
            if response.status == HTTPStatus.OK and re.search(shows, page):
                return page
        if time.monotonic() > deadline:
            raise AssertionError(f"{url} has not shown {shows!r} with status 200 within {timeout_s} s: {page[-2000:]}")
        time.sleep(0.1)


def wait_until_read(port: int) -> None:
    """Until the exporter on this port has read the whole cluster."""
    fetched(f"http://127.0.0.1:{port}/metrics", shows="kafka_transaction_exporter_coverage_complete 1")


def for_podman(pod: Manifest, image: str) -> Manifest:
    """The pod's spec, changed for podman 4.3: without probes, which it would run by a `curl` in the container.

    The pod has the host's network, where the broker is, so no ports of its own.
    """
    pod["hostNetwork"] = True
    for container in pod["containers"]:
        for field in ("startupProbe", "livenessProbe", "readinessProbe", "ports"):
            container.pop(field, None)
        if container["name"] == "exporter":
            container["image"] = image
    for volume in pod["volumes"]:
        if "secret" in volume:
            volume["secret"]["optional"] = False  # podman 4.3 ends with a nil pointer without it
    return pod


def main() -> int:
    try:
        print(base_image())
    except ToolUnavailable as missing:
        sys.stderr.write(f"{missing}\nThe tests of the images are skipped.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
