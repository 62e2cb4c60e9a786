"""Writes a capsule as one zip file, and reads one from anybody: within limits, by known names only, unpacking nothing.

docs/capsules.md has the format.
"""

from __future__ import annotations

import io
import json
import platform
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from exporter import __version__
from exporter.capsules.codec import BytePool, decoded, encoded
from exporter.capsules.cycle import CapsuleError, RecordedCycle
from exporter.capsules.replaying import DAMAGED
from exporter.evaluation.document import document
from exporter.evaluation.evaluate import worst_first
from exporter.evaluation.humanize import humanize_count
from exporter.evaluation.verdicts import Evaluation
from exporter.files import MEGABYTE, contents

FORMAT: Final = "kafka-transaction-exporter capsule"
VERSION: Final = 1
FILE_BYTES_MAX: Final = 64 * MEGABYTE
TEXT_BYTES_MAX: Final = 48 * MEGABYTE
POOL_BYTES_MAX: Final = 256 * MEGABYTE
CYCLES_MAX: Final = 100
_INDEX, _SUMMARY, _POOL = "index.json", "SUMMARY.txt", "bytes.bin"
_MEMBER: Final = re.compile(r"index\.json|SUMMARY\.txt|bytes\.bin|(cycle|expected)-[1-9]\d{0,2}\.json")
_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""Time of every member: the same contents give the same file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capsule:
    """Cycles of one incident, with the result of each."""

    cycles: tuple[RecordedCycle, ...]
    expected: tuple[bytes, ...]
    incident: str = ""
    names: str = "kept"
    """`kept` or `replaced`."""
    summary: str = ""
    exporter: str = __version__
    python: str = platform.python_version()


def expected_of(evaluation: Evaluation) -> bytes:
    """The result of a cycle: the JSON that `find-hanging --all` prints."""
    return json.dumps(document(evaluation, worst_first(evaluation)), indent=2).encode()


class CapsuleTooLargeError(CapsuleError):
    """Nobody could read the file."""


def text_size(cycle: RecordedCycle, expected: bytes) -> int:
    """Returns the bytes that a cycle adds to the text of a capsule."""
    return len(_text_of(cycle, BytePool())) + len(expected)


def _text_of(cycle: RecordedCycle, pool: BytePool) -> bytes:
    return json.dumps(encoded(cycle, RecordedCycle, pool), separators=(",", ":")).encode()


def pack(capsule: Capsule, *, level: int = 9) -> bytes:
    """Returns the bytes of the file; `level` is the compression's, from 1 (fast) to 9. Raises CapsuleTooLargeError."""
    texts = {name: getattr(capsule, name) for name in ("exporter", "python", "incident", "names")}
    index = {"format": FORMAT, "version": VERSION, "cycles": len(capsule.cycles), **texts}
    pool, members = BytePool(), {_INDEX: json.dumps(index, indent=2).encode(), _SUMMARY: capsule.summary.encode()}
    for number, (cycle, expected) in enumerate(zip(capsule.cycles, capsule.expected, strict=True), 1):
        members[f"cycle-{number}.json"] = _text_of(cycle, pool)
        members[f"expected-{number}.json"] = expected
    size = sum(map(len, members.values()))
    if size > TEXT_BYTES_MAX:
        cycles = humanize_count(len(capsule.cycles), "cycle")
        raise CapsuleTooLargeError(
            f"the text of {cycles} with so many transactions is of {size / MEGABYTE:.0f} MB; a capsule may have "
            f"{TEXT_BYTES_MAX // MEGABYTE}"
        )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in {**members, _POOL: bytes(pool.content)}.items():
            archive.writestr(zipfile.ZipInfo(name, _NO_TIME), content, zipfile.ZIP_DEFLATED, compresslevel=level)
    return file.getvalue()


def load(path: Path) -> Capsule:
    """Reads a file. Raises CapsuleError."""
    try:
        return unpack(contents(path, bytes_max=FILE_BYTES_MAX))
    except OSError as error:
        raise CapsuleError(f"{path} cannot be read: {error.strerror or error}") from error
    except CapsuleError as error:
        raise CapsuleError(f"{path} cannot be used: {error}") from error


def unpack(content: bytes) -> Capsule:
    """Reads the bytes of a file. Raises CapsuleError."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = _members(archive)
        index = json.loads(members[_INDEX])
        _check(index)
        pool, numbers = BytePool(members[_POOL]), range(1, index["cycles"] + 1)
        texts = {name: str(index[name]) for name in ("exporter", "python", "incident", "names")}
        cycles = (json.loads(members[f"cycle-{number}.json"]) for number in numbers)
        return Capsule(
            cycles=tuple(decoded(cycle, RecordedCycle, pool) for cycle in cycles),
            expected=tuple(members[f"expected-{number}.json"] for number in numbers),
            summary=members[_SUMMARY].decode(),
            **texts,
        )
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise CapsuleError(f"it is not a zip file, or damaged: {error}") from error
    except DAMAGED as error:
        raise CapsuleError(f"it is damaged: {type(error).__name__}: {str(error)[:200]}") from error


def _check(index: Mapping[str, Any]) -> None:
    if index.get("format") != FORMAT:
        raise CapsuleError("it is a zip file, but not a capsule of this exporter")
    if index.get("version") != VERSION:
        raise CapsuleError(f"it has version {index.get('version')!r} of the format; this exporter knows {VERSION}")
    if not 1 <= index["cycles"] <= CYCLES_MAX:
        raise CapsuleError(f"it has {index['cycles']} cycles; 1 to {CYCLES_MAX} are possible")


def _members(archive: zipfile.ZipFile) -> Mapping[str, bytes]:
    """Reads the members with known names. The size that a member announces is not believed."""
    members: dict[str, bytes] = {}
    left = TEXT_BYTES_MAX
    for info in archive.infolist():
        if not _MEMBER.fullmatch(info.filename) or info.filename in members:
            raise CapsuleError(f"it has a member that no capsule has, or has it twice: {info.filename[:80]!r}")
        most = POOL_BYTES_MAX if info.filename == _POOL else left
        with archive.open(info) as file:
            content = members[info.filename] = file.read(most + 1)
        if len(content) > most:
            raise CapsuleError(f"its member {info.filename} has more than {most // MEGABYTE} MB")
        left -= 0 if info.filename == _POOL else len(content)
    return members
