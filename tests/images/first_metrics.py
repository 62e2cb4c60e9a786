"""Measures each way of installation from nothing to /metrics of a real broker, and writes the table of docs/install.md.

`python -m tests.images.first_metrics`: three runs of each way, in new environments without caches. What a registry would
send is there as a file: the image's archive, and for pip the index that this machine uses.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import yaml

from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.ports import free_ports
from helm.made import CHART
from tests.helm.manifests import manifests, of_kind, only
from tests.images.engine import HARDENED, for_podman, image, podman, wait_until_read
from tests.release.artifacts import make_packages
from tests.release.images import ROOT, version
from tests.release.source import committed_at, export
from tests.tools import helm

RUNS: Final = 3
DOCUMENT: Final = ROOT / "docs" / "install.md"
START, END = "<!-- times: made by `python -m tests.images.first_metrics` -->\n", "<!-- end of times -->"
Way = Callable[[Path, str, int], AbstractContextManager[None]]


def settings(bootstrap: str, port: int) -> list[str]:
    return [f"--kafka.bootstrap.servers={bootstrap}", f"--publish.listen-address=127.0.0.1:{port}"]


@contextmanager
def by_pip(folder: Path, bootstrap: str, port: int, *, packages: list[list[str]]) -> Iterator[None]:
    """Into a new virtual environment, nothing from a cache."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    for words in packages:
        pip = [str(folder / "venv/bin/pip"), "install", "--quiet", "--no-cache-dir", *words]
        subprocess.run(pip, check=True, cwd=folder, capture_output=True)
    program = str(folder / "venv/bin/kafka-transaction-exporter")
    with subprocess.Popen([program, "serve", *settings(bootstrap, port)], stderr=subprocess.DEVNULL) as process:
        try:
            wait_until_read(port)
            yield
        finally:
            process.terminate()


@contextmanager
def storage(folder: Path, archive: Path) -> Iterator[list[str]]:
    """Podman's options for an empty store into which the image's archive was loaded."""
    options = [f"--root={folder / 'store'}", f"--runroot={folder / 'run'}"]
    podman(*options, "load", "--quiet", f"--input={archive}")
    try:
        yield options
    finally:
        podman(*options, "system", "reset", "--force", check=False)


@contextmanager
def by_image(folder: Path, bootstrap: str, port: int, *, archive: Path, tag: str) -> Iterator[None]:
    with storage(folder, archive) as options:
        words = ["run", "--detach", "--name=first", "--network=host", *HARDENED, tag, "serve"]
        podman(*options, *words, *settings(bootstrap, port))
        wait_until_read(port)
        yield
        podman(*options, "rm", "--force", "--time=5", "first")


@contextmanager
def by_chart(folder: Path, bootstrap: str, port: int, *, archive: Path, tag: str) -> Iterator[None]:
    """Rendered by Helm, run by podman."""
    with storage(folder, archive) as options:
        chosen = f"--set=kafka.bootstrapServers[0]={bootstrap},containerPort={port}"
        words = [str(helm(4)), "template", "first", str(CHART), chosen]
        objects = manifests(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
        deployment = only(objects, "Deployment")
        for_podman(deployment["spec"]["template"]["spec"], tag)
        file = folder / "pod.yaml"
        file.write_text(yaml.safe_dump_all([*of_kind(objects, "ConfigMap"), deployment]))
        podman(*options, "kube", "play", str(file))
        wait_until_read(port)
        yield
        podman(*options, "kube", "down", str(file))


def measured(way: Way, bootstrap: str) -> list[float]:
    """Seconds of each run."""
    seconds = []
    for _ in range(RUNS):
        (port,) = free_ports(1)
        with tempfile.TemporaryDirectory(prefix="first-metrics-", ignore_cleanup_errors=True) as folder:
            began = time.monotonic()
            with way(Path(folder), bootstrap, port):
                seconds.append(time.monotonic() - began)
        print(f"{seconds[-1]:.1f} s", flush=True)
    return seconds


def table(rows: dict[str, list[float]]) -> str:
    head = f"{START}| way | seconds, of {RUNS} runs |\n|---|---|\n"
    return head + "".join(f"| {what} | {min(times):.0f} to {max(times):.0f} |\n" for what, times in rows.items()) + END


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="install-") as temporary, KafkaCluster("4.3.1") as cluster:
        folder = Path(temporary)
        cluster.topics.create("orders", partitions=3)
        export(ROOT, folder / "tree")
        (folder / "made").mkdir()
        wheel = make_packages(folder / "tree", folder / "made", time_s=committed_at(ROOT))
        tag = image("exporter")
        archive = folder / "image.tar"
        podman("save", "--quiet", f"--output={archive}", tag)
        pinned = ["--require-hashes", f"--requirement={ROOT / 'constraints' / 'runtime.txt'}"]
        source = [[str(folder / "tree")]]
        released = [pinned, ["--no-deps", "--no-index", str(wheel)]]
        ways: dict[str, Way] = {
            "`pip install .` in a clone": partial(by_pip, packages=source),
            f"the wheel of {version()} with its pinned packages": partial(by_pip, packages=released),
            "the image, from an archive": partial(by_image, archive=archive, tag=tag),
            "the chart, with that archive": partial(by_chart, archive=archive, tag=tag),
        }
        rows = {what: measured(way, cluster.bootstrap) for what, way in ways.items()}
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(re.sub(f"{re.escape(START)}.*{re.escape(END)}", lambda _: table(rows), text, flags=re.DOTALL))


if __name__ == "__main__":
    main()
