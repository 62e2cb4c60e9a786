"""The small file that keeps first-seen times over a restart: one JSON document, replaced atomically."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from exporter.evaluation.memory import Memory, Remembered, TransactionKey

FORMAT = "kafka-transaction-exporter state"
VERSION = 1
_REMEMBERED = ("first_seen_ms", "last_seen_ms", "producer_epoch", "coordinator_start_ms", "completing_since_ms")


class StateFileError(Exception):
    """The file cannot be read or written; the sentence says why. Nothing depends on it but first-seen times."""


class StateFileDamagedError(StateFileError):
    """The file is there and can be read, and is not what it should be."""


def load(path: Path) -> Memory:
    """What the file remembers; an empty memory when there is none yet.

    Raises StateFileDamagedError for a damaged or foreign file, StateFileError for one that cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Memory()
    except OSError as error:
        raise StateFileError(f"{path} cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise StateFileDamagedError(f"{path} is not a state file of this program: {error}") from error
    try:
        return _memory(json.loads(text))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StateFileDamagedError(f"{path} is not a state file of this program: {error}") from error


def set_aside(path: Path) -> Path:
    """Move a damaged file out of the way, where somebody can look at it; its new place. Raises StateFileError."""
    for number in range(1, 1000):
        aside = path.with_name(f"{path.name}.damaged-{number}")
        if not aside.exists():
            try:
                return path.rename(aside)
            except OSError as error:
                raise StateFileError(f"{path} cannot be moved to {aside}: {error}") from error
    raise StateFileError(f"{path.parent} holds too many damaged state files: remove some")


def save(path: Path, memory: Memory) -> None:
    """Replace the file as a whole: a reader, or a crash, sees the old one or the new one. Raises StateFileError."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("w", encoding="utf-8") as file:
            json.dump(_document(memory), file, separators=(",", ":"))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise StateFileError(f"{path} cannot be written: {error}") from error


def _document(memory: Memory) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "cluster_id": memory.cluster_id,
        "transactions": [
            [*key, *(getattr(remembered, name) for name in _REMEMBERED)]
            for key, remembered in memory.transactions.items()
        ],
    }


def _memory(document: Mapping[str, Any]) -> Memory:
    if document["format"] != FORMAT or document["version"] != VERSION:
        raise ValueError(f"format {document.get('format')!r}, version {document.get('version')!r}")
    transactions = {}
    for topic, partition, producer_id, start_offset, *remembered in document["transactions"]:
        numbers = (partition, producer_id, start_offset, *remembered)
        if not isinstance(topic, str) or not all(type(number) is int for number in numbers):
            raise ValueError("a transaction is not a topic and numbers")
        key = TransactionKey(topic, partition, producer_id, start_offset)
        transactions[key] = Remembered(**dict(zip(_REMEMBERED, remembered, strict=True)))
    if not isinstance(document["cluster_id"], str):
        raise TypeError("cluster_id is not a string")
    return Memory(cluster_id=document["cluster_id"], transactions=MappingProxyType(transactions))
