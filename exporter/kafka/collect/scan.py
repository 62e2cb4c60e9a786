"""Queries every partition leader for its producers, brokers concurrently, partitions in bounded chunks.

A broker that fails affects only the partitions that it leads. A partition whose leader has moved, or could not be reached,
is read once more at the leader that fresh metadata names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest

import numpy as np
import numpy.typing as npt

from exporter.kafka.client.connections import PendingRequest
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.scan_requests import Rows, ScanRequest, ScanRequests, chunks
from exporter.kafka.errors import (
    BrokerFault,
    ClusterUnavailableError,
    ErrorCode,
    error_name,
)
from exporter.kafka.messages import describe_producers
from exporter.kafka.messages.describe_producers import ProducersResponse
from exporter.kafka.messages.raw_request import RawResponse
from exporter.kafka.topology import Topology
from exporter.snapshot import (
    NO_LEADER,
    BoolColumn,
    Int8Column,
    Int16Column,
    Int32Column,
    Int64Column,
    PartitionResult,
    ProducerEntries,
)

_MOVED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    }
)
NO_LEADER_REASON = "no_leader"
NOT_ANSWERED_REASON = "left_out_of_the_answer"
DELETED_REASON = "deleted"
NOT_WANTED_REASON = "not_wanted"
EXCLUDED_REASON = "excluded"
_REASONS = ("", NO_LEADER_REASON, DELETED_REASON, NOT_WANTED_REASON, NOT_ANSWERED_REASON, EXCLUDED_REASON)
_NONE, _NO_LEADER, _DELETED, _NOT_WANTED, _NOT_ANSWERED, _EXCLUDED = range(len(_REASONS))

Progress = Callable[[int, int], None]
"""Called with (partitions read, partitions requested) as responses arrive."""


@dataclass(frozen=True, kw_only=True)
class Entries(ProducerEntries):
    """Producers of a scan; a scan for certain producers has no open transactions."""

    row: Int64Column
    """(N,) of their partition in the topology that was scanned."""


_NO_ENTRIES = Entries(
    row=np.empty(0, dtype=np.int64),
    producer_id=np.empty(0, dtype=np.int64),
    producer_epoch=np.empty(0, dtype=np.int32),
    last_sequence=np.empty(0, dtype=np.int32),
    last_timestamp=np.empty(0, dtype=np.int64),
    coordinator_epoch=np.empty(0, dtype=np.int32),
    current_txn_start_offset=np.empty(0, dtype=np.int64),
)


_REASONS_MAX = 200
"""Kinds of reasons in a scan: Kafka has some 130 error codes."""
_ERRORS_MAX = 50
"""Different error codes in one response."""
_MORE_REASONS = "more_errors"


@dataclass(slots=True)
class LeaderScan:
    """The leaders' responses for the requested rows; grows while responses arrive, on the client's thread only."""

    topology: Topology
    """Topology with the leaders that were queried last."""
    producer_ids: frozenset[int] | None
    """Producers whose entries are kept; None keeps open transactions only, of any producer."""
    answer: Int8Column
    reason_code: Int16Column
    """(P,) index into `reasons`: columns of text would cost an object for each partition."""
    producers: Int32Column
    requests: ScanRequests
    reasons: list[str] = field(default_factory=lambda: list(_REASONS))
    faults: dict[int, str] = field(default_factory=dict)
    """Broker id -> sentence, for brokers that failed."""
    parts: list[Entries] = field(default_factory=list)

    @classmethod
    def unasked(
        cls,
        topology: Topology,
        wanted: BoolColumn | None = None,
        producer_ids: frozenset[int] | None = None,
        requests: ScanRequests | None = None,
        excluded: BoolColumn | None = None,
    ) -> LeaderScan:
        """Every `wanted` row is unavailable for lack of a leader until a response arrives, or excluded."""
        count = len(topology)
        reason_code = np.full(count, _NO_LEADER, dtype=np.int16)
        if wanted is not None:
            reason_code[~wanted] = _NOT_WANTED
        answer = np.full(count, int(PartitionResult.UNAVAILABLE), dtype=np.int8)
        if excluded is not None:
            answer[excluded], reason_code[excluded] = PartitionResult.EXCLUDED, _EXCLUDED
        scan = cls(
            topology=topology,
            producer_ids=producer_ids,
            answer=answer,
            reason_code=reason_code,
            producers=np.zeros(count, dtype=np.int32),
            requests=ScanRequests() if requests is None else requests,
        )
        scan.requests.begin(topology)
        return scan

    @property
    def reason(self) -> npt.NDArray[np.object_]:
        """(P,) why a row was not read, "" where it was."""
        return np.array(self.reasons, dtype=object)[self.reason_code]

    def entries(self) -> Entries:
        """The entries of all responses so far, in the order of partition, producer id and start offset."""
        entries = Entries.joined([_NO_ENTRIES, *self.parts])
        return entries.those(np.lexsort((entries.current_txn_start_offset, entries.producer_id, entries.row)))

    def fail(self, rows: Rows, reason: str) -> None:
        """Notes that `rows` could not be read."""
        self.answer[rows] = PartitionResult.UNAVAILABLE
        self.reason_code[rows] = self._code(reason)

    def has_reason(self, rows: Rows, reasons: Iterable[str]) -> BoolColumn:
        """True for each of `rows` that could not be read for one of `reasons`."""
        codes = [self.reasons.index(reason) for reason in reasons if reason in self.reasons]
        return np.isin(self.reason_code[rows], codes)

    def _code(self, reason: str) -> int:
        if reason not in self.reasons:
            # Otherwise a broker that invents error codes would create a metric's series for each.
            reason = reason if len(self.reasons) < _REASONS_MAX else _MORE_REASONS
            if reason not in self.reasons:
                self.reasons.append(reason)
        return self.reasons.index(reason)

    def add(self, rows: Rows, answer: ProducersResponse) -> None:
        """Merges the response to a request for `rows`; partitions that were not requested are ignored."""
        self.reason_code[rows] = _NOT_ANSWERED
        self.answer[rows] = PartitionResult.UNAVAILABLE
        row, was_asked = self._rows_of(rows, answer)
        good = was_asked & (answer.error == int(ErrorCode.NONE))
        self.answer[row[good]] = PartitionResult.READ
        self.reason_code[row[good]] = _NONE
        self.producers[row[good]] = answer.producers[good]
        refused = was_asked & ~good
        errors, _ = np.unique(answer.error[refused], return_counts=True)  # without counts it loads numpy.ma, for 20 ms
        if len(errors) > _ERRORS_MAX:
            self.fail(row[refused & np.isin(answer.error, errors[_ERRORS_MAX:])], _MORE_REASONS)
        for error in errors[:_ERRORS_MAX].tolist():
            self.refuse(row[refused & (answer.error == error)], error)
        keep = good[answer.entry_partition]
        entries = Entries(row=row[answer.entry_partition], **answer.columns())
        self.parts.append(entries.those(keep))

    def _rows_of(self, rows: Rows, answer: ProducersResponse) -> tuple[Rows, npt.NDArray[np.bool_]]:
        """(row, accepted) per partition of the response: accepted if it was requested, and at its first occurrence."""
        asked = np.zeros(len(self.topology), dtype=np.bool_)
        asked[rows] = True
        row = self.topology.rows_named(answer.topics, answer.topic, answer.partition)
        believed = (row >= 0) & asked[row]
        asked[row[believed]] = False
        if np.count_nonzero(believed) == len(rows) - np.count_nonzero(asked[rows]):
            return row, believed  # none occurs twice
        first_told = np.zeros(len(row), dtype=np.bool_)
        first_told[np.unique(np.where(believed, row, -1), return_index=True)[1]] = True
        return row, believed & first_told

    def refuse(self, rows: Rows, error: int) -> None:
        """Notes that the leader has responded with this Kafka error code."""
        unauthorized = error == int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        self.answer[rows] = PartitionResult.UNAUTHORIZED if unauthorized else PartitionResult.UNAVAILABLE
        self.reason_code[rows] = self._code(error_name(error))

    def is_subject(self) -> BoolColumn:
        """(P,) rows of the scan: wanted, and not deleted in the meantime."""
        subject: BoolColumn = (self.reason_code != _DELETED) & (self.reason_code != _NOT_WANTED)
        return subject

    def was_refused(self) -> BoolColumn:
        """(P,) true where this principal may not read the producers."""
        every = np.arange(len(self.topology))
        return self.has_reason(every, [error_name(ErrorCode.TOPIC_AUTHORIZATION_FAILED)])

    def may_have_moved(self) -> Rows:
        """Rows to read again once fresh metadata names another leader."""
        return np.flatnonzero(self.is_subject() & (self.answer == int(PartitionResult.UNAVAILABLE)))


async def scan_leaders(
    client: ClusterClient,
    topology: Topology,
    *,
    wanted: BoolColumn | None = None,
    producer_ids: frozenset[int] | None = None,
    expected_producers: Int32Column | None = None,
    progress: Progress | None = None,
    requests: ScanRequests | None = None,
    excluded: BoolColumn | None = None,
    refused: BoolColumn | None = None,
) -> LeaderScan:
    """Reads every `wanted` partition of `topology`, or all, but those `excluded`.

    The result has the reason for each that could not be read. Open transactions are kept, or every entry of `producer_ids`.
    `expected_producers` (P,) sizes the chunks; without it every partition is assumed to have few. `requests` has those of
    an earlier scan ready. `refused` (P,) are taken to be refused again, without a request.
    """
    scan = LeaderScan.unasked(topology, wanted, producer_ids, requests, excluded)
    if refused is not None:
        scan.refuse(np.flatnonzero(refused & scan.is_subject()), int(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    rows = np.flatnonzero(
        scan.is_subject() & (topology.leader != NO_LEADER) & (scan.answer == int(PartitionResult.UNAVAILABLE))
    )
    await read_rows(client, scan, rows, topology.leader, expected_producers, progress)
    await ask_again_where_moved(client, scan)
    return scan


async def ask_again_where_moved(client: ClusterClient, scan: LeaderScan) -> None:
    """Once, with fresh metadata: read rows whose leader changed, or whose broker responded that it is not the leader."""
    stale = scan.may_have_moved()
    if len(stale) == 0 or client.remaining_s() <= 0:
        return
    try:
        fresh = await client.topology()
    except ClusterUnavailableError:
        return  # the first responses stay valid, and coverage already reports what is missing
    known = scan.topology
    at = known.rows_in(fresh, stale)
    # Its leader must confirm it: the source of the metadata may lag behind, and unread is not the same as deleted.
    unknown = scan.has_reason(stale, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name])
    scan.reason_code[stale[(at < 0) & unknown]] = _DELETED
    stale, at = stale[at >= 0], at[at >= 0]
    leader, leader_epoch = known.leader.copy(), known.leader_epoch.copy()
    leader[stale], leader_epoch[stale] = fresh.leader[at], fresh.leader_epoch[at]
    has_moved = (leader[stale] != known.leader[stale]) | scan.has_reason(stale, map(error_name, _MOVED))
    again = stale[(leader[stale] != NO_LEADER) & has_moved]
    # Later reads of this cycle must not use a former leader: its own log may lack what is open.
    brokers = {**scan.topology.brokers, **fresh.brokers}
    scan.topology = replace(scan.topology, brokers=brokers, leader=leader, leader_epoch=leader_epoch)
    await read_rows(client, scan, again, leader)


async def read_rows(
    client: ClusterClient,
    scan: LeaderScan,
    rows: Rows,
    leader: Int32Column,
    expected_producers: Int32Column | None = None,
    progress: Progress | None = None,
) -> None:
    """Queries the `leader` (P,) of each of `rows` for its producers, and notes the responses in `scan`."""
    answered = 0

    async def ask_broker(broker: int) -> None:
        nonlocal answered
        mine = rows_of[broker]
        requests = [scan.requests.of(scan.topology, chunk) for chunk in chunks(mine, expected_producers)]
        sent: PendingRequest | None = None
        for request, following in zip_longest(requests, requests[1:]):
            try:
                received = await client.receive(broker, "DescribeProducers", request.request, sent)
                # Sent before this response is decoded: a broker never has two requests, and is seldom idle.
                sent = None if following is None else client.send_ahead(broker, following.request)
                answer = client.connections.decode(received, partial(_columns, scan, request))
            except BrokerFault as fault:
                scan.faults[broker] = str(fault)
                scan.fail(mine[mine >= request.rows[0]], fault.reason.value)
                break
            request.layout = answer.layout
            scan.add(request.rows, answer)
            answered += len(request.rows)
            if progress is not None:
                progress(answered, len(rows))

    by_leader = np.argsort(leader[rows], kind="stable")
    leaders, counts = np.unique(leader[rows], return_counts=True)
    parts = np.split(rows[by_leader], np.cumsum(counts)[:-1])
    rows_of = dict(zip(leaders.tolist(), parts, strict=False))
    await client.gather(ask_broker(broker) for broker in rows_of)


def _columns(scan: LeaderScan, request: ScanRequest, answer: RawResponse) -> ProducersResponse:
    return describe_producers.decode(answer.body, scan.producer_ids, version=answer.version, like=request.layout)
