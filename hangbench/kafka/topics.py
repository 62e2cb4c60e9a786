"""Topics and settings of a test cluster. Every call returns when its effect can be seen on every live broker."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from hangbench.kafka.wire import Wire, metadata, open_wire

TIMEOUT_S: Final = 30.0
POLL_PAUSE_S: Final = 0.05


class Topics:
    def __init__(self, bootstrap: str, *, replication_factor: int) -> None:
        self._bootstrap = bootstrap
        self._replication_factor = replication_factor
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def create(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> str:
        """Create a topic, replicated on all nodes unless told otherwise; return its name."""
        replicas = replication_factor or self._replication_factor
        topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=dict(config or {}))
        self._admin.create_topics([topic])[name].result(TIMEOUT_S)
        self._wait_for_partitions(name, partitions)
        return name

    def create_on(self, name: str, node_ids: list[int]) -> str:
        """Create a topic whose partitions have one replica each: partition 0 on the first node, and so on."""
        assignment = [[node_id] for node_id in node_ids]
        topic = NewTopic(name, num_partitions=len(node_ids), replica_assignment=assignment)
        self._admin.create_topics([topic])[name].result(TIMEOUT_S)
        self._wait_for_partitions(name, len(node_ids))
        return name

    def delete(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(TIMEOUT_S)
        self._wait_for_partitions(name, 0)

    def grow(self, name: str, partitions: int) -> None:
        """Raise the number of partitions to this."""
        self._admin.create_partitions([NewPartitions(name, partitions)])[name].result(TIMEOUT_S)
        self._wait_for_partitions(name, partitions)

    def in_sync(self, name: str, partition: int) -> tuple[int, ...]:
        """The leader of a partition, and its followers that are in sync."""
        found = self._admin.list_topics(name, timeout=TIMEOUT_S).topics[name].partitions[partition]
        return (found.leader, *(each for each in found.isrs if each != found.leader))

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        """Set some of a topic's settings, the others stay."""
        self._alter(ResourceType.TOPIC, name, config)

    def configure_broker(self, node_id: int, config: Mapping[str, str]) -> None:
        """Set dynamic settings of one broker, which applies them within moments (poll for the effect)."""
        self._alter(ResourceType.BROKER, str(node_id), config)

    def _alter(self, kind: ResourceType, name: str, config: Mapping[str, str]) -> None:
        set_to = AlterConfigOpType.SET
        entries = [ConfigEntry(key, value, incremental_operation=set_to) for key, value in config.items()]
        resource = ConfigResource(kind, name, incremental_configs=entries)
        self._admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)

    def _wait_for_partitions(self, name: str, partitions: int) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while set(self._partitions_seen(name)) != {partitions}:
            if time.monotonic() > deadline:
                raise KafkaException(f"{name} did not come to {partitions} partitions on every broker")
            time.sleep(POLL_PAUSE_S)

    def _partitions_seen(self, name: str) -> list[int]:
        """How many partitions of the topic each live broker knows with a leader."""
        with open_wire(self._bootstrap) as wire:
            live = [(broker.host, broker.port) for broker in metadata(wire, []).brokers]
        counts = []
        for address in live:
            with Wire(*address) as wire:
                described = metadata(wire, [name]).topics[0]
            counts.append(sum(partition.error_code == 0 for partition in described.partitions))
        return counts
