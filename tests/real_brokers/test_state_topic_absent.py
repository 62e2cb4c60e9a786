"""A topic `__transaction_state` that is not shown proves nothing: real brokers, behind a gateway, or without that topic."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from examples.workload.producers import OpenTransaction
from exporter.snapshot import STATE_TOPIC
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.hiding_gateway import HidingGateway
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, plant_hang_without_id
from hangbench.kafka.second_door import TwoDoorCluster
from hangbench.waiting import until
from tests.marks import starts
from tests.real_brokers.exporting import called

TOPIC = "orders"
Found = Callable[[str], tuple[str, str]]


@pytest.fixture
def found(tmp_path: Path) -> Found:
    """(verdict, reason) of the one suspect; "" without one."""

    def run(bootstrap: str) -> tuple[str, str]:
        done = called(tmp_path, "find-hanging", "--bootstrap-server", bootstrap, "--topic", TOPIC, "--format", "json")
        rows = json.loads(done.stdout)["transactions"]
        return (rows[0]["verdict"], rows[0]["inconclusive_reason"] or "") if rows else ("", "")

    return run


@pytest.fixture(scope="module")
@starts("broker")
def behind_a_gateway() -> Iterator[tuple[TwoDoorCluster, str]]:
    """Three brokers; (the cluster, the addresses of its gateways). State partitions have one replica each."""
    nodes = 3
    gateways = {node: HidingGateway() for node in range(1, nodes + 1)}
    properties = {"transaction.state.log.replication.factor": 1, "transaction.state.log.min.isr": 1}
    cluster = TwoDoorCluster(
        "4.3.1",
        nodes=nodes,
        properties=properties,
        advertised_ports={node: gateway.port for node, gateway in gateways.items()},
    )
    for node, gateway in gateways.items():
        gateway.lead_to(cluster.door_ports[node])
    with cluster:
        yield cluster, ",".join(gateway.address for gateway in gateways.values())
        for gateway in gateways.values():
            gateway.close()


def test_a_live_transaction_behind_a_gateway_is_never_hanging(
    behind_a_gateway: tuple[TwoDoorCluster, str], found: Found, tmp_path: Path
) -> None:
    """Its coordinator has died, as in a rolling restart: nobody lists it, and nobody was asked who may not show it."""
    cluster, door = behind_a_gateway
    cluster.topics.create(TOPIC)
    with OpenTransaction(cluster.bootstrap, "billing-0", [(TOPIC, 0)], timeout_ms=600_000):
        described = called(
            tmp_path,
            *("describe", "--bootstrap-server", cluster.bootstrap, "--transactional-id", "billing-0"),
            *("--format", "json"),
        )
        coordinator = json.loads(described.stdout)["coordinator"]
        assert found(door) == ("", "")
        cluster.broker(coordinator).kill()
        seen = until(lambda: found(door), lambda suspect: suspect[0] != "")
        doctor = called(tmp_path, "doctor", "--bootstrap-server", door, "--format", "json")
        cluster.broker(coordinator).launch()
        until(lambda: found(cluster.bootstrap), lambda suspect: suspect == ("", ""))

    assert seen[0] == "inconclusive"
    assert json.loads(doctor.stdout)["provable"] == "none"
    assert doctor.returncode == 4


@pytest.fixture(scope="module")
@starts("broker")
def without_transactions() -> Iterator[KafkaCluster]:
    """No producer has ever used a transactional id here."""
    with KafkaCluster("4.3.1", properties=HANGS_CAN_BE_PLANTED) as cluster:
        yield cluster


def test_where_there_never_was_a_state_topic_the_advice_leads_to_the_proof(
    without_transactions: KafkaCluster, found: Found, tmp_path: Path
) -> None:
    """Records that came from another cluster hang; the command that the sentence names makes the topic."""
    cluster = without_transactions
    cluster.topics.create(TOPIC)
    plant_hang_without_id(cluster.bootstrap, TOPIC, 0)
    before = found(cluster.bootstrap)
    doctor = called(tmp_path, "doctor", "--bootstrap-server", cluster.bootstrap)
    tool = "org.apache.kafka.tools.TransactionsCommand"
    with suppress(subprocess.CalledProcessError):  # the id does not exist
        cluster.tool(tool, "--bootstrap-server", cluster.bootstrap, "describe", "--transactional-id", "any")
    after = until(lambda: found(cluster.bootstrap), lambda suspect: suspect[0] != "inconclusive")

    assert before == ("inconclusive", "transaction_state_absent")
    assert f"No hang can be proved: brokers show no topic {STATE_TOPIC}." in doctor.stdout
    command = f"kafka-transactions.sh --bootstrap-server {cluster.bootstrap} describe --transactional-id any"
    assert command in doctor.stdout
    assert doctor.returncode == 4
    assert after == ("hanging_no_transactional_id", "")
