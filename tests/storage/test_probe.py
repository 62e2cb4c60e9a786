"""What rounds of commits show of a store: that it has conditional writes, that it has none, or why nobody can tell."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.pipeline import probe
from exporter.pipeline.delta import ConflictError, TableError
from exporter.pipeline.probe import PROBE_ROUNDS, require_conditional_writes
from exporter.storage.places import place_of

WON = None
LOST = ConflictError("another one has changed the table")
STRANGE = TableError("Invalid table version: 1")


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[list[TableError | None]]:
    """The outcomes of the rounds that follow; those that are left were not asked for."""
    following: list[list[TableError | None]] = []
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setattr(probe, "_race", lambda _probe: following.pop(0))
    monkeypatch.setattr(probe, "remove_folder", lambda _folder: None)
    return following


def asked() -> Any:
    return require_conditional_writes(place_of("s3://bucket/tables"))


def test_one_winner_in_each_of_some_rounds_is_enough(rounds: list[list[TableError | None]]) -> None:
    rounds += [[WON, LOST, LOST, LOST]] * PROBE_ROUNDS
    asked()
    assert rounds == []


def test_two_winners_are_one_too_many(rounds: list[list[TableError | None]]) -> None:
    rounds += [[WON, LOST, LOST, LOST], [WON, WON, LOST, LOST]]
    with pytest.raises(TableError, match="ignores conditional writes"):
        asked()
    assert rounds == []


def test_another_failure_is_said_at_once(rounds: list[list[TableError | None]]) -> None:
    """Wrong credentials are not tried again."""
    rounds += [[STRANGE] * 4] * 2
    with pytest.raises(TableError, match="Invalid table version"):
        asked()
    assert len(rounds) == 1


def test_losers_without_a_winner_are_no_proof(rounds: list[list[TableError | None]]) -> None:
    """The store has lost the response to the winner, who tried again and lost: other rounds show it, if any does."""
    one: list[TableError | None] = [WON, LOST, LOST, LOST]
    none: list[TableError | None] = [LOST] * 4
    rounds += [one, none] * (PROBE_ROUNDS - 1) + [one]
    asked()
    assert rounds == []
    rounds += [none] * 2 * PROBE_ROUNDS
    with pytest.raises(TableError, match="has lost responses"):
        asked()
    assert rounds == []
