"""Reads and writes the documents that the daemon keeps over restarts. A damaged one is moved aside, not overwritten."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from exporter.files import atomic_write, read_text

Content = TypeVar("Content")


class KeptFileError(Exception):
    """The file cannot be read or written; the sentence says why. No verdict depends on it."""


class KeptFileDamagedError(KeptFileError):
    """The file exists and can be read, but its contents are invalid."""


def load(path: Path, parse: Callable[[Any], Content], *, kind: str, bytes_max: int) -> Content | None:
    """What `parse` makes of the document, a file of `kind`; None if there is no file yet.

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


def save(path: Path, document: object) -> None:
    """Replace the file atomically: a reader, or a crash, sees the old one or the new one. Raises KeptFileError."""
    try:
        with atomic_write(path, beside=f"{path.name}.{os.getpid()}.tmp") as file:
            file.write(json.dumps(document, separators=(",", ":")).encode())
    except OSError as error:
        raise KeptFileError(f"{path} cannot be written: {error}") from error


def set_aside(path: Path) -> Path:
    """Move a damaged file away, so that an operator can examine it; returns its new path. Raises KeptFileError."""
    for number in range(1, 1000):
        aside = path.with_name(f"{path.name}.damaged-{number}")
        if not aside.exists():
            try:
                return path.rename(aside)
            except OSError as error:
                raise KeptFileError(f"{path} cannot be moved to {aside}: {error}") from error
    raise KeptFileError(f"{path.parent} has too many damaged files: remove some")


def recalled(
    path: Path | None, load: Callable[[Path], Content], empty: Content, *, contents: str, warn: Callable[[str], None]
) -> tuple[Content, Path | None]:
    """What the last run left at `path`, and where this run saves it: None if the file cannot be used or moved aside.

    `contents` is the subject of the warnings, in the plural.
    """
    if path is None:
        return empty, None
    try:
        return load(path), path
    except KeptFileDamagedError as damage:
        try:
            warn(f"{contents} start from now: {damage}; it was moved to {set_aside(path)}")
        except KeptFileError as error:
            warn(f"{contents} are not saved in this run: {damage}; {error}")
        else:
            return empty, path
    except KeptFileError as error:
        warn(f"{contents} are not saved in this run: {error}")
    return empty, None
