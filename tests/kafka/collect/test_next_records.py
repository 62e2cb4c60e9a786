"""Offsets before the last stable offset are read: markers and aborted records hold nobody up who reads on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.kafka.collect.next_records import next_committed, with_next_offsets
from exporter.kafka.errors import BrokerFault, FaultReason, MalformedResponseError
from exporter.kafka.messages.fetch import AbortedTransaction
from exporter.snapshot import NO_LEADER, GroupOffset, PositionRead
from tests.kafka.log_batch import ABORT, COMMIT, batch

ABORTED = (AbortedTransaction(7, 10),)
STABLE = 13


@pytest.mark.parametrize(
    ("sentence", "log", "aborted", "offset", "found"),
    [
        ("markers only", [batch(11, control=COMMIT), batch(12, control=ABORT)], (), 11, STABLE),
        ("aborted records", [batch(10), batch(11), batch(12, control=ABORT)], ABORTED, 10, STABLE),
        ("aborted, from the middle on", [batch(11), batch(12, control=ABORT)], ABORTED, 11, STABLE),
        ("a committed record", [batch(10), batch(11), batch(12, control=COMMIT)], (), 10, 10),
        ("one behind a marker", [batch(11, control=COMMIT), batch(12, producer_id=8)], (), 11, 12),
        ("one of another producer", [batch(10), batch(11, producer_id=8), batch(12)], ABORTED, 10, 11),
        ("one of the next transaction", [batch(10), batch(11, control=ABORT), batch(12)], ABORTED, 10, 12),
        ("one that is aborted later only", [batch(10), batch(11)], (AbortedTransaction(7, 11),), 10, 10),
        ("the piece ends before", [batch(10), batch(11)], ABORTED, 10, None),
        ("nothing", [], (), 10, None),
        ("offsets that compaction removed", [batch(12, control=ABORT)], (), 10, STABLE),
    ],
)
def test_the_next_committed_record(
    sentence: str, log: list[bytes], aborted: tuple[AbortedTransaction, ...], offset: int, found: int | None
) -> None:
    assert next_committed(b"".join(log), aborted, offset, STABLE)[0] == found, sentence


class Leader:
    """A leader that serves the same piece of a log to everybody, and counts."""

    def __init__(self, log: list[bytes], *, error: int = 0, fault: Exception | None = None) -> None:
        self.log, self.error, self.fault = log, error, fault
        self.offsets: list[int] = []

    async def gather(self, coroutines: Any) -> list[Any]:
        return [await each for each in coroutines]

    async def request(self, broker: int, api: str, request: Any, read: Callable[[Any], Any]) -> Any:
        assert (broker, api, request.isolation_level) == (1, "Fetch", 1)
        self.offsets.append(request.topics[0].partitions[0].fetch_offset)
        if self.fault is not None:
            raise self.fault
        aborted = [SimpleNamespace(producer_id=7, first_offset=10)]
        partition = SimpleNamespace(
            error_code=self.error, records=b"".join(self.log), high_watermark=20, aborted_transactions=aborted
        )
        return read(SimpleNamespace(responses=[SimpleNamespace(partitions=[partition])]))


def next_offsets(
    leader: Leader, *offsets: int, broker: int = 1, ends: tuple[int, int] = (STABLE, 20), pieces_max: int = 4
) -> list[int | None]:
    return cycle(leader, *offsets, broker=broker, ends=ends, pieces_max=pieces_max)[0]


def cycle(
    leader: Leader,
    *offsets: int,
    broker: int = 1,
    ends: tuple[int, int] = (STABLE, 20),
    pieces_max: int = 4,
    earlier: tuple[PositionRead, ...] = (),
    topic_id: str = "first",
) -> tuple[list[int | None], tuple[PositionRead, ...]]:
    client: Any = leader
    topology: Any = SimpleNamespace(leader_of=lambda *_: (broker, 0), topic_id_of=lambda _: topic_id)
    groups = [GroupOffset(group=f"g{offset}", topic="orders", partition=0, offset=offset) for offset in offsets]
    found, read = asyncio.run(
        with_next_offsets(
            client, topology, groups, {("orders", 0): ends}, earlier=earlier, positions_max=2, pieces_max=pieces_max
        )
    )
    return [each.next_offset for each in found], read


def test_only_positions_before_the_last_stable_offset_are_read() -> None:
    """Each offset of a partition once, and the nearest first."""
    leader = Leader([batch(10), batch(11), batch(12, control=ABORT)])

    found = next_offsets(leader, 10, 11, 10, STABLE, STABLE + 1, -1, ends=(STABLE, 20))

    assert found == [STABLE, STABLE, STABLE, None, None, None]
    assert leader.offsets == [11, 10]


@pytest.mark.parametrize("ends", [(STABLE, STABLE), (-1, 20)])
def test_nothing_is_read_where_nobody_can_stand_still(ends: tuple[int, int]) -> None:
    leader = Leader([])

    assert next_offsets(leader, 10, ends=ends) == [None]
    assert leader.offsets == []


class LeaderOfPieces(Leader):
    """Serves one batch for each request."""

    async def request(self, broker: int, api: str, request: Any, read: Callable[[Any], Any]) -> Any:
        offset = request.topics[0].partitions[0].fetch_offset
        whole, self.log = self.log, self.log[offset - 10 : offset - 9]
        try:
            return await super().request(broker, api, request, read)
        finally:
            self.log = whole


def test_aborted_transactions_are_read_through_and_from_afar() -> None:
    aborted = [batch(10), batch(11), batch(12, control=ABORT)]
    far = Leader([batch(5000, control=ABORT)])

    assert next_offsets(LeaderOfPieces(aborted), 10, pieces_max=3) == [STABLE]
    assert next_offsets(far, 10, ends=(5000, 6000)) == [5000]
    assert next_offsets(LeaderOfPieces(aborted[:1]), 10) == [None], "the log ends before"
    assert next_offsets(LeaderOfPieces(aborted), 10, pieces_max=2) == [None], "as much as is read"


def test_so_many_positions_are_read_in_a_cycle_and_after_a_few_all_are_known() -> None:
    """The nearest first; what is known is not read again, but for a record that compaction may have removed."""
    leader = Leader([batch(9), batch(12, control=ABORT)])

    first, known = cycle(leader, 8, 10, 11, 12)
    second, both = cycle(leader, 8, 10, 11, 12, earlier=known)
    asked, compacted = leader.offsets, Leader([batch(12, control=ABORT)])
    third, _ = cycle(compacted, 8, 10, 11, 12, earlier=both)

    assert (first, second) == ([None, None, STABLE, STABLE], [9, STABLE, STABLE, STABLE])
    assert asked == [12, 11, 10, 8]
    assert (third, compacted.offsets) == ([STABLE, STABLE, STABLE, STABLE], [9])


def test_a_log_is_read_on_from_where_the_last_cycle_ended() -> None:
    """So what is behind a large aborted transaction is found; also where the last stable offset has moved."""
    log = [batch(10), batch(11), batch(12, control=ABORT)]
    leader = LeaderOfPieces(log)

    first, known = cycle(leader, 10, pieces_max=2)
    second, known = cycle(leader, 10, pieces_max=2, earlier=known)
    moved, _ = cycle(LeaderOfPieces([*log, batch(13, producer_id=8)]), 10, ends=(14, 20), pieces_max=2, earlier=known)
    recreated, _ = cycle(LeaderOfPieces(log), 10, pieces_max=2, earlier=known, topic_id="second")

    assert (first, second, moved, recreated) == ([None], [STABLE], [13], [None])
    assert leader.offsets == [10, 11, 12]


@pytest.mark.parametrize(
    "leader",
    [
        Leader([batch(12, control=ABORT)], error=29),
        Leader([], fault=BrokerFault(FaultReason.TIMED_OUT, "broker 1 did not respond")),
    ],
)
def test_what_cannot_be_read_is_unknown(leader: Leader) -> None:
    assert next_offsets(leader, 12) == [None]


def test_a_partition_without_a_leader_is_unknown() -> None:
    assert next_offsets(Leader([]), 12, broker=NO_LEADER) == [None]


def test_a_damaged_piece_is_refused() -> None:
    with pytest.raises(MalformedResponseError):
        next_committed(b"\xff" * 80, (), 10, STABLE)
