"""Reads the instructions of the Dockerfile."""

from __future__ import annotations

from typing import Final

from helm.made import ROOT

DOCKERFILE: Final = ROOT / "Dockerfile"
PLACE: Final = "/opt/kafka-transaction-exporter"
USER: Final = 65532


def instructions(*stages: str) -> list[tuple[str, str]]:
    """(instruction, the rest) of these stages, or of all; lines joined and comments left out."""
    read: list[tuple[str, str]] = []
    stage = ""
    for word, rest in _lines():
        if word == "FROM":
            stage = rest.partition(" AS ")[2]
        if not stages or stage in stages:
            read.append((word, rest))
    return read


def _lines() -> list[tuple[str, str]]:
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.lstrip().startswith("#")]
    text = "\n".join(lines).replace("\\\n", "")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def values_of(word: str, *stages: str) -> list[str]:
    return [rest for instruction, rest in instructions(*stages) if instruction == word]
