"""The three parts of a fleet's cycle without Spark, on a fake cluster."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pyarrow as pa

from exporter.baseline import NO_BASELINE
from exporter.config.loading import load
from exporter.config.settings import ClusterSettings
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Policy
from exporter.fleet.clients import Clients
from exporter.fleet.scan import Budget, plan, read, settle
from tests.kafka.fake_broker import FakeCluster
from tests.kafka.loopback import HOST
from tests.kafka.scene import scene, verdicts


def test_excluded_topics_are_not_read_and_not_unread() -> None:
    """As in the daemon of one cluster: no request, a class of their own, complete coverage, verdicts on the others."""
    with FakeCluster(scene(), nodes=2) as cluster, closing(Clients()) as clients:
        flags = {"kafka.bootstrap.servers": f"{HOST}:{cluster.ports[1]}", "scan.topics.exclude": "hung"}
        settings = load(file=None, environment={}, flags=flags)
        one, budget = ClusterSettings(name="one", kafka=settings.kafka), Budget.of_cycle(settings.scan)
        shares = plan([one], budget, clients)
        table = pa.concat_tables([read(replace(share, cluster=one), budget, clients) for share in shares])
        requests = [logged.request for logged in cluster.received if logged.api == "DescribeProducers"]
        done = settle(
            table, one, budget, clients, memory=Memory(), policy=Policy(), baseline=NO_BASELINE, describe_all=True
        )

    assert done.evaluation is not None
    snapshot = done.evaluation.snapshot
    assert "hung" not in {topic.name for request in requests for topic in request.topics}
    assert (snapshot.partitions.excluded_count, snapshot.is_complete) == (2, True)
    assert {topic for topic, _, _ in verdicts(done.evaluation)} == {"mixed", "lively"}
