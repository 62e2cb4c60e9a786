"""kafka-python's admin client as it is: describe_producers over every partition."""

from __future__ import annotations

import json
import sys
import time

from kafka import KafkaAdminClient, TopicPartition

admin = KafkaAdminClient(bootstrap_servers=sys.argv[1])
for _ in sys.stdin:
    wall, cpu = time.perf_counter(), time.process_time()
    partitions = [
        TopicPartition(topic["name"], partition["partition_index"])
        for topic in admin.describe_topics()
        for partition in topic["partitions"]
    ]
    told = admin.describe_producers(partitions)
    entries = sum(len(state.active_producers) for state in told.values())
    cost = {"wall_ms": (time.perf_counter() - wall) * 1000, "cpu_ms": (time.process_time() - cpu) * 1000}
    print(json.dumps({**cost, "entries": entries}), flush=True)
admin.close()
