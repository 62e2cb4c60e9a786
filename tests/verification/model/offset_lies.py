"""Puts back what is wrong in other proofs by offsets: the model must find a false hang with each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from exporter.evaluation import rules
from exporter.evaluation.possible_owners import RememberedOffset, exclude, possible_owners
from exporter.kafka import offsets
from exporter.kafka.collect import held_offsets
from exporter.snapshot import CoordinatorTransaction, HeldOffset
from tests.verification.model.defects import Defect
from tests.verification.model.lies import Lie

_ends_of_rows = offsets.ends_of_rows
_MARKER_LOST = (
    *("commit(a)", "send_all_markers(a)", "follower_loses_marker(t, 0)", "move_leader(t, 0)"),
    "begin_and_write(a, t, 0)",
)
_OF_PRODUCERS = ("begin_and_write", "write_late", "commit", "abort", "send_all_markers")


def _newer_are_excluded(held: HeldOffset, before: RememberedOffset | None) -> RememberedOffset:
    """As if a producer id that was not active at the first reading could not own the open records."""
    after = exclude(held, before)
    if before is None or (not before.starts and not before.was_proved):
        return after
    newer = {of.producer_id for of in held.active} - before.starts.keys()
    excluded = after.excluded | newer
    return RememberedOffset(
        leader_epoch=after.leader_epoch, starts=before.starts, excluded=excluded, was_proved=after.was_proved
    )


def _over_elections(held: HeldOffset, before: RememberedOffset | None) -> RememberedOffset:
    """As if an exclusion held in every leader epoch."""
    if before is not None:
        before = RememberedOffset(
            leader_epoch=held.leader_epoch, starts=before.starts, excluded=before.excluded, was_proved=before.was_proved
        )
    return exclude(held, before)


def _of_the_first_list(held: HeldOffset, remembered: RememberedOffset) -> tuple[CoordinatorTransaction, ...]:
    """As if no producer could take the open records into its next transaction meanwhile."""
    return possible_owners(replace(held, later=()), remembered)


_last: list[tuple[Any, Any]] = []


async def _once_for_two(client: Any, topology: Any, rows: Any, leader: Any) -> Any:
    """As if the last stable offset were not read again after the coordinators."""
    if _last and np.array_equal(_last[0][0], rows):
        return _last.pop()[1]
    ends = await _ends_of_rows(client, topology, rows, leader)
    _last[:] = [(rows, ends)]
    return ends


def _lie(situation: str, kinds: tuple[str, ...], places: tuple[str, ...] | None = None) -> Lie:
    expected = (("I1", "by offsets"), ("I5", "ended"))
    return Lie(
        "",
        "a live transaction is called hanging by offsets",
        f"offsets alone: {situation}",
        kinds,
        expected,
        places=places,
    )


OFFSET_DEFECTS: tuple[Defect, ...] = (
    Defect(
        "a producer id that begins later cannot own an older offset",
        ((rules, "exclude", _newer_are_excluded),),
        _lie("behind a live one", _OF_PRODUCERS),
    ),
    Defect(
        "an exclusion holds over elections",
        ((rules, "exclude", _over_elections),),
        _lie("ongoing", _MARKER_LOST, ("pause",)),
    ),
    Defect(
        "the last stable offset is read once",
        ((held_offsets, "ends_of_rows", _once_for_two),),
        _lie("ongoing", _OF_PRODUCERS),
    ),
    Defect(
        "the active transactions are not listed again after the last read",
        ((rules, "possible_owners", _of_the_first_list),),
        _lie("late write", ("begin_and_write",)),
    ),
    Defect(
        "what an unfinished proof shows excludes producers",
        ((rules, "_missing_by_coordinators", lambda _evidence: None),),
        _lie("leaders move", ("cut_off", "move_leader_untold", "begin_and_write", "commit", "send_all_markers")),
    ),
)
