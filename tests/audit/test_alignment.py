"""The costs of many markers at once are those that the rules about one pair give."""

from __future__ import annotations

from typing import Final

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from exporter.audit.alignment import (
    MISFIT_MAX,
    NEVER,
    OLDER,
    OPPOSITE,
    MarkerColumns,
    has_older_records,
    is_as_decided,
    may_pair,
    misfit_ms,
)
from exporter.audit.decisions import Decision
from exporter.audit.log_transactions import LogTransaction, MarkerKind

INSTANTS: Final = st.integers(0, 5_000)
EPOCHS: Final = st.integers(0, 3)


@st.composite
def decisions(draw: st.DrawFn) -> Decision:
    start_ms = draw(st.none() | INSTANTS)
    decided_ms = draw(st.none() | INSTANTS)
    return Decision(
        transactional_id="app",
        producer_id=7,
        open_epoch=draw(EPOCHS),
        has_own_epoch=draw(st.booleans()),
        is_epoch_sure=draw(st.booleans()),
        marker_epoch=draw(EPOCHS),
        commit=draw(st.booleans()) if decided_ms is not None else None,
        partitions=None,
        start_ms=start_ms,
        decided_ms=decided_ms,
        completed_ms=draw(st.none() | INSTANTS),
        log_partition=0,
        completed_offset=None,
    )


@st.composite
def markers(draw: st.DrawFn) -> LogTransaction:
    first_epoch = draw(st.none() | EPOCHS)
    return LogTransaction(
        topic="orders",
        topic_id="one",
        partition=0,
        producer_id=7,
        first_epoch=first_epoch,
        last_epoch=None if first_epoch is None else first_epoch + draw(st.integers(0, 1)),
        first_offset=None if first_epoch is None else 0,
        marker=draw(st.sampled_from([kind.value for kind in MarkerKind])),
        marker_offset=1,
        marker_epoch=draw(EPOCHS),
        marker_timestamp_ms=draw(INSTANTS),
    )


def cost(decision: Decision, marker: LogTransaction) -> int:
    if not may_pair(decision, marker):
        return NEVER
    is_opposite = not is_as_decided(decision, marker) and marker.marker != MarkerKind.GONE.value
    misfit = min(misfit_ms(decision, marker), MISFIT_MAX)
    return misfit + OPPOSITE * is_opposite + OLDER * has_older_records(decision, marker)


@given(decisions(), st.lists(markers(), min_size=1, max_size=8), st.data())
def test_columns_cost_what_single_pairs_cost(
    decision: Decision, in_log: list[LogTransaction], data: st.DataObject
) -> None:
    places = data.draw(st.lists(st.integers(0, len(in_log) - 1), min_size=1, max_size=8))

    costs = MarkerColumns.of(in_log).costs(decision, np.array(places))

    assert costs.tolist() == [cost(decision, in_log[place]) for place in places]
