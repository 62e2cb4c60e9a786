"""Renders a page in headless Chromium, and keeps a picture of it in `build/artefacts/`."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import zlib
from html import escape, unescape
from pathlib import Path
from typing import Any

PHONE, DESKTOP = (390, 844), (1400, 1100)
"""Width and height of a screen."""
SCHEMES = {"": (), "-dark": ("--blink-settings=preferredColorScheme=0",)}
"""Ends of the names of pictures -> options."""
NOT_CUT = """
const page = document.documentElement;
const wide = [...document.querySelectorAll("body *")].filter(it => it.clientWidth && it.scrollWidth > it.clientWidth + 1);
return [page.scrollWidth - page.clientWidth, ...wide.map(it => it.outerHTML.slice(0, 80))];
"""
"""[0] where nothing is wider than its place."""
ARTEFACTS = Path(__file__).parents[1] / "build" / "artefacts"


class Browser:
    """A headless Chromium with a profile of its own."""

    def __init__(self, program: str, profile: Path) -> None:
        self._program = program
        self._profile = profile

    def elements(self, url: str) -> str:
        """The document as the browser understood it, serialised."""
        return self._run("--dump-dom", url).decode()

    def measured(self, page: str, script: str, width: int, height: int) -> Any:
        """The result of a function's body in a page of this size. A frame has the size: a window is never so narrow."""
        frame = f'<iframe width="{width}" height="{height}" style="border:0" srcdoc="{escape(page)}"></iframe>'
        result = f"JSON.stringify(document.querySelector('iframe').contentWindow.eval(`(() => {{{script}}})()`))"
        path = self._profile.parent / "measured.html"
        path.write_text(f"{frame}<script>onload = () => document.body.dataset.measured = {result}</script>", "utf-8")
        found = re.search('data-measured="([^"]*)"', self.elements(path.as_uri()))
        assert found is not None
        return json.loads(unescape(found[1]))

    def picture(self, url: str, name: str, *options: str) -> bytes:
        """A screenshot as PNG, kept as an artefact."""
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        path = ARTEFACTS / f"{name}.png"
        path.unlink(missing_ok=True)
        self._run(f"--screenshot={path}", "--hide-scrollbars", *(options or ("--window-size=1280,1400",)), url)
        return path.read_bytes()

    def pictures(self, url: str, name: str) -> dict[str, bytes]:
        """A phone and a desk, light and dark."""
        return {
            f"{screen}{scheme}": self.picture(
                url, f"{name}{screen}{scheme}", f"--window-size={size[0]},{size[1]}", *options
            )
            for screen, size in (("-phone", PHONE), ("", DESKTOP))
            for scheme, options in SCHEMES.items()
        }

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
