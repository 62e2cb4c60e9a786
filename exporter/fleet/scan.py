"""One cycle over many clusters, cut where it may run on other machines. No Spark here.

    plan    metadata of every cluster -> a share for each cluster and broker
    read    a share                   -> its rows of the scan                  (a task each, side by side)
    settle  a cluster's rows          -> its evaluation                        (a task each, side by side)

Only the leaders' answers are large. What follows them is one order in time over all coordinators of a cluster, and so
belongs to one task; it is the same function that the daemon of one cluster runs.
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
from exporter.kafka.errors import ClusterUnavailableError
from exporter.kafka.leadership.metadata_source import Source
from exporter.kafka.visibility.cluster import about_source
from exporter.snapshot import NO_LEADER, ClockSource, Snapshot
from exporter.status import ApiStatistics, since, total

PLANNERS_MAX = 16
"""Clusters whose metadata is asked for at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What the settings of a scan allow each part of a cycle: the same limits, and a share of the time."""

    plan: ScanSettings
    read: ScanSettings
    settle: ScanSettings

    @classmethod
    def of_cycle(cls, scan: ScanSettings) -> Budget:
        """Parts follow each other: together they keep the deadline."""

        def within(deadline_ms: int) -> ScanSettings:
            return replace(scan, interval_ms=deadline_ms + 1, deadline_ms=deadline_ms)

        return cls(
            plan=within(scan.deadline_ms // 5),
            read=within(scan.deadline_ms * 2 // 5),
            settle=within(scan.deadline_ms * 2 // 5),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one task reads: the partitions that one broker leads. NO_LEADER: those that nobody does, and the cluster."""

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
    """What was asked to plan it."""
    source: Source | None = None
    """What is known of the broker that the metadata are of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCycle:
    """What a cycle brought for one cluster."""

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
    """The shares of one cycle; a cluster that does not tell its metadata gets one, which says why."""

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

    asked = tuple(clusters)
    with ThreadPoolExecutor(max_workers=max(min(PLANNERS_MAX, len(asked)), 1)) as planners:
        # Clients are made here, one after the other: they are not for two threads at once.
        made = [_client_of(cluster, budget, clients) for cluster in asked]
        return tuple(share for shares in planners.map(of_cluster, asked, made) for share in shares)


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
    """The rows of `share`: every partition of it, answered or not, and the broker itself."""
    began = clock()
    failure, requests, tables = share.failure, share.requests, []
    if share.rows is not None and share.cluster_id is not None:
        brokers = {} if share.address is None else {share.broker: share.address}
        topology, at = topology_of_rows(share.cluster_id, brokers, share.rows)
        scan = LeaderScan.unasked(topology)
        if share.broker != NO_LEADER and len(at):
            requests = _ask(share, scan, at, budget, clients)
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


def _ask(share: Share, scan: LeaderScan, at: np.ndarray, budget: Budget, clients: Clients) -> tuple[ApiStatistics, ...]:
    """Ask the broker for the rows `at`, note its answers in `scan`; what was asked."""

    async def question(cluster_client: ClusterClient) -> None:
        cluster_client.brokers = scan.topology.brokers
        await read_rows(cluster_client, scan, at, scan.topology.leader)

    try:
        client = clients.of(share.cluster.kafka, budget.read)
    except CredentialsError as error:
        scan.fail(at, "credentials")
        scan.faults[share.broker] = str(error)
        return ()
    before = client.statistics()
    client.query(question)
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
    """Put the rows of `cluster` together, ask what they leave open, and evaluate it.

    `describe_all`: also transactions that no earlier cycle has seen, for there is no next one.
    """
    began = clock()
    told = read_back(table)
    asked = [it.requests for it in (told.cluster, *told.brokers)]
    requests = total(part for parts in asked for part in parts)
    phases = _phases_before(told)
    if told.scan is None:
        return _nothing(cluster, told.cluster.failure or "nothing is known of it", phases, requests)
    try:
        client = clients.of(cluster.kafka, budget.settle)
    except CredentialsError as error:
        return _nothing(cluster, str(error), phases, requests)
    before = client.statistics()
    snapshot, later = _complete(
        client,
        told.scan,
        told.taken_at_ms,
        None if describe_all else memory,
        told.cluster.source,
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


def _phases_before(told: ClusterScan) -> tuple[tuple[str, float], ...]:
    """Brokers were asked side by side: the slowest counts."""
    return ("metadata", told.cluster.seconds), ("producers", max((it.seconds for it in told.brokers), default=0.0))


def _nothing(
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
    async def question(cluster_client: ClusterClient) -> tuple[Snapshot, tuple[tuple[str, float], ...]]:
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
            # The planner has heard the controller; `taken_at_ms` is by its wall clock.
            ahead_ms = source.clock_ahead_ms
            snapshot = replace(snapshot, clock_offset_ms=ahead_ms, clock_source=ClockSource.CONTROLLER)
        return snapshot, stopwatch.laps()

    return client.query(question)


def _proxy(mapping: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


# Python's own pickle has nothing for it, and an evaluation's memory is one.
copyreg.pickle(MappingProxyType, lambda it: (_proxy, (dict(it),)))


def packed(cycle: ClusterCycle) -> bytes:
    """On its way between processes of one Spark application, as Spark sends its own functions."""
    return pickle.dumps(cycle)


def unpacked(data: bytes) -> ClusterCycle:
    """What `packed` made. Only of our own making: it is a pickle."""
    cycle = pickle.loads(data)  # noqa: S301
    assert isinstance(cycle, ClusterCycle)
    return cycle
