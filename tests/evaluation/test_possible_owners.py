"""A producer is excluded once a transaction of it has completed while the last stable offset stood still."""

from __future__ import annotations

from typing import Final

import pytest

from exporter.evaluation.possible_owners import EXCLUDED_MAX, RememberedOffset, exclude, possible_owners
from exporter.snapshot import CoordinatorTransaction, HeldOffset, TransactionState

EPOCH: Final = 4
A, B = 1, 2
"""Producer ids."""


def began(producer_id: int, start_ms: int | None) -> CoordinatorTransaction:
    """An active transaction on the partition."""
    return CoordinatorTransaction(
        transactional_id=f"id-{producer_id}",
        producer_id=producer_id,
        state=TransactionState.ONGOING,
        coordinator=1,
        state_partition=0,
        producer_epoch=0,
        timeout_ms=60_000,
        start_ms=start_ms,
        partitions=frozenset({("orders", 0)}),
    )


def held(
    *active: CoordinatorTransaction, later: tuple[CoordinatorTransaction, ...] | None = None, epoch: int = EPOCH
) -> HeldOffset:
    """Described twice; the same, if `later` does not say otherwise."""
    return HeldOffset(leader_epoch=epoch, described=(active, active if later is None else later))


def after(*cycles: HeldOffset) -> RememberedOffset:
    """Returns what is remembered after these cycles."""
    remembered: RememberedOffset | None = None
    for cycle in cycles:
        remembered = exclude(cycle, remembered)
    assert remembered is not None
    return remembered


@pytest.mark.parametrize(
    ("cycles", "excluded"),
    [
        ((held(began(A, 10)), held(began(A, 20))), {A}),
        ((held(began(A, 10)), held()), {A}),
        ((held(began(A, 10)), held(began(A, 10))), set()),
        ((held(began(A, 10)),), set()),
        ((held(began(A, 10), later=(began(A, 20),)),), {A}),
        ((held(began(A, 10), later=()),), {A}),
        ((held(later=(began(A, 10),)),), set()),
        ((held(later=(began(A, 10),)), held(began(B, 20))), {A}),
        ((held(began(A, 10)), held(began(A, 10), later=(began(A, 20),))), {A}),
        ((held(began(A, 10)), held(began(A, 20), epoch=EPOCH + 1)), set()),
        ((held(began(A, 10)), held(began(A, None))), set()),
        ((held(began(A, 10), later=(began(A, None),)),), set()),
        ((held(began(A, None)), held(began(A, 20))), set()),
    ],
    ids=[
        "the next transaction is active",
        "none is active any more",
        "the same is active",
        "nothing is known from before",
        "it completed between the two descriptions of one cycle, and the next one is active",
        "it completed between them, and none is active",
        "it began between them",
        "it began between those of the cycle before",
        "it completed between those of the second cycle",
        "another leader epoch",
        "the start of the active one is unknown",
        "the start that was described later is unknown",
        "the start of the first one is unknown",
    ],
)
def test_a_producer_is_excluded_when_its_transaction_has_completed(
    cycles: tuple[HeldOffset, ...], excluded: set[int]
) -> None:
    """The offset was read after the completion, in one leader epoch."""
    assert after(*cycles).excluded == excluded


def test_what_is_described_after_the_last_read_is_compared_by_the_next_proof() -> None:
    """It may own the records, or have taken them; the offset was not read after it."""
    first = HeldOffset(leader_epoch=EPOCH, described=((began(A, 10),),), later=(began(A, 20), began(B, 20)))

    once = after(first)
    twice = after(first, held(began(B, 20)))

    assert once.excluded == set()
    assert [(owner.producer_id, owner.start_ms) for owner in possible_owners(first, once)] == [(A, 20), (B, 20)]
    assert twice.excluded == {A}
    assert after(first, held(began(B, 30))).excluded == {A, B}


def test_a_start_that_the_last_description_does_not_know_excludes_nobody() -> None:
    """The same transaction has a start in the next description."""
    first = HeldOffset(leader_epoch=EPOCH, described=((),), later=(began(A, None),))

    assert after(first, held(began(A, 10))).excluded == set()


def test_who_was_active_at_the_last_read_may_have_ended_it_since() -> None:
    """Its transaction is gone from the last description: whether the offset still stands there is not known."""
    just_gone = HeldOffset(leader_epoch=EPOCH, described=((), (began(A, 10),)), later=())

    remembered = after(just_gone)

    assert [owner.producer_id for owner in possible_owners(just_gone, remembered)] == [A]
    assert not remembered.was_proved


def test_each_description_is_compared_with_those_before() -> None:
    """It began after the first and has completed before the third; who is active in the last one alone may own it."""
    several = HeldOffset(leader_epoch=EPOCH, described=((), (began(A, 10),), (began(B, 20),)))

    remembered = after(several)

    assert remembered.excluded == {A}
    assert [owner.producer_id for owner in possible_owners(several, remembered)] == [B]
    assert not remembered.was_proved


def test_an_excluded_producer_stays_excluded_and_owns_nothing_that_begins_later() -> None:
    """Its starts are not kept; whoever is new may own the records."""
    remembered = after(held(began(A, 10)), held(), held(began(A, 30)))
    now = held(began(A, 40), began(B, 40))

    assert remembered.starts == {}
    assert [owner.producer_id for owner in possible_owners(now, exclude(now, remembered))] == [B]


def test_producers_that_come_once_are_forgotten_in_time() -> None:
    """An open offset keeps no list that grows for ever; who is active stays excluded."""
    known = RememberedOffset(
        leader_epoch=EPOCH, starts={B: 10}, excluded=frozenset({A, *range(100, 100 + EXCLUDED_MAX)})
    )

    remembered = exclude(held(began(A, 20)), known)

    assert remembered.excluded == {A}
    assert remembered.starts == {}
    assert remembered.was_proved
