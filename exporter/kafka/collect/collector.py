"""Reads one cycle in an order that makes the responses evidence: `Collector.collect() -> Snapshot`.

    metadata -> every leader's producers -> active transactions -> descriptions of the older ones
    and for unverified transactions, which the coordinators contradict:
    read again -> probes, listing, descriptions, probes (`coordinator_proof.prove`) -> read once more, at the current leader

A transaction that ends in the meantime drops out at one of the re-reads: only one that is open at the same start offset
before and after the coordinator's response was open at the time of the response.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from exporter.config.kafka_section import KafkaSettings
from exporter.config.settings import ScanSettings
from exporter.kafka.client.connections import Address, Connections
from exporter.kafka.client.credentials import bootstrap_of, client_options
from exporter.kafka.client.logins import logins_of
from exporter.kafka.client.oauth import ClientCredentials, tokens_of
from exporter.kafka.client.receiving import PROCESS
from exporter.kafka.cluster_client import TRANSACTIONS_LIMIT, ClusterClient, LatestMetadata, MakeProbes
from exporter.kafka.cluster_clock import ClusterClock
from exporter.kafka.collect.broker_configs import max_timeout
from exporter.kafka.collect.complete import Stopwatch, complete
from exporter.kafka.collect.examined import EarlierCycles
from exporter.kafka.collect.log_before import LogFacts
from exporter.kafka.collect.scan import LeaderScan, Progress, scan_leaders
from exporter.kafka.collect.scan_requests import ScanRequests
from exporter.kafka.collect.scope import EVERYTHING, Scope
from exporter.kafka.collect.topic_filter import NO_FILTER, TopicFilter
from exporter.kafka.leadership.metadata_source import CHECKED_EVERY_CYCLES, MetadataSource, checked_topology
from exporter.kafka.topology import Topology
from exporter.kafka.visibility.cluster import TopicWatch
from exporter.snapshot import (
    NO_KEYS,
    NOTHING_REMEMBERED,
    UNKNOWN_CLUSTER,
    BoolColumn,
    ClockSource,
    ClusterIdentity,
    DiskSpace,
    Int32Column,
    MaxTimeout,
    PositionRead,
    RememberedCompletions,
    Snapshot,
    TransactionKeys,
    Visibility,
)
from exporter.status import ApiStatistics

T = TypeVar("T")
_Collector = TypeVar("_Collector", bound="Collector")


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectOptions:
    """Limits of a cycle: its duration in seconds, and how much it examines."""

    deadline_s: float
    request_timeout_s: float
    transactions_limit: int = TRANSACTIONS_LIMIT
    topics: TopicFilter = NO_FILTER


def _collect_options(kafka: KafkaSettings, scan: ScanSettings) -> CollectOptions:
    return CollectOptions(
        deadline_s=scan.deadline_ms / 1000,
        request_timeout_s=kafka.request_timeout_ms / 1000,
        transactions_limit=scan.transactions_limit,
        topics=TopicFilter(scan.topics_include, scan.topics_exclude),
    )


@dataclass(slots=True, kw_only=True)
class EarlierState:
    """The knowledge of a collector from its earlier cycles: the next one depends on nothing else in it."""

    topology: Topology | None = None
    producers: Int32Column | None = None
    refused: BoolColumn | None = None
    """Partitions of the last topology whose producers this principal may not read."""
    cluster: ClusterIdentity = UNKNOWN_CLUSTER
    """Copy of the one in `LatestMetadata`, for another collector."""
    topics: TopicWatch = field(default_factory=TopicWatch)
    log_facts: LogFacts = field(default_factory=dict)
    disk: DiskSpace | None = None
    positions_read: tuple[PositionRead, ...] = ()
    clock_ahead_ms: float = 0.0
    clock_source: ClockSource = ClockSource.EXPORTER
    """Copies of those in `ClusterClock`."""
    out_of_touch: set[Address] = field(default_factory=set)
    source: Address | None = None
    out_of_date: str | None = None
    """The broker that the metadata came from, and the result of its last check."""
    cycles: int = 0

    def copy(self) -> EarlierState:
        """Returns a state that the next cycle does not change."""
        facts, out_of_touch = dict(self.log_facts), set(self.out_of_touch)
        return replace(self, topics=replace(self.topics), log_facts=facts, out_of_touch=out_of_touch)


class Collector:
    """Reads snapshots of one cluster over connections that it keeps open."""

    connections_class: type[Connections] = Connections
    """Class of the connections that `opened` makes."""

    def __init__(
        self,
        connections: Connections,
        bootstrap: Sequence[Address],
        options: CollectOptions,
        *,
        tokens: ClientCredentials | None = None,
        wall_clock: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connections = connections
        self._tokens = tokens
        self._bootstrap = tuple(bootstrap)
        self._options = options
        self._wall_clock = wall_clock
        self._clock = clock
        self._earlier = EarlierState()
        self._requests = ScanRequests()
        self._metadata = LatestMetadata()
        self._cluster_clock = ClusterClock(wall_clock, clock)
        self.probe_ids: Callable[[int], tuple[str, ...]] | None = None
        """Makes up transactional ids in a cycle that is recorded or replayed; None: they are random."""
        self.acl_probes: Callable[[MakeProbes], tuple[str | None, ...]] | None = None
        """Makes those for the ACLs, likewise."""
        self.phases: tuple[tuple[str, float], ...] = ()
        """(phase, seconds) of the latest cycle."""

    @classmethod
    def opened(  # noqa: PYI019 - typing.Self is 3.11+
        cls: type[_Collector],
        kafka: KafkaSettings,
        scan: ScanSettings,
        *,
        wall_clock: Callable[[], float] = time.time,
    ) -> _Collector:
        """Makes a collector for the cluster of these settings. It does not connect yet. Raises CredentialsError."""
        options = client_options(kafka)
        PROCESS.limit_bytes = scan.receive_limit_bytes
        connections = cls.connections_class(options, client_id=kafka.client_id, logins=logins_of(kafka))
        collect_options = _collect_options(kafka, scan)
        return cls(connections, bootstrap_of(kafka), collect_options, tokens=tokens_of(options), wall_clock=wall_clock)

    def collect(
        self,
        *,
        seen_before: TransactionKeys | None = NO_KEYS,
        completing: RememberedCompletions = NOTHING_REMEMBERED,
        scope: Scope = EVERYTHING,
        progress: Progress | None = None,
        search_logs: bool = False,
    ) -> Snapshot:
        """Reads one snapshot of what is in `scope`.

        Only transactions in `seen_before` are described, so that short ones cost no request; None describes all. The same
        holds for `completing`, the memory of what coordinators listed as completing, which concerns the whole cluster only.
        `search_logs` reads the logs of other partitions for the outcome of suspects: for an operator's command, not for
        every cycle. Raises ClusterUnavailableError if no broker returns the metadata, ClientClosedError if the connections
        are closed in the meantime; the snapshot's coverage reports everything else.
        """
        client = self._new_client()
        earlier = EarlierCycles(
            keys=seen_before,
            completing=completing if scope == EVERYTHING else None,
            log_facts=self._earlier.log_facts,
            disk=self._earlier.disk,
            positions_read=self._earlier.positions_read,
        )
        snapshot: Snapshot = self._connections.run(self._collect, client, earlier, scope, progress, search_logs)
        return snapshot

    def use(self, kafka: KafkaSettings, scan: ScanSettings, *, reconnect: bool) -> None:
        """Uses these settings from now on. Not during a collection. Raises CredentialsError, and then nothing changes.

        `reconnect`: ends connections, because the cluster or the credentials may be others. Only other bootstrap servers
        may lead to another cluster.
        """
        options = client_options(kafka) if reconnect else {}
        self._options = _collect_options(kafka, scan)
        PROCESS.limit_bytes = scan.receive_limit_bytes
        if self._bootstrap != bootstrap_of(kafka):
            self._bootstrap = bootstrap_of(kafka)
            self._metadata.cluster = UNKNOWN_CLUSTER
        if reconnect:
            self._earlier.topology = self._earlier.producers = self._earlier.refused = self._earlier.disk = None
            self._earlier.positions_read = ()
            self._earlier.out_of_touch.clear()
            self._earlier.cycles, self._earlier.source, self._earlier.out_of_date = 0, None, None
            self._cluster_clock = ClusterClock(self._wall_clock, self._clock)
            self._tokens = tokens_of(options)
            self._connections.use(options, client_id=kafka.client_id, logins=logins_of(kafka))

    def recall(self, cluster: ClusterIdentity, *, is_required: bool = True) -> None:
        """Sets what was visible before a restart, to report topics that are hidden now.

        `is_required`: brokers of another cluster are refused.
        """
        self._earlier.topics.recall(cluster)
        self._metadata.cluster = cluster if is_required else UNKNOWN_CLUSTER

    def state(self) -> EarlierState:
        """Returns a copy of what earlier cycles have left."""
        clock, cluster = self._cluster_clock, self._metadata.cluster
        return replace(self._earlier.copy(), cluster=cluster, clock_ahead_ms=clock.ahead_ms, clock_source=clock.source)

    def resume(self, state: EarlierState) -> None:
        """Goes on from what another collector knew."""
        self._earlier = state.copy()
        self._metadata.cluster = state.cluster
        self._cluster_clock.ahead_ms, self._cluster_clock.source = state.clock_ahead_ms, state.clock_source

    def scan(self) -> tuple[LeaderScan, MetadataSource]:
        """The leaders' responses alone, and what is known of the source of the metadata.

        Raises ClusterUnavailableError and ClientClosedError.
        """

        async def question(client: ClusterClient) -> tuple[LeaderScan, MetadataSource]:
            topology, why = await self._topology_of_cycle(client)
            self._earlier.cycles += 1
            is_known = self._cluster_clock.source is ClockSource.CONTROLLER
            ahead_ms = self._cluster_clock.at_ms(self._clock()) - self._now_ms() if is_known else None
            excluded = self._options.topics.excluded_rows(topology)
            scan = await scan_leaders(client, topology, requests=self._requests, excluded=excluded)
            self._earlier.topology = scan.topology
            return scan, MetadataSource(out_of_date=why, clock_ahead_ms=ahead_ms)

        return self.query(question)

    @property
    def has_response(self) -> bool:
        """True once a broker has returned a usable response. May be read from any thread."""
        return any(sum(api.latency_counts) for api in self.statistics())

    def statistics(self) -> tuple[ApiStatistics, ...]:
        """Requests so far, by API. May be called from any thread."""
        return self._connections.statistics()

    def close(self) -> None:
        """Closes the connections; a `collect` that runs in another thread ends with ClientClosedError."""
        self._connections.close()

    def query(
        self, question: Callable[[ClusterClient], Coroutine[Any, Any, T]], *, deadline_s: float | None = None
    ) -> T:
        """Runs `question` with a client and a deadline, by default that of a cycle.

        Raises what `question` raises, and ClientClosedError.
        """
        return self._connections.run(question, self._new_client(deadline_s))

    def _new_client(self, deadline_s: float | None = None) -> ClusterClient:
        """A client with a deadline, whose time includes that of fetching a token."""
        total_s = self._options.deadline_s if deadline_s is None else deadline_s
        deadline = self._clock() + total_s
        if self._tokens is not None:
            self._tokens.refresh(min(self._options.request_timeout_s, total_s))
        return ClusterClient(
            connections=self._connections,
            bootstrap=self._bootstrap,
            request_timeout_s=self._options.request_timeout_s,
            deadline=deadline,
            transactions_limit=self._options.transactions_limit,
            clock=self._clock,
            brokers=self._earlier.topology.brokers if self._earlier.topology is not None else None,
            latest=self._metadata,
            cluster_clock=self._cluster_clock,
            out_of_touch=self._earlier.out_of_touch,
            source=self._earlier.source,
            probe_ids=self.probe_ids,
            acl_probes=self.acl_probes,
        )

    async def _collect(
        self,
        client: ClusterClient,
        earlier: EarlierCycles,
        scope: Scope,
        progress: Progress | None,
        search_logs: bool,  # noqa: FBT001 - handed on by position
    ) -> Snapshot:
        stopwatch = Stopwatch(self._clock)
        topology, visibility = await self._look(client)
        stopwatch.lap("metadata")
        taken_at_ms, taken_at_s = self._now_ms(), self._clock()
        scan, limit = await self._read_leaders(client, topology, scope, progress)
        stopwatch.lap("producers")
        snapshot = await complete(
            client,
            scan,
            limit,
            taken_at_ms=taken_at_ms,
            earlier=earlier,
            search_logs=search_logs,
            stopwatch=stopwatch,
            now_ms=self._now_ms,
            visibility=visibility,
            taken_at_s=taken_at_s,
        )
        is_doubted = any(proof.unconfirmed for proof in snapshot.proofs)
        known = self._earlier
        known.cycles = 0 if is_doubted or any(snapshot.open_transactions.unconfirmed) else known.cycles + 1
        known.topology, known.producers, known.refused = scan.topology, scan.producers, scan.was_refused()
        known.disk = snapshot.disk
        known.positions_read = () if snapshot.impact is None else snapshot.impact.positions_read
        self.phases = stopwatch.laps()
        return snapshot

    @property
    def _is_check_due(self) -> bool:
        return self._earlier.cycles % CHECKED_EVERY_CYCLES == 0

    async def _topology_of_cycle(self, client: ClusterClient) -> tuple[Topology, str | None]:
        """The metadata of all topics, and the last known reason why no broker in contact with its controller returned it.

        If the source has changed since the check, the new one is checked at once.
        """
        if not self._is_check_due:
            topology = await client.topology()
            if client.source == self._earlier.source:
                return topology, self._earlier.out_of_date
        self._earlier.out_of_touch.clear()
        topology, self._earlier.out_of_date = await checked_topology(client)
        self._earlier.source = client.source
        return topology, self._earlier.out_of_date

    async def _look(self, client: ClusterClient) -> tuple[Topology, Visibility]:
        """The cluster's metadata, and what it does not show; every few cycles also whether its source is in contact."""
        is_check_due = self._is_check_due
        topology, why = await self._topology_of_cycle(client)
        watch, is_excluded = self._earlier.topics, self._options.topics.excludes
        visibility = await watch.look(client, topology, is_excluded, thoroughly=is_check_due)
        excluded = self._options.topics.excluded_rows(topology)
        if excluded is not None and len(excluded) > 0 and excluded.all():
            visibility = visibility.with_gap("scan.topics excludes every visible topic")
        if why is not None:
            visibility = visibility.with_gap(f"no broker is known to have current metadata: {why}")
        return topology, visibility

    async def _read_leaders(
        self, client: ClusterClient, topology: Topology, scope: Scope, progress: Progress | None
    ) -> tuple[LeaderScan, MaxTimeout]:
        is_known = self._has_partitions_of_last(topology)
        expected = self._earlier.producers if is_known else None
        # A grant is noticed where the source of the metadata is checked as well.
        refused = self._earlier.refused if is_known and not self._is_check_due else None
        wanted = scope.rows(topology)
        # A topic that an operator names is read, whatever the settings exclude.
        excluded = self._options.topics.excluded_rows(topology) if scope.topic is None else None
        scan, limit = await client.gather(
            (
                scan_leaders(
                    client,
                    topology,
                    wanted=wanted,
                    expected_producers=expected,
                    progress=progress,
                    requests=self._requests,
                    excluded=excluded,
                    refused=refused,
                ),
                max_timeout(client, sorted(topology.brokers)),
            )
        )
        assert isinstance(scan, LeaderScan)
        assert isinstance(limit, MaxTimeout)
        return scan, limit

    def _has_partitions_of_last(self, topology: Topology) -> bool:
        """True if the partitions are those of the last cycle, row by row."""
        last = self._earlier.topology
        return last is not None and last.topics == topology.topics and np.array_equal(last.topic, topology.topic)

    def _now_ms(self) -> int:
        return int(self._wall_clock() * 1000)
