"""The reader of the transaction log with brokers that fail, lie or attack: it goes on, says why, and stays small."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from exporter.config.loading import load
from exporter.kafka import state_log
from exporter.kafka.state_log import AGAIN_SECONDS, HEARD_WITHIN_SECONDS, LogUnreadableError, StateLog
from exporter.snapshot import STATE_TOPIC
from hangbench.waiting import until
from tests.kafka.fake_broker import FETCH, SILENCES, FakeCluster, Fault, Received
from tests.kafka.fake_model import Model, Partition
from tests.kafka.log_batch import GZIP, values_batch
from tests.kafka.loopback import HOST

BOMB_BYTES = 50_000_000
TIMEOUT_MS = 400
PATIENCE_S = 30


@dataclass
class Reading:
    """What a reader has returned so far."""

    log: StateLog
    values: list[bytes | None] = field(default_factory=list)
    gaps: list[int] = field(default_factory=list)

    def on(self) -> None:
        one = self.log.read(0.05)
        self.values += [record.value for record in one.records]
        self.gaps += one.gaps

    def until(self, condition: Callable[[], object]) -> None:
        def after_one() -> object:
            self.on()
            return condition()

        until(after_one, patience_s=PATIENCE_S)

    def during(self, seconds: float) -> None:
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            self.on()
            time.sleep(0.001)


def cluster_of(*partitions: Partition) -> FakeCluster:
    cluster = FakeCluster(Model(topics={STATE_TOPIC: list(partitions)}))
    cluster.offered[1] |= FETCH
    return cluster


@contextmanager
def reading(cluster: FakeCluster, **positions: int) -> Iterator[Reading]:
    """From the beginning, or with `p0` from that offset of partition 0."""
    flags = {"kafka.bootstrap.servers": f"{HOST}:{cluster.ports[1]}", "kafka.request.timeout.ms": str(TIMEOUT_MS)}
    kafka = load(file=None, environment={}, flags=flags).settings.kafka
    log = StateLog(kafka, since_ms=0, positions={int(name[1:]): offset for name, offset in positions.items()})
    try:
        yield Reading(log)
    finally:
        began = time.monotonic()
        log.close()
        assert time.monotonic() - began < PATIENCE_S / 10


def fetches(cluster: FakeCluster) -> int:
    return sum(received.api == "Fetch" for received in cluster.received)


def grown(partition: Partition, *values: bytes) -> None:
    """A batch of these is appended."""
    partition.log += values_batch(partition.high_watermark, *values)
    partition.high_watermark += len(values)


def test_records_are_read_once_and_followed() -> None:
    """In a partition with records, in an empty one, and from a position."""
    full, empty, known = Partition(1, high_watermark=0), Partition(1, high_watermark=0), Partition(1, high_watermark=0)
    grown(full, b"a", b"b")
    grown(known, b"old", b"c")
    with cluster_of(full, empty, known) as cluster, reading(cluster, p2=1) as read:
        read.until(lambda: len(read.values) == 3)
        grown(empty, b"d")
        read.until(lambda: len(read.values) == 4)
        read.during(0.3)
        assert sorted(map(bytes, filter(None, read.values))) == [b"a", b"b", b"c", b"d"]
        assert (read.log.positions, read.log.ends) == ({0: 2, 1: 1, 2: 2}, {0: 2, 1: 1, 2: 2})
        assert (read.gaps, read.log.failures, read.log.failure) == ([], {}, None)


def test_nothing_is_unpacked() -> None:
    """A batch of 50 kB that says that it holds 50 MB; what comes behind it is read."""
    bomb = values_batch(0, bytes(BOMB_BYTES), compression=GZIP)
    assert len(bomb) < BOMB_BYTES / 500
    partition = Partition(1, log=bomb, high_watermark=1)
    with cluster_of(partition) as cluster:
        tracemalloc.start()
        try:
            with reading(cluster) as read:
                read.until(lambda: read.gaps)
                assert "set compression.type" in read.log.failures[0]
                assert read.log.ends == {}, "what is behind it is not the whole log"
                read.during(0.3)
            assert tracemalloc.get_traced_memory()[1] < 5_000_000
        finally:
            tracemalloc.stop()
        assert (read.values, read.gaps) == ([], [0])
    with cluster_of(partition) as cluster, reading(cluster) as read:
        read.until(lambda: read.gaps)
        grown(partition, b"a")
        read.until(lambda: read.values == [b"a"])
        assert read.log.failures == {}


@pytest.mark.parametrize("fault", [*Fault, 3, 6, 29, 56, -1], ids=str)
def test_a_fault_of_a_fetch_is_said_and_passes(fault: Fault | int) -> None:
    """No exception, no record twice, and none lost; a silence ends with the time-out."""
    partition, other = Partition(1, high_watermark=0), Partition(1, high_watermark=0)
    grown(partition, b"a")
    grown(other, b"x")
    faulty: list[bool] = [True]
    with cluster_of(partition, other) as cluster:
        cluster.on_request = lambda received: fault if faulty[0] and received.api == "Fetch" else None
        with reading(cluster) as read:
            if fault not in {Fault.CLOSED_AFTER, Fault.EXTENDED}:  # the response is whole
                read.until(lambda: fetches(cluster) > (2 if fault in SILENCES else 0) and read.log.failures)
                assert read.values == []
            faulty[0] = False
            read.until(lambda: len(read.values) >= 2 and not read.log.failures)
            grown(partition, b"b")
            read.until(lambda: len(read.values) >= 3)
            assert sorted(map(bytes, filter(None, read.values))) == [b"a", b"b", b"x"]
            assert read.gaps == []


def test_a_topic_that_cannot_be_read_has_its_error() -> None:
    partition = Partition(1, high_watermark=0)
    with cluster_of(partition) as cluster:
        cluster.model.unreadable_topics.add(STATE_TOPIC)
        with reading(cluster) as read:
            read.until(lambda: read.log.failures)
            assert read.log.failures == {
                0: "not authorized to read __transaction_state (TOPIC_AUTHORIZATION_FAILED): needs READ on it"
            }
            assert read.log.failure is None


@pytest.mark.parametrize(
    ("is_hidden", "failure"), [(False, None), (True, f"{STATE_TOPIC} is not visible: grant DESCRIBE and READ on it")]
)
def test_a_leader_that_refuses_is_no_silent_one(*, is_hidden: bool, failure: str | None) -> None:
    """READ, or DESCRIBE too, is taken away while the log is read: one reason, however long ago the last record came.

    The log had two in turn, twice a second, and one of them was that no leader responds.
    """
    now = time.monotonic()
    partition = Partition(1, high_watermark=0)
    grown(partition, b"a")
    with cluster_of(partition) as cluster, reading(cluster) as read:
        read.log._clock = lambda: now
        read.until(lambda: read.values)
        cluster.model.unreadable_topics.add(STATE_TOPIC)
        if is_hidden:
            cluster.model.hidden_topics |= {(node, STATE_TOPIC) for node in cluster.ports}
        failures: list[str | None] = []

        def is_said() -> bool:
            nonlocal now
            now += max(AGAIN_SECONDS, HEARD_WITHIN_SECONDS)
            failures.append(read.log.failure)
            return len(failures) >= 8 and failures[-1] == failure and bool(read.log.failures)

        read.until(is_said)  # a response of this broker may be late, too, on a busy machine
        assert not [each for each in failures if each is not None and each.startswith("no leader")]


@pytest.mark.parametrize(
    "records",
    [values_batch(0, b"old"), b"\xff" * 100, values_batch(5, b"n")[:-1] + b"\x00", values_batch(2**62, b"far")],
    ids=["of before", "noise", "damaged", "far"],
)
def test_records_that_cannot_follow_are_asked_for_slowly(records: bytes) -> None:
    """A broker that repeats them causes no loop, whatever becomes of the records."""
    partition = Partition(1, log=records, high_watermark=2**62)
    with cluster_of(partition) as cluster, reading(cluster, p0=3) as read:
        read.during(1.5)
        assert fetches(cluster) < 20
        assert len(read.gaps) + len(read.values) < 5
        assert read.log.failures or read.values


def _rename(received: Received, answer: Any) -> None:
    if received.api == "Fetch":
        answer.responses[0].topic = "orders"


def _double(received: Received, answer: Any) -> None:
    if received.api == "Fetch":
        answer.responses[0].partitions *= 2


@pytest.mark.parametrize("change", [_rename, _double])
def test_a_response_about_something_else_is_refused(change: Callable[[Received, Any], None]) -> None:
    """Another topic, or a partition twice."""
    partition = Partition(1, high_watermark=0)
    grown(partition, b"a")
    with cluster_of(partition) as cluster:
        cluster.on_response = change
        with reading(cluster) as read:
            read.until(lambda: read.log.failures)
            assert "which was not requested, or has it twice" in read.log.failures[0]
            assert read.values == []


def test_a_log_that_ends_before_the_position_is_a_gap() -> None:
    """Reading continues at its end, whatever is asked again, and slowly where a broker repeats the refusal."""
    partition = Partition(1, high_watermark=0)
    grown(partition, b"a", b"b")
    with cluster_of(partition) as cluster, reading(cluster, p0=100) as read:
        read.until(lambda: read.gaps)
        assert read.log.positions == {0: 2}
        grown(partition, b"c")
        read.until(lambda: read.values == [b"c"])
        cluster.on_request = lambda received: 1 if received.api == "Fetch" else None
        read.gaps.clear()
        before = fetches(cluster)
        read.during(2.5)
        assert fetches(cluster) - before < 6
        assert len(read.gaps) < 6


def test_records_that_another_leader_replaced_are_a_gap() -> None:
    """The position exists, but the records before it are others: an election that was not clean (KIP-595)."""
    partition = Partition(1, high_watermark=0)
    grown(partition, b"a", b"b", b"c")
    with cluster_of(partition) as cluster, reading(cluster) as read:
        read.until(lambda: len(read.values) == 3)
        partition.log = values_batch(0, b"a") + values_batch(1, b"B", b"C", b"D")
        partition.high_watermark, partition.diverges_at = 4, 1
        read.until(lambda: read.gaps)
        partition.diverges_at = -1
        read.until(lambda: len(read.values) == 6)
        assert (read.gaps, read.values) == ([0], [b"a", b"b", b"c", b"B", b"C", b"D"])


def test_a_broker_that_never_waits_causes_no_loop() -> None:
    """Empty responses at once, instead of after half a second."""
    with cluster_of(Partition(1, high_watermark=0)) as cluster, reading(cluster) as read:
        cluster.fetch_wait_s = 0
        read.during(1)
        assert fetches(cluster) < 70


def test_what_a_broker_sends_at_once_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A response that is larger than the limit of all logs is refused, and said."""
    monkeypatch.setattr(state_log._BUDGET, "limit_bytes", 1_000_000)
    partition = Partition(1, log=values_batch(0, bytes(2_000_000)), high_watermark=1)
    with cluster_of(partition) as cluster, reading(cluster) as read:
        read.until(lambda: read.log.failures)
        assert read.values == []


def test_a_topic_that_is_made_again_is_read_from_its_beginning() -> None:
    """Offsets of the former one mean nothing."""
    partition = Partition(1, high_watermark=0)
    grown(partition, b"a", b"b")
    with cluster_of(partition) as cluster, reading(cluster) as read:
        read.until(lambda: len(read.values) == 2)
        again = Partition(1, high_watermark=0)
        grown(again, b"c")
        cluster.model.topics[STATE_TOPIC] = [again]
        cluster.model.topic_ids[STATE_TOPIC] = UUID(int=7)
        read.until(lambda: b"c" in read.values)
        assert set(read.gaps) == {0}


def test_a_cluster_without_the_topic_says_so() -> None:
    with (
        FakeCluster(Model()) as cluster,
        pytest.raises(LogUnreadableError, match="no client has used"),
        reading(cluster),
    ):
        pass
