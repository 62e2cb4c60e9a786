"""Which follower's entry contradicts the leader's open transaction, and which does not."""

from __future__ import annotations

import pytest

from exporter.kafka.collect.replicas import has_ended
from exporter.snapshot import OneEntry


def entry(epoch: int, last_sequence: int, start_offset: int) -> OneEntry:
    return OneEntry(
        producer_id=7,
        producer_epoch=epoch,
        last_sequence=last_sequence,
        last_timestamp=1,
        coordinator_epoch=0,
        current_txn_start_offset=start_offset,
    )


@pytest.mark.parametrize(
    ("sentence", "producers", "ended"),
    [
        ("the follower did not answer", None, False),
        ("it does not know the producer: it is behind, or has forgotten", {}, False),
        ("it shows the same transaction open", {7: entry(3, 12, 100)}, False),
        ("it has a marker after all that the leader has", {7: entry(3, 12, -1)}, True),
        ("it has seen the marker and a later transaction", {7: entry(3, 20, 140)}, True),
        ("a marker of TransactionVersion 2 bumped the epoch", {7: entry(4, -1, -1)}, True),
        (
            "it is behind within the transaction: closed only because the open records have not come",
            {7: entry(3, 9, -1)},
            False,
        ),
        ("it is an epoch behind", {7: entry(2, 40, -1)}, False),
        ("another producer's entry says nothing", {8: entry(3, 12, -1)}, False),
    ],
)
def test_a_follower_contradicts_only_with_the_end_in_hand(
    sentence: str, producers: dict[int, OneEntry] | None, *, ended: bool
) -> None:
    """Only a follower that has everything the leader has, and the end, speaks against it."""
    assert has_ended(entry(3, 12, 100), producers) is ended, sentence
