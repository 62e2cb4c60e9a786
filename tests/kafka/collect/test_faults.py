"""A failure anywhere in a cycle: every verdict stays true, and missing data is reported as unread.

A cycle of n requests is repeated with the 1st, the 2nd, ... the nth of them failing, in every way, once and always. For
most ways `make test` tries each third request, beginning at another one for each way; `make test-all` tries the others.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import pytest

from exporter.evaluation.verdicts import Verdict
from exporter.kafka.errors import ErrorCode
from tests.kafka.fake_broker import SILENCES, FakeCluster, Fault, Received
from tests.kafka.scene import (
    ALIVE,
    HANGING,
    assert_true_of_the_scene,
    collector_of,
    cycle,
    evaluated,
    remembered,
    scene,
    verdicts,
)

DEADLINE_S = 30.0
SILENT_TIMEOUT_S = 0.15

WAYS: list[Fault | ErrorCode] = [
    *Fault,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    ErrorCode.KAFKA_STORAGE_ERROR,
]

tried: dict[str, int] = {}


@pytest.fixture(scope="module", autouse=True)
def report() -> object:
    """Says at the end how many faults were tried."""
    yield
    print(f"\nfaults tried: {sum(tried.values())}, by way: {tried}")


def once(number: int, way: Fault | int) -> Callable[[Received], Fault | int | None]:
    """The request with this number fails."""
    return lambda received: way if received.number == number else None


def always(number: int, way: Fault | int) -> Callable[[Received], Fault | int | None]:
    """The request with this number fails, and from then on every request for the same API at the same node."""
    failing: list[tuple[int, str]] = []

    def fault(received: Received) -> Fault | int | None:
        if received.number == number:
            failing.append((received.node, received.api))
        return way if (received.node, received.api) in failing else None

    return fault


OFTEN = frozenset({Fault.CUT, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR})
"""Of each kind one or two that every `make check` tries, once."""
ALWAYS = frozenset({Fault.CUT, ErrorCode.NOT_COORDINATOR, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
"""One of each kind, that `make test` tries always."""
ALIKE = frozenset(
    {
        *{Fault.CLOSED, Fault.RESET},  # as CUT: no response
        Fault.TRICKLED,  # as SILENT
        *{Fault.TRUNCATED, Fault.EXTENDED},  # as GARBAGE and EMPTIED: a body that no decoder takes
        *{Fault.LENGTH_ZERO, Fault.LENGTH_NEGATIVE},  # as LENGTH_HUGE
    }
)
"""Left to `make test-all`."""


THIRDS = range(3)
"""The first of each third of the requests. Two nodes take turns, so that two neighbours are alike, and no third is."""


def trial_marks(way: Fault | ErrorCode, third: int, *, lasting: bool) -> list[pytest.MarkDecorator]:
    """No mark: `make check` tries it."""
    if way in OFTEN and not lasting:
        return []
    is_left = way in ALIKE or (lasting and way not in ALWAYS) or third != WAYS.index(way) % len(THIRDS)
    return [pytest.mark.slow if is_left else pytest.mark.long]


TRIALS = [
    pytest.param(way, lasting, third, marks=trial_marks(way, third, lasting=lasting is always))
    for lasting in (once, always)
    for way in WAYS
    for third in THIRDS
]


def requests_of_a_clean_cycle() -> int:
    with FakeCluster(scene(), nodes=2) as cluster, collector_of(cluster) as collector:
        collector.collect(seen_before=None)
        return len(cluster.received)


def test_a_cycle_without_faults_sees_everything_as_it_is() -> None:
    """Every open transaction of the scene gets the verdict that is true of it, and the snapshot is complete."""
    with FakeCluster(scene(), nodes=2) as cluster, collector_of(cluster) as collector:
        snapshot = collector.collect(seen_before=None)

    assert snapshot.is_complete
    assert verdicts(evaluated(snapshot)) == HANGING | ALIVE


@pytest.mark.parametrize(
    ("way", "lasting", "third"),
    TRIALS,
    ids=lambda value: getattr(value, "name", getattr(value, "__name__", str(value))).lower(),
)
def test_no_fault_makes_a_lie(
    way: Fault | ErrorCode,
    lasting: Callable[[int, Fault | ErrorCode], Callable[[Received], Fault | int | None]],
    third: int,
) -> None:
    """With any one request failing the answer is a true snapshot or ClusterUnavailableError; the next cycle is whole."""
    timeout_s = SILENT_TIMEOUT_S if way in SILENCES else 20
    count = requests_of_a_clean_cycle()
    with (
        FakeCluster(scene(), nodes=2) as cluster,
        collector_of(cluster) as patient,
        collector_of(cluster, request_timeout_s=timeout_s, deadline_s=DEADLINE_S) as collector,
    ):
        memory = remembered(patient)  # a busy machine misses a short time-out without a fault
        collector.resume(patient.state())
        for number in range(1 + third, count + 1, len(THIRDS)):
            cluster.restart_numbers()
            cluster.on_request = lasting(number, way)
            began = time.monotonic()
            snapshot = cycle(collector)
            assert time.monotonic() - began < DEADLINE_S + 5
            if snapshot is not None:
                assert_true_of_the_scene(snapshot, memory)
            tried[way.name.lower()] = tried.get(way.name.lower(), 0) + 1

            cluster.on_request = lambda _: None
            if isinstance(way, Fault) and way not in SILENCES:
                assert remembered(collector).transactions.keys() == memory.transactions.keys()


CODES: list[int] = [code for code in range(-1, 136) if code] + [32_000, -32_768]
"""Those of Kafka, and some that Kafka does not have."""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_no_error_code_makes_a_lie(part: int) -> None:
    """Every request with every code that a response may carry, known or not; a part of the codes in each test."""
    count = requests_of_a_clean_cycle()
    with FakeCluster(scene(), nodes=2) as cluster, collector_of(cluster, deadline_s=DEADLINE_S) as collector:
        memory = remembered(collector)
        for code in CODES[part::8]:
            for number in range(1, count + 1):
                cluster.restart_numbers()
                cluster.on_request = once(number, code)
                snapshot = cycle(collector)
                if snapshot is not None:
                    assert_true_of_the_scene(snapshot, memory)
                tried["code"] = tried.get("code", 0) + 1
            cluster.on_request = lambda _: None
            assert remembered(collector).transactions.keys() == memory.transactions.keys()


def repeated(_: Received, response: Any) -> None:
    """Every partition of a response comes twice."""
    for topic in getattr(response, "topics", ()):
        topic.partitions = [*topic.partitions, *topic.partitions]


def unrequested(_: Received, response: Any) -> None:
    """The first topic of a response occurs again under a name that was not requested."""
    topics = getattr(response, "topics", None)
    if topics and hasattr(topics[0].partitions[0] if topics[0].partitions else None, "active_producers"):
        stranger = copy.deepcopy(topics[0])
        stranger.name = "stranger"
        response.topics = [*topics, stranger]


def throttled(_: Received, response: Any) -> None:
    """A request quota: the client must wait."""
    if hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = 30


@pytest.mark.parametrize("change", [repeated, unrequested, throttled])
def test_surplus_data_in_a_response_is_ignored(change: Callable[[Received, Any], None]) -> None:
    """The verdicts are those of a clean cycle, in a snapshot that says that it is whole."""
    with FakeCluster(scene(), nodes=2) as cluster, collector_of(cluster) as collector:
        memory = remembered(collector)
        cluster.on_response = change
        for _ in range(2):
            snapshot = collector.collect(seen_before=None)
            assert verdicts(evaluated(snapshot, memory)) == HANGING | ALIVE


@pytest.mark.parametrize("hours", [1, -1, 10 * 365 * 24, -10 * 365 * 24])
def test_a_clock_that_jumps_makes_no_lie(hours: int) -> None:
    """Between two cycles, forth or back: verdicts stay, no duration is negative, no proof is lost."""
    shift_s = 0.0
    with (
        FakeCluster(scene(), nodes=2) as cluster,
        collector_of(cluster, wall_clock=lambda: time.time() + shift_s) as collector,
    ):
        memory = remembered(collector)
        shift_s = hours * 3600.0
        evaluation = evaluated(collector.collect(seen_before=memory.seen), memory)
        reported = verdicts(evaluation)
        assert {row: reported[row] for row in HANGING} == HANGING
        assert {reported[row] for row in ALIVE} <= {
            *ALIVE.values(),
            Verdict.OVERDUE_AT_COORDINATOR,
            Verdict.STUCK_COMPLETING,
        }
        assert not any(reported[row].is_hanging for row in ALIVE)
        assert min(evaluation.transactions.duration_ms) >= 0
        shift_s = 0.0
        again = evaluated(collector.collect(seen_before=None), evaluation.memory)
    assert verdicts(again) == HANGING | ALIVE
