"""Fetches Grafana's own components with npm: one folder per lock file, made once, outside the tree."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from hangbench.kafka.maven import cache_folder

HERE: Final = Path(__file__).parent
FETCH_TIMEOUT_S: Final = 900


def bundle(into: Path) -> None:
    """Write `page.js` and `page.css`: the page with everything that it needs."""
    esbuild = components() / "esbuild" / "bin" / "esbuild"
    loaders = [f"--loader:.{ending}=dataurl" for ending in ("svg", "ttf", "woff", "woff2", "png")]
    _run(
        [
            *(program("node"), str(esbuild), str(HERE / "page.tsx"), "--bundle", "--minify", "--log-level=error"),
            *(f"--outfile={into / 'page.js'}", '--define:process.env.NODE_ENV="production"', "--define:global=window"),
            *loaders,
        ],
        {"NODE_PATH": str(components())},
    )


def components() -> Path:
    """The folder of all modules that `package-lock.json` names, each checked by its hash."""
    lock = (HERE / "package-lock.json").read_bytes()
    folder = cache_folder() / f"grafana-components-{hashlib.sha256(lock).hexdigest()[:8]}"
    if not folder.is_dir():
        _make(folder)
    return folder / "node_modules"


def program(name: str) -> str:
    """The path of a program."""
    found = shutil.which(name)
    if found is None:
        raise SystemExit(f"{name} is missing: on Debian install the package {name}.")
    return found


def _make(folder: Path) -> None:
    """Fill a temporary folder and rename it, so that no reader sees an incomplete one."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".making-") as making:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, making)
        quiet = ("--no-audit", "--no-fund", "--loglevel=error")
        _run([program("npm"), "ci", "--ignore-scripts", "--legacy-peer-deps", *quiet, f"--prefix={making}"], {})
        filled = Path(making, "filled")
        filled.mkdir()
        Path(making, "node_modules").rename(filled / "node_modules")
        try:
            filled.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise


def _run(command: list[str], environment: dict[str, str]) -> None:
    run = subprocess.run(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=FETCH_TIMEOUT_S,
        check=False,
    )
    if run.returncode != 0:
        raise SystemExit(f"{' '.join(command[:3])}: {(run.stdout + run.stderr).strip()[-2000:]}")
