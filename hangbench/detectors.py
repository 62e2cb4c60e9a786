"""The detectors that come with HangBench, by name, and those of a user, `NAME=COMMAND`."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from hangbench.adapters.answer import ktx_command
from hangbench.command import CommandDetector
from hangbench.detector import READS_TWICE, Detector
from hangbench.kafka.maven import cache_folder
from hangbench.parties.detector import PartyDetector

AnyDetector = TypeVar("AnyDetector", Detector, PartyDetector)
ADAPTERS: Final = Path(__file__).with_name("adapters")
GO: Final = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false -mod=readonly"}
BUILD_TIMEOUT_S: Final = 600


class UnknownDetectorError(ValueError):
    """The choice names no detector, or one twice."""


class DetectorUnavailable(Exception):
    """The detector cannot be had here; the sentence says what is missing."""


def _python(module: str) -> list[str]:
    return [sys.executable, "-m", f"hangbench.adapters.{module}"]


def kafka_transactions() -> Detector:
    return CommandDetector("kafka-transactions", _python("kafka_tool"))


def kafka_python() -> Detector:
    return CommandDetector("kafka-python", _python("kafka_python"))


def kadm() -> Detector:
    """franz-go's kadm. Raises DetectorUnavailable."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    program = cache_folder() / "hangbench-kadm"
    build_go(ADAPTERS / "kadm", program)
    return CommandDetector("kadm", [str(program)])


def build_go(module: Path, program: Path) -> None:
    """Builds the module in this folder. Raises DetectorUnavailable where Go is missing, or cannot build it."""
    go = shutil.which("go")
    if go is None:
        raise DetectorUnavailable("kadm needs Go: https://go.dev/doc/install")
    build = subprocess.run(
        [go, "build", "-trimpath", "-o", str(program), "."],
        cwd=module,
        env={**os.environ, **GO},
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    if build.returncode != 0:
        raise DetectorUnavailable(f"kadm cannot be built: {build.stderr.strip()[-500:]}")


def script() -> Detector:
    return CommandDetector("script", ["bash", str(ADAPTERS / "ongoing_too_long.sh")])


def ktx() -> Detector:
    """Raises DetectorUnavailable."""
    _require_ktx()
    return CommandDetector("ktx", _python("ktx"), moments=READS_TWICE)


def ktx_why() -> PartyDetector:
    """Raises DetectorUnavailable."""
    _require_ktx()
    return PartyDetector("ktx", _python("ktx_why"))


def at_the_end() -> PartyDetector:
    return PartyDetector("at-the-end", _python("at_the_end"))


def _require_ktx() -> None:
    """Raises DetectorUnavailable where there is no `ktx`."""
    try:
        first = ktx_command()[0]
    except ValueError as error:
        raise DetectorUnavailable(f"KTX is not a command: {error}") from error
    if shutil.which(first) is None:
        raise DetectorUnavailable(f"{first} is not on the PATH: install kafka-transaction-exporter, or set KTX")


DETECTORS: Final[Mapping[str, Callable[[], Detector]]] = {
    "kafka-transactions": kafka_transactions,
    "kadm": kadm,
    "kafka-python": kafka_python,
    "script": script,
    "ktx": ktx,
}


def detector_of(chosen: str) -> Detector:
    """A name of the list, or `NAME=COMMAND`. Raises DetectorUnavailable and UnknownDetectorError."""
    if chosen in DETECTORS:
        return DETECTORS[chosen]()
    return CommandDetector(*_named_command(chosen, DETECTORS))


def _named_command(chosen: str, known: Iterable[str]) -> tuple[str, list[str]]:
    """Raises DetectorUnavailable and UnknownDetectorError."""
    name, is_command, command = chosen.partition("=")
    if not name or not is_command or not command.strip():
        raise UnknownDetectorError(f"{chosen} is none of {', '.join(known)}, and not NAME=COMMAND")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UnknownDetectorError(f"detector {name}: {command} is not a command: {error}") from error
    if shutil.which(words[0]) is None:
        raise DetectorUnavailable(f"detector {name}: there is no program {words[0]}")
    return name, words


def detectors_of(chosen: Sequence[str]) -> list[Detector]:
    """In this order. Raises what `detector_of` raises, also for a name that is given twice."""
    return _with_own_names([detector_of(one) for one in chosen])


def _with_own_names(detectors: list[AnyDetector]) -> list[AnyDetector]:
    names = [detector.name for detector in detectors]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UnknownDetectorError(f"each detector needs a name of its own: {', '.join(twice)} is there twice")
    return detectors


PARTY_DETECTORS: Final[Mapping[str, Callable[[], PartyDetector]]] = {"at-the-end": at_the_end, "ktx": ktx_why}


def party_detectors_of(chosen: Sequence[str]) -> list[PartyDetector]:
    """The same for those that are asked about parties."""
    return _with_own_names(
        [
            PARTY_DETECTORS[one]() if one in PARTY_DETECTORS else PartyDetector(*_named_command(one, PARTY_DETECTORS))
            for one in chosen
        ]
    )
