"""Each word of the exporter changes when a fact that it rests on is taken away: the table is in tests/verification/."""

from __future__ import annotations

import pytest

from tests.words import FACTS, Fact, Words, words_without

NOTHING, *TAKEN_AWAY = FACTS


def test_with_every_fact_everything_is_said() -> None:
    """A cluster where a hang can be proved, and may be aborted."""
    assert words_without(NOTHING) == Words(
        doctor="all",
        page="green: No suspect in N partitions, all read",
        coverage="complete",
        verdict="`hanging_no_transactional_id`",
        plan="writes",
    )


@pytest.mark.parametrize("fact", TAKEN_AWAY, ids=lambda fact: fact.name)
def test_no_word_is_left_that_rests_on_what_is_missing(fact: Fact) -> None:
    """Nothing is written, and what is green is what `doctor` calls provable."""
    words = words_without(fact)

    assert words.plan != "writes"
    assert words.page.startswith("green") == (words.doctor == "all")
    if words.verdict.startswith("`hanging"):
        assert words.doctor == ("all" if words.verdict == "`hanging_by_offsets`" else "some")
