"""Renders pages in one headless Chromium, and keeps pictures of them in `build/artefacts/`."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import struct
import subprocess
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from hangbench.kafka.process import end_with_parent

Screen = tuple[int, int]
PHONE, DESKTOP = (390, 844), (1400, 1100)
"""Width and height of a screen."""
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
PATIENCE_S: Final = 120
QUIET: Final = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")


class Browser:
    """A page of a headless Chromium, which reads commands from a pipe (Chrome DevTools Protocol, each ends with a null)."""

    def __init__(self, folder: Path, commands: int, answers: int) -> None:
        self._folder = folder
        self._commands = commands
        self._answers = answers
        self._read = b""
        self._number = 0
        self._session = ""
        self._loads = 0
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._call("Page.enable")

    def elements(self, url: str) -> str:
        """The document as the browser understood it, serialised."""
        self._open(url, DESKTOP)
        return str(self._value("document.documentElement.outerHTML"))

    def measured(self, page: str, script: str, screen: Screen) -> Any:
        """The result of a function's body in a page of this size."""
        path = self._folder / "measured.html"
        path.write_text(page, encoding="utf-8")
        self._open(path.as_uri(), screen)
        return self._value(f"(() => {{{script}}})()")

    def picture(self, url: str, name: str, screen: Screen = (1280, 1400), *, dark: bool = False) -> bytes:
        """A screenshot as PNG, kept as an artefact."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._open(url, screen)
        picture = base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        (ARTEFACTS / f"{name}.png").write_bytes(picture)
        return picture

    def pictures(self, url: str, name: str, looks: Sequence[str] = LOOKS) -> dict[str, bytes]:
        """By look; each is kept as an artefact."""
        return {
            look: self.picture(url, name + look, PHONE if "-phone" in look else DESKTOP, dark="-dark" in look)
            for look in looks
        }

    def _open(self, url: str, screen: Screen) -> None:
        width, height = screen
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **size)
        loads = self._loads
        opened = self._call("Page.navigate", url=url)
        assert "errorText" not in opened, f"{url}: {opened['errorText']}"
        while self._loads == loads:
            self._hear()

    def _value(self, expression: str) -> Any:
        found = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def _call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._number += 1
        number = self._number
        session = {"sessionId": self._session} if self._session else {}
        command = {"id": number, "method": method, "params": parameters, **session}
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while (answer := self._hear()).get("id") != number:
            pass
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def _hear(self) -> dict[str, Any]:
        """The next message: an answer, or an event."""
        deadline = time.monotonic() + PATIENCE_S
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._answers], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"Chromium said nothing for {PATIENCE_S} s"
            read = os.read(self._answers, 1 << 20)
            assert read, "Chromium has ended"
            self._read += read
        raw, self._read = self._read.split(b"\0", 1)
        message: dict[str, Any] = json.loads(raw)
        self._loads += message.get("method") == "Page.loadEventFired"
        return message


@contextlib.contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    """With a folder for its own files; it ends with the block."""
    program = shutil.which("chromium")
    assert program is not None, "chromium is missing: on Debian install the packages chromium and fonts-dejavu-core."
    command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *QUIET]
    command += [f"--user-data-dir={folder / 'profile'}", "--remote-debugging-pipe"]
    commands, our_commands = os.pipe()
    our_answers, answers = os.pipe()
    process = subprocess.Popen(
        ["/bin/bash", "-c", f'exec "$0" "$@" 3<&{commands} 4>&{answers}', *command],
        pass_fds=(commands, answers),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=end_with_parent(),  # noqa: PLW1509 - one bound call, see end_with_parent
    )
    os.close(commands)
    os.close(answers)
    try:
        yield Browser(folder, our_commands, our_answers)
    finally:
        process.kill()
        process.wait()
        os.close(our_commands)
        os.close(our_answers)


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
