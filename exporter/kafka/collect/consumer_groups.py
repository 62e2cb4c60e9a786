"""Finds the groups behind transactions: those with a position on the partition, and those with offsets pending there.

Every broker lists the groups that it coordinates (ListGroups), and then returns their committed offsets on the
partitions in question (OffsetFetch version 8, KIP-709); for share groups, their lags (DescribeShareGroupOffsets).
OffsetFetch with `require_stable` says whose offsets are pending in a transaction on `__consumer_offsets`. Groups
without DESCRIBE are omitted silently, which a made-up one shows; so the result is information for an operator and never
part of a verdict.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ErrorCode, FaultReason, error_name
from exporter.kafka.messages import describe_share_group_offsets, list_groups, offset_fetch
from exporter.kafka.messages.describe_share_group_offsets import ShareOffset
from exporter.kafka.offsets import Ends, latest_offsets
from exporter.kafka.state_partitions import java_hash_partition
from exporter.kafka.topology import Topology
from exporter.snapshot import OFFSETS_TOPIC, UNKNOWN_OFFSET, GroupOffset, Impact, TopicPartition

REQUEST_GROUPS_MAX = 500
GROUPS_REFUSED = "needs DESCRIBE on every group"
SETTLING_S = 0.1
"""Most transactions that are ending have ended after this time."""
_OMITTED = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.GROUP_ID_NOT_FOUND)


async def impact_on(client: ClusterClient, topology: Topology, partitions: Collection[TopicPartition]) -> Impact:
    """The groups behind `partitions`, from every broker that responds."""
    parts = await client.gather(_of_broker(client, topology, broker, partitions) for broker in sorted(topology.brokers))
    residents = tuple(sorted(resident for part in parts for resident in part.residents))
    homes = {home for home, _ in residents}
    return Impact(
        offsets=tuple(offset for part in parts for offset in part.offsets),
        residents=residents,
        failures=tuple(failure for part in parts for failure in part.failures),
        unread=tuple(failure for part in parts for failure in part.unread),
        unseen=tuple(number for topic, number in partitions if topic == OFFSETS_TOPIC and number not in homes),
    )


async def _of_broker(
    client: ClusterClient, topology: Topology, broker: int, partitions: Collection[TopicPartition]
) -> Impact:
    offsets: list[GroupOffset] = []
    residents: list[tuple[int, str]] = []
    failures: list[str] = []
    unread: list[str] = []
    shared: list[str] = []
    try:
        code, listed = await client.request(broker, "ListGroups", list_groups.request(), list_groups.decode)
        if code != ErrorCode.NONE:
            unread.append(f"broker {broker} responded to ListGroups with {error_name(code)}")
        shared = [group for group, group_type in listed if group_type == list_groups.SHARE]
        groups = [group for group, group_type in listed if group_type != list_groups.SHARE]
        decode = partial(offset_fetch.decode, set(partitions))
        for some in _of_one_request(groups):
            request = offset_fetch.request(some, partitions)
            offsets += await client.request(broker, "OffsetFetch", request, decode)
        homes = _homes(topology, partitions, groups)
        residents = [(homes[group], group) for group in await pending_groups(client, broker, list(homes))]
    except BrokerFault as fault:
        (failures if fault.is_lasting else unread).append(str(fault))
    try:
        positions, unknown = await share_positions(client, broker, shared, partitions)
        offsets, failures = offsets + positions, failures + unknown
    except BrokerFault as fault:
        sentence = f"share groups are not examined: {fault}"
        (failures if fault.is_lasting else unread).append(sentence)
    return Impact(
        offsets=tuple(offsets), residents=tuple(residents), failures=(*failures, *unread), unread=tuple(unread)
    )


async def are_groups_refused_here(client: ClusterClient) -> bool:
    """True if the first broker that is known refuses groups."""
    brokers = client.brokers or {}
    return bool(brokers) and await what_hides_groups(client, min(brokers)) == GROUPS_REFUSED


async def what_hides_groups(client: ClusterClient, broker: int) -> str:
    """Kafka authorizes before it looks for the group: a made-up one shows whether any is hidden. Empty if none is."""
    request = offset_fetch.request([secrets.token_urlsafe(24)], ())
    try:
        codes = await client.request(
            broker, "OffsetFetch", request, lambda answer: {group.error_code for group in answer.groups}
        )
    except BrokerFault as fault:
        return str(fault)
    return GROUPS_REFUSED if ErrorCode.GROUP_AUTHORIZATION_FAILED in codes else ""


def _of_one_request(groups: Sequence[str]) -> Iterator[Sequence[str]]:
    return (groups[start : start + REQUEST_GROUPS_MAX] for start in range(0, len(groups), REQUEST_GROUPS_MAX))


def _homes(topology: Topology, partitions: Iterable[TopicPartition], groups: Iterable[str]) -> dict[str, int]:
    """Group -> its partition of `__consumer_offsets`, for groups where that is one of `partitions`."""
    wanted = {partition for topic, partition in partitions if topic == OFFSETS_TOPIC}
    count = len(topology.rows_of(OFFSETS_TOPIC))
    homes = {group: java_hash_partition(group, count) for group in groups if wanted and count}
    return {group: home for group, home in homes.items() if home in wanted}


async def pending_groups(
    client: ClusterClient, broker: int, groups: Sequence[str], partitions: Collection[TopicPartition] | None = None
) -> Sequence[str]:
    """The groups with an offset that is pending in a transaction, in two responses. Raises BrokerFault.

    A broker shows a first commit only if `partitions` has its partition; None: those where the group has committed before.
    """
    for pause_s in (0, SETTLING_S):
        if groups:
            await client.pause(pause_s)
        requested, groups = groups, []
        for some in _of_one_request(requested):
            request = offset_fetch.request(some, partitions, require_stable=True)
            code, pending = await client.request(broker, "OffsetFetch", request, offset_fetch.decode_pending)
            if code != ErrorCode.NONE:
                raise BrokerFault(
                    FaultReason.REFUSED, f"broker {broker} responded to OffsetFetch with {error_name(code)}"
                )
            groups = [*groups, *pending]
    return groups


async def share_positions(
    client: ClusterClient, broker: int, groups: Sequence[str], partitions: Collection[TopicPartition] | None
) -> tuple[list[GroupOffset], list[str]]:
    """(positions of share groups, a sentence about unknown ones); `partitions` None: all of each. Raises BrokerFault."""
    rows = await _described(client, broker, groups, partitions)
    begun = {(row.topic, row.partition) for row in rows if row.topic and (row.error or row.start_offset >= 0)}
    if not begun:
        return positions_of(rows, {}, {})
    topology = await client.topology(tuple({topic for topic, _ in begun}), broker=broker)
    leaders = {partition: topology.leader_of(*partition)[0] for partition in begun}
    before = await latest_offsets(client, leaders)
    rows = await _described(client, broker, groups, begun)
    return positions_of(rows, before, await latest_offsets(client, leaders))


async def _described(
    client: ClusterClient, broker: int, groups: Sequence[str], partitions: Collection[TopicPartition] | None
) -> list[ShareOffset]:
    rows: list[ShareOffset] = []
    for some in _of_one_request(groups):
        request = describe_share_group_offsets.request(some, partitions)
        rows += await client.request(
            broker, request.name, request, lambda answer: describe_share_group_offsets.decode(answer.body)
        )
    return rows


def positions_of(rows: Iterable[ShareOffset], before: Ends, after: Ends) -> tuple[list[GroupOffset], list[str]]:
    """(positions of share groups, a sentence about unknown ones).

    The stored start offset is that of an earlier write. The position is the high watermark less the lag, at the moment of
    the response, which `before` and `after` enclose: of the offsets between, the nearest to the last stable offset.
    """
    positions, unknown = [], set()
    for row in rows:
        stable, first = before.get((row.topic, row.partition), (UNKNOWN_OFFSET, UNKNOWN_OFFSET))
        _, last = after.get((row.topic, row.partition), (UNKNOWN_OFFSET, UNKNOWN_OFFSET))
        if (
            row.error == ErrorCode.NONE
            and row.start_offset >= 0 <= row.lag
            and UNKNOWN_OFFSET not in {stable, first, last}
        ):
            offset = min(max(stable, row.start_offset, first - row.lag), last - row.lag)
            positions.append(GroupOffset(group=row.group, topic=row.topic, partition=row.partition, offset=offset))
        elif row.error not in _OMITTED and (row.error or row.start_offset >= 0):
            unknown.add(row.group)
    return positions, [f"share groups of which some positions are not known: {len(unknown)}"] if unknown else []
