"""Regular expressions from settings: slow ones are refused, and accepted ones are quick for every name."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.config.values import groups
from exporter.patterns import CHARACTERS_MAX, OTHER_GROUP, compile_bounded, is_matched
from exporter.transaction_log.counts import Counts
from exporter.transaction_log.events import Event, Happening

ENDLESS = (
    "(a+)+$",
    "(a|aa)*b",
    "(a|a)*b",
    "(?:a?){40}a{40}",
    "a?" * 40 + "a{40}",
    ".*.*.*.*x",
    "([a-z]+-?)*x",
    r"(a*)*\1b",
)
USUAL = (
    "orders-.*",
    r"(.*)-prod-(.*)-v\d+",
    "(?i)Payments.*",
    "(foo|bar)-.*",
    r"[a-z]+-[a-z]+-\d+",
    "(ab)*",
    "a{3}",
    "",
)
CPU_S_MAX = 5


@pytest.mark.parametrize("pattern", ENDLESS)
def test_what_could_take_for_ever_is_refused_with_its_reason(pattern: str) -> None:
    """Taken, it would stop the process at the first id that is chosen for it."""
    with pytest.raises(
        ValueError,
        match=r"must have regular expressions that are quick to match; .* of 'mine': matching could take too long",
    ):
        groups([{"name": "mine", "match": pattern}])


@pytest.mark.parametrize("pattern", USUAL)
def test_what_operators_write_is_taken(pattern: str) -> None:
    """A rule that is too strict would stop exporters at their next start."""
    assert groups([{"name": "mine", "match": pattern}])[0][1].pattern == pattern


@pytest.mark.filterwarnings("ignore:Possible (nested set|set)")
@given(st.text("ab.*+?()|[]{2,}\\^$", max_size=12), st.text("ab", max_size=CHARACTERS_MAX))
@settings(max_examples=300)
def test_whatever_is_taken_ends_soon(pattern: str, name: str) -> None:
    """Patterns by chance, before long names that nearly match."""
    try:
        taken = compile_bounded(pattern)
    except (re.error, ValueError, OverflowError):
        return
    for tried in (name, "a" * CHARACTERS_MAX, "ab" * (CHARACTERS_MAX // 2) + "b"):
        began = time.process_time()
        is_matched(taken, tried)
        assert time.process_time() - began < CPU_S_MAX


def test_a_long_id_is_of_no_group() -> None:
    """32,000 characters, three times `.*`: that would be 10^13 ways."""
    counts = Counts([("mine", compile_bounded(".*.*.*-"))])

    for name in ("x" * 32_000, "orders-"):
        happening = Happening.INITIALIZED
        counts.count(Event(happening=happening, transactional_id=name, producer_id=1, producer_epoch=0, at_ms=0))

    assert dict(counts.counted().initialized) == {"mine": 1, OTHER_GROUP: 1}


def test_reading_patterns_warns_of_nothing() -> None:
    """The parser of `re` is not public; where it moves, this says so."""
    program = "from exporter.patterns import compile_bounded; print(compile_bounded('a.*').pattern)"

    assert subprocess.check_output([sys.executable, "-W", "error", "-c", program], text=True) == "a.*\n"
