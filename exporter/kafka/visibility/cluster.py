"""Finds topics that the metadata does not show: Kafka omits topics silently if DESCRIBE is missing.

A principal without any grant sees a cluster without topics, which looks like one without transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import ClusterUnavailableError, ErrorCode, some_names
from exporter.kafka.topology import Topology
from exporter.kafka.visibility.topics import what_hides_topics
from exporter.snapshot import STATE_TOPIC, ClusterIdentity, Visibility

ASKED_MAX = 1000
"""Topics that vanished and are requested by name in one cycle."""
FORGOTTEN_AFTER_S = 86_400
"""Seconds for which a hidden topic is reported: without DESCRIBE brokers do not show whether it was deleted."""


@dataclass(slots=True)
class TopicWatch:
    """The topics that were visible, from cycle to cycle."""

    cluster_id: str | None = None
    visible: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    hidden_since_s: Mapping[str, float] = field(default_factory=dict)
    state_topic_gap: str | None = None

    def recall(self, cluster: ClusterIdentity) -> None:
        """The topics that were visible before a restart: grants often change together with one."""
        self.cluster_id, self.visible = cluster.cluster_id, tuple(cluster.topic_ids)

    def _not_too_old(self, hidden: tuple[str, ...], now_s: float) -> tuple[str, ...]:
        """Removes topics that have been hidden for so long that they are no longer reported: they may be deleted."""
        self.hidden_since_s = {topic: self.hidden_since_s.get(topic, now_s) for topic in hidden}
        return tuple(topic for topic in hidden if now_s - self.hidden_since_s[topic] < FORGOTTEN_AFTER_S)

    async def look(
        self,
        client: ClusterClient,
        topology: Topology,
        is_excluded: Callable[[str], bool] = lambda _: False,
        *,
        thoroughly: bool = True,
    ) -> Visibility:
        """The topics that are hidden now. Sends a request only if a topic has vanished, or no topic is visible.

        Topics that `is_excluded` selects may vanish. `thoroughly`: also whether the coordinators' topic is hidden, if it is
        not visible.
        """
        # Other credentials may lead to another cluster, or show less of the same one, which must be reported.
        if topology.cluster_id != self.cluster_id:
            self.cluster_id, self.visible, self.hidden = topology.cluster_id, (), ()
        vanished: tuple[str, ...] = ()
        if topology.topics is not self.visible:
            vanished = tuple(topic for topic in self.visible if topic not in topology.first_row)
        if STATE_TOPIC in topology.first_row:
            self.state_topic_gap = None
        elif thoroughly:
            self.state_topic_gap = await _state_topic_gap(client, is_any_open=False)
        suspects = tuple(dict.fromkeys([*self.hidden, *vanished]))
        suspects = tuple(topic for topic in suspects if topic not in topology.first_row and not is_excluded(topic))
        refused, late = await _refused(client, suspects) if suspects else ((), ())
        self.visible = (*topology.topics, *late) if late else topology.topics
        self.hidden = self._not_too_old(refused, client.clock())
        gaps = [_about_hidden(self.hidden)] if self.hidden else []
        if late:
            gaps.append(_about_late(late))
        if _shows_nothing(topology) and (why := await _why_nothing_is_shown(client, topology)) is not None:
            gaps.append(why)
        if self.state_topic_gap is not None:
            gaps.append(self.state_topic_gap)
        if topology.left_out:
            gaps.append(_about_left_out(topology))
        if topology.refused_names:
            gaps.append(f"topics are not read, because Kafka does not accept their names: {topology.refused_names}")
        return Visibility(hidden_topics=self.hidden, gaps=tuple(gaps))


def _about_left_out(topology: Topology) -> str:
    return (
        "partitions are not read, because too many before them are missing from the metadata: "
        f"{sum(topology.left_out.values())}, of the topics {some_names(tuple(topology.left_out))}"
    )


def _shows_nothing(topology: Topology) -> bool:
    """True also with a grant on the coordinators' topic alone: it shows one topic, and no hanging transaction."""
    return all(topic == STATE_TOPIC for topic in topology.topics)


async def _why_nothing_is_shown(client: ClusterClient, topology: Topology) -> str | None:
    """Returns None where there is no topic, as in a new cluster."""
    if await what_hides_topics(client, sorted(topology.brokers)):
        return "no topic is visible: not authorized, needs DESCRIBE on the topics to be watched"
    # The right may have been granted after the metadata were read.
    try:
        now = await client.topology()
    except ClusterUnavailableError:
        return "whether topics are visible is unknown: no broker responded"
    return None if _shows_nothing(now) else _about_late(tuple(topic for topic in now.topics if topic != STATE_TOPIC))


def _about_late(topics: tuple[str, ...]) -> str:
    return f"topics became visible while this cycle was running: {some_names(topics)}"


def _about_hidden(topics: tuple[str, ...]) -> str:
    return f"topics are no longer visible, not authorized (needs DESCRIBE on them) or deleted: {some_names(topics)}"


async def _refused(client: ClusterClient, topics: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the `topics` that brokers refuse to show by name, and those that they show now, which no one reads.

    Without DESCRIBE they do not show whether one exists.
    """
    asked = tuple(topics)[:ASKED_MAX]
    try:
        metadata = await client.topology(asked)
    except ClusterUnavailableError:
        return tuple(topics), ()
    refused = (
        *(topic for topic in asked if metadata.topic_errors.get(topic) == ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        *tuple(topics)[ASKED_MAX:],
    )
    return refused, tuple(topic for topic in asked if topic in metadata.first_row)


async def with_state_topic(client: ClusterClient, topology: Topology, visibility: Visibility) -> Visibility:
    """`visibility`, for a cycle in which transactions are open: the coordinators' topic must exist and be visible."""
    if STATE_TOPIC in topology.first_row:
        return visibility
    gap = await _state_topic_gap(client, is_any_open=True)
    return visibility if gap is None else visibility.with_gap(gap)


async def _state_topic_gap(client: ClusterClient, *, is_any_open: bool) -> str | None:
    try:
        metadata = await client.topology((STATE_TOPIC,))
    except ClusterUnavailableError:
        return f"whether topic {STATE_TOPIC} is visible is unknown: no broker responded"
    if metadata.topic_errors.get(STATE_TOPIC) == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return f"some coordinators may be unknown: not authorized, needs DESCRIBE on topic {STATE_TOPIC}"
    if STATE_TOPIC in metadata.first_row:
        return f"topic {STATE_TOPIC} became visible while this cycle was running"
    if is_any_open:
        return f"brokers show no topic {STATE_TOPIC}, although transactions are open"
    return None
