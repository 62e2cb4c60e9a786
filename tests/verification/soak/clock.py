"""Sets the wall clock of a running Python program: `time.time` is ahead by the value in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_SITE_CUSTOMIZE: Final = """
import time

_real, _real_ns, _path = time.time, time.time_ns, {path!r}


def _ahead():
    try:
        with open(_path, encoding="ascii") as file:
            return float(file.read() or 0)
    except (OSError, ValueError):
        return 0.0


time.time = lambda: _real() + _ahead()
time.time_ns = lambda: _real_ns() + int(_ahead() * 1e9)
"""


class WallClock:
    """Of the programs that are started with `environment`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._path = folder / "ahead"
        self.environment: Final = {"PYTHONPATH": str(folder)}
        (folder / "sitecustomize.py").write_text(_SITE_CUSTOMIZE.format(path=str(self._path)), encoding="utf-8")
        self.ahead_s = 0.0

    def set(self, ahead_s: float) -> None:
        """From now on it shows that much more than this machine's."""
        self._path.write_text(str(ahead_s), encoding="ascii")
        self.ahead_s = ahead_s
