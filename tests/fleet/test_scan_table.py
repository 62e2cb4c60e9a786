"""The rows of the table source: of a fake cluster with an excluded topic, a dead broker and open transactions."""

from __future__ import annotations

from contextlib import closing

from exporter.config.loading import load
from exporter.config.settings import ClusterSettings
from exporter.fleet.data_source import read_table
from exporter.fleet.executor import Clients
from exporter.fleet.scan_table import SCAN
from tests.kafka.fake_broker import FakeCluster
from tests.kafka.loopback import HOST
from tests.kafka.scene import scene


def cluster_at(port: int, **flags: str) -> ClusterSettings:
    named = {name.replace("__", "."): value for name, value in flags.items()}
    settings = load(file=None, environment={}, flags={"kafka.bootstrap.servers": f"{HOST}:{port}", **named}).settings
    return ClusterSettings(name="one", settings=settings)


def test_every_partition_and_every_broker_has_a_row() -> None:
    """Excluded partitions have an answer of their own; what is open is in its partition's row."""
    with FakeCluster(scene(), nodes=2) as cluster, closing(Clients()) as clients:
        table = read_table(cluster_at(cluster.ports[1], scan__topics__exclude="hung"), clients)

    assert table.schema == SCAN
    rows = table.to_pylist()
    of_cluster, *brokers = (row for row in rows if row["topic"] is None)
    assert (of_cluster["broker"], of_cluster["failure"], of_cluster["out_of_date"]) == (-1, None, None)
    assert "DescribeProducers" in {request["api"] for request in of_cluster["requests"]}
    assert [(row["broker"], row["port"], row["failure"]) for row in brokers] == [
        (number, cluster.ports[number], None) for number in (1, 2)
    ]
    partitions = [row for row in rows if row["topic"] is not None]
    assert {row["answer"] for row in partitions if row["topic"] == "hung"} == {"excluded"}
    assert {row["answer"] for row in partitions if row["topic"] != "hung"} == {"read"}
    lively = {row["partition"]: row["open_transactions"] for row in partitions if row["topic"] == "lively"}
    assert sum(map(len, lively.values())) > 0
    assert all(one["start_offset"] >= 0 for found in lively.values() for one in found)


def test_a_cluster_that_does_not_respond_is_nothing_but_its_reason() -> None:
    """One row, with the failure."""
    with closing(Clients()) as clients:
        (row,) = read_table(cluster_at(1, kafka__request__timeout__ms="1000"), clients).to_pylist()
    assert (row["broker"], row["topic"], row["cluster_id"]) == (-1, None, None)
    assert f"broker at {HOST}:1 cannot be connected to" in row["failure"]
