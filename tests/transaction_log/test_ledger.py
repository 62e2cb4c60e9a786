"""The present and former owner of a producer id, its state and its outcomes, and never more than the log shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.snapshot import TransactionState
from exporter.transaction_log import ledger as module
from exporter.transaction_log.events import Outcome
from exporter.transaction_log.journal import LoggedProducer
from exporter.transaction_log.ledger import Ledger
from exporter.transaction_log.records import Decoded, Tombstone, UnknownVersion
from tests.transaction_log.builders import (
    ABORTED,
    ABORTING,
    COMMITTED,
    COMMITTING,
    EMPTY,
    ONGOING,
    ORDERS,
    START_MS,
    record,
)

BILLS = ("bills", 1)
LOG_PARTITION = 11


def fed(*records: Decoded) -> Ledger:
    """Written into one partition of the log, at their own times."""
    kept = Ledger()
    for written in records:
        kept.take(LOG_PARTITION, written, getattr(written, "last_update_ms", START_MS))
    return kept


def logged(kept: Ledger, producer_id: int = 7, *, read_to_end: bool = True) -> LoggedProducer:
    return kept.journal([producer_id], [LOG_PARTITION] if read_to_end else []).producers[producer_id]


def test_what_runs_is_returned_with_its_start_and_its_decision() -> None:
    """The open transaction, then the same one decided by its coordinator, under the epoch that was open."""
    running = logged(fed(EMPTY, ONGOING))
    fenced = replace(ONGOING, status=TransactionState.PREPARE_ABORT, producer_epoch=4, last_update_ms=START_MS + 20)
    decided = logged(fed(EMPTY, ONGOING, fenced))

    assert (running.transactional_id, running.is_former, running.latest) == ("billing-7", False, ONGOING)
    assert (running.open_epoch, running.prepared_ms, running.ended) == (3, -1, {})
    assert (decided.latest, decided.open_epoch, decided.prepared_ms) == (fenced, 3, START_MS + 20)
    assert decided.ended[ORDERS].outcome is Outcome.FENCED


def test_a_log_that_is_behind_has_no_current_transaction() -> None:
    """Name and past endings are facts all the same."""
    behind = logged(fed(ONGOING, COMMITTING, COMMITTED, replace(ONGOING, start_ms=START_MS + 90)), read_to_end=False)

    assert (behind.latest, behind.open_epoch, behind.prepared_ms) == (None, -1, -1)
    assert (behind.transactional_id, behind.ended[ORDERS].outcome) == ("billing-7", Outcome.COMMITTED)


def test_each_partition_keeps_its_own_newest_ending() -> None:
    """A later transaction elsewhere leaves it as it is; one here replaces it."""
    later = {"start_ms": START_MS + 100, "last_update_ms": START_MS + 120}
    elsewhere = [
        record(TransactionState.ONGOING, partitions=frozenset({BILLS}), **later),
        record(TransactionState.PREPARE_COMMIT, partitions=frozenset({BILLS}), **later),
    ]
    kept = fed(ONGOING, ABORTING, ABORTED, *elsewhere)

    assert {at: end.outcome for at, end in logged(kept).ended.items()} == {
        ORDERS: Outcome.ABORTED,
        BILLS: Outcome.COMMITTED,
    }
    assert logged(kept).ended[ORDERS].decided_ms == ABORTING.last_update_ms

    kept.take(LOG_PARTITION, replace(COMMITTING, start_ms=START_MS + 300, last_update_ms=START_MS + 320), START_MS)
    assert logged(kept).ended[ORDERS].outcome is Outcome.COMMITTED


def test_a_forgotten_id_still_names_its_producer() -> None:
    """After the tombstone the producer id has a former name, its endings, and no present."""
    kept = fed(ONGOING, ABORTING, ABORTED, Tombstone("billing-7"))

    former = logged(kept)
    assert (former.transactional_id, former.is_former, former.latest) == ("billing-7", True, None)
    assert former.ended[ORDERS].outcome is Outcome.ABORTED
    assert kept.transactional_ids == 0


def test_an_id_with_a_new_producer_id_is_both() -> None:
    """Epochs ran out, or the id came back after it was forgotten: the old producer id is a former one."""
    kept = fed(ONGOING, COMMITTING, COMMITTED, replace(EMPTY, producer_id=8, producer_epoch=0))

    assert (logged(kept, 7).is_former, logged(kept, 8).is_former) == (True, False)
    assert logged(kept, 8).transactional_id == "billing-7"


def test_the_log_s_own_word_for_the_producer_id_before_counts() -> None:
    """Read from the middle, the newest record alone names the producer id that the id had."""
    kept = fed(replace(EMPTY, producer_id=8, previous_producer_id=7))

    assert (logged(kept, 7).transactional_id, logged(kept, 7).is_former) == ("billing-7", True)


def test_what_is_not_in_the_log_is_not_in_the_journal() -> None:
    """A producer id without a record, and records of unknown versions."""
    kept = fed(UnknownVersion("value", 9), Tombstone("stranger"))

    assert kept.journal([7], [LOG_PARTITION]).producers == {}


def test_a_truncated_partition_has_no_current_transaction_until_it_is_written_again() -> None:
    """The names stay; another partition of the log is untouched."""
    kept = fed(ONGOING)
    kept.take(2, replace(ONGOING, transactional_id="orders-1", producer_id=9), START_MS)
    kept.forget(LOG_PARTITION)

    assert (logged(kept).latest, logged(kept).transactional_id) == (None, "billing-7")
    assert kept.journal([9], [2]).producers[9].latest is not None

    kept.take(LOG_PARTITION, COMMITTING, START_MS)
    assert logged(kept).latest == COMMITTING


def test_an_id_in_two_partitions_of_the_log_may_expire_in_both() -> None:
    """The number of partitions was changed: that is no reason to read the batch again, and count it twice."""
    kept = Ledger()
    for log_partition in (3, 7):
        kept.take(log_partition, ONGOING, START_MS)
    for log_partition in (3, 7):
        kept.take(log_partition, Tombstone(ONGOING.transactional_id), START_MS)

    assert kept.journal([ONGOING.producer_id], [3, 7]).producers[ONGOING.producer_id].latest is None


def test_memory_is_bounded() -> None:
    """Ids that come and go leave a stated number of former producers; partitions, of endings."""
    kept = Ledger()
    for number in range(module.FORMER_PRODUCERS_MAX + 10):
        name = f"id-{number}"
        kept.take(0, replace(EMPTY, transactional_id=name, producer_id=number + 100), START_MS)
        kept.take(0, Tombstone(name), START_MS)
    for number in range(module.ENDED_PARTITIONS_MAX + 10):
        kept.take(0, replace(COMMITTING, partitions=frozenset({("orders", number)}), start_ms=number), START_MS)

    former = kept.journal(range(100, module.FORMER_PRODUCERS_MAX + 110), [0]).producers
    assert len(former) == module.FORMER_PRODUCERS_MAX
    assert 109 not in former
    ended = kept.journal([7], [0]).producers[7].ended
    assert len(ended) == module.ENDED_PARTITIONS_MAX
    assert ("orders", module.ENDED_PARTITIONS_MAX + 9) in ended


def appeared(name: str, at_ms: int, *, epoch: int = 0) -> Decoded:
    return replace(EMPTY, transactional_id=name, producer_id=at_ms, producer_epoch=epoch, last_update_ms=at_ms)


def used(name: str, at_ms: int, *, since_ms: int) -> Decoded:
    """A record of the id that appeared at `since_ms`."""
    return replace(ONGOING, transactional_id=name, producer_id=since_ms, last_update_ms=at_ms)


ONCE = (appeared("app-1", 10), appeared("app-2", 20), used("app-2", 25, since_ms=20), appeared("app-3", 30))


@pytest.mark.parametrize(
    ("sentence", "records", "takes_new_ids"),
    [
        ("three ids before it", (*ONCE, appeared("app-4", 40)), True),
        ("two before it", (*ONCE[:3], appeared("app-4", 40)), False),
        ("one of three is used again", (*ONCE, appeared("app-4", 40), used("app-1", 41, since_ms=10)), False),
        ("it came again at the next epoch", (*ONCE, appeared("app-4", 40, epoch=1)), False),
        ("its first record is missing", (*ONCE, used("app-4", 40, since_ms=40)), False),
        ("another application", (*ONCE, appeared("other-4", 40)), False),
        ("one of them has expired", (*ONCE, Tombstone("app-1"), appeared("app-4", 40)), False),
    ],
)
def test_an_application_that_takes_a_new_id_each_time(
    sentence: str,
    records: tuple[Decoded, ...],
    takes_new_ids: bool,  # noqa: FBT001 - a case
) -> None:
    """Its ids follow each other, and none is used after the next one has appeared. A pool's ids are used side by side."""
    assert logged(fed(*records), 40).takes_new_ids is takes_new_ids, sentence


def test_ids_of_a_partition_that_is_behind_may_be_used_again_there() -> None:
    kept = fed(*ONCE, appeared("app-4", 40))

    assert not logged(kept, 40, read_to_end=False).takes_new_ids


def test_a_forgotten_partition_takes_its_ids_along() -> None:
    kept = fed(*ONCE)
    kept.forget(LOG_PARTITION)
    for written in (*ONCE[:2], appeared("app-4", 40)):
        kept.take(LOG_PARTITION, written, START_MS)

    assert not logged(kept, 40).takes_new_ids
