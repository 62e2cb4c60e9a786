"""Reads and writes at a place, which is a path on a disk or in an object store, with the same promises.

A file is replaced as a whole: a reader has the old one or the new one, also when the writer is killed.
"""

from __future__ import annotations

import mmap
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, TypeAlias, TypeVar

from exporter import files
from exporter.storage.location import parse
from exporter.storage.objects import ObjectPath

Place: TypeAlias = Path | ObjectPath

MEMORY_BYTES_MAX: Final = 64 * 1024 * 1024
"""A larger object is written to a temporary file first."""
REQUESTS_AT_ONCE: Final = 16

Item = TypeVar("Item")
Result = TypeVar("Result")


def place_of(text: str) -> Place:
    """The place of a path or URI. Raises ValueError with the end of a sentence."""
    place = parse(text)
    return place if isinstance(place, Path) else ObjectPath(place)


@contextmanager
def atomic_write(place: Place, *, beside: str, mode: int = 0o600) -> Iterator[IO[bytes]]:
    """Writes as `files.atomic_write` does; an object needs no name beside. Raises OSError."""
    if isinstance(place, Path):
        with files.atomic_write(place, beside=beside, mode=mode) as file:
            yield file
        return
    with tempfile.SpooledTemporaryFile(MEMORY_BYTES_MAX) as spooled:
        yield spooled
        size = spooled.tell()
        if size <= MEMORY_BYTES_MAX:
            spooled.seek(0)
            place.write_bytes(spooled.read())
        else:
            spooled.flush()
            with mmap.mmap(spooled.fileno(), size, access=mmap.ACCESS_READ) as content:
                place.write_bytes(content)


def write_whole(place: Place, text: str, *, beside: str) -> None:
    """Replaces the file; it is stored on return. Raises OSError."""
    with atomic_write(place, beside=beside, mode=0o666) as file:
        file.write(text.encode())


def parquet_source(place: Place) -> Any:
    """Returns a source for Arrow's reader. Raises FileNotFoundError."""
    return place if isinstance(place, Path) else place.opened()


def remove_folder(place: Place) -> None:
    """Removes a folder with all that is in it."""
    shutil.rmtree(place) if isinstance(place, Path) else place.rmtree()


def in_parallel(function: Callable[[Item], Result], items: Iterable[Item], at: Place) -> Iterable[Result]:
    """`function` of each item, in their order; many requests at once if the place is in an object store."""
    if isinstance(at, Path):
        return map(function, items)
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as executor:
        return list(executor.map(function, items))
