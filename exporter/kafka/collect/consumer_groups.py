"""Finds blocked groups: consumer groups that commit offsets on a suspect's partition, or whose own offsets are on it.

Every broker lists the groups that it coordinates (ListGroups), and then returns their offsets on the suspects' partitions
in one response (OffsetFetch version 8, KIP-709). Groups without DESCRIBE are omitted silently, so the result is information
for an operator and never part of a verdict.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ErrorCode, error_name
from exporter.kafka.messages import list_groups, offset_fetch
from exporter.kafka.state_partitions import java_hash_partition
from exporter.kafka.topology import Topology
from exporter.snapshot import OFFSETS_TOPIC, GroupOffset, Impact, TopicPartition

REQUEST_GROUPS_MAX = 500


async def impact_on(client: ClusterClient, topology: Topology, partitions: Collection[TopicPartition]) -> Impact:
    """The groups behind `partitions`, from every broker that responds."""
    answers = await client.gather(_of_broker(client, broker, partitions) for broker in sorted(topology.brokers))
    groups = [group for groups, _, _ in answers for group in groups]
    return Impact(
        offsets=tuple(offset for _, offsets, _ in answers for offset in offsets),
        residents=_residents(topology, partitions, groups),
        failures=tuple(failure for _, _, failure in answers if failure is not None),
    )


def _residents(
    topology: Topology, partitions: Collection[TopicPartition], groups: Iterable[str]
) -> tuple[tuple[int, str], ...]:
    """(partition of `__consumer_offsets`, group) of the groups whose offsets are written to a suspect's partition."""
    homes = {partition for topic, partition in partitions if topic == OFFSETS_TOPIC}
    count = len(topology.rows_of(OFFSETS_TOPIC))
    if not homes or not count:
        return ()
    placed = sorted((java_hash_partition(group, count), group) for group in groups)
    return tuple((partition, group) for partition, group in placed if partition in homes)


async def _of_broker(
    client: ClusterClient, broker: int, partitions: Collection[TopicPartition]
) -> tuple[list[str], list[GroupOffset], str | None]:
    """(groups, their offsets, the failure) of one broker."""
    offsets: list[GroupOffset] = []
    groups: list[str] = []
    try:
        code, groups = await client.request(broker, "ListGroups", list_groups.request(), list_groups.decode)
        if code != ErrorCode.NONE:
            return groups, offsets, f"broker {broker} responded to ListGroups with {error_name(code)}"
        for start in range(0, len(groups), REQUEST_GROUPS_MAX):
            request = offset_fetch.request(groups[start : start + REQUEST_GROUPS_MAX], partitions)
            offsets += await client.request(
                broker, "OffsetFetch", request, partial(offset_fetch.decode, set(partitions))
            )
    except BrokerFault as fault:
        return groups, offsets, str(fault)
    return groups, offsets, None
