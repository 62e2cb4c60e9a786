"""A promtool of Prometheus 3, built from the published Go module once and kept outside the tree.

Debian's 2.42 is the oldest that the rules are for; this is the newest whose parts could all be had.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.brokers.maven import cache_folder

MODULE: Final = "github.com/prometheus/prometheus"
VERSION: Final = "v0.313.5"  # Prometheus 3.13.5
BUILD_TIMEOUT_S: Final = 1800
ENVIRONMENT: Final = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}


class PromtoolUnavailable(Exception):
    """It cannot be had here; the message says what is missing."""


def newest_promtool() -> Path:
    """The program; the first call on a machine builds it, which takes minutes."""
    program = cache_folder() / f"promtool-{VERSION}"
    if not program.is_file():
        _build(program)
    return program


def _build(program: Path) -> None:
    """In a folder beside the wanted place, then renamed: nobody sees half of it."""
    if shutil.which("go") is None:
        raise PromtoolUnavailable(
            f"go is missing: promtool {VERSION} is built with it (on Debian: golang-go, 1.26 or newer)"
        )
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent, prefix=".making-") as making:
        for words in _commands():
            run = subprocess.run(
                words,
                cwd=making,
                env={**os.environ, **ENVIRONMENT},
                capture_output=True,
                text=True,
                timeout=BUILD_TIMEOUT_S,
                check=False,
            )
            if run.returncode != 0:
                raise PromtoolUnavailable(f"{' '.join(words)}: {(run.stdout + run.stderr).strip()[-2000:]}")
        Path(making, "promtool").rename(program)


def _commands() -> Iterator[list[str]]:
    """Its go.mod has a replace line, which `go install` refuses: so a module of our own that repeats it."""
    replaced = "cloud.google.com/go=cloud.google.com/go@v0.123.0"
    yield ["go", "mod", "init", "tests.example/promtool"]
    yield ["go", "mod", "edit", f"-require={MODULE}@{VERSION}", f"-replace={replaced}"]
    yield ["go", "get", f"{MODULE}/cmd/promtool@{VERSION}"]
    # without service discovery, which is most of the work and which promtool's checks do not use
    build = ["go", "build", "-mod=mod", "-trimpath", "-tags=remove_all_sd", "-ldflags=-s -w", "-o", "promtool"]
    yield ["nice", "-n", "19", *build, f"{MODULE}/cmd/promtool"]
