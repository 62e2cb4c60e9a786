"""Makes a broker's disk that can be filled: a file system in memory that only this thread and its children see.

It takes root, as mounting does. It ends with the processes that see it, however they end.
"""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path
from typing import Final

CLONE_NEWNS: Final = 0x00020000  # linux/sched.h
MS_REC: Final = 0x4000  # linux/mount.h
MS_PRIVATE: Final = 1 << 18
MNT_DETACH: Final = 2  # linux/fs.h
FILLING: Final = "filling"
PIECES: Final = (1 << 20, 1 << 12, 1)
"""Bytes that are written at once, for as long as so many fit."""


class NoDiskError(Exception):
    """No file system can be mounted here; the sentence says why."""


class Disk:
    """Mounted at `place`, which must be an empty folder, in a mount namespace of the calling thread's own.

    Raises NoDiskError. Processes that this thread starts from now on see it.
    """

    def __init__(self, place: Path, *, megabytes: int) -> None:
        self._place = place
        self._filling = place / FILLING
        self._libc = ctypes.CDLL(None, use_errno=True)
        _call("a mount namespace of our own", self._libc.unshare(CLONE_NEWNS))
        _call("keeping mounts to ourselves", self._libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
        size = b"size=%dm" % megabytes
        _call(f"a file system at {place}", self._libc.mount(b"tmpfs", bytes(place), b"tmpfs", 0, size))

    def close(self) -> None:
        """What is on it is gone, and the folder is as it was."""
        _call(f"taking {self._place} away", self._libc.umount2(bytes(self._place), MNT_DETACH))

    def fill(self) -> None:
        """Not a byte more can be written, by anybody, until `free`."""
        with self._filling.open("ab", buffering=0) as file:
            for piece in PIECES:
                _write_while_there_is_room(file.fileno(), bytes(piece))

    def free(self) -> None:
        """What `fill` took can be had again."""
        self._filling.unlink(missing_ok=True)


def _write_while_there_is_room(descriptor: int, piece: bytes) -> None:
    try:
        while os.write(descriptor, piece):
            pass
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


def _call(what: str, status: int) -> None:
    if status != 0:
        raise NoDiskError(f"{what} is refused: {os.strerror(ctypes.get_errno())}")
