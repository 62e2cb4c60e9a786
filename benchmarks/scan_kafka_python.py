"""kafka-python's admin client as it is: describe_producers over every partition. `scan_kafka_python ADDRESS TOPIC...`."""

from __future__ import annotations

import json
import sys
import time

from kafka import KafkaAdminClient, TopicPartition


def main(address: str, topics: list[str]) -> None:
    """A round for each line."""
    admin = KafkaAdminClient(bootstrap_servers=address)
    partitions = [
        TopicPartition(topic["name"], partition["partition_index"])
        for topic in admin.describe_topics(topics)
        for partition in topic["partitions"]
    ]
    for _ in sys.stdin:
        began = time.perf_counter()
        told = admin.describe_producers(partitions)
        wall_ms = (time.perf_counter() - began) * 1000
        entries = sum(len(state.active_producers) for state in told.values())
        print(json.dumps({"wall_ms": wall_ms, "entries": entries}), flush=True)
    admin.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
