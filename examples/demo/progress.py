"""A bar on the last line of a terminal; nothing where the output is a file."""

from __future__ import annotations

import shutil
from typing import Final, TextIO

WIDTH: Final = 30


class Progress:
    """Lines that are printed between `clear` and `show` stay above the bar."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_shown = stream.isatty()

    def show(self, done: float, text: str) -> None:
        """`done` is from 0 to 1."""
        if self._is_shown:
            filled = round(WIDTH * min(max(done, 0), 1))
            line = f"[{'#' * filled}{'.' * (WIDTH - filled)}] {text}"
            self._stream.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
            self._stream.flush()

    def clear(self) -> None:
        if self._is_shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
