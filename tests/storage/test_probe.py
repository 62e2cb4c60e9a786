"""What rounds of commits show of a store: that it has conditional writes, that it has none, or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.pipeline import delta
from exporter.pipeline.delta import (
    PROBE_ROUNDS,
    PROBE_ROUNDS_LOST_MAX,
    ConflictError,
    TableError,
    require_conditional_writes,
)
from exporter.storage.places import place_of

WON = None
LOST = ConflictError("another one has changed the table")
STRANGE = TableError("Invalid table version: 1")


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[list[TableError | None]]:
    """The outcomes of the rounds that follow; those that are left were not asked for."""
    following: list[list[TableError | None]] = []
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setattr(delta, "_race", lambda _probe: following.pop(0))
    monkeypatch.setattr(delta, "remove_folder", lambda _folder: None)
    return following


def asked() -> Any:
    return require_conditional_writes(place_of("s3://bucket/tables"))


def test_one_winner_in_each_of_some_rounds_is_enough(rounds: list[list[TableError | None]]) -> None:
    rounds += [[WON, LOST, LOST]] * PROBE_ROUNDS
    asked()
    assert rounds == []


def test_two_winners_are_one_too_many(rounds: list[list[TableError | None]]) -> None:
    """Also after rounds that show nothing, as a writer makes them whose commit was overwritten (each was seen once)."""
    rounds += [[WON, STRANGE, LOST], [LOST, STRANGE, LOST], [WON, LOST, LOST], [WON, WON, LOST]]
    with pytest.raises(TableError, match="ignores conditional writes"):
        asked()


def test_rounds_that_show_nothing_are_no_proof(rounds: list[list[TableError | None]]) -> None:
    rounds += [[WON, STRANGE, LOST]] * PROBE_ROUNDS_LOST_MAX + [[WON, LOST, LOST]] * (PROBE_ROUNDS - 1)
    rounds.append([WON, STRANGE, LOST])
    with pytest.raises(TableError, match="Invalid table version"):
        asked()
    assert rounds == []


def test_losers_without_a_winner_are_no_proof(rounds: list[list[TableError | None]]) -> None:
    rounds += [[LOST, LOST]] * (PROBE_ROUNDS_LOST_MAX + 1)
    with pytest.raises(ConflictError):
        asked()
    assert rounds == []


def test_where_nobody_can_write_the_reason_is_said_at_once(rounds: list[list[TableError | None]]) -> None:
    """Wrong credentials are not tried again."""
    rounds += [[STRANGE, STRANGE]] * 2
    with pytest.raises(TableError, match="Invalid table version"):
        asked()
    assert len(rounds) == 1
