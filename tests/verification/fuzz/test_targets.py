"""Runs every target for a short time, on random bytes and slightly damaged valid input; `make fuzz` continues this."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.verification.fuzz.targets import TARGETS

EDITS = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 8), st.binary(max_size=8)), min_size=1, max_size=4
)
"""(where, how many bytes go, what comes in their place)."""


def edited(seed: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    for where, gone, put in edits:
        at = int(where * len(seed))
        seed = seed[:at] + put + seed[at + gone :]
    return seed


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_true_is_read(name: str) -> None:
    """Else nothing that is near it would be tried."""
    assert all(map(TARGETS[name].take, TARGETS[name].seeds))


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=150)
@given(noise=st.binary(max_size=300), edits=EDITS, number=st.integers(0, 1))
def test_anything_is_read_or_refused(
    name: str, noise: bytes, edits: list[tuple[float, int, bytes]], number: int
) -> None:
    """By the one exception that is expected, and by two readers alike."""
    target = TARGETS[name]
    target.take(noise)
    target.take(edited(target.seeds[number % len(target.seeds)], edits))
