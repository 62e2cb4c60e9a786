"""Reads and writes the documents that the daemon keeps over restarts.

One that is damaged, or of another cluster, is moved aside and never overwritten.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import Any, TypeVar

from exporter.files import MEGABYTE, atomic_write, read_text

log = logging.getLogger("exporter")

Content = TypeVar("Content")
FileVersion = tuple[int, int]
"""Inode and time of the last write."""
ANOTHER_CLUSTER = "another-cluster"
"""Marks a file that was moved aside because it is of another cluster."""
_CLUSTER_ID = re.compile(rb'"cluster_id":\s*("(?:[^"\\]|\\.)*")')
_HEAD_BYTES = 4096
_UNFINISHED_SECONDS = 60
"""A write that began so long before the file was written last has ended."""


class KeptFileError(Exception):
    """The file cannot be read or written; the sentence says why. No verdict depends on it."""


class KeptFileDamagedError(KeptFileError):
    """The file exists and can be read, but its contents are invalid."""


def load(path: Path, parse: Callable[[Any], Content], *, kind: str, bytes_max: int) -> Content | None:
    """Returns what `parse` makes of the document, a file of `kind`; None if there is no file yet.

    Raises KeptFileDamagedError for a damaged or foreign file, KeptFileError for one that cannot be read.
    """
    try:
        return parse(json.loads(read_text(path, bytes_max=bytes_max)))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise KeptFileError(f"{path} cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise KeptFileDamagedError(f"{path} is not a {kind} of this exporter: {error}") from error


def save(path: Path, document: Mapping[str, Any], *, bytes_max: int) -> None:
    """Replaces the file atomically: a reader, or a crash, sees the old one or the new one.

    Raises KeptFileError, also where the file is of another cluster, as two exporters have one file, and for a document of
    more than `bytes_max`, which no run would load.
    """
    cluster_id = _cluster_of(path)
    if cluster_id not in {"", document["cluster_id"]}:
        raise KeptFileError(
            f"{path} is of cluster {cluster_id}, as another exporter has written it: give each its own state.file"
        )
    content = json.dumps(document, separators=(",", ":")).encode()
    if len(content) > bytes_max:
        raise KeptFileError(f"{path} would be larger than {bytes_max // MEGABYTE} MB")
    try:
        with atomic_write(path, beside=f"{path.name}.{os.getpid()}.tmp") as file:
            file.write(content)
    except OSError as error:
        raise KeptFileError(f"{path} cannot be written: {error}") from error


def version_of(path: Path) -> FileVersion | None:
    """Returns what changes with every replacement of the file; None without a file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _cluster_of(path: Path) -> str:
    """The cluster id in the file's first lines; empty without one."""
    try:
        with path.open("rb") as file:
            found = _CLUSTER_ID.search(file.read(_HEAD_BYTES))
        return "" if found is None else str(json.loads(found[1]))
    except (OSError, ValueError):
        return ""


def set_aside(path: Path, mark: str = "damaged") -> Path:
    """Moves a file away, so that an operator can examine it; returns its new path. Raises KeptFileError."""
    for number in range(1, 1000):
        aside = path.with_name(f"{path.name}.{mark}-{number}")
        if not aside.exists():
            try:
                return path.rename(aside)
            except OSError as error:
                raise KeptFileError(f"{path} cannot be moved to {aside}: {error}") from error
    raise KeptFileError(f"{path.parent} has too many such files: remove some")


def made_free(path: Path | None, mark: str, *, contents: str, why: str) -> Path | None:
    """Moves the file aside and returns where this run saves `contents`; None if it could not be moved."""
    if path is None or not path.exists():
        log.warning("%s start from now: %s", contents, why)
        return path
    try:
        log.warning("%s start from now: %s; %s was moved to %s", contents, why, path, set_aside(path, mark))
    except KeptFileError as error:
        log.warning("%s are not saved in this run: %s; %s", contents, why, error)
        return None
    return path


def _remove_unfinished(path: Path) -> None:
    """Removes what killed processes have left of their writes, each as large as the file."""
    with suppress(OSError):
        saved_s = path.stat().st_mtime
        for unfinished in path.parent.glob(f"{escape(path.name)}.*.tmp"):
            if unfinished.stat().st_mtime < saved_s - _UNFINISHED_SECONDS:
                unfinished.unlink()


def recall(
    path: Path | None, load: Callable[[Path], Content], empty: Content, *, contents: str
) -> tuple[Content, Path | None]:
    """Returns the content that the last run left at `path`, and the path where this run saves it.

    The path is None if the file cannot be used or moved aside.

    `contents` is the subject of the warnings, in the plural.
    """
    if path is None:
        return empty, None
    _remove_unfinished(path)
    try:
        return load(path), path
    except KeptFileDamagedError as damage:
        return empty, made_free(path, "damaged", contents=contents, why=str(damage))
    except KeptFileError as error:
        log.warning("%s are not saved in this run: %s", contents, error)
    return empty, None
