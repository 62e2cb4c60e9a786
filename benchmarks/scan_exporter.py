"""The exporter's own scan, in process: every leader's producers into columns. `scan_exporter ADDRESS TOPIC...`."""

from __future__ import annotations

import json
import sys
import time

from benchmarks.listed import collector_at
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.scan import scan_leaders
from exporter.kafka.collect.scan_requests import ScanRequests
from exporter.kafka.topology import Topology
from exporter.snapshot import Int32Column, PartitionResult


def main(address: str, topics: list[str]) -> None:
    """A round for each line; as in a running exporter, who leads what and how many producers to expect are known."""
    collector = collector_at(address)
    topology: Topology = collector.query(lambda client: client.topology(tuple(topics)))
    requests = ScanRequests()
    expected: Int32Column | None = None

    async def scan(client: ClusterClient) -> tuple[Int32Column, int]:
        client.brokers = topology.brokers
        scanned = await scan_leaders(client, topology, expected_producers=expected, requests=requests)
        assert (scanned.answer == PartitionResult.READ).all()
        return scanned.producers, len(scanned.entries())

    for _ in sys.stdin:
        began = time.perf_counter()
        expected, open_transactions = collector.query(scan)
        wall_ms = (time.perf_counter() - began) * 1000
        told = {"wall_ms": wall_ms, "entries": int(expected.sum()), "open_transactions": open_transactions}
        print(json.dumps(told), flush=True)
    collector.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
