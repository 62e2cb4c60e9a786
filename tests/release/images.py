"""`make images`: builds both images with the engine that is there.

DEBIAN_IMAGE is the base (by its digest for a release), IMAGE_PREFIX begins the names, ENGINE chooses the engine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
IMAGES: Final = {"exporter": "kafka-transaction-exporter", "pipeline": "kafka-transaction-exporter-pipeline"}
"""The Dockerfile's target -> the image's name."""
ENGINES: Final = {"docker": ("docker", "build"), "podman": ("podman", "build"), "buildah": ("buildah", "build")}
_READY: Final = {"docker": ("docker", "info"), "podman": ("podman", "info"), "buildah": ("buildah", "version")}


WHOLE: Final = ("--no-cache",)
"""Otherwise layers of an earlier build are used again: with the packages of its day, and in podman also with its labels."""


class NoEngine(Exception):
    """No image can be built here; the message says what is missing."""


def find_engine(wanted: str = "") -> str:
    """The first of ENGINES that works: Docker's client alone, without its daemon, does not."""
    for engine in [wanted] if wanted else ENGINES:
        if engine not in ENGINES:
            raise NoEngine(f"ENGINE={engine}: use one of {', '.join(ENGINES)}")
        if shutil.which(engine) and subprocess.run(_READY[engine], capture_output=True, check=False).returncode == 0:
            return engine
    raise NoEngine(f"no container engine works here: start or install {wanted or ', '.join(ENGINES)}")


def version(root: Path = ROOT) -> str:
    """The version in pyproject.toml, or "missing"."""
    found = re.search(r'(?m)^version = "(.+)"$', (root / "pyproject.toml").read_text(encoding="utf-8"))
    return found[1] if found else "missing"


def revision(root: Path = ROOT) -> str:
    """The commit, with "-dirty" where files differ from it; "" outside of a clone."""
    commit, changed = (
        subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False).stdout.strip()
        for words in (["rev-parse", "HEAD"], ["status", "--porcelain"])
    )
    return f"{commit}-dirty" if changed else commit


def build(engine: str, target: str, tag: str, *, base: str = "", options: Sequence[str] = ()) -> None:
    """One image. Raises CalledProcessError."""
    labels = {"version": version(), "revision": revision()}
    words = [
        *(*ENGINES[engine], *options, "--target", target, "--tag", tag),
        *(word for name, value in labels.items() for word in ("--label", f"org.opencontainers.image.{name}={value}")),
        *(("--build-arg", f"DEBIAN_IMAGE={base}") if base else ()),
        str(ROOT),
    ]
    subprocess.run(words, check=True)


def main() -> int:
    given = os.environ
    try:
        engine = find_engine(given.get("ENGINE", ""))
        for target, name in IMAGES.items():
            tag = f"{given.get('IMAGE_PREFIX', '')}{name}:{version()}"
            build(engine, target, tag, base=given.get("DEBIAN_IMAGE", ""), options=WHOLE)
            sys.stdout.write(f"{tag}\n")
    except NoEngine as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
