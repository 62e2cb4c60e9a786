"""Shows the progress of a long scan, on a terminal only."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from exporter.evaluation.humanize import humanize_count

SILENT_SECONDS = 1.0
"""A command that has printed nothing for so long shows on a terminal what it does, or waits for."""


class Progress:
    """`with Progress(sys.stderr) as progress: progress(done, asked)`; the line is wiped at the end."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._shown = False
        self._next = clock() + SILENT_SECONDS

    def __enter__(self) -> Progress:
        return self

    def __call__(self, done: int, asked: int) -> None:
        now = self._clock()
        if now < self._next or not self._stream.isatty():
            return
        self._next = now + 0.2
        self._shown = True
        self._stream.write(f"\r{done:,} of {humanize_count(asked, 'partition')} read")
        self._stream.flush()

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._stream.write("\r\033[K")
            self._stream.flush()
