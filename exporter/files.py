"""Reads small files completely, writes private files, and replaces files atomically.

A path in a setting may name anything: a FIFO would block its reader, a device has no end.
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

Signature = tuple[int, int, int, int]


def signature(path: Path) -> Signature | None:
    """Changes with every way of replacing a file, and with its rights, and needs no read; None if the file is missing."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size


class FileChanges:
    """Notices files that were replaced, or got other rights, since they were read."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self._before: tuple[Signature | None, ...] | None = None

    def must_be_read(self) -> bool:
        """True at the first call, and at the first one after a change or after `read_again`."""
        now = tuple(map(signature, self._paths))
        is_other = now != self._before
        self._before = now
        return is_other

    def read_again(self) -> None:
        """The files could not be read, as where too many are open: they may be readable without another change."""
        self._before = None


def contents(path: Path, *, bytes_max: int = MEGABYTE) -> bytes:
    """The contents of a regular file. Raises OSError, also for another kind of file and for a larger one."""
    with _opened(path) as file:
        read = file.read(bytes_max + 1)
    if len(read) > bytes_max:
        raise OSError(errno.EFBIG, f"it is larger than {bytes_max // MEGABYTE} MB", str(path))
    return read


def ending(path: Path, *, bytes_max: int) -> str:
    """Returns the last `bytes_max` bytes of a text file that grows. Raises OSError, also for another kind of file."""
    with _opened(path) as file:
        file.seek(max(os.fstat(file.fileno()).st_size - bytes_max, 0))
        return file.read(bytes_max).decode("utf-8", "replace")


def read_text(path: Path, *, bytes_max: int = MEGABYTE) -> str:
    r"""The contents of a text file with \n line ends. Raises what `contents` raises, and UnicodeDecodeError."""
    return contents(path, bytes_max=bytes_max).decode().replace("\r\n", "\n").replace("\r", "\n")


def check_regular(path: str | Path) -> None:
    """Checks a file before a library opens it. Raises OSError."""
    _check(path, os.stat(path).st_mode)  # noqa: PTH116 - it takes both


def opened_for_appending(path: Path) -> IO[str]:
    """The file, created if it is missing, readable only by this user. Raises OSError."""
    make_private_folder(path.parent)
    return os.fdopen(_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "a", encoding="utf-8")


@contextmanager
def atomic_write(path: Path, *, beside: str, mode: int = 0o600) -> Iterator[IO[bytes]]:
    """Replaces `path` by what the block writes when the block ends; `beside` is its name until then.

    If the block fails, nothing of it stays. Raises OSError; the directory is created if it is missing.
    """
    make_private_folder(path.parent)
    written = path.with_name(beside)
    with suppress(FileNotFoundError):
        written.unlink()  # left by a run that was killed; of a link only the link is removed
    with _removed_on_failure(written):
        with create_file(written, mode=mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        written.replace(path)


def create_file(path: Path, *, mode: int = 0o600) -> IO[bytes]:
    """Opens a new file for writing. Raises OSError."""
    # It follows no link; and the builtin, because Path.open accepts no opener.
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode))


def write_new(path: Path, content: bytes) -> None:
    """Writes a file that does not exist yet. If that fails, nothing of it stays. Raises OSError."""
    file = create_file(path)
    with _removed_on_failure(path), file:
        file.write(content)


@contextmanager
def _removed_on_failure(path: Path) -> Iterator[None]:
    """Removes a file that the block could not write whole, and raises what the block raised."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def make_private_folder(path: Path) -> None:
    """Creates the directory and its missing parents. Raises OSError."""
    if path.is_dir():
        return
    if path.exists():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    make_private_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def _opened(path: Path) -> IO[bytes]:
    return os.fdopen(_regular(path, os.O_RDONLY), "rb")


def _regular(path: Path, flags: int) -> int:
    """Opens a regular file and returns its descriptor. Raises OSError."""
    # Waits neither for a FIFO without a writer nor for one that has replaced the file in the meantime.
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, 0o600)
    try:
        _check(path, os.fstat(descriptor).st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check(path: str | Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        reason = os.strerror(errno.EISDIR) if stat.S_ISDIR(mode) else "it is not a regular file"
        raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, reason, str(path))
