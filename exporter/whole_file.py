"""Replacing a file as a whole: whoever reads it, or comes after a crash, sees the old one or the new one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def replaced(path: Path, *, beside: str) -> Iterator[IO[bytes]]:
    """What is written into it takes the place of `path` when the block ends; `beside` is its name until then.

    Where the block fails nothing of it stays. Raises OSError; the folder is made where it is missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(beside)
    try:
        with written.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        written.replace(path)
    except BaseException:
        with suppress(OSError):
            written.unlink()
        raise
