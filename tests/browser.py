"""Renders a page in headless Chromium, and keeps a picture of it in `build/artefacts/`."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Sequence
from html import escape, unescape
from pathlib import Path
from typing import Any

Screen = tuple[int, int]
PHONE, DESKTOP = (390, 844), (1400, 1100)
"""Width and height of a screen."""
DARK = ("--blink-settings=preferredColorScheme=0",)
LOOKS = ("-phone", "-phone-dark", "", "-dark")
"""A phone and a desk, light and dark: ends of the names of pictures."""
BOTH_WAYS = ("-phone-dark", "")
"""The fewest with each screen and each colour scheme."""
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
        """The result of a function's body in a page of this size."""
        (result,) = self.measured_all([(page, (width, height))], script)
        return result

    def measured_all(self, places: Sequence[tuple[str, Screen]], script: str) -> list[Any]:
        """The result for each (page, size). A frame has the size: a window is never so narrow."""
        frames = [
            f'<iframe width="{width}" height="{height}" style="border:0" srcdoc="{escape(page)}"></iframe>'
            for page, (width, height) in places
        ]
        each = f"frame => frame.contentWindow.eval(`(() => {{{script}}})()`)"
        results = f"JSON.stringify([...document.querySelectorAll('iframe')].map({each}))"
        path = self._profile.parent / "measured.html"
        path.write_text(
            f"{''.join(frames)}<script>onload = () => document.body.dataset.measured = {results}</script>", "utf-8"
        )
        found = re.search('data-measured="([^"]*)"', self.elements(path.as_uri()))
        assert found is not None
        measured: list[Any] = json.loads(unescape(found[1]))
        return measured

    def picture(self, url: str, name: str, *options: str) -> bytes:
        """A screenshot as PNG, kept as an artefact."""
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        path = ARTEFACTS / f"{name}.png"
        path.unlink(missing_ok=True)
        self._run(f"--screenshot={path}", "--hide-scrollbars", *(options or ("--window-size=1280,1400",)), url)
        return path.read_bytes()

    def pictures(self, url: str, name: str, looks: Sequence[str] = LOOKS) -> dict[str, bytes]:
        """By look; each is kept as an artefact."""
        found = {}
        for look in looks:
            width, height = PHONE if "-phone" in look else DESKTOP
            options = DARK if "-dark" in look else ()
            found[look] = self.picture(url, f"{name}{look}", f"--window-size={width},{height}", *options)
        return found

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
