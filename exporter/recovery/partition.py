"""Reads one partition at its confirmed leader, and writes one marker at the same broker.

A broker that is cut off from its controller still responds as the former leader, and accepts a marker. So every read
confirms the leader first (`kafka/leadership/confirm.py`), and the marker goes to the broker of the last read.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ClusterUnavailableError
from exporter.kafka.leadership.confirm import Claim, metadata_of_all, unconfirmed
from exporter.kafka.lookups import KafkaRequestError, leader_of, producers_at, producers_of
from exporter.kafka.markers import MarkerResponse, write_marker
from exporter.kafka.messages.write_txn_markers import Marker
from exporter.kafka.offsets import LOG_START, latest_offsets, offset_at_time
from exporter.kafka.state_partitions import state_partition
from exporter.kafka.topology import Topology
from exporter.snapshot import NO_LEADER, STATE_TOPIC, UNKNOWN_OFFSET, OneEntry

T = TypeVar("T")
UNCONFIRMED = "LEADERSHIP_UNCONFIRMED"
MOVED = "LEADER_MOVED"


class ClusterQueries(Protocol):
    """Queries of a Collector that recovery uses."""

    def query(self, question: Callable[[ClusterClient], Coroutine[Any, Any, T]]) -> T: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidingCoordinator:
    """The coordinator whose decision a marker carries out."""

    transactional_id: str
    coordinator: int
    """Broker id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """The state of a partition at its confirmed leader; the entries are read last."""

    leader: int
    leader_epoch: int
    topic_id: str
    """"" from brokers without topic ids."""
    log_start_offset: int
    last_stable_offset: int
    """Both UNKNOWN_OFFSET if they could not be read."""
    entries: tuple[OneEntry, ...]


class Partition(Protocol):
    """One partition. By default, methods raise BrokerFault, KafkaRequestError, ClusterUnavailableError."""

    def look(self, coordinated: DecidingCoordinator | None = None) -> PartitionState:
        """Reads the partition's state at its leader. Raises KafkaRequestError if that broker is not confirmed as
        leader.

        `coordinated`: also raises it if that broker is not confirmed as the coordinator of that id.
        """

    def write(
        self,
        marker: Marker,
        is_unchanged: Callable[[PartitionState], bool],
        coordinated: DecidingCoordinator | None = None,
    ) -> MarkerResponse | PartitionState:
        """Reads again, and has the same broker write the marker, once, if `is_unchanged`; otherwise return the state.

        If it raises, nothing was written.
        """

    def producers(self) -> tuple[OneEntry, ...]:
        """The producer entries at its present leader, confirmed or not."""

    def last_stable_offset(self) -> int:
        """Reads the last stable offset at its present leader; UNKNOWN_OFFSET without a response. Does not raise."""


class PartitionOnBrokers:
    """The partition of a real cluster."""

    def __init__(self, asks: ClusterQueries, topic: str, partition: int) -> None:
        self._asks = asks
        self._topic = topic
        self._partition = partition

    def look(self, coordinated: DecidingCoordinator | None = None) -> PartitionState:
        return self._asks.query(lambda client: self._look(client, coordinated))

    def write(
        self,
        marker: Marker,
        is_unchanged: Callable[[PartitionState], bool],
        coordinated: DecidingCoordinator | None = None,
    ) -> MarkerResponse | PartitionState:
        assert (marker.topic, marker.partition) == (self._topic, self._partition)

        async def look_and_write(client: ClusterClient) -> MarkerResponse | PartitionState:
            look = await self._look(client, coordinated)
            if not is_unchanged(look):
                return look
            return await write_marker(client, look.leader, marker)

        return self._asks.query(look_and_write)

    def producers(self) -> tuple[OneEntry, ...]:
        return self._asks.query(lambda client: producers_of(client, self._topic, self._partition))

    def last_stable_offset(self) -> int:
        return self._asks.query(self._ask_last_stable_offset)

    async def _ask_last_stable_offset(self, client: ClusterClient) -> int:
        partition = (self._topic, self._partition)
        try:
            leader = await leader_of(client, *partition)
        except (BrokerFault, KafkaRequestError, ClusterUnavailableError):
            return UNKNOWN_OFFSET
        offsets = await latest_offsets(client, {partition: leader})
        return offsets[partition][0]

    async def _look(self, client: ClusterClient, coordinated: DecidingCoordinator | None) -> PartitionState:
        """Confirms first and reads last, to leave the least time for a change before a marker."""
        claims = await newest_claims(client, self._topic, self._partition, coordinated)
        await confirm_all(client, claims)
        claim, partition = claims[0], (self._topic, self._partition)
        log_start = await offset_at_time(client, claim.leader, partition, LOG_START)
        stable = (await latest_offsets(client, {partition: claim.leader}))[partition][0]
        own = Claim.of(await client.topology((self._topic,), broker=claim.leader), *partition)
        if own != claim:
            raise KafkaRequestError(
                MOVED, f"broker {claim.leader} no longer leads {_name(claim)} at the same epoch; run the command again"
            )
        return PartitionState(
            leader=claim.leader,
            leader_epoch=claim.leader_epoch,
            topic_id=claim.topic_id,
            log_start_offset=UNKNOWN_OFFSET if log_start is None else log_start,
            last_stable_offset=stable,
            entries=await producers_at(client, claim.leader, *partition),
        )


async def newest_claims(
    client: ClusterClient, topic: str, partition: int, coordinated: DecidingCoordinator | None
) -> tuple[Claim, ...]:
    """The leaders of the partition and of the state partition of `coordinated`, by the newest leader epochs of all brokers.

    Raises KafkaRequestError without a leader, ClusterUnavailableError without a response.
    """
    views = await _views(client, (topic,) if coordinated is None else (topic, STATE_TOPIC))
    claim = _newest(views, topic, partition)
    if claim.leader == NO_LEADER:
        await leader_of(client, topic, partition)  # says why
        raise KafkaRequestError("LEADER_NOT_AVAILABLE", f"{topic}-{partition} has no leader")
    if coordinated is None:
        return (claim,)
    deciding = _coordinator_claim(views, coordinated.transactional_id)
    if deciding.leader != coordinated.coordinator:
        responded = f"broker {coordinated.coordinator} responded for {coordinated.transactional_id!r}"
        raise KafkaRequestError(
            MOVED, f"{responded}, and broker {deciding.leader} coordinates it now: run the command again"
        )
    return claim, deciding


async def coordinator_of(client: ClusterClient, transactional_id: str) -> Claim | None:
    """The coordinator of the id, by the newest leader epoch of all brokers; None if none shows `__transaction_state`.

    Raises as `newest_claims`.
    """
    views = await _views(client, (STATE_TOPIC,))
    is_shown = any(len(view.rows_of(STATE_TOPIC)) for view in views)
    return _coordinator_claim(views, transactional_id) if is_shown else None


def _coordinator_claim(views: list[Topology], transactional_id: str) -> Claim:
    count = max(len(view.rows_of(STATE_TOPIC)) for view in views)
    if count == 0:
        raise KafkaRequestError(
            UNCONFIRMED,
            f"no broker shows {STATE_TOPIC} (needs DESCRIBE on it), so the coordinator cannot be confirmed",
        )
    claim = _newest(views, STATE_TOPIC, state_partition(transactional_id, count))
    if claim.leader == NO_LEADER:
        raise KafkaRequestError("COORDINATOR_NOT_AVAILABLE", f"the coordinator of {transactional_id!r} is offline")
    return claim


async def confirm_all(client: ClusterClient, claims: tuple[Claim, ...]) -> None:
    """Raises KafkaRequestError with the broker if one of the claims is not confirmed."""
    against = await unconfirmed(client, claims)
    for claim in claims:
        why = against.get((claim.topic, claim.partition))
        if why is not None:
            raise KafkaRequestError(
                UNCONFIRMED,
                f"broker {claim.leader} is not confirmed to lead {_name(claim)}: {why}; run the command again",
            )


def _newest(views: list[Topology], topic: str, partition: int) -> Claim:
    return max((Claim.of(view, topic, partition) for view in views), key=lambda claim: claim.leader_epoch)


async def _views(client: ClusterClient, topics: tuple[str, ...]) -> list[Topology]:
    """The metadata of the first broker that responds, and of all brokers in it that respond."""
    first = await client.topology(topics)
    return [first, *filter(None, (await metadata_of_all(client, topics)).values())]


def _name(claim: Claim) -> str:
    return f"{claim.topic}-{claim.partition}"
