"""The transactions behind which a cycle looks for consumer groups."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from exporter.kafka.collect import suspects
from exporter.kafka.collect.state import ExaminedEntries
from exporter.snapshot import UNKNOWN_OFFSET
from tests.evaluation.builders import NOW_MS, listed, transaction


def examined(*starts: int) -> ExaminedEntries:
    """Open transactions of the producers 0, 1, ... that begin at these offsets of a partition each."""
    entries = SimpleNamespace(
        current_txn_start_offset=np.array(starts, dtype=np.int64),
        producer_id=np.arange(len(starts), dtype=np.int64),
    )
    return cast("ExaminedEntries", SimpleNamespace(entries=entries))


def holding(starts: list[int], ends: list[tuple[int, int]], described: dict[int, Any]) -> list[int]:
    return suspects._holding_back(examined(*starts), described, np.array(ends, dtype=np.int64))


@pytest.mark.parametrize(
    ("sentence", "end", "described"),
    [
        ("another one is before it", (9, 20), {0: transaction()}),
        ("nothing is behind it", (10, 10), {0: transaction()}),
        ("the offsets are unknown", (UNKNOWN_OFFSET, UNKNOWN_OFFSET), {0: transaction()}),
        ("no earlier cycle has seen it", (10, 20), {0: listed()}),
        ("no coordinator lists it: it is unverified, and its groups are looked for anyway", (10, 20), {}),
    ],
)
def test_no_group_is_looked_for(sentence: str, end: tuple[int, int], described: dict[int, Any]) -> None:
    assert holding([10], [end], described) == [], sentence


def test_those_that_hold_records_back_are_taken_from_the_oldest_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The responses of a broker have a limit; the others are looked for when these have ended."""
    monkeypatch.setattr(suspects, "HOLDING_MAX", 2)
    described = {number: transaction(producer_id=number, start_ms=NOW_MS - number) for number in range(4)}

    assert holding([10, 10, 10, 10], [(10, 20)] * 4, described) == [3, 2]
