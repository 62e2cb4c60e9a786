"""Checks what the exporter needs of its own machine: places to write to, and packages."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from exporter.config.settings import Settings
from exporter.doctor.findings import Finding, FindingLevel, ok
from exporter.storage.places import Place, place_of


def lacking_package(settings: Settings) -> str | None:
    """The package that is configured and not installed, in a sentence; None if none is missing."""
    if importlib.util.find_spec("pyarrow") is not None:
        return None
    if settings.history.directory is not None:
        needs = "history.directory"
    elif settings.baseline.file is not None and not isinstance(place_of(settings.baseline.file), Path):
        needs = f"baseline.file {settings.baseline.file}"
    else:
        return None
    return f"{needs} needs the Python package pyarrow: in a clone of the project pip install '.[history]'"


def local_findings(
    settings: Settings,
    *,
    state_path: Path | None,
    start_problems: Sequence[str] = (),
    baseline_problem: str | None = None,
) -> Iterator[Finding]:
    """The findings about this machine. `start_problems` prevent a start of `serve`, `baseline_problem` a baseline."""
    yield _state_file(state_path)
    if settings.history.directory is not None:
        why = _unwritable(place_of(settings.history.directory))
        result = f"{settings.history.directory} can be written" if why is None else why
        level, lost = (FindingLevel.OK, "") if why is None else (FindingLevel.LIMITED, "no history is recorded")
        yield Finding(check="history", level=level, result=result, consequence=lost)
    lacking = lacking_package(settings)
    if lacking is not None:
        yield Finding(check="packages", level=FindingLevel.MISSING, result=lacking, consequence=_NO_START)
    for problem in start_problems:
        if problem != lacking:
            yield Finding(check="start", level=FindingLevel.MISSING, result=problem, consequence=_NO_START)
    if settings.baseline.file is not None and baseline_problem is None:
        is_readable = _is_readable(place_of(settings.baseline.file))
        baseline_problem = None if is_readable else "it cannot be read"
    if baseline_problem is not None:
        result = f"baseline.file {settings.baseline.file} would not be used: {baseline_problem}"
        yield Finding(
            check="baseline",
            level=FindingLevel.LIMITED,
            result=result,
            consequence="unusual durations are not reported",
        )


_NO_START: Final = "serve does not start"


def _state_file(path: Path | None) -> Finding:
    check = "state file"
    lost = "a restart forgets when transactions were first seen, so they become late later than they should"
    if path is None:
        return Finding(check=check, level=FindingLevel.LIMITED, result="there is none (state.file)", consequence=lost)
    why = _unwritable(path.parent) or _unreadable(path)
    if why is not None:
        return Finding(
            check=check,
            level=FindingLevel.LIMITED,
            result=why,
            consequence=lost,
            advice="run doctor as root, or as the exporter's user; or set state.file to a place that this user can write, "
            "or to none",
        )
    return ok(check, f"{path} can be written by this user")


def _unreadable(path: Path) -> str | None:
    """Returns why an existing file cannot be read and replaced; None if it can be, or there is none."""
    try:
        if not path.exists():
            return None
        if not path.is_file():
            return f"{path} is not a regular file"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    return None if os.access(path, os.R_OK) else f"{path} cannot be read: no permission"


def _is_readable(place: Place) -> bool:
    if isinstance(place, Path):
        return os.access(place, os.R_OK)
    try:
        return place.is_file()
    except OSError:
        return False


def _unwritable(folder: Place) -> str | None:
    """Returns why no file can be made in the directory, or a missing directory itself; None if that is possible.

    A directory on this machine is not made: made by another user than the exporter's, it would be in the way.
    """
    if isinstance(folder, Path):
        try:
            there = next((each for each in (folder, *folder.parents) if each.exists()), folder)
            is_directory = there.is_dir()
        except PermissionError:  # systemd's DynamicUser: a link into a directory of root's
            return f"{folder} is closed to this user"
        if not is_directory:
            return f"{folder} cannot be written: {there} is not a directory"
        return None if os.access(there, os.W_OK | os.X_OK) else f"{folder} cannot be written: no permission at {there}"
    try:
        probe = folder / f".doctor-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        return f"{folder} cannot be written: {error.strerror or error}"
    return None
