"""Runs one cycle over many clusters in steps that other machines can run. No Spark here.

    plan    metadata of every cluster -> a share for each cluster and broker
    read    a share                   -> its rows of the scan                  (one task each, in parallel)
    settle  a cluster's rows          -> its evaluation                        (one task each, in parallel)

Only the leaders' responses are large. The requests after them have an order in time over all coordinators of a cluster, so
one task makes them, by the same function as the daemon of one cluster.
"""

from __future__ import annotations

import copyreg
import pickle
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from exporter.baseline import Baseline
from exporter.config.settings import ClusterSettings, ScanSettings
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, Policy
from exporter.fleet.clients import Clients
from exporter.fleet.scan_table import (
    ClusterScan,
    PartitionRows,
    broker_table,
    partition_table,
    read_back,
    rows_led_by,
    topology_of_rows,
)
from exporter.kafka.client.connections import Address
from exporter.kafka.client.credentials import CredentialsError
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.broker_configs import max_timeout
from exporter.kafka.collect.collector import Collector
from exporter.kafka.collect.complete import Stopwatch, complete
from exporter.kafka.collect.examined import Seen
from exporter.kafka.collect.scan import LeaderScan, ask_again_where_moved, read_rows
from exporter.kafka.collect.topic_filter import TopicFilter
from exporter.kafka.errors import ClusterUnavailableError
from exporter.kafka.leadership.metadata_source import Source
from exporter.kafka.visibility.cluster import about_source
from exporter.snapshot import NO_LEADER, ClockSource, Snapshot
from exporter.status import ApiStatistics, since, total

PLANNERS_MAX = 16
"""Clusters whose metadata is requested at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The settings of a scan for each part of a cycle: the same limits, and a share of the time."""

    plan: ScanSettings
    read: ScanSettings
    settle: ScanSettings

    @classmethod
    def of_cycle(cls, scan: ScanSettings) -> Budget:
        """The parts run one after the other: together they keep the deadline."""

        def within(deadline_ms: int) -> ScanSettings:
            return replace(scan, interval_ms=deadline_ms + 1, deadline_ms=deadline_ms)

        return cls(
            plan=within(scan.deadline_ms // 5),
            read=within(scan.deadline_ms * 2 // 5),
            settle=within(scan.deadline_ms * 2 // 5),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The partitions that one task reads: those of one leader. NO_LEADER: those without a leader, and the cluster's row."""

    cluster: ClusterSettings
    cluster_id: str | None
    taken_at_ms: int
    broker: int
    address: Address | None = None
    rows: PartitionRows | None = None
    failure: str | None = None
    """Why the cluster's metadata is not known."""
    seconds: float = 0.0
    requests: tuple[ApiStatistics, ...] = ()
    """Of the plan."""
    source: Source | None = None
    """The broker that the metadata is from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCycle:
    """The result of a cycle for one cluster."""

    cluster: str
    evaluation: Evaluation | None
    failure: str | None
    """Why there is no evaluation."""
    seconds: float
    phases: tuple[tuple[str, float], ...]
    requests: tuple[ApiStatistics, ...]


def plan(
    clusters: Iterable[ClusterSettings],
    budget: Budget,
    clients: Clients,
    *,
    wall_clock: Callable[[], float] = time.time,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Share, ...]:
    """The shares of one cycle; a cluster whose metadata cannot be read gets one share with the reason."""

    def of_cluster(cluster: ClusterSettings, client: Collector | CredentialsError) -> tuple[Share, ...]:
        began = clock()
        try:
            if isinstance(client, CredentialsError):
                raise client
            before = client.statistics()
            topology, source = client.metadata()
        except (CredentialsError, ClusterUnavailableError) as error:
            return (_no_share(cluster, str(error), int(wall_clock() * 1000), clock() - began),)
        taken_at_ms = int(wall_clock() * 1000)
        brokers = sorted({NO_LEADER, *topology.brokers, *np.unique(topology.leader).tolist()})
        return tuple(
            Share(
                cluster=cluster,
                cluster_id=topology.cluster_id,
                taken_at_ms=taken_at_ms,
                broker=broker,
                address=topology.brokers.get(broker),
                rows=rows_led_by(topology, broker),
                seconds=clock() - began if broker == NO_LEADER else 0.0,
                requests=since(before, client.statistics()) if broker == NO_LEADER else (),
                source=source,
            )
            for broker in brokers
        )

    planned = tuple(clusters)
    with ThreadPoolExecutor(max_workers=max(min(PLANNERS_MAX, len(planned)), 1)) as planners:
        # `Clients` is not safe for threads: clients are made here, one after the other.
        made = [_client_of(cluster, budget, clients) for cluster in planned]
        return tuple(share for shares in planners.map(of_cluster, planned, made) for share in shares)


def _client_of(cluster: ClusterSettings, budget: Budget, clients: Clients) -> Collector | CredentialsError:
    try:
        return clients.of(cluster.kafka, budget.plan)
    except CredentialsError as error:
        return error


def _no_share(cluster: ClusterSettings, failure: str, taken_at_ms: int, seconds: float) -> Share:
    return Share(
        cluster=cluster,
        cluster_id=None,
        taken_at_ms=taken_at_ms,
        broker=NO_LEADER,
        failure=failure,
        seconds=seconds,
    )


def read(share: Share, budget: Budget, clients: Clients, *, clock: Callable[[], float] = time.monotonic) -> pa.Table:
    """The rows of `share`: every partition of it, read or not, and the broker itself."""
    began = clock()
    failure, requests, tables = share.failure, share.requests, []
    if share.rows is not None and share.cluster_id is not None:
        brokers = {} if share.address is None else {share.broker: share.address}
        topology, at = topology_of_rows(share.cluster_id, brokers, share.rows)
        excluded = TopicFilter(budget.read.topics_include, budget.read.topics_exclude).excluded_rows(topology)
        scan = LeaderScan.unasked(topology, excluded=excluded)
        wanted = at if excluded is None else at[~excluded[at]]
        if share.broker != NO_LEADER and len(wanted):
            requests = _ask(share, scan, wanted, budget, clients)
            failure = scan.faults.get(share.broker)
        tables = [partition_table(share.cluster.name, share.cluster_id, share.taken_at_ms, share.rows, scan, at)]
    about = broker_table(
        share.cluster.name,
        share.cluster_id,
        share.taken_at_ms,
        broker=share.broker,
        address=share.address,
        failure=failure,
        seconds=share.seconds + clock() - began,
        requests=requests,
        source=share.source,
    )
    return pa.concat_tables([about, *tables])


def _ask(
    share: Share, scan: LeaderScan, at: npt.NDArray[np.intp], budget: Budget, clients: Clients
) -> tuple[ApiStatistics, ...]:
    """Request the rows `at` from the broker, put its responses into `scan`, and return the statistics of the requests."""

    async def read_share(cluster_client: ClusterClient) -> None:
        cluster_client.brokers = scan.topology.brokers
        await read_rows(cluster_client, scan, at, scan.topology.leader)

    try:
        client = clients.of(share.cluster.kafka, budget.read)
    except CredentialsError as error:
        scan.fail(at, "credentials")
        scan.faults[share.broker] = str(error)
        return ()
    before = client.statistics()
    client.query(read_share)
    return since(before, client.statistics())


def settle(
    table: pa.Table,
    cluster: ClusterSettings,
    budget: Budget,
    clients: Clients,
    *,
    memory: Memory,
    policy: Policy,
    baseline: Baseline,
    describe_all: bool = False,
    wall_clock: Callable[[], float] = time.time,
    clock: Callable[[], float] = time.monotonic,
) -> ClusterCycle:
    """Join the rows of `cluster`, query the coordinators, and evaluate the snapshot.

    `describe_all`: also describe transactions that no earlier cycle has seen, because there is no next cycle.
    """
    began = clock()
    joined = read_back(table)
    requests = total(statistics for row in (joined.cluster, *joined.brokers) for statistics in row.requests)
    phases = _phases_before(joined)
    if joined.scan is None:
        return _failed(cluster, joined.cluster.failure or "the scan has no row of it", phases, requests)
    try:
        client = clients.of(cluster.kafka, budget.settle)
    except CredentialsError as error:
        return _failed(cluster, str(error), phases, requests)
    before = client.statistics()
    snapshot, later = _complete(
        client,
        joined.scan,
        joined.taken_at_ms,
        None if describe_all else memory,
        joined.cluster.source,
        wall_clock=wall_clock,
        clock=clock,
    )
    return ClusterCycle(
        cluster=cluster.name,
        evaluation=evaluate(snapshot, memory, policy, baseline=baseline),
        failure=None,
        seconds=sum(seconds for _, seconds in phases) + clock() - began,
        phases=(*phases, *later),
        requests=total((*requests, *since(before, client.statistics()))),
    )


def _phases_before(joined: ClusterScan) -> tuple[tuple[str, float], ...]:
    """Brokers were read in parallel: the slowest counts."""
    slowest = max((broker.seconds for broker in joined.brokers), default=0.0)
    return ("metadata", joined.cluster.seconds), ("producers", slowest)


def _failed(
    cluster: ClusterSettings, failure: str, phases: tuple[tuple[str, float], ...], requests: tuple[ApiStatistics, ...]
) -> ClusterCycle:
    seconds = sum(spent for _, spent in phases)
    return ClusterCycle(
        cluster=cluster.name, evaluation=None, failure=failure, seconds=seconds, phases=phases, requests=requests
    )


def _complete(
    client: Collector,
    scan: LeaderScan,
    taken_at_ms: int,
    memory: Memory | None,
    source: Source,
    *,
    wall_clock: Callable[[], float],
    clock: Callable[[], float],
) -> tuple[Snapshot, tuple[tuple[str, float], ...]]:
    async def read_rest(cluster_client: ClusterClient) -> tuple[Snapshot, tuple[tuple[str, float], ...]]:
        cluster_client.brokers = scan.topology.brokers
        await ask_again_where_moved(cluster_client, scan)
        limit = await max_timeout(cluster_client, sorted(scan.topology.brokers))
        stopwatch = Stopwatch(clock)
        visibility = await client.look_for_hidden_topics(cluster_client, scan.topology)
        snapshot = await complete(
            cluster_client,
            scan,
            limit,
            taken_at_ms=taken_at_ms,
            seen=Seen(keys=None)
            if memory is None
            else Seen(keys=memory.transactions.keys(), unexamined=memory.unexamined.keys),
            search_logs=False,
            stopwatch=stopwatch,
            now_ms=lambda: int(wall_clock() * 1000),
            visibility=visibility
            if source.out_of_date is None
            else visibility.with_gap(about_source(source.out_of_date)),
        )
        if source.clock_ahead_ms is not None and snapshot.clock_source is ClockSource.EXPORTER:
            # The planner compared its clock, which `taken_at_ms` is from, with the controller's.
            ahead_ms = source.clock_ahead_ms
            snapshot = replace(snapshot, clock_offset_ms=ahead_ms, clock_source=ClockSource.CONTROLLER)
        return snapshot, stopwatch.laps()

    return client.query(read_rest)


def _proxy(mapping: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


# pickle cannot do this by itself, and the memory of an evaluation holds such mappings.
copyreg.pickle(MappingProxyType, lambda proxy: (_proxy, (dict(proxy),)))


def packed(cycle: ClusterCycle) -> bytes:
    """For the way between processes of one Spark application, pickled as Spark pickles its own functions."""
    return pickle.dumps(cycle)


def unpacked(data: bytes) -> ClusterCycle:
    """The cycle in `packed` bytes. Only for bytes of this application: unpickling runs code."""
    cycle = pickle.loads(data)  # noqa: S301
    assert isinstance(cycle, ClusterCycle)
    return cycle
