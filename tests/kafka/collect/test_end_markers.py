"""Reads markers from fetched records: which count, where the next fetch begins, and invalid bytes."""

from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.evaluation.verdicts import OutcomeEvidence, Verdict
from exporter.kafka.collect import end_markers, log_reader
from exporter.kafka.errors import MalformedResponseError
from exporter.kafka.messages.fetch import MEGABYTE, fetched
from exporter.kafka.messages.log_batches import Stretch
from exporter.snapshot import EndMarker
from tests.kafka.fake_broker import FakeCluster, Received
from tests.kafka.fake_model import Partition, Producer
from tests.kafka.log_batch import ABORT, COMMIT, KRAFT_LEADER_CHANGE, batch, reader_into
from tests.kafka.scene import PRODUCER_ID_UNKNOWN, collector_of, evaluated, scene

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


def stretch(*pieces: bytes, at: int = 10, newest: tuple[int, int] = (3, 1015)) -> Stretch:
    """A stretch whose pieces were read from `at` on."""
    read = Stretch(topic="orders", partition=1, producer_id=7, newest=newest)
    reader = reader_into(read.take, at)
    for piece in pieces:
        reader.take(piece)
    return read


def marker(offset: int, epoch: int, ended: int | None, *, commit: bool) -> EndMarker:
    return EndMarker(
        producer_id=7,
        topic="orders",
        partition=1,
        producer_epoch=epoch,
        ended_epoch=ended,
        offset=offset,
        timestamp_ms=1000 + offset,
        commit=commit,
    )


def test_the_markers_of_one_producer_are_read_in_full() -> None:
    """Kind, epoch, offset, time and what they ended; records, other producers and other control records are not."""
    read = stretch(LOG)

    expected = [marker(11, 3, 3, commit=True), marker(14, 4, None, commit=False)]
    assert list(read.markers.values()) == expected
    assert read.oldest_epoch == 3
    assert (read.has_newest, read.has_gaps, read.has_empty_marker) == (True, False, False)


def test_a_marker_ends_the_records_before_it_and_no_others() -> None:
    """TransactionVersion 2: each marker carries the epoch after that of its records, pieces of the log or not."""
    log = [batch(0, epoch=3), batch(1, producer_id=8, epoch=9), batch(2, epoch=4, control=COMMIT), batch(3, epoch=4)]
    read = stretch(*log, batch(4, epoch=5, control=ABORT), batch(5, epoch=5, control=ABORT), at=0)

    assert [(each.producer_epoch, each.ended_epoch) for each in read.markers.values()] == [(4, 3), (5, 4), (5, None)]


def test_what_is_gone_from_a_log_is_seen() -> None:
    """Offsets that are missing, a first batch at another offset than requested, a marker without its record."""
    for log, at in [(batch(10) + batch(12), 10), (batch(11), 10)]:
        assert stretch(log, at=at).has_gaps
    emptied = bytearray(batch(10, control=COMMIT)[:61])
    struct.pack_into(">i", emptied, 8, 61 - 12)
    struct.pack_into(">i", emptied, 57, 0)
    read = stretch(bytes(emptied))
    assert (read.has_empty_marker, read.markers, read.has_gaps) == (True, {}, False)
    assert not stretch(LOG, newest=(3, 999)).has_newest


def test_batches_before_the_requested_offset_are_left_out() -> None:
    """Brokers answer with the whole batch or segment piece that holds the offset."""
    read = stretch(LOG, at=13)

    assert list(read.markers) == [14]
    assert not read.has_gaps


def test_a_batch_that_is_cut_short_is_fetched_again() -> None:
    """Brokers cut the last batch of a response: the next fetch begins with it."""
    whole = len(LOG) - len(batch(15))

    for length in range(whole, len(LOG)):
        reader = reader_into(lambda *_: None, 10)
        reader.take(LOG[:length])
        assert (len(stretch(LOG[:length]).markers), reader.next_offset) == (2, 15)


def test_a_response_about_more_than_was_requested_is_ignored() -> None:
    """One partition was requested; without records it is at its end."""
    with pytest.raises(MalformedResponseError):
        fetched(SimpleNamespace(responses=[], throttle_time_ms=0))
    for records in (b"", None):
        partition = SimpleNamespace(error_code=6, records=records, high_watermark=10)
        answer = SimpleNamespace(responses=[SimpleNamespace(partitions=[partition])])
        assert fetched(answer) == (6, b"", 10)


def test_every_flipped_bit_is_a_response_or_a_fault() -> None:
    """Any bytes give markers or a MalformedResponseError, nothing else, and reading ends."""
    refused = 0
    for bit in range(len(LOG) * 8):
        damaged = bytearray(LOG)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            stretch(bytes(damaged))
        except MalformedResponseError:
            refused += 1

    assert 0 < refused < len(LOG) * 8


SETTLING = [(3, 3), (4, 3), (4, None)]
UNCLEAR = [(3, None), (3, 2), (4, 4), (9, None)]


@pytest.mark.parametrize(("epoch", "ended"), [*SETTLING, *UNCLEAR])
def test_only_a_commit_that_is_surely_its_own_ends_the_search(epoch: int, ended: int | None) -> None:
    """A commit at the very epoch may be that of the epoch before, until the records that it ended are seen."""
    place = end_markers.MarkerPlace(
        topic="orders", partition=1, leader=1, producer_id=7, epochs=frozenset({3}), newest=(3, 0), times_ms=()
    )

    assert place.is_settled_by(marker(11, epoch, ended, commit=True)) is ((epoch, ended) in SETTLING)
    assert not place.is_settled_by(marker(11, epoch, ended, commit=False))


def test_a_partition_that_cannot_be_searched_is_reported_and_costs_no_verdict() -> None:
    """Brokers without a response to Fetch: the hang is still proved, and the unsearched places are reported."""
    model = scene()
    model.topics["lively"][2].producers.append(Producer(PRODUCER_ID_UNKNOWN, last_timestamp_ms=1))

    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        snapshot = collector.collect(seen_before=None, search_logs=True)

    row = next(suspect for suspect in evaluated(snapshot).suspects if suspect.producer_id == PRODUCER_ID_UNKNOWN)
    assert (row.verdict, row.outcome_evidence) == (Verdict.HANGING_NO_TRANSACTIONAL_ID, OutcomeEvidence.NONE)
    *unsearched, forgotten = row.outcome_seen
    assert tuple(unsearched) == row.outcome_unsearched
    assert forgotten.startswith("how long partitions remember producers is unknown")
    places = {
        sentence.split(" could not be searched for the transaction's marker: broker at ")[0]
        for sentence in row.outcome_seen
    }
    assert "lively-2" in places
    assert f"{row.topic}-{row.partition}" in places, "its own partition is searched as well"


@pytest.mark.parametrize(("created", "searched"), [(0, 0), (1, 1), (2, 2), (99, 2)])
def test_topics_that_are_created_during_the_search_are_searched_too(created: int, searched: int) -> None:
    """Whoever creates a topic now and then must not prevent an abort; with one for each request of metadata, it is said."""
    model = scene()
    made: list[str] = []

    def create(received: Received) -> None:
        asked = [
            earlier for earlier in cluster.received if earlier.api == "Metadata" and earlier.request.topics is None
        ]
        if received in asked[1:] and len(made) < created:  # the first one is the cycle's own
            made.append(f"made-{len(made)}")
            model.topics[made[-1]] = [Partition(1)]

    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        cluster.on_request = create
        snapshot = collector.collect(seen_before=None, search_logs=True)
        scanned = {
            topic.name
            for received in cluster.received
            if received.api == "DescribeProducers"
            for topic in received.request.topics
        }

    assert len(made) == min(created, searched + 1)
    assert scanned & set(made) == set(made[:searched])
    row = next(suspect for suspect in evaluated(snapshot).suspects if suspect.producer_id == PRODUCER_ID_UNKNOWN)
    unsearched = [sentence for sentence in row.outcome_unsearched if "became visible" in sentence]
    assert unsearched == (
        [f"topic {made[searched]} became visible during the search, and was not searched"] if created > searched else []
    )


class _EndlessLogs:
    """The client of a broker with logs that never end: 1 MB and 5 ms for each piece."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.pieces = 0.0, 0
        monkeypatch.setattr(end_markers, "offset_at_time", self._offset_at_time)
        monkeypatch.setattr(log_reader, "read_piece", self._read_piece)

    def clock(self) -> float:
        return self.now

    async def _offset_at_time(self, *_: Any) -> int:
        return 0

    async def _read_piece(
        self, _client: Any, _leader: int, _partition: Any, _offset: int, take: Any
    ) -> tuple[int, int]:
        self.now += 0.005
        self.pieces += 1
        take.__self__.next_offset += 1_000
        return MEGABYTE, 10**12


@pytest.mark.parametrize(
    ("time_limit_s", "pieces", "why"),
    [(1_000.0, 256, "256 MB of logs were read in total"), (0.5, 100, "the time limit was reached")],
)
def test_a_search_keeps_to_its_limits_however_many_places_there_are(
    time_limit_s: float, pieces: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes and time, to the piece; each place that was not searched says why."""
    logs: Any = _EndlessLogs(monkeypatch)
    search = end_markers._Search(logs, deadline=time_limit_s)
    places = [
        end_markers.MarkerPlace(
            topic="t",
            partition=number,
            leader=1,
            producer_id=number,
            epochs=frozenset({3}),
            newest=(3, 10**6),
            times_ms=(1_000, 900_000),
        )
        for number in range(200)
    ]
    asyncio.run(end_markers._look_at_all(search, places))

    assert logs.pieces == pytest.approx(pieces, abs=1)
    assert [producer_id for producer_id, _ in search.unread] == list(range(200))
    assert search.unread[-1] == (199, f"t-199 was not searched: {why}")
