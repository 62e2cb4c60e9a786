"""The transaction log of real brokers, decoded as Kafka's own tool decodes it, shows the true events."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from subprocess import CalledProcessError
from typing import Any

import pytest

from examples.workload.producers import OpenTransaction, run_transaction
from exporter.snapshot import STATE_TOPIC, TransactionState
from exporter.transaction_log.events import Event, Happening, Outcome
from exporter.transaction_log.records import Decoded, Tombstone, TransactionRecord
from hangbench import waiting
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import init_producer_id
from tests.brokers.messages import Logged, events, read_log
from tests.marks import starts
from tests.real_brokers.log_reading import QUICK

PATIENCE_S = 60
TIMEOUT_MS = 1500
STATES = (
    TransactionState.EMPTY,
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
    TransactionState.DEAD,
    TransactionState.PREPARE_EPOCH_FENCE,
)
"""By their numbers in Kafka's TransactionState.java."""
DUMP = {"4.3.1": "org.apache.kafka.tools.DumpLogSegments", "3.9.1": "kafka.tools.DumpLogSegments"}


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("3.9.1", marks=pytest.mark.slow)])
@starts("broker")
def cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Coordinators that look every 200 ms, and forget ids after seconds."""
    with KafkaCluster(request.param, properties=QUICK) as made:
        made.topics.create("t", partitions=2)
        made.topics.create("u")
        yield made


def events_of(logged: list[Logged], transactional_id: str) -> list[Event]:
    """The events of one id."""
    return [event for event in events(logged) if event.transactional_id == transactional_id]


def until(cluster: KafkaCluster, name: str, seen: Callable[[list[Event]], bool]) -> list[Event]:
    """The events of an id once they are as awaited."""
    return waiting.until(lambda: events_of(read_log(cluster.bootstrap), name), seen, pause_s=0.1)


def happenings(events: list[Event]) -> list[tuple[Happening, Outcome | None]]:
    """But for what happens to every id at both ends: being taken, and being forgotten."""
    return [(event.happening, event.outcome) for event in transactions(events)]


def transactions(events: list[Event]) -> list[Event]:
    """Those that belong to a transaction."""
    return [event for event in events if event.happening not in {Happening.INITIALIZED, Happening.EXPIRED}]


def is_over(events: list[Event]) -> bool:
    return bool(happenings(events)) and happenings(events)[-1][0] is Happening.COMPLETED


BEGUN, ADDED = (Happening.BEGUN, None), (Happening.PARTITIONS_ADDED, None)


def ended(outcome: Outcome) -> list[tuple[Happening, Outcome | None]]:
    return [(Happening.PREPARED, outcome), (Happening.COMPLETED, outcome)]


def dumped(cluster: KafkaCluster) -> dict[tuple[int, int], dict[str, Any]]:
    """(partition, offset) -> what Kafka's own decoder says of the record; `{}` of a tombstone."""
    found = {}
    for folder in sorted(cluster.broker(1).directory.glob(f"data/{STATE_TOPIC}-*")):
        for file in sorted(folder.glob("*.log")):
            text = cluster.tool(DUMP[cluster.version], "--transaction-log-decoder", "--files", str(file))
            for line in text.splitlines():
                match = re.fullmatch(r"\| offset: (\d+) .*? key: (.*?)(?: payload: (.*))?", line)
                if match is not None:
                    partition = int(folder.name.rpartition("-")[2])
                    found[partition, int(match[1])] = _said(match[2], match[3])
    return found


def _said(key: str, payload: str | None) -> dict[str, Any]:
    if key.startswith("{"):
        name = json.loads(key)["data"]["transactionalId"]
        if payload is None or payload in {"<DELETE>", "null"}:
            return {"name": name}
        data = json.loads(payload)["data"]
        partitions = {
            (topic["topic"], partition)
            for topic in data["transactionPartitions"] or ()
            for partition in topic["partitionIds"]
        }
        return {
            "name": name,
            "producer": (data["producerId"], data["producerEpoch"]),
            "status": STATES[data["transactionStatus"]],
            "partitions": partitions,
            "last_update_ms": data["transactionLastUpdateTimestampMs"],
            "timeout_ms": data["transactionTimeoutMs"],
            "start_ms": data["transactionStartTimestampMs"],
            "previous_producer_id": data.get("previousProducerId", -1),
            "next_producer_id": data.get("nextProducerId", -1),
            "next_producer_epoch": data.get("nextProducerEpoch", -1),
            "client_transaction_version": data.get("clientTransactionVersion", 0),
        }
    name = key.removeprefix("transaction_metadata::transactionalId=")
    match = re.fullmatch(
        r"producerId:(\d+),producerEpoch:(\d+),state=(\w+),partitions=\[(.*)\],"
        r"txnLastUpdateTimestamp=(\d+),txnTimeoutMs=(\d+)",
        payload or "",
    )
    if match is None:
        return {"name": name}
    partitions = {(named.rpartition("-")[0], int(named.rpartition("-")[2])) for named in match[4].split(",") if named}
    return {
        "name": name,
        "producer": (int(match[1]), int(match[2])),
        "status": TransactionState[re.sub(r"(?<!^)(?=[A-Z])", "_", match[3]).upper()],
        "partitions": partitions,
        "last_update_ms": int(match[5]),
        "timeout_ms": int(match[6]),
    }


def ours(decoded: Decoded) -> dict[str, Any]:
    if isinstance(decoded, Tombstone):
        return {"name": decoded.transactional_id}
    assert isinstance(decoded, TransactionRecord)
    return {
        "name": decoded.transactional_id,
        "producer": (decoded.producer_id, decoded.producer_epoch),
        "status": decoded.status,
        "partitions": set(decoded.partitions),
        "last_update_ms": decoded.last_update_ms,
        "timeout_ms": decoded.timeout_ms,
        "start_ms": decoded.start_ms,
        "previous_producer_id": decoded.previous_producer_id,
        "next_producer_id": decoded.next_producer_id,
        "next_producer_epoch": decoded.next_producer_epoch,
        "client_transaction_version": decoded.client_transaction_version,
    }


def test_a_commit_and_an_abort_are_decoded_with_their_partitions(cluster: KafkaCluster) -> None:
    """Begun, all partitions named once, decided, completed; an abort by the client is neither a time-out nor a fence."""
    name = "app-\u00e9"
    run_transaction(cluster.bootstrap, name, [("t", 0), ("t", 1), ("u", 0)])
    run_transaction(cluster.bootstrap, name, [("t", 0)], outcome="abort")

    events = until(cluster, name, lambda events: happenings(events).count((Happening.COMPLETED, Outcome.ABORTED)) == 1)

    shape = [change for change in happenings(events) if change != ADDED]
    assert shape == [BEGUN, *ended(Outcome.COMMITTED), BEGUN, *ended(Outcome.ABORTED)]
    first = [event for event in events if event.start_ms == transactions(events)[0].start_ms]
    named = [
        partition for event in first for partition in event.partitions if event.happening is not Happening.PREPARED
    ]
    assert sorted(named) == [("t", 0), ("t", 1), ("u", 0)]
    for event in events:
        if event.happening is Happening.PREPARED:
            assert event.duration_ms == event.at_ms - event.start_ms >= 0
        if event.happening is Happening.COMPLETED:
            assert event.duration_ms >= 0


def test_a_time_out_is_distinguished_from_a_fence_and_from_a_client_s_abort(cluster: KafkaCluster) -> None:
    """The coordinator gives one up, and ends another for a newer producer of the same id."""
    silent, fenced = "silent", "fenced"
    left_open = OpenTransaction(cluster.bootstrap, silent, [("t", 0)], timeout_ms=TIMEOUT_MS)
    left_open.__enter__()
    late = until(cluster, silent, is_over)
    zombie = OpenTransaction(cluster.bootstrap, fenced, [("t", 1)])
    zombie.__enter__()
    init_producer_id(cluster.bootstrap, fenced)
    taken_over = until(cluster, fenced, is_over)

    assert happenings(late) == [BEGUN, *ended(Outcome.TIMED_OUT)]
    assert transactions(late)[1].duration_ms >= TIMEOUT_MS
    assert happenings(taken_over) == [BEGUN, *ended(Outcome.FENCED)]
    assert len({event.producer_epoch for event in transactions(taken_over)}) == 1
    first, *_ = (event for event in taken_over if event.happening is Happening.INITIALIZED)
    assert first.producer_epoch == transactions(taken_over)[0].producer_epoch


@pytest.mark.slow
def test_a_client_of_transaction_version_2_is_understood(cluster: KafkaCluster) -> None:
    """Java's own producer bumps the epoch with every end: its commits are commits, and its time-out is one."""
    if cluster.version.startswith("3"):
        pytest.skip("transaction version 2 came with Kafka 4.0")
    perf = "org.apache.kafka.tools.ProducerPerformance"
    common = ("--bootstrap-server", cluster.bootstrap, "--topic", "u", "--record-size", "10", "--throughput", "20")
    commits = ("--num-records", "40", "--transactional-id", "java", "--transaction-duration-ms", "300")
    cluster.tool(perf, *common, *commits)
    stalls = ("--num-records", "200", "--transactional-id", "slow", "--transaction-duration-ms", "9000")
    with pytest.raises(CalledProcessError):
        cluster.tool(perf, *common, *stalls, "--command-property", f"transaction.timeout.ms={TIMEOUT_MS}")

    run_transaction(cluster.bootstrap, "librdkafka", [("u", 0)])

    events = until(cluster, "java", is_over)
    late = until(cluster, "slow", is_over)
    older = until(cluster, "librdkafka", is_over)

    committed = [BEGUN, *ended(Outcome.COMMITTED)]
    count = len(happenings(events)) // len(committed)
    assert happenings(events) == committed * count
    assert count >= 3
    assert len({event.producer_epoch for event in events if event.happening is Happening.BEGUN}) == count
    assert happenings(late)[:3] == [BEGUN, *ended(Outcome.TIMED_OUT)]
    assert [versions_of(one) for one in (events, late[:3], older)] == [{2}, {2}, {0}]


def versions_of(events: list[Event]) -> set[int]:
    """By which the client wrote its transactions."""
    return {event.client_transaction_version for event in events if event.happening is Happening.PREPARED}


@pytest.mark.slow
def test_every_record_is_decoded_as_kafka_does(cluster: KafkaCluster) -> None:
    """Record by record of all that the tests before wrote, tombstones of forgotten ids among them."""
    run_transaction(cluster.bootstrap, "forgotten", [("t", 0)])
    until(cluster, "forgotten", lambda events: events[-1].happening is Happening.EXPIRED)

    logged = {(record.partition, record.offset): ours(record.decoded) for record in read_log(cluster.bootstrap)}
    kafka_says = dumped(cluster)

    assert len(logged) >= 10
    compared = {at: {key: decoded[key] for key in kafka_says[at]} for at, decoded in logged.items() if at in kafka_says}
    assert len(compared) >= len(logged) - 5, "ids are forgotten between the two readings, and little else"
    assert compared == {at: kafka_says[at] for at in compared}
    assert any(set(decoded) == {"name"} for decoded in compared.values())
