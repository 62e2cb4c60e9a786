"""Recognizes a cluster again: by its cluster id, and by the ids of its topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from exporter.snapshot.partitions import STATE_TOPIC

CLUSTER_ID_VARIABLE: Final = "KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID"
"""Variable of a shell that has the id of an alert's cluster: commands that find another one end there."""
_TOPICS_MIN = 2
"""Topics that must all be others: an operator may have made one of them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterIdentity:
    """The ids by which a cluster is recognized."""

    cluster_id: str = ""
    """Empty before the first response, and from platforms without one."""
    topic_ids: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Topic -> id of each visible topic; "" from brokers without topic ids."""
    way_on: str = field(default="", compare=False)
    """The end of a sentence about brokers of another cluster: what named this one, and what to do."""

    def updated(self, now: ClusterIdentity) -> ClusterIdentity:
        """`now`, with the id of `__transaction_state` from before while rights or a proxy hide that topic."""
        hidden = self.topic_ids.get(STATE_TOPIC, "")
        if not hidden or STATE_TOPIC in now.topic_ids:
            return now
        return replace(now, topic_ids={**now.topic_ids, STATE_TOPIC: hidden})

    def contradiction(self, now: ClusterIdentity) -> str | None:
        """Returns why `now` is another cluster, in words; None if it may be this one.

        Container images and copied configurations give several clusters one cluster id. Two clusters share no topic id, and
        one cluster keeps the id of `__transaction_state`; an operator who makes that topic again leaves the others.
        """
        if self.cluster_id and now.cluster_id and self.cluster_id != now.cluster_id:
            return f"its cluster id is {now.cluster_id}, not {self.cluster_id}"
        before, after = self.topic_ids.get(STATE_TOPIC, ""), now.topic_ids.get(STATE_TOPIC, "")
        if before and before == after:
            return None
        known = {topic: topic_id for topic, topic_id in self.topic_ids.items() if topic_id}
        others = [topic for topic in known.keys() & now.topic_ids.keys() if now.topic_ids[topic]]
        if any(now.topic_ids[topic] == known[topic] for topic in others):
            return None
        # Two other topics must agree if `__transaction_state` is not shown now, or was not.
        if not (before and after and len(known) >= _TOPICS_MIN) and len(others) < _TOPICS_MIN:
            return None
        example = STATE_TOPIC if before and after else min(others)
        return (
            f"its cluster id is {now.cluster_id} too, but no topic has the topic id that it had: "
            f"{example} has {now.topic_ids[example]}, not {known[example]}"
        )


UNKNOWN_CLUSTER = ClusterIdentity()
