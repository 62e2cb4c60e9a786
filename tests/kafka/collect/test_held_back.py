"""Counts records behind a transaction's start: its own, others', and what ends a count early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.kafka.collect import held_back as counting
from exporter.kafka.collect.held_back import HeldBack, held_back
from exporter.kafka.errors import BrokerFault, FaultReason
from tests.kafka.log_batch import ABORT, COMMIT, batch, log_batch

OUT_OF_RANGE = 1


class Leader:
    """A client whose leader serves one batch of a log at a time, from the requested offset on."""

    def __init__(self, log: list[bytes], *, high_watermark: int, fails_at: int = -1, error: int = 0) -> None:
        self.log, self.high_watermark, self.fails_at, self.error = log, high_watermark, fails_at, error
        self.offsets: list[int] = []

    async def request(self, broker: int, api: str, request: Any, read: Callable[[Any], Any], **_: Any) -> Any:
        offset = request.topics[0].partitions[0].fetch_offset
        self.offsets.append(offset)
        assert (broker, api) == (1, "Fetch")
        if offset == self.fails_at:
            raise BrokerFault(FaultReason.TIMED_OUT, "broker 1 did not respond")
        records = next((batch for batch in self.log if int.from_bytes(batch[:8], "big") >= offset), b"")
        partition = SimpleNamespace(error_code=self.error, records=records, high_watermark=self.high_watermark)
        return read(SimpleNamespace(responses=[SimpleNamespace(partitions=[partition])]))


def counted(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> HeldBack:
    async def leader_of(*_: object) -> int:
        return 1

    monkeypatch.setattr(counting, "leader_of", leader_of)
    client: Any = leader
    return asyncio.run(held_back(client, "orders", 1, producer_id=7, start_offset=10))


def plain(offset: int) -> bytes:
    """A record without a transaction."""
    return log_batch([(1000, b"key", b"value", ())], base_offset=offset)


LOG = [
    batch(9),
    batch(10),
    batch(11),
    batch(12, producer_id=8),
    batch(13, epoch=4),
    plain(14),
    batch(15),
    batch(16, producer_id=8, control=COMMIT),
]


def test_own_records_and_those_of_others_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the start offset to the high watermark; a marker ends all epochs of the producer, and is not a record."""
    leader = Leader(LOG, high_watermark=17)

    assert counted(leader, monkeypatch) == HeldBack(own=4, others=2)
    assert leader.offsets == [10, 11, 12, 13, 14, 15, 16]


def test_nobody_waits_for_aborted_records_and_open_ones_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consumers skip what was aborted; what another transaction has open depends on its end."""
    log = [
        batch(10),
        batch(11, producer_id=8),
        batch(12, producer_id=9),
        batch(13, producer_id=8, control=ABORT),
        batch(14, producer_id=8),
        plain(15),
    ]

    assert counted(Leader(log, high_watermark=16), monkeypatch) == HeldBack(own=1, others=1, others_open=2)
    early = counted(Leader(log[:3], high_watermark=16), monkeypatch)
    assert (early.others, early.others_open) == (0, 0), "what is decided later is not called open"


@pytest.mark.parametrize(
    ("leader", "expected"),
    [
        (Leader(LOG, high_watermark=17, error=OUT_OF_RANGE), "broker 1 responded with OFFSET_OUT_OF_RANGE"),
        (Leader(LOG[:3], high_watermark=16), "broker 1 returns nothing at offset 12"),
        (Leader(LOG, high_watermark=17, fails_at=12), "broker 1 did not respond"),
    ],
    ids=["refused", "nothing more", "silent"],
)
def test_a_count_that_ends_early_says_why(leader: Leader, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = counted(leader, monkeypatch)

    assert found.uncounted == expected
    assert (found.own, found.others) == ((0, 0) if leader.error else (2, 0))


def test_no_more_than_the_limit_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that is written to for days has more behind a hang than a command may read."""
    monkeypatch.setattr(counting, "BYTES_MAX", len(batch(10)) + 1)
    leader = Leader(LOG, high_watermark=17)

    assert counted(leader, monkeypatch) == HeldBack(own=2, others=0, uncounted="only the first 0 MB were read")
    assert leader.offsets == [10, 11]
