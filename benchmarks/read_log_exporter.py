"""The exporter's reader of the coordinators' log, from its beginning to the last record, at each line of standard input."""

from __future__ import annotations

import json
import sys
import time

from exporter.config.loading import load
from exporter.daemon.log_follower import LogFollower
from exporter.transaction_log.report import LogPosition

bootstrap, records = sys.argv[1], int(sys.argv[2])
settings = load(
    file=None,
    environment={},
    flags={"kafka.bootstrap.servers": bootstrap, "transaction_log.enabled": "true", "transaction_log.lookback": "1d"},
).settings
for _ in sys.stdin:
    wall, cpu = time.perf_counter(), time.process_time()
    reader = LogFollower(settings.kafka, settings.transaction_log, counted_before=LogPosition())
    reader.start()
    while (read := reader.report().records) < records:
        time.sleep(0.05)
    cost = {"wall_ms": (time.perf_counter() - wall) * 1000, "cpu_ms": (time.process_time() - cpu) * 1000}
    print(json.dumps({**cost, "entries": read}), flush=True)
    reader.close()
