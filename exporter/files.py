"""Files as a whole: small ones are read, ours are for nobody else, and a reader sees the old one or the new one.

What is named in a setting may be anything: a FIFO would stop whoever opens it, a device has no end.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

MEGABYTE = 1_048_576

Signature = tuple[int, int, int]


def signature(path: Path) -> Signature | None:
    """Changes with every way of replacing a file, and is had without reading it; None where the file is missing."""
    try:
        it = path.stat()
    except OSError:
        return None
    return it.st_mtime_ns, it.st_ino, it.st_size


def contents(path: Path, *, bytes_max: int = MEGABYTE) -> bytes:
    """All of a regular file. Raises OSError, also for what is none and for one that is larger."""
    # Neither a FIFO that nobody writes nor one that took the file's place meanwhile is waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as file:
        _check(path, os.fstat(descriptor).st_mode)
        read = file.read(bytes_max + 1)
    if len(read) > bytes_max:
        raise OSError(errno.EFBIG, f"it is larger than {bytes_max // MEGABYTE} MB", str(path))
    return read


def read_text(path: Path, *, bytes_max: int = MEGABYTE) -> str:
    """All of a text file, with line ends as ours. Raises what `contents` raises, and UnicodeDecodeError."""
    return contents(path, bytes_max=bytes_max).decode().replace("\r\n", "\n").replace("\r", "\n")


def check_regular(path: str | Path) -> None:
    """For files that a library opens. Raises OSError."""
    _check(path, os.stat(path).st_mode)  # noqa: PTH116 - it takes both


def opened_for_appending(path: Path) -> IO[str]:
    """The file, made where it is missing, and for nobody else to read. Raises OSError."""
    make_private_folder(path.parent)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    descriptor = os.open(path, flags, 0o600)
    file = os.fdopen(descriptor, "a", encoding="utf-8")
    try:
        _check(path, os.fstat(descriptor).st_mode)
    except OSError:
        file.close()
        raise
    return file


@contextmanager
def atomic_write(path: Path, *, beside: str, mode: int = 0o600) -> Iterator[IO[bytes]]:
    """What is written into it takes the place of `path` when the block ends; `beside` is its name until then.

    Where the block fails nothing of it stays. Raises OSError; the folder is made where it is missing.
    """
    make_private_folder(path.parent)
    written = path.with_name(beside)
    with suppress(FileNotFoundError):
        written.unlink()  # of a run that was killed; a link goes, and not what it names
    try:
        with made(written, mode=mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        written.replace(path)
    except BaseException:
        with suppress(OSError):
            written.unlink()
        raise


def made(path: Path, *, mode: int = 0o600) -> IO[bytes]:
    """A file that was not there, open for writing. Raises OSError."""
    # It follows no link; and the builtin, as Path.open takes no opener.
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode))


def make_private_folder(path: Path) -> None:
    """The folder and those above it, as far as they are missing. Raises OSError."""
    if path.is_dir():
        return
    if path.exists():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    make_private_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def _check(path: str | Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        reason = os.strerror(errno.EISDIR) if stat.S_ISDIR(mode) else "it is not a regular file"
        raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, reason, str(path))
