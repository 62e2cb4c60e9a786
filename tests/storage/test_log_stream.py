"""The transaction log of real brokers as a stream into a store: table and checkpoint are objects."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import SparkSession

from examples.workload.rhythm import Rhythm
from exporter.config.loading import load
from exporter.pipeline.log_job import read_log, source_of
from exporter.pipeline.tables import Tables
from exporter.pipeline.transaction_log import outcomes_of, read_records
from tests.conftest import FreshName, MakeCluster
from tests.pipeline.log_records import worked
from tests.storage.conftest import Bucket
from tests.workload.conftest import HASTY, PARTITIONS


@pytest.mark.slow
def test_a_real_log_in_a_store_goes_on_where_it_ended(
    make_cluster: MakeCluster, fresh_name: FreshName, spark_on_s3: SparkSession, bucket: Bucket
) -> None:
    """The workload's own counts after each of two runs; a third one finds nothing new, and doubles nothing."""
    cluster = make_cluster("4.3.1", properties=HASTY)
    topic = cluster.topics.create(fresh_name("topic"), partitions=len(PARTITIONS))
    kafka = load(file=None, environment={}, flags={"kafka.bootstrap.servers": cluster.bootstrap}).settings.kafka
    tables, expected = Tables(bucket.place("tables")), Counter[str]()
    cluster_id = ""
    for turn in range(3):
        if turn < 2:
            rhythm = Rhythm(transactions=8, abort_share=0.2, stall_every=6, zombie_every=5, stall_timeout_ms=1000)
            expected += worked(cluster, topic, f"turn-{turn}", rhythm)
        source = source_of(kafka, since_ms=0)
        cluster_id = source.cluster_id
        read_log(spark_on_s3, source, tables, every_ms=None)

        streamed = outcomes_of(read_records(spark_on_s3, tables.transaction_log, {cluster_id: 0}))
        assert Counter(row.outcome for row in streamed.collect()) == expected

    assert any("/offsets/1" in str(path) for path in tables.checkpoint_of(cluster_id).rglob("*"))
