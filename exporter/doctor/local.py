"""Checks what the exporter needs of its own machine: places to write to, and packages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from exporter.config.settings import Settings
from exporter.doctor.findings import Finding, Level
from exporter.files import make_private_folder


def local_findings(settings: Settings, *, state_path: Path | None, lacks_package: str | None) -> Iterator[Finding]:
    """`lacks_package`: which package the settings need that is not installed, a sentence; None if none."""
    yield _state_file(state_path)
    if settings.history.directory is not None:
        why = _unwritable(Path(settings.history.directory))
        result = f"{settings.history.directory} can be written" if why is None else why
        level, lost = (Level.OK, "") if why is None else (Level.LIMITED, "no history is recorded")
        yield Finding(check="history", level=level, result=result, consequence=lost)
    if lacks_package is not None:
        yield Finding(check="packages", level=Level.MISSING, result=lacks_package, consequence="serve does not start")
    if settings.baseline.file is not None and not os.access(settings.baseline.file, os.R_OK):
        result = f"baseline.file {settings.baseline.file} cannot be read"
        yield Finding(
            check="baseline", level=Level.LIMITED, result=result, consequence="unusual durations are not reported"
        )


def _state_file(path: Path | None) -> Finding:
    check = "state file"
    lost = "a restart loses when transactions were first seen: they are late later than they should be"
    if path is None:
        return Finding(check=check, level=Level.LIMITED, result="there is none (state.file)", consequence=lost)
    why = _unwritable(path.parent)
    if why is not None:
        return Finding(
            check=check,
            level=Level.LIMITED,
            result=why,
            consequence=lost,
            advice="set state.file to a place that this user can write, or state.file: none",
        )
    return Finding(check=check, level=Level.OK, result=f"{path} can be written")


def _unwritable(folder: Path) -> str | None:
    """Why no file can be made in the directory, which is created if it is missing; None if one can be."""
    try:
        make_private_folder(folder)
        probe = folder / f".doctor-{os.getpid()}"
        probe.touch(mode=0o600)
        probe.unlink()
    except OSError as error:
        return f"{folder} cannot be written: {error.strerror or error}"
    return None
