"""What is read of a log to explain a transaction: what is kept, what is missing, and what no peer can make expensive."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from exporter.kafka.collect import origin, state_history
from exporter.kafka.collect.origin import ProducerTrace
from exporter.kafka.collect.state_history import StatePartition
from exporter.kafka.errors import MalformedResponseError
from exporter.snapshot import TransactionKey, TransactionState
from exporter.snapshot.origin import PartitionLog
from exporter.transaction_log.records import Tombstone, TransactionRecord
from tests.kafka.log_batch import ABORT, COMMIT, GZIP, batch, log_batch, reader_into
from tests.transaction_log.builders import EMPTY, key_of, value_of

OPENED = TransactionKey("orders", 3, 7, 4)


def trace_of(opened: TransactionKey = OPENED) -> ProducerTrace:
    return ProducerTrace(PartitionLog(topic="orders", partition=3, leader=1, leader_epoch=0), opened)


def test_batches_markers_and_others_are_kept_apart() -> None:
    """The producer's batches before and after the start offset, its markers, and who else has ended here."""
    trace = trace_of()
    reader = reader_into(trace.take)
    reader.take(batch(0) + batch(1, control=COMMIT) + batch(2, producer_id=8) + batch(3, producer_id=8, control=ABORT))
    reader.take(batch(4) + batch(6, epoch=4))
    log = trace.log_between(0, reader.next_offset)

    assert [(one.offset, one.producer_epoch) for one in log.batches] == [(0, 3), (4, 3), (6, 4)]
    assert [(one.offset, one.commit) for one in log.markers] == [(1, True)]
    assert dict(log.ended_before) == {8: 3}
    assert (log.gaps, log.oldest_by_broker_ms, log.marker_before_ms) == ((6,), 1001, 1003)
    assert (log.is_whole(0, 4), log.is_whole(0, 7), log.is_whole(1, 8)) == (True, False, False)


def test_many_batches_markers_and_producers_take_no_more_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last before the start offset and the first after it; too many markers are no answer."""
    monkeypatch.setattr(origin, "NOTED_MAX", 3)
    trace = trace_of(OPENED._replace(start_offset=1000))
    reader = reader_into(trace.take)
    ours = origin.KEPT_MAX + 5
    for number in range(2 * origin.KEPT_MAX):
        other = batch(2 * number, producer_id=100 + number, control=ABORT)
        reader.take(batch(2 * number) if number < ours else other)

    assert len(trace.before) == origin.KEPT_MAX
    assert trace.before[0].offset == 10
    assert (len(trace.others), len(trace.gaps)) == (3, 3)
    end = reader.next_offset
    with pytest.raises(MalformedResponseError, match="more than 3 markers"):
        reader.take(b"".join(batch(end + number, control=ABORT) for number in range(4)))


def state(name: str, *, producer_id: int = 7) -> tuple[bytes, bytes]:
    """Key and value of an id that was initialized."""
    empty = replace(EMPTY, transactional_id=name, producer_id=producer_id)
    return key_of(name), value_of(empty, flexible=True)


def written(offset: int, *records: tuple[bytes, bytes | None], compression: int = 0) -> bytes:
    rows = ((1000 + offset + number, key, value, ()) for number, (key, value) in enumerate(records))
    return log_batch(rows, base_offset=offset, compression=compression)


def partition(name: str | None = None) -> StatePartition:
    return StatePartition(
        number=1, leader=1, leader_epoch=2, wanted=7, ids=set() if name is None else {name}, begins_at_zero=True
    )


def test_an_id_is_found_by_its_producer_and_followed_from_then_on() -> None:
    """Other ids are counted only; a tombstone belongs to the life of the id."""
    read = partition()
    gone, _ = state("app")
    reader_into(read.take).take(
        written(0, state("other", producer_id=8), state("app"), state("other", producer_id=9), (gone, None))
    )

    assert [type(one.decoded) for one in read.states] == [TransactionRecord, Tombstone]
    first = read.states[0].decoded
    assert isinstance(first, TransactionRecord)
    assert (first.transactional_id, first.status, read.states[0].offset) == ("app", TransactionState.EMPTY, 1)
    assert (read.ids, read.producer_ids, read.records) == ({"app"}, {7, 8, 9}, 4)
    assert not read.has_gaps


def test_records_that_compaction_removed_are_missed() -> None:
    """Between two batches, and within one: its last offset stays."""
    between, within = partition(), partition()
    reader_into(between.take).take(written(0, state("app")) + written(5, state("app")))
    shortened = bytearray(written(0, state("app")))
    struct.pack_into(">i", shortened, 23, 4)  # the last offset's delta
    reader_into(within.take).take(bytes(shortened))

    assert (between.has_gaps, within.has_gaps) == (True, True)


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ((struct.pack(">hh", 9, 3) + b"app", b""), "unknown version 9 of a key"),
        ((state("app")[0], b"\x00\x00short"), "bytes"),
    ],
)
def test_a_record_that_cannot_be_decoded_is_a_gap_and_no_end(record: tuple[bytes, bytes], why: str) -> None:
    """What follows is read; that something is missing is said, so nothing rests on its absence."""
    read = partition("app")
    reader_into(read.take).take(written(0, record, state("app")))

    assert why in read.unread
    assert len(read.states) == 1


def test_compressed_records_are_not_unpacked() -> None:
    """Coordinators write none, and a small one can become large."""
    read = partition("app")
    reader_into(read.take).take(written(0, state("app"), state("app"), compression=GZIP))

    assert read.unread == "offset 0 is compressed"
    assert not read.states


def test_a_long_life_of_an_id_is_cut_at_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is dropped counts as missing."""
    monkeypatch.setattr(state_history, "STATES_MAX", 2)
    read = partition("app")
    reader_into(read.take).take(written(0, *[state("app")] * 3))

    assert ([one.offset for one in read.states], read.has_gaps) == ([1, 2], True)
