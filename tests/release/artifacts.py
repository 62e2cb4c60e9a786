"""Makes the files of a release from an exported tree: the same bytes from the same commit."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path
from typing import Final

from packaging.markers import Marker

from tests.release.licences import add_licences
from tests.release.source import CHART, ReleaseError, entries_of
from tests.tools import ToolUnavailable, helm

SBOMS: Final = {"exporter": ("runtime",), "pipeline": ("runtime", "spark")}
"""The list of packages of each image -> the files of constraints that the Dockerfile installs."""
OF_IMAGES: Final = {
    "python_version": "3.13",
    "python_full_version": "3.13.0",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
    "platform_machine": "x86_64",
    "os_name": "posix",
    "platform_system": "Linux",
    "sys_platform": "linux",
}
"""Markers of requirements ask for these values; they are those of the images."""


def make_packages(source: Path, folder: Path, *, time_s: int) -> Path:
    """The sdist, and the wheel that is built from it; returns the wheel. Both pass `twine check --strict`."""
    environment = {"SOURCE_DATE_EPOCH": str(time_s)}
    build = [sys.executable, "-m", "build", "--no-isolation", f"--outdir={folder}", str(source)]
    _run(build, source, environment)
    (sdist,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    pack_again(sdist, time_s=time_s)
    _run([sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel)], folder)
    return wheel


def install(wheel: Path, source: Path, folder: Path) -> Path:
    """Installs the wheel with its pinned packages into a new environment, and returns its program."""
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "--require-hashes", f"--requirement={source / 'constraints' / 'runtime.txt'}"], folder)
    _run([*pip, "--no-deps", "--no-index", str(wheel)], folder)
    return folder / "bin" / "kafka-transaction-exporter"


def require_runs(wheel: Path, source: Path, folder: Path, version: str) -> None:
    """The installed program names its version."""
    printed = _run([str(install(wheel, source, folder)), "--version"], folder).strip()
    if printed != f"kafka-transaction-exporter {version}":
        raise ReleaseError(f"the installed program prints {printed!r}, not {version}")


def make_chart(source: Path, folder: Path, *, time_s: int) -> Path:
    """The chart, as `helm package` makes it."""
    try:
        program = helm(4)
    except ToolUnavailable as missing:
        raise ReleaseError(str(missing)) from missing
    _run([str(program), "package", str(source / CHART), f"--destination={folder}"], folder)
    (chart,) = folder.glob("*.tgz")
    pack_again(chart, time_s=time_s)
    return chart


def requirements_of(image: str, source: Path) -> dict[str, str]:
    """Returns the packages of an image, as `name==version`, with their lines in the constraints."""
    found = {}
    for constraints in SBOMS[image]:
        for entry in entries_of(source / "constraints" / f"{constraints}.txt"):
            package, _, marker = entry.partition("\\\n")[0].partition(";")
            if not marker or Marker(marker).evaluate(OF_IMAGES):
                found[package.strip()] = entry
    return dict(sorted(found.items()))


def make_sboms(source: Path, folder: Path) -> None:
    """A list of packages with their licences for each image, as CycloneDX."""
    program = Path(sys.executable).with_name("cyclonedx-py")
    for image in SBOMS:
        path = folder / f"{image}.cdx.json"
        with tempfile.TemporaryDirectory(prefix="requirements-") as temporary:
            requirements = Path(temporary, "requirements.txt")
            requirements.write_text("".join(requirements_of(image, source).values()), encoding="utf-8")
            _run(
                [
                    *(str(program), "requirements", f"--pyproject={source / 'pyproject.toml'}"),
                    *("--output-reproducible", "--sv=1.6", f"--output-file={path}", str(requirements)),
                ],
                source,
            )
        sbom = json.loads(path.read_text(encoding="utf-8"))
        add_licences(sbom, source)
        path.write_text(json.dumps(sbom, indent=2) + "\n", encoding="utf-8")


def write_sums(folder: Path) -> None:
    """SHA256SUMS, as `sha256sum --check` reads it."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def pack_again(path: Path, *, time_s: int) -> None:
    """Writes a compressed tar once more: its files by name, all with one time and one owner.

    setuptools and Helm write the time of the build into it.
    """
    packed = io.BytesIO()
    with (
        tarfile.open(path) as old,
        gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=time_s) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            content = old.extractfile(member)
            member.mtime, member.uid, member.gid, member.uname, member.gname = time_s, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, content)
    path.write_bytes(packed.getvalue())


def _run(words: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    run = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        umask=0o022,  # a wheel has the modes of its files
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode != 0:
        raise ReleaseError(f"{' '.join(words[:4])} ...: {(run.stdout + run.stderr).strip()[-2000:]}")
    return run.stdout
