"""Reads the size of partitions behind a transaction, and the space of their log directories (DescribeLogDirs).

While a transaction is open, a log is neither compacted (LogCleanerManager.cleanableOffsets) nor copied to remote storage
(RemoteLogManager.RLMCopyTask) from the last stable offset on, and what is not copied is not deleted (UnifiedLog).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ErrorCode, error_name
from exporter.kafka.messages import describe_log_dirs
from exporter.kafka.offsets import LOG_START, by_leader, offsets_at
from exporter.kafka.topology import Topology
from exporter.snapshot import NO_LEADER, DiskSpace, LogDir, ReplicaSize, TopicPartition

READ_EVERY_MS = 60_000
"""A reading is used again until then, unless it lacks a partition."""
_Offsets = Mapping[TopicPartition, int]


async def disk_space(
    client: ClusterClient,
    topology: Topology,
    partitions: Collection[TopicPartition],
    now_ms: int,
    last: DiskSpace | None,
) -> DiskSpace | None:
    """The space of `partitions` at their leaders, or the `last` reading; None, without a request, if there are none."""
    if not partitions:
        return None
    if last is not None and 0 <= now_ms - last.at_ms < READ_EVERY_MS and last.requested.issuperset(partitions):
        return last
    led = by_leader({partition: topology.leader_of(*partition)[0] for partition in partitions})
    led.pop(NO_LEADER, None)
    parts = await client.gather(_of_broker(client, broker, mine, now_ms) for broker, mine in sorted(led.items()))
    return DiskSpace(
        at_ms=now_ms,
        requested=frozenset(partitions),
        sizes={partition: size for part in parts for partition, size in part.sizes.items()},
        log_dirs=tuple(log_dir for part in parts for log_dir in part.log_dirs),
        failures=tuple(failure for part in parts for failure in part.failures),
    )


async def _of_broker(
    client: ClusterClient, broker: int, partitions: Collection[TopicPartition], now_ms: int
) -> DiskSpace:
    starts, _ = await offsets_at(client, dict.fromkeys(partitions, broker), LOG_START)
    decode = partial(space_in, broker, frozenset(partitions), starts, now_ms)
    try:
        return await client.request(broker, "DescribeLogDirs", describe_log_dirs.request(partitions), decode)
    except BrokerFault as fault:
        return DiskSpace(at_ms=now_ms, requested=frozenset(partitions), sizes={}, log_dirs=(), failures=(str(fault),))


def space_in(
    broker: int, requested: frozenset[TopicPartition], starts: _Offsets, now_ms: int, answer: Any
) -> DiskSpace:
    """The sizes and log directories in a response. A replica that is being moved counts where it still is."""
    dirs = {
        LogDir(
            broker=broker,
            path=each.log_dir,
            total_bytes=each.total_bytes if each.total_bytes >= 0 else None,
            usable_bytes=each.usable_bytes if each.usable_bytes >= 0 else None,
        ): each.topics
        for each in answer.results
        if each.error_code == ErrorCode.NONE
    }
    sizes = {
        (topic.name, row.partition_index): ReplicaSize(
            log_dir=log_dir,
            size_bytes=max(row.partition_size, 0),
            log_start_offset=starts.get((topic.name, row.partition_index)),
        )
        for log_dir, topics in dirs.items()
        for topic in topics
        for row in topic.partitions
        if not row.is_future_key
    }
    failures = tuple(_failures(broker, answer, len(requested - sizes.keys())))
    return DiskSpace(at_ms=now_ms, requested=requested, sizes=sizes, log_dirs=tuple(dirs), failures=failures)


def _failures(broker: int, answer: Any, missing: int) -> Iterator[str]:
    """Says why sizes are unknown. Without the right, versions before 3 (Kafka 3.2) return no log directory."""
    code, called = answer.error_code, f"broker {broker} responded to DescribeLogDirs with"
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED or (code == ErrorCode.NONE and not answer.results):
        yield f"{called} no log directory: needs DESCRIBE on the cluster"
        return
    failed = [("", code), *((f" for {each.log_dir}", each.error_code) for each in answer.results)]
    yield from (f"{called} {error_name(error)}{where}" for where, error in failed if error != ErrorCode.NONE)
    if missing:
        yield f"{called} no size for {missing} of its partitions"
