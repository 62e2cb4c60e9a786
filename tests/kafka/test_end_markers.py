"""Reading markers out of fetched records: what counts, where the next fetch begins, and bytes that make no sense."""

from __future__ import annotations

import struct
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from exporter.evaluation.verdicts import OutcomeEvidence, Verdict
from exporter.kafka import end_markers
from exporter.kafka.errors import MalformedAnswerError
from exporter.snapshot import EndMarker
from tests.kafka.fake_broker import FakeCluster
from tests.kafka.fake_model import Producer
from tests.kafka.scene import PRODUCER_ID_UNKNOWN, collector_of, evaluated, scene

PLACE = end_markers._Place(topic="orders", partition=1, leader=1, producer_id=7, times_ms=(1000,))
CONTROL = 0x20
ATTRIBUTES_AT = 21


def batch(offset: int, *, producer_id: int = 7, epoch: int = 3, control: int | None = None) -> bytes:
    """One record at `offset`; with `control` a control record of that type."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=True,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        batch_size=100_000,
    )
    key = b"k" if control is None else struct.pack(">hh", 0, control)
    builder.append(0, 1000 + offset, key, b"value", [])
    built = bytearray(builder.build())
    struct.pack_into(">q", built, 0, offset)
    if control is not None:
        (attributes,) = struct.unpack_from(">h", built, ATTRIBUTES_AT)
        struct.pack_into(">h", built, ATTRIBUTES_AT, attributes | CONTROL)
    return bytes(built)


def answer(records: bytes | None, error_code: int = 0) -> Any:
    partition = SimpleNamespace(error_code=error_code, records=records)
    return SimpleNamespace(responses=[SimpleNamespace(partitions=[partition])])


ABORT, COMMIT, KRAFT_LEADER_CHANGE = 0, 1, 2
LOG = b"".join(
    [
        batch(10),
        batch(11, control=COMMIT),
        batch(12, producer_id=8, control=COMMIT),
        batch(13, control=KRAFT_LEADER_CHANGE),
        batch(14, epoch=4, control=ABORT),
        batch(15),
    ]
)


def test_the_markers_of_one_producer_are_read_in_full() -> None:
    """Kind, epoch, offset and time of its own markers; records, other producers and other control records are not."""
    read = end_markers._read(answer(LOG), PLACE, 10)

    commit = EndMarker(
        producer_id=7, topic="orders", partition=1, producer_epoch=3, offset=11, timestamp_ms=1011, commit=True
    )
    abort = replace(commit, producer_epoch=4, offset=14, timestamp_ms=1014, commit=False)
    assert read == end_markers._Read((commit, abort), next_offset=16)


def test_a_batch_that_is_cut_short_is_fetched_again() -> None:
    """Brokers cut the last batch of an answer: the next fetch begins with it."""
    whole = len(LOG) - len(batch(15))

    for length in range(whole, len(LOG)):
        read = end_markers._read(answer(LOG[:length]), PLACE, 10)
        assert not isinstance(read, str)
        assert (len(read.markers), read.next_offset) == (2, 15)


@pytest.mark.parametrize(("records", "at"), [(b"", 10), (None, 10)])
def test_the_end_of_the_log_is_where_the_fetch_began(records: bytes | None, at: int) -> None:
    """Nothing there: no marker, and no further fetch."""
    assert end_markers._read(answer(records), PLACE, at) == end_markers._Read((), next_offset=at)


def test_an_error_is_named() -> None:
    """A partition that moved or is refused is told by Kafka's name of the error."""
    assert end_markers._read(answer(None, error_code=6), PLACE, 10) == "NOT_LEADER_OR_FOLLOWER"


def test_an_answer_about_more_than_was_asked_is_not_believed() -> None:
    """One partition was asked for."""
    with pytest.raises(MalformedAnswerError):
        end_markers._read(SimpleNamespace(responses=[]), PLACE, 10)


def test_every_flipped_bit_is_an_answer_or_a_fault() -> None:
    """Whatever comes over the wire: markers or a MalformedAnswerError, nothing else, and it ends."""
    refused = 0
    for bit in range(len(LOG) * 8):
        damaged = bytearray(LOG)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            read = end_markers._read(answer(bytes(damaged)), PLACE, 10)
        except MalformedAnswerError:
            refused += 1
        else:
            assert isinstance(read, end_markers._Read)

    assert 0 < refused < len(LOG) * 8


def test_a_partition_that_cannot_be_searched_is_told_and_costs_no_verdict() -> None:
    """Brokers that answer no Fetch: the hang is proved all the same, and where its end was not looked for is said."""
    model = scene()
    model.topics["lively"][2].producers.append(Producer(PRODUCER_ID_UNKNOWN, last_timestamp_ms=1))

    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        snapshot = collector.collect(seen_before=None, search_logs=True)

    row = next(it for it in evaluated(snapshot).suspects if it.producer_id == PRODUCER_ID_UNKNOWN)
    assert (row.verdict, row.outcome_evidence) == (Verdict.HANGING_NO_TRANSACTIONAL_ID, OutcomeEvidence.NONE)
    (sentence,) = row.outcome_seen
    assert sentence.startswith("lively-2 could not be searched for its end: broker at ")
