"""Marks say which programs a test starts: a fixture gives them to its tests, and a test without one starts none.

`@starts("broker")` below `@pytest.fixture` marks every test that uses the fixture, directly or through other fixtures. A
test that starts a program by itself carries the mark. While a test without a mark runs, this process starts Python only,
and no program is found on the PATH that its children inherit.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

FOREIGN: Final = ("broker", "spark", "browser", "programs", "engine")
"""Marks of tests that start other programs than Python; pyproject.toml describes each."""

OUR_PROGRAMS: Final = re.compile(r"python[0-9.]*|kafka-transaction-exporter")
STARTS: Final = frozenset({"subprocess.Popen", "os.posix_spawn", "os.exec", "os.spawn", "os.system"})
NO_PROGRAMS: Final = "/no-programs-for-tests-without-a-mark"

Fixture = TypeVar("Fixture", bound=Callable[..., object])

_started: list[str] | None = None
"""Foreign programs that the running test tried to start; None while a test may start them."""


def starts(*marks: str) -> Callable[[Fixture], Fixture]:
    """Says of a fixture's function that it starts foreign programs, of these kinds."""
    unknown = set(marks) - set(FOREIGN)
    assert not unknown, f"not a mark of foreign programs: {unknown}"

    def register(function: Fixture) -> Fixture:
        function.starts = marks  # type: ignore[attr-defined]
        return function

    return register


def mark_by_fixtures(item: pytest.Item) -> None:
    """Adds the marks that the item's fixtures carry."""
    fixtures: dict[str, Sequence[Any]] = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009 - not of every Item
    for name in item.fixturenames if isinstance(item, pytest.Function) else ():
        for mark in getattr(fixtures[name][-1].func, "starts", ()) if name in fixtures else ():
            item.add_marker(mark)


def may_start_programs(item: pytest.Item) -> bool:
    """A slow test may, whatever its other marks: no quick run selects it."""
    return any(item.get_closest_marker(mark) for mark in (*FOREIGN, "slow"))


def watch_programs() -> None:
    """Has `only_our_programs` hear of every program that this process starts. It cannot be undone."""
    sys.addaudithook(_hear)


@contextmanager
def only_our_programs() -> Iterator[None]:
    """Within it, a foreign program is not started, and fails the test even where the test catches the exception."""
    global _started  # noqa: PLW0603 - audit hooks are of the process
    started: list[str] = []
    _started = started
    try:
        yield
    finally:
        _started = None
    if started:
        pytest.fail(_complaint(started), pytrace=False)


@contextmanager
def restored_path() -> Iterator[None]:
    """The PATH is restored after any change within it."""
    path = os.environ.get("PATH", "")
    try:
        yield
    finally:
        os.environ["PATH"] = path


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _started is None or event not in STARTS:
        return
    program = str(arguments[1] if event == "os.spawn" else arguments[0])
    if event == "os.system" or OUR_PROGRAMS.fullmatch(Path(program).name) is None:
        _started.append(program)
        raise RuntimeError(_complaint([program]))


def _complaint(programs: list[str]) -> str:
    return f"A test without a mark starts {', '.join(programs)}: mark it, or its fixture, with one of {', '.join(FOREIGN)}."
