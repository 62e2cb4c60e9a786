"""The exporter's own cycle, in process: every leader, the coordinators for what is open, evaluation."""

from __future__ import annotations

import json
import sys
import time

from exporter.config.kafka_section import KafkaSettings
from exporter.config.settings import ScanSettings
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Policy
from exporter.kafka.collect import open_collector

host, _, port = sys.argv[1].rpartition(":")
collector = open_collector(
    KafkaSettings(bootstrap_servers=((host, int(port)),), client_id="bench", request_timeout_ms=30_000, options={}),
    ScanSettings(interval_ms=60_000, deadline_ms=50_000),
)
memory = Memory()
for _ in sys.stdin:
    wall, cpu = time.perf_counter(), time.process_time()
    snapshot = collector.collect(seen_before=memory.transactions.keys())
    memory = evaluate(snapshot, memory, Policy()).memory
    cost = {"wall_ms": (time.perf_counter() - wall) * 1000, "cpu_ms": (time.process_time() - cpu) * 1000}
    print(json.dumps({**cost, "entries": int(snapshot.partitions.producers.sum())}), flush=True)
collector.close()
