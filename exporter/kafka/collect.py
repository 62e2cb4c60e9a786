"""One cycle's reading, in an order that makes its answers evidence: `Collector.collect() -> Snapshot`.

    metadata -> every leader's producers -> active transactions -> descriptions of those that last
    and for what the coordinators contradict ("doubtful"):
    read again -> probes, listing, descriptions, probes (`coordinators.prove`) -> read once more, at the current leader

A transaction that ends meanwhile drops out at one of the re-reads: only what stays open at the same start offset, before
and after its coordinator was asked, was open *while* it was asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from exporter.api_statistics import ApiStatistics
from exporter.config.kafka_section import KafkaSettings
from exporter.config.settings import ScanSettings
from exporter.kafka.broker_configs import max_timeout
from exporter.kafka.connections import Address, Connections
from exporter.kafka.coordinators import (
    by_producer_id,
    coordinators_of,
    coverage_of,
    describe,
    list_transactions,
)
from exporter.kafka.credentials import client_options
from exporter.kafka.doubts import settle_doubts
from exporter.kafka.inquiry import Inquiry, LatestMetadata
from exporter.kafka.leaders import Progress, Scan, scan_leaders
from exporter.kafka.offsets import latest_offsets
from exporter.kafka.reading import Reading
from exporter.kafka.scan_requests import ScanRequests
from exporter.kafka.scope import EVERYTHING, Scope
from exporter.kafka.suspects import ask_around
from exporter.kafka.tokens import ClientCredentials
from exporter.kafka.topology import Topology
from exporter.snapshot import (
    NO_LEADER,
    Answer,
    BoolColumn,
    BrokerCoverage,
    Int16Column,
    Int32Column,
    Int64Column,
    MaxTimeout,
    OpenTransactions,
    Partitions,
    SecondRead,
    Snapshot,
)

T = TypeVar("T")
SeenTransaction = tuple[str, int, int, int]
"""(topic, partition, producer id, start offset)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectOptions:
    """How long a cycle may take, in seconds."""

    deadline_s: float
    request_timeout_s: float


def open_collector(kafka: KafkaSettings, scan: ScanSettings) -> Collector:
    """A collector for the cluster of these settings. Nothing is connected yet. Raises CredentialsError."""
    options = client_options(kafka)
    connections = Connections(options, client_id=kafka.client_id)
    return Collector(connections, _bootstrap(kafka), _collect_options(kafka, scan), tokens=_tokens(options))


def _tokens(options: Mapping[str, Any]) -> ClientCredentials | None:
    """Where the client gets its tokens; None where it logs in otherwise, or not at all."""
    provider = options.get("sasl_oauth_token_provider")
    return provider if isinstance(provider, ClientCredentials) else None


def _bootstrap(kafka: KafkaSettings) -> tuple[Address, ...]:
    return tuple(Address(host, port) for host, port in kafka.bootstrap_servers)


def _collect_options(kafka: KafkaSettings, scan: ScanSettings) -> CollectOptions:
    return CollectOptions(deadline_s=scan.deadline_ms / 1000, request_timeout_s=kafka.request_timeout_ms / 1000)


class Collector:
    """Reads snapshots of one cluster over connections that it keeps."""

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
        self._topology: Topology | None = None
        self._producers: Int32Column | None = None
        self._requests = ScanRequests()
        self._metadata = LatestMetadata()
        self.phases: tuple[tuple[str, float], ...] = ()
        """(phase, seconds) of the latest cycle."""

    def collect(
        self,
        *,
        seen_before: Collection[SeenTransaction] | None = (),
        scope: Scope = EVERYTHING,
        progress: Progress | None = None,
        search_logs: bool = False,
    ) -> Snapshot:
        """Read one snapshot of what is in `scope`.

        Only transactions in `seen_before` are described: those that come and go between two cycles cost nothing; None
        describes all. `search_logs` has other partitions' logs read for how suspects ended there: for a person who asks,
        not for every cycle. Raises ClusterUnavailableError when no broker tells the metadata, ClientClosedError when the
        connections are closed meanwhile; everything less is told in the snapshot's coverage.
        """
        self._refresh_token()
        snapshot: Snapshot = self._connections.run(self._collect, seen_before, scope, progress, search_logs)
        return snapshot

    def use(self, kafka: KafkaSettings, scan: ScanSettings, *, reconnect: bool) -> None:
        """Go by these settings from now on. Not while it collects. Raises CredentialsError, and then nothing changes.

        `reconnect`: end the connections and forget the cluster, as it may be another one, or other credentials.
        """
        options = client_options(kafka) if reconnect else {}
        self._options = _collect_options(kafka, scan)
        self._bootstrap = _bootstrap(kafka)
        if reconnect:
            self._topology = self._producers = None
            self._tokens = _tokens(options)
            self._connections.use(options, client_id=kafka.client_id)

    def statistics(self) -> tuple[ApiStatistics, ...]:
        """Requests so far, by API. May be called from any thread."""
        return self._connections.statistics()

    def close(self) -> None:
        """Close the connections; a `collect` that runs in another thread ends with ClientClosedError."""
        self._connections.close()

    def inquire(self, question: Callable[[Inquiry], Coroutine[Any, Any, T]]) -> T:
        """Run `question` with the means and the deadline of one cycle. Raises what it raises, and ClientClosedError."""
        self._refresh_token()
        return self._connections.run(question, self._inquiry())

    def _refresh_token(self) -> None:
        if self._tokens is not None:
            self._tokens.refresh(self._options.request_timeout_s)

    def _inquiry(self) -> Inquiry:
        return Inquiry(
            connections=self._connections,
            bootstrap=self._bootstrap,
            request_timeout_s=self._options.request_timeout_s,
            deadline=self._clock() + self._options.deadline_s,
            clock=self._clock,
            brokers=self._topology.brokers if self._topology is not None else None,
            latest=self._metadata,
        )

    async def _collect(
        self,
        seen_before: Collection[SeenTransaction] | None,
        scope: Scope,
        progress: Progress | None,
        search_logs: bool,  # noqa: FBT001 - handed on by position
    ) -> Snapshot:
        stopwatch = _Stopwatch(self._clock)
        inquiry = self._inquiry()
        topology = await inquiry.topology()
        stopwatch.lap("metadata")
        taken_at_ms = self._now_ms()
        reading = await self._read_leaders(inquiry, topology, scope, progress)
        stopwatch.lap("producers")
        if len(reading.entries):
            await _ask_coordinators(inquiry, reading, seen_before)
            stopwatch.lap("transactions")
            doubtful = await settle_doubts(inquiry, reading)
            stopwatch.lap("proof")
            await ask_around(inquiry, reading, doubtful, taken_at_ms, search_logs=search_logs)
            stopwatch.lap("impact")
        open_transactions = await _with_offsets(inquiry, reading)
        stopwatch.lap("offsets")
        self._topology, self._producers = reading.topology, reading.scan.producers
        self.phases = stopwatch.laps()
        return _snapshot(reading, open_transactions, taken_at_ms, self._now_ms())

    async def _read_leaders(
        self, inquiry: Inquiry, topology: Topology, scope: Scope, progress: Progress | None
    ) -> Reading:
        expected = self._expected_producers(topology)
        wanted = scope.rows(topology)
        scan, limit = await inquiry.gather(
            (
                scan_leaders(
                    inquiry,
                    topology,
                    wanted=wanted,
                    expected_producers=expected,
                    progress=progress,
                    requests=self._requests,
                ),
                max_timeout(inquiry, sorted(topology.brokers)),
            )
        )
        assert isinstance(scan, Scan)
        assert isinstance(limit, MaxTimeout)
        entries = scan.entries()
        second_read = np.full(len(entries), SecondRead.NOT_ASKED, dtype=np.int8)
        return Reading(scan.topology, scan, limit, entries, second_read)

    def _expected_producers(self, topology: Topology) -> Int32Column | None:
        """Entries per partition as the last cycle counted them; None where the partitions have changed since."""
        last = self._topology
        same = last is not None and last.topics == topology.topics and np.array_equal(last.topic, topology.topic)
        return self._producers if same else None

    def _now_ms(self) -> int:
        return int(self._wall_clock() * 1000)


class _Stopwatch:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = clock()
        self._laps: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        now = self._clock()
        self._laps[phase] = now - self._last
        self._last = now

    def laps(self) -> tuple[tuple[str, float], ...]:
        return tuple(self._laps.items())


async def _ask_coordinators(
    inquiry: Inquiry, reading: Reading, seen_before: Collection[SeenTransaction] | None
) -> None:
    """List the active transactions, and describe those behind an entry that was open in an earlier cycle."""
    reading.listings = await list_transactions(inquiry, coordinators_of(reading.topology))
    active = by_producer_id(transaction for listing in reading.listings for transaction in listing.transactions)
    entries = reading.entries
    lasting = {
        int(entries.producer_id[i])
        for i in range(len(entries))
        if int(entries.producer_id[i]) in active
        and (
            seen_before is None
            or (*reading.partition(i), int(entries.producer_id[i]), int(entries.start_offset[i])) in seen_before
        )
    }
    described, reading.unclear_producer_ids = await describe(
        inquiry, [active[producer_id] for producer_id in sorted(lasting)]
    )
    reading.transactions = tuple({**active, **by_producer_id(described)}.values())


async def _with_offsets(inquiry: Inquiry, reading: Reading) -> OpenTransactions:
    """The open transactions with their partitions' high watermark and last stable offset."""
    topology, entries = reading.topology, reading.entries
    partitions = [reading.partition(i) for i in range(len(entries))]
    leaders = {
        partition: int(topology.leader[row])
        for partition, row in zip(partitions, entries.row, strict=True)
        if topology.leader[row] != NO_LEADER
    }
    offsets = await latest_offsets(inquiry, leaders)
    pairs: Int64Column = np.array(
        [offsets.get(partition, (-1, -1)) for partition in partitions], dtype=np.int64
    ).reshape(-1, 2)
    return OpenTransactions(
        partition_row=entries.row.astype(np.int32),
        producer_id=entries.producer_id,
        producer_epoch=entries.producer_epoch,
        last_sequence=entries.last_sequence,
        last_timestamp_ms=entries.last_timestamp_ms,
        coordinator_epoch=entries.coordinator_epoch,
        start_offset=entries.start_offset,
        second_read=reading.second_read,
        diverged_replicas=_diverged(reading),
        last_stable_offset=pairs[:, 0].copy(),
        high_watermark=pairs[:, 1].copy(),
    )


def _diverged(reading: Reading) -> tuple[tuple[int, ...], ...]:
    """(N,) followers against each entry; empty where none is against any, which is every ordinary cycle."""
    if not reading.diverged:
        return ()
    return tuple(reading.diverged.get(reading.at_leader(i), ()) for i in range(len(reading.entries)))


def _snapshot(reading: Reading, open_transactions: OpenTransactions, taken_at_ms: int, finished_at_ms: int) -> Snapshot:
    topology, scan = reading.topology, reading.scan
    exists = scan.is_subject()
    new_row = np.cumsum(exists) - 1
    unread = np.flatnonzero(scan.answer[exists] != Answer.READ)
    told = [str(reason) for reason in scan.reason[exists][unread]]
    reasons = tuple(sorted(set(told)))
    reason: Int16Column = np.full(np.count_nonzero(exists), -1, dtype=np.int16)
    reason[unread] = [reasons.index(it) for it in told]
    partitions = Partitions(
        topics=topology.topics,
        topic=topology.topic[exists],
        partition=topology.partition[exists],
        leader=topology.leader[exists],
        answer=scan.answer[exists],
        reasons=reasons,
        reason=reason,
        producers=scan.producers[exists],
    )
    moved = replace(open_transactions, partition_row=new_row[open_transactions.partition_row].astype(np.int32))
    return Snapshot(
        cluster_id=topology.cluster_id,
        taken_at_ms=taken_at_ms,
        finished_at_ms=finished_at_ms,
        partitions=partitions,
        open_transactions=moved,
        transactions=reading.transactions,
        unclear_producer_ids=reading.unclear_producer_ids,
        proof=reading.proof,
        impact=reading.impact,
        end_markers=reading.end_markers,
        brokers=_brokers(topology, scan, exists),
        coordinators=coverage_of(reading.listings),
        max_timeout=reading.max_timeout,
    )


def _brokers(topology: Topology, scan: Scan, exists: BoolColumn) -> tuple[BrokerCoverage, ...]:
    led_by = topology.leader[exists & (topology.leader != NO_LEADER)]
    asked, count = np.unique(led_by, return_counts=True)
    led = dict(zip(asked.tolist(), count.tolist(), strict=True))
    return tuple(
        BrokerCoverage(
            broker=broker,
            host=topology.brokers[broker].host if broker in topology.brokers else "",
            port=topology.brokers[broker].port if broker in topology.brokers else -1,
            partitions=led.get(broker, 0),
            failure=scan.faults.get(broker),
        )
        for broker in sorted(led.keys() | scan.faults.keys())
    )
