"""A broker that is cut off from its controller is the operator's first address, and still acts as leader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from exporter.commands import force_terminate
from hangbench.kafka.cluster import Properties
from hangbench.kafka.isolation import IsolatedCluster
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED
from hangbench.situations.ground import leader_ids, until
from hangbench.situations.stages.cut_off import STATE_PARTITIONS
from hangbench.situations.steps import STATE_TOPIC, Client, partition_of
from tests.marks import starts
from tests.real_brokers.attacking import TIMES, Held, aborts, committed_offsets, context_of, settings_of, state_of

CUT: Final = 1
PROPERTIES: Final[Properties] = {
    **HANGS_CAN_BE_PLANTED,
    "transaction.state.log.num.partitions": STATE_PARTITIONS,
    "transaction.state.log.min.isr": 2,
    "replica.lag.time.max.ms": 3000,
}

pytestmark = pytest.mark.slow


@pytest.fixture(params=["4.3.1", "3.9.1"])
@starts("broker")
def cluster(request: pytest.FixtureRequest) -> Iterator[IsolatedCluster]:
    with IsolatedCluster(request.param, nodes=3, properties=PROPERTIES) as cluster:
        Client.begin(cluster.bootstrap, "makes-the-state-topic")
        until(lambda: len(leader_ids(cluster.bootstrap, STATE_TOPIC)) == STATE_PARTITIONS, "the state topic is there")
        yield cluster


def led_by_the_cut(cluster: IsolatedCluster, count: int) -> tuple[str, list[int]]:
    """A topic, and so many of its partitions that broker 1 leads."""
    topic = cluster.topics.create("orders", partitions=3 * count)
    until(lambda: len(leader_ids(cluster.bootstrap, topic)) == 3 * count, "it has leaders")
    led = [partition for partition, leader in leader_ids(cluster.bootstrap, topic).items() if leader == CUT]
    assert len(led) >= count
    return topic, sorted(led)[:count]


def ids_coordinated(cluster: IsolatedCluster, count: int, *, by_cut: bool) -> list[str]:
    """Transactional ids whose coordinator is the broker to be cut off, or is not."""
    leaders = leader_ids(cluster.bootstrap, STATE_TOPIC)
    names = (f"id-{number}" for number in range(1000))
    fitting = (name for name in names if (leaders[partition_of(name, STATE_PARTITIONS)] == CUT) is by_cut)
    return [next(fitting) for _ in range(count)]


def others(cluster: IsolatedCluster) -> str:
    return ",".join(cluster.broker(node_id).address for node_id in (2, 3))


def at_the_others(cluster: IsolatedCluster, client: Client) -> Client:
    return Client(others(cluster), client.transactional_id, client.producer_id, client.producer_epoch)


def cut_off(cluster: IsolatedCluster, topic: str) -> None:
    cluster.cut(CUT)
    for name in (topic, STATE_TOPIC):
        until(lambda fixed=name: CUT not in leader_ids(others(cluster), fixed).values(), f"{name} has other leaders")  # type: ignore[misc]


def test_no_marker_goes_to_a_broker_that_is_cut_off(cluster: IsolatedCluster, tmp_path: Path) -> None:
    """Hangs when it was shown; then its leader is cut off, and at the new one the producers go on and commit."""
    topic, led = led_by_the_cut(cluster, TIMES)
    clients = [Client.begin(cluster.bootstrap, each) for each in ids_coordinated(cluster, TIMES, by_cut=False)]
    for partition, client in zip(led, clients, strict=True):
        client.write(topic, partition)
    first = cluster.broker(CUT).address

    def aborting(partition: int) -> Callable[[Path], int]:
        return lambda folder: aborts(first, folder, topic, partition)

    with Held(tmp_path, [aborting(partition) for partition in led]) as held:
        cut_off(cluster, topic)
        clients = [at_the_others(cluster, client) for client in clients]
        for partition, client in zip(led, clients, strict=True):
            client.add(topic, [partition])
            client.write(topic, partition, sequence=1)
        statuses = held.released()

    assert all(status in {1, 5} or isinstance(status, Exception) for status in statuses), statuses
    sent = [path for path in tmp_path.rglob("audit.jsonl") if '"answered"' in path.read_text()]
    assert sent == []
    for client in clients:
        client.end(commit=True)
    until(lambda: all(state_of(client) == "CompleteCommit" for client in clients), "all are committed")
    cluster.mend(CUT)
    cluster.wait_until_serving()
    seen = committed_offsets(cluster.bootstrap, topic, 3 * TIMES)
    assert {partition: seen[partition] for partition in led} == {partition: [0, 1] for partition in led}


def test_a_coordinator_that_is_cut_off_terminates_nothing(cluster: IsolatedCluster, tmp_path: Path) -> None:
    """Ongoing when it was shown, and for the broker that is cut off it still is; at the new one it was committed."""
    topic = cluster.topics.create("orders", partitions=TIMES)
    clients = [Client.begin(cluster.bootstrap, each) for each in ids_coordinated(cluster, TIMES, by_cut=True)]
    for partition, client in enumerate(clients):
        client.open(topic, partition)
    settings = settings_of(cluster.broker(CUT).address)

    def terminating(client: Client) -> Callable[[Path], int]:
        named = ("force-terminate", "--transactional-id", client.transactional_id, "--yes")
        return lambda folder: force_terminate.run(context_of(folder, *named), settings)

    with Held(tmp_path, [terminating(client) for client in clients]) as held:
        cut_off(cluster, topic)
        clients = [at_the_others(cluster, client) for client in clients]
        for client in clients:
            client.end(commit=True)
        until(lambda: all(state_of(client) == "CompleteCommit" for client in clients), "all are committed")
        statuses = held.released()

    assert all(status in {1, 5} for status in statuses), statuses
    cluster.mend(CUT)
    cluster.wait_until_serving()
    assert committed_offsets(cluster.bootstrap, topic, TIMES) == {partition: [0] for partition in range(TIMES)}
