"""`docs/performance.md` has the figures that were measured, and a goal that is missed says so."""

from __future__ import annotations

import copy
import json
from typing import Any

from benchmarks.document import FIGURES, PARTS, PEER_HEAD, document
from benchmarks.goals import FLOOR_RATIO_MAX, goals


def figures() -> dict[str, Any]:
    measured: dict[str, Any] = json.loads(FIGURES.read_text())
    return measured


def rows_of(page: str) -> list[list[str]]:
    """The table against other programs."""
    table = page.split("## Against other programs")[1].split("\n\n")[2]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_every_part_has_figures() -> None:
    """No part is left out of the document, and no figure is of a part that is gone."""
    assert set(figures()) == set(PARTS)


def test_the_page_changes_with_each_part() -> None:
    """Figures that are twice as large make another page, whichever part they are of."""
    before = figures()
    for part in PARTS:
        changed = copy.deepcopy(before)
        changed[part] = _doubled(changed[part])
        assert document(changed) != document(before), part


def _doubled(value: Any) -> Any:
    """Every fraction in it, which is what was measured."""
    if isinstance(value, dict):
        return {key: _doubled(each) for key, each in value.items()}
    if isinstance(value, list):
        # The first row is a reference: a ratio to it would stay the same.
        return [*value[:1], *(_doubled(each) for each in value[1:])] if len(value) > 1 else [_doubled(value[0])]
    return 2 * value if isinstance(value, float) else value


def test_a_program_that_was_not_measured_is_in_the_table() -> None:
    """Without Go there is no kadm: its column says so, and the others stay."""
    changed = figures()
    for shape in changed["scan"]["shapes"]:
        shape["rows"] = [row for row in shape["rows"] if row["name"] != "kadm"]
    column = PEER_HEAD.index("kadm (Go)")
    head, _, *rows = rows_of(document(changed))
    before = rows_of(document(figures()))[2:]

    assert tuple(head) == PEER_HEAD
    assert {row[column] for row in rows} == {"not measured"}
    assert [row[:column] + row[column + 1 :] for row in rows] == [row[:column] + row[column + 1 :] for row in before]


def test_a_goal_that_is_missed_says_by_how_much_and_why() -> None:
    """Twice the allowed ratio to the floor is missed by as much, for a reason; a tenth of it is kept, and needs none."""
    measured = figures()
    for ratio, verdict in ((2 * FLOOR_RATIO_MAX, "missed: 2.00 times the goal"), (FLOOR_RATIO_MAX / 10, "kept")):
        changed = copy.deepcopy(measured)
        for row in changed["scan"]["shapes"][0]["rows"]:
            row["floor_ratio"] = ratio
        first = next(goals(changed))
        assert first[3] == verdict
        assert bool(first[4]) == (verdict != "kept")
