"""The sentence names the real cause where brokers respond, and not those that were asked; or not for these ids."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.snapshot import STATE_TOPIC
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.go_between import GoBetween
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, plant_hang, plant_hang_without_id
from hangbench.kafka.second_door import TwoDoorCluster
from tests.marks import starts
from tests.real_brokers.exporting import called


@pytest.fixture
@starts("broker")
def port_forwarded() -> Iterator[tuple[KafkaCluster, str]]:
    """Three brokers whose advertised addresses are one: (the cluster, that address), which leads to the first."""
    forward = GoBetween()
    advertised = dict.fromkeys((1, 2, 3), forward.port)
    cluster = TwoDoorCluster("4.3.1", nodes=3, properties=HANGS_CAN_BE_PLANTED, advertised_ports=advertised)
    forward.lead_to(cluster.door_ports[1])
    with cluster:
        yield cluster, forward.address
    forward.close()


def test_a_port_forward_where_all_names_lead_to_one_broker(
    port_forwarded: tuple[KafkaCluster, str], tmp_path: Path
) -> None:
    """It responds for all of them, also as a follower: nothing is proved, nothing is complete, and the cause is named."""
    cluster, door = port_forwarded
    topic = cluster.topics.create("orders", partitions=3)
    for partition in range(3):
        plant_hang(cluster.bootstrap, topic, partition, f"app-{partition}")

    found = called(tmp_path, "find-hanging", "--bootstrap-server", door, "--format", "json")
    doctor = called(tmp_path, "doctor", "--bootstrap-server", door)

    rows = json.loads(found.stdout)["transactions"]
    assert {row["inconclusive_reason"] for row in rows} == {"address_of_another_broker"}
    assert "broker 1, 2, 3 is not reached at an address of its own" in found.stderr
    assert "No hang can be proved: no broker is reached at an address of its own." in doctor.stdout
    assert "a port-forward for each" in doctor.stdout
    assert (found.returncode, doctor.returncode) == (4, 4)


def test_a_transaction_log_with_more_partitions_than_its_coordinators_know(
    make_cluster: Callable[..., KafkaCluster], tmp_path: Path
) -> None:
    """Brokers count the partitions at their start: added ones change where an id belongs, for the exporter alone."""
    cluster = make_cluster("4.3.1", nodes=3)
    topic = cluster.topics.create("orders")
    plant_hang(cluster.bootstrap, topic, 0, "app")
    plant_hang_without_id(cluster.bootstrap, topic, 0)
    cluster.topics.grow(STATE_TOPIC, 11)

    found = called(tmp_path, "find-hanging", "--bootstrap-server", cluster.bootstrap, "--format", "json")
    doctor = called(tmp_path, "doctor", "--bootstrap-server", cluster.bootstrap)

    rows = json.loads(found.stdout)["transactions"]
    assert {row["inconclusive_reason"] for row in rows} == {"not_coordinator"}
    assert "partitions were added to the topic, which needs a restart of every broker" in rows[0]["reason"]
    assert "partitions were added: then restart brokers" in doctor.stdout
    assert "did not respond" not in found.stderr + doctor.stdout
