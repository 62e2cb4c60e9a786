"""A small file that is read again when it changes: at once on a disk, by a thread of its own in an object store.

Nobody waits for the store: the content is that of the last time, or the reason why there is none.
"""

from __future__ import annotations

import errno
import threading
import weakref
from collections.abc import Hashable
from pathlib import Path
from typing import Final

from exporter import files
from exporter.storage.faults import StoreError
from exporter.storage.objects import ObjectPath, ObjectStatus
from exporter.storage.places import Place

FETCH_SECONDS: Final = 60.0
"""Seconds between two requests for an object's status."""
FIRST_SECONDS: Final = 5.0
"""The start waits this long at most for the first content."""


class ChangingText:
    """The text of a small file, read again when it changes. Its methods never wait for a network."""

    def __init__(self, place: Place, *, bytes_max: int) -> None:
        self._file = small_file(place, bytes_max=bytes_max)
        self._stamp: Hashable | None = None
        self.is_missing = False
        """True if there was no file at the last call."""

    def changed(self) -> tuple[str, str | None] | None:
        """(text, why there is none, as the end of a sentence); None if nothing has changed since the last call."""
        stamp = self._file.signature()
        if stamp is not None and stamp == self._stamp:
            return None
        self._stamp = stamp
        self.is_missing = False
        try:
            return self._file.read_text(), None
        except UnicodeDecodeError:
            return "", "it is not UTF-8 text"
        except OSError as error:
            self._stamp = None
            self.is_missing = isinstance(error, FileNotFoundError)
            return "", f"it cannot be read: {error.strerror or error}"


def small_file(place: Place, *, bytes_max: int) -> LocalFile | FetchedObject:
    """Returns a file whose methods never wait for a network."""
    return LocalFile(place, bytes_max) if isinstance(place, Path) else FetchedObject(place, bytes_max)


class LocalFile:
    """File on a disk. The methods are the same for both kinds."""

    def __init__(self, path: Path, bytes_max: int) -> None:
        self._path = path
        self._bytes_max = bytes_max

    def signature(self) -> Hashable | None:
        """Changes with the content; None while there is none."""
        return files.signature(self._path)

    def read_text(self) -> str:
        """Raises OSError, and UnicodeDecodeError."""
        return files.read_text(self._path, bytes_max=self._bytes_max)


class FetchedObject:
    """Object in a store, fetched when its size or time changes."""

    def __init__(self, path: ObjectPath, bytes_max: int, *, every_s: float = FETCH_SECONDS) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._fetched: tuple[ObjectStatus, bytes] | OSError = OSError(errno.EAGAIN, "it has not been fetched yet")
        first, is_over = threading.Event(), threading.Event()
        weakref.finalize(self, is_over.set)
        arguments = (weakref.ref(self), every_s, first, is_over)
        threading.Thread(target=_fetch_again, args=arguments, name="fetched object", daemon=True).start()
        first.wait(FIRST_SECONDS)

    def signature(self) -> Hashable | None:
        fetched = self._fetched
        return None if isinstance(fetched, OSError) else fetched[0]

    def read_text(self) -> str:
        fetched = self._fetched
        if isinstance(fetched, OSError):
            raise fetched
        return fetched[1].decode().replace("\r\n", "\n")

    def fetch(self) -> None:
        """Queries the store."""
        self._fetched = self._newest()

    def _newest(self) -> tuple[ObjectStatus, bytes] | OSError:
        """The content; that of the last time if it is still the same, or if the store cannot be used now."""
        before = self._fetched
        try:
            status = self._path.stat()
            if not isinstance(before, OSError) and status == before[0]:
                return before
            if status.st_size > self._bytes_max:
                return OSError(errno.EFBIG, f"it is larger than {self._bytes_max // files.MEGABYTE} MB")
            return status, self._path.read_bytes()
        except StoreError as error:
            return error.with_traceback(None) if isinstance(before, OSError) else before
        except OSError as error:
            return error.with_traceback(None)  # which would keep this object alive


def _fetch_again(
    reference: weakref.ref[FetchedObject], every_s: float, first: threading.Event, is_over: threading.Event
) -> None:
    """Fetches the object again until nobody uses it any more, or Python ends."""
    while (fetched := reference()) is not None:
        fetched.fetch()
        del fetched
        first.set()
        if is_over.wait(every_s):
            return
