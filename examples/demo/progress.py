"""A status, with or without a bar, on the last line of a terminal; nothing where the output is a file."""

from __future__ import annotations

import shutil
from typing import Final, TextIO

WIDTH: Final = 30


class Progress:
    """Lines that are printed between `clear` and `show` stay above it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_shown = stream.isatty()

    def show(self, text: str, done: float | None = None) -> None:
        """`done` is from 0 to 1; None has no bar."""
        if self._is_shown:
            filled = round(WIDTH * min(max(done or 0, 0), 1))
            line = text if done is None else f"[{'#' * filled}{'.' * (WIDTH - filled)}] {text}"
            self._stream.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
            self._stream.flush()

    def clear(self) -> None:
        if self._is_shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
