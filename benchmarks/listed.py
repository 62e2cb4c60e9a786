"""What benchmarks start from: the exporter's collector, and the partitions of some topics with their producers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from exporter.config.loading import load
from exporter.config.settings import Settings
from exporter.evaluation.verdicts import Evaluation
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.collector import Collector
from exporter.kafka.collect.scan import scan_leaders
from exporter.kafka.collect.scan_requests import Rows
from exporter.kafka.topology import Topology
from exporter.publication.publication import Publication, PublishOptions
from exporter.snapshot import Int32Column
from exporter.status import ClusterStatus, ProcessStatus


@dataclass(frozen=True, slots=True)
class Listed:
    """`rows` are the partitions of the topics that were asked for."""

    topology: Topology
    rows: Rows
    expected_producers: Int32Column

    @property
    def entries(self) -> int:
        return int(self.expected_producers.sum())


def settings_at(address: str) -> Settings:
    """Settings with which one cycle is never cut short."""
    flags = {
        "kafka.bootstrap.servers": address,
        "kafka.request.timeout.ms": "30000",
        "scan.interval": "60s",
        "scan.deadline": "50s",
    }
    return load(file=None, environment={}, flags=flags).settings


def collector_at(address: str) -> Collector:
    """The exporter's own collector."""
    settings = settings_at(address)
    return Collector.opened(settings.kafka, settings.scan)


def listed(address: str, topics: list[str]) -> Listed:
    """Ask once."""
    collector = collector_at(address)

    async def ask(client: ClusterClient) -> Listed:
        topology = await client.topology(tuple(topics))
        scan = await scan_leaders(client, topology)
        return Listed(topology, np.arange(len(topology)), scan.producers)

    try:
        return collector.query(ask)
    finally:
        collector.close()


def publication(evaluation: Evaluation, options: PublishOptions) -> Publication:
    """Of an exporter that has just begun."""
    now_ms = evaluation.snapshot.taken_at_ms
    return Publication(
        evaluation=evaluation,
        process=ProcessStatus(version="bench", python_version="", started_at_ms=now_ms),
        status=ClusterStatus(interval_ms=30_000, stale_after_cycles=3, cycles=1, snapshot_taken_at_ms=now_ms),
        options=options,
    )
