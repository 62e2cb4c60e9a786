"""confluent-kafka's consumer as it is: every record of the coordinators' log fetched and handed over, nothing decoded."""

from __future__ import annotations

import json
import sys
import time

from confluent_kafka import Consumer, TopicPartition

from exporter.snapshot import STATE_TOPIC

bootstrap, records = sys.argv[1], int(sys.argv[2])
for _ in sys.stdin:
    wall, cpu = time.perf_counter(), time.process_time()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bare", "enable.auto.commit": False})
    partitions = consumer.list_topics(STATE_TOPIC, timeout=30).topics[STATE_TOPIC].partitions
    consumer.assign([TopicPartition(STATE_TOPIC, partition, 0) for partition in partitions])
    read = 0
    while read < records:
        read += len(consumer.consume(2000, 0.2))
    cost = {"wall_ms": (time.perf_counter() - wall) * 1000, "cpu_ms": (time.process_time() - cpu) * 1000}
    print(json.dumps({**cost, "entries": read}), flush=True)
    consumer.close()
