"""Holds the controller's decisions as brokers learn them: immutable, so that a broker that lags keeps an old one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tests.verification.model.rights import NO_AUTHORIZER, Rights

STATE_TOPIC = "__transaction_state"
NO_LEADER = -1

TopicPartition = tuple[str, int]


class PartitionImage(NamedTuple):
    """One partition's replicas and leader."""

    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    leader: int
    leader_epoch: int = 0

    @property
    def authority(self) -> int:
        """Whose log counts: the leader's, or where none is left that of the in-sync replica that may lead again."""
        return self.in_sync[0] if self.leader == NO_LEADER else self.leader

    def led_by(self, leader: int) -> PartitionImage:
        """With another leader, or with none, in a new leader epoch."""
        return self._replace(leader=leader, leader_epoch=self.leader_epoch + 1)


class TopicImage(NamedTuple):
    """One incarnation of a topic."""

    topic_id: int
    partitions: tuple[PartitionImage, ...]


class Image(NamedTuple):
    """The controller's metadata at one offset of its log."""

    offset: int
    topics: Mapping[str, TopicImage]
    live: tuple[int, ...]
    """Brokers that are registered and not fenced."""
    rights: Rights = NO_AUTHORIZER

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        """None where it does not exist."""
        found = self.topics.get(topic)
        return found.partitions[index] if found is not None and index < len(found.partitions) else None

    def each(self) -> Iterator[tuple[str, int, PartitionImage]]:
        """(topic, index, partition) of all."""
        for name, topic in self.topics.items():
            for index, partition in enumerate(topic.partitions):
                yield name, index, partition

    def with_partition(self, topic: str, index: int, partition: PartitionImage) -> Image:
        """With that partition changed."""
        old = self.topics[topic]
        partitions = (*old.partitions[:index], partition, *old.partitions[index + 1 :])
        return self.with_topic(topic, old._replace(partitions=partitions))

    def with_topic(self, name: str, topic: TopicImage | None) -> Image:
        """With the topic created, replaced, or deleted (None)."""
        topics = {key: value for key, value in self.topics.items() if key != name}
        if topic is not None:
            topics[name] = topic
        return self._replace(offset=self.offset + 1, topics=topics)
