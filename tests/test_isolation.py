"""A broker that is cut off from its controller continues as before, and comes back when the network is repaired."""

from __future__ import annotations

import pytest

from examples.workload.producers import run_transaction
from hangbench.kafka.broker import HOST
from hangbench.kafka.isolation import IsolatedCluster
from hangbench.kafka.wire import Wire, metadata
from hangbench.waiting import until

pytestmark = pytest.mark.broker


def leader_named_by(cluster: IsolatedCluster, node_id: int, topic: str) -> int:
    with Wire(HOST, cluster.broker(node_id).port) as wire:
        return int(metadata(wire, [topic]).topics[0].partitions[0].leader_id)


@pytest.mark.parametrize("version", ["4.3.1", pytest.param("3.9.1", marks=pytest.mark.slow)])
def test_a_cut_off_broker_still_believes_that_it_leads(version: str) -> None:
    """It names itself, the other broker names another leader; mended, both name the same, and transactions run."""
    with IsolatedCluster(version, nodes=2) as cluster:
        topic = cluster.topics.create("split")
        run_transaction(cluster.bootstrap, "before", [(topic, 0)], records=1)
        old = leader_named_by(cluster, 1, topic)
        other = 3 - old

        cluster.cut(old)

        until(lambda: leader_named_by(cluster, other, topic) == other)
        assert leader_named_by(cluster, old, topic) == old

        cluster.mend(old)

        until(lambda: leader_named_by(cluster, old, topic) == other)
        cluster.wait_until_serving()
        run_transaction(cluster.bootstrap, "after", [(topic, 0)], records=1)
