"""Renders a page in headless Chromium, and keeps a picture of it in `build/artefacts/`."""

from __future__ import annotations

import shutil
import struct
import subprocess
import zlib
from pathlib import Path

ARTEFACTS = Path(__file__).parents[1] / "build" / "artefacts"


class Browser:
    """A headless Chromium with a profile of its own."""

    def __init__(self, program: str, profile: Path) -> None:
        self._program = program
        self._profile = profile

    def elements(self, url: str) -> str:
        """The document as the browser understood it, serialised."""
        return self._run("--dump-dom", url).decode()

    def picture(self, url: str, name: str, *options: str) -> bytes:
        """A screenshot as PNG, kept as an artefact."""
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        path = ARTEFACTS / f"{name}.png"
        path.unlink(missing_ok=True)
        self._run(f"--screenshot={path}", "--hide-scrollbars", *(options or ("--window-size=1280,1400",)), url)
        return path.read_bytes()

    def _run(self, *arguments: str) -> bytes:
        quiet = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")
        command = [self._program, "--headless", "--no-sandbox", "--disable-gpu", *quiet]
        command += [f"--user-data-dir={self._profile}", *arguments]
        return subprocess.run(command, capture_output=True, check=True, timeout=120).stdout


def open_browser(profile: Path) -> Browser:
    """With a folder for its own files."""
    program = shutil.which("chromium")
    assert program is not None, "chromium is missing: on Debian install the packages chromium and fonts-dejavu-core."
    return Browser(program, profile)


def assert_painted(picture: bytes) -> None:
    """A PNG whose rows differ: of a blank one, no filtered byte but those of its first pixel and row is not zero."""
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    at, data = 8, b""
    while at < len(picture):
        (length,) = struct.unpack_from(">I", picture, at)
        if picture[at + 4 : at + 8] == b"IDAT":
            data += picture[at + 8 : at + 8 + length]
        at += length + 12
    pixels = zlib.decompress(data)
    assert len(pixels) - pixels.count(0) > len(pixels) // 200
