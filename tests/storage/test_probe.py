"""What rounds of commits show of a store: that it has conditional writes, that it has none, or why nobody can tell."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.pipeline import delta
from exporter.pipeline.delta import (
    PROBE_ROUNDS,
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
    rounds += [[WON, LOST, LOST], [WON, WON, LOST]]
    with pytest.raises(TableError, match="ignores conditional writes"):
        asked()
    assert rounds == []


def test_another_failure_is_said_at_once(rounds: list[list[TableError | None]]) -> None:
    """Wrong credentials are not tried again."""
    rounds += [[STRANGE, STRANGE]] * 2
    with pytest.raises(TableError, match="Invalid table version"):
        asked()
    assert len(rounds) == 1


def test_losers_without_a_winner_are_no_proof(rounds: list[list[TableError | None]]) -> None:
    rounds += [[WON, LOST], [LOST, LOST]]
    with pytest.raises(ConflictError):
        asked()
    assert rounds == []
