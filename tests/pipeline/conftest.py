"""Starts the pipeline as a program of its own, and ends it after the test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.pipeline.program import Begin, Program


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Starts programs, and ends those that still run after the test."""
    begun: list[Program] = []

    def begin_one(arguments: Sequence[str]) -> Program:
        begun.append(Program(arguments, tmp_path / "said.txt"))
        return begun[-1]

    yield begin_one
    for program in begun:
        program.end()
