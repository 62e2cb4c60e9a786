"""Reads the records of `__transaction_state` from an instant on, and how far they are read (Fetch, API key 1).

Each leader has one long request at a time for all partitions that it leads; it is repeated while the caller takes the
records of the response before. Nothing is written to the cluster, and no group is used. Responses count towards
a limit of their own, and compressed records, which brokers do not write to this topic, are refused: a peer can make the
process unpack nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from exporter.config.kafka_section import KafkaSettings
from exporter.kafka.client.connections import Connections
from exporter.kafka.client.credentials import bootstrap_of, client_options
from exporter.kafka.client.logins import logins_of
from exporter.kafka.client.oauth import tokens_of
from exporter.kafka.client.receiving import ReceiveBudget
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import (
    BrokerFault,
    ClusterUnavailableError,
    ErrorCode,
    MalformedResponseError,
    refusal_of,
)
from exporter.kafka.log_progress import LogProgress, LogRecord
from exporter.kafka.messages import fetch
from exporter.kafka.messages.fetch import Fetched, Position, fetched_of_topic
from exporter.kafka.offsets import LATEST, LOG_START, by_leader, offsets_at
from exporter.kafka.topology import Topology
from exporter.snapshot import NO_LEADER, STATE_TOPIC

BATCH_RECORDS_MAX: Final = 2000
WAIT_MS: Final = 500
"""Time that a leader waits for new records before its response is empty."""
HEARD_WITHIN_SECONDS: Final = 5.0
"""A leader responds within half a second: after a longer silence the end of its log is unknown."""
PAUSE_SECONDS: Final = 0.02
"""The pause after an empty response, which a leader may send without waiting."""
AGAIN_SECONDS: Final = 1.0
"""The time before a leader is asked again that did not respond, or metadata is read again."""
PLACE_AGAIN_SECONDS: Final = 5.0
MOVES_MAX: Final = 3
"""A partition whose leader moves is found again with new metadata: only after as many refusals it is a failure."""
_MOVED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
RECEIVE_LIMIT_BYTES: Final = 64_000_000
"""The limit for the logs of all clusters; a leader is asked for a megabyte at a time."""
_BUDGET: Final = ReceiveBudget(RECEIVE_LIMIT_BYTES)


class LogUnreadableError(Exception):
    """The log cannot be read at all now; the sentence says why."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """Result of one reading."""

    records: tuple[LogRecord, ...]
    gaps: tuple[int, ...] = ()
    """Partitions of which records are missing: truncated by a new leader, removed by retention, or compressed."""


@dataclass(slots=True)
class _Piece:
    """Records of a partition that a leader returned, while they are taken."""

    leader: int
    partition: int
    records: Iterator[LogRecord]


class StateLog:
    """Reads every partition of the log. Belongs to one thread; `close` it."""

    def __init__(
        self,
        kafka: KafkaSettings,
        *,
        since_ms: int,
        positions: Mapping[int, int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Starts reading at `positions`; without a position at the first record written at `since_ms` or later.

        Raises LogUnreadableError.
        """
        self._clock = clock
        self._since_ms = since_ms
        self._timeout_s = kafka.request_timeout_ms / 1000
        self._bootstrap = bootstrap_of(kafka)
        self._opened_at = clock()
        self._ends: dict[int, tuple[int, float]] = {}
        self._failure: str | None = None
        self._why_unseen: str | None = None
        """Failure of the last look at the topic: leaders that respond to a Fetch do not end it."""
        self._pending: dict[int, Any] = {}
        """Future of the response, by leader."""
        self._again_at: dict[int, float] = {}
        self._pieces: deque[_Piece] = deque()
        self._moves: dict[int, int] = {}
        self._out_of_range: set[int] = set()
        self._is_stale = False
        self._progress = LogProgress(positions)
        self.positions = self._progress.positions
        """Offset to be read next, by partition."""
        self.failures = self._progress.failures
        """Reason why a partition is not read, a sentence without its full stop."""
        try:
            options = client_options(kafka)
        except ClusterUnavailableError as error:
            raise LogUnreadableError(str(error)) from error
        self._tokens = tokens_of(options)
        self._token_again_at = self._opened_at
        self._connections = Connections(
            options, client_id=kafka.client_id, logins=logins_of(kafka), receive_share=_BUDGET.share()
        )
        self._topology: Topology | None = None
        try:
            self._refresh_token()
            self._look()
            self._place()
        except BaseException:
            self.close()
            raise

    @property
    def cluster_id(self) -> str:
        """The id of the cluster whose brokers responded."""
        return self._known.cluster_id

    @property
    def topic_id(self) -> str:
        """The topic's id, which differs for a later topic of the same name; empty if the broker has none."""
        return self._known.topic_id_of(STATE_TOPIC)

    @property
    def partitions(self) -> tuple[int, ...]:
        """The numbers of the log's partitions."""
        return tuple(range(len(self._known.rows_of(STATE_TOPIC))))

    @property
    def _known(self) -> Topology:
        assert self._topology is not None
        return self._topology

    def read(self, timeout_s: float) -> LogPart:
        """The records that have arrived, at the latest after the time-out. Raises LogUnreadableError."""
        now = self._clock()
        self._refresh_token()
        if self._is_stale and now >= self._look_again_at:
            try:
                self._look()
            except LogUnreadableError as error:
                self._why_unseen = str(error)
            else:
                self._why_unseen = None
        if set(self.partitions) - self.positions.keys() and now >= self._place_again_at:
            self._place()
        self._connections.run(self._fetch, 0.0 if self._pieces else timeout_s)
        if self._out_of_range:
            self._connections.run(self._jump, self._client())
        records = tuple(self._taken())  # it may add a gap
        return LogPart(records, self._progress.take_gaps())

    @property
    def ends(self) -> Mapping[int, int]:
        """Returns, by partition, the next record's offset, if the partition is read and its leader responds."""
        heard_since = self._clock() - HEARD_WITHIN_SECONDS
        return {
            partition: end
            for partition, (end, heard_at) in self._ends.items()
            if heard_at >= heard_since and partition not in self.failures
        }

    @property
    def failure(self) -> str | None:
        """The failure of the client as a whole; None while brokers respond, or may still respond."""
        heard_since = self._clock() - HEARD_WITHIN_SECONDS
        if any(heard_at >= heard_since for _, heard_at in self._ends.values()):
            return None
        # A busy leader may take as long for its first response as for any other.
        is_young = self._clock() - self._opened_at < max(self._timeout_s, HEARD_WITHIN_SECONDS)
        # A leader that refuses responds: `failures` has its reason.
        is_silent = not (is_young or self.failures)
        return (
            self._why_unseen
            or self._failure
            or (f"no leader of a partition of {STATE_TOPIC} responds" if is_silent else None)
        )

    def close(self) -> None:
        """Ends the connections."""
        self._connections.close()

    def _refresh_token(self) -> None:
        now = self._clock()
        if self._tokens is not None and now >= self._token_again_at:
            self._token_again_at = now + AGAIN_SECONDS
            self._tokens.refresh(self._timeout_s)

    def _client(self) -> ClusterClient:
        return ClusterClient(
            connections=self._connections,
            bootstrap=self._bootstrap,
            request_timeout_s=self._timeout_s,
            deadline=time.monotonic() + self._timeout_s + WAIT_MS / 1000,
            brokers=None if self._topology is None else self._topology.brokers,
        )

    def _look(self) -> None:
        """Reads the metadata of the topic. Raises LogUnreadableError."""
        self._look_again_at = self._clock() + AGAIN_SECONDS
        try:
            now: Topology = self._connections.run(self._client().topology, (STATE_TOPIC,))
        except (BrokerFault, ClusterUnavailableError) as error:
            raise LogUnreadableError(str(error)) from error
        if now.topic_errors.get(STATE_TOPIC) == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise LogUnreadableError(f"{STATE_TOPIC} is not visible: grant DESCRIBE and READ on it")
        if not now.rows_of(STATE_TOPIC):
            raise LogUnreadableError(f"topic {STATE_TOPIC} does not exist yet: no client has used a transactional id")
        before, self._topology, self._is_stale = self._topology, now, False
        if before is not None and before.topic_id_of(STATE_TOPIC) != now.topic_id_of(STATE_TOPIC):
            # It was made again: no offset of before means anything.
            self._progress.start_again()
            self._pieces.clear()
            self._pending.clear()
            self._ends.clear()
            self._place_again_at = self._clock()

    def _place(self) -> None:
        """Partitions without a position begin by time, once their leader responds."""
        self._place_again_at = self._clock() + PLACE_AGAIN_SECONDS
        self._connections.run(self._place_by_time, self._client())

    async def _place_by_time(self, client: ClusterClient) -> None:
        without = set(self.partitions) - self.positions.keys()
        # The order matters: a record written between the two responses is found by its time.
        ends = await self._offsets(client, without, LATEST)
        since = await self._offsets(client, ends.keys(), self._since_ms)
        for partition, offset in since.items():
            self.positions[partition] = ends[partition] if offset < 0 else offset

    async def _offsets(self, client: ClusterClient, partitions: Collection[int], timestamp_ms: int) -> dict[int, int]:
        """Returns the offsets of those with a result; `failures` has the reason for the others."""
        leaders = {(STATE_TOPIC, each): self._leader_of(each) for each in partitions}
        found, failures = await offsets_at(client, leaders, timestamp_ms)
        self._is_stale |= bool(failures)
        self.failures.update({partition: str(fault) for (_, partition), fault in failures.items()})
        for _, partition in found:
            self.failures.pop(partition, None)
        return {partition: offset for (_, partition), offset in found.items()}

    def _leader_of(self, partition: int) -> int:
        return self._known.leader_of(STATE_TOPIC, partition)[0]

    async def _fetch(self, timeout_s: float) -> None:
        """Queries every leader that owes nothing, and takes the responses that come within the time."""
        taken_from = {piece.leader for piece in self._pieces}
        now = self._clock()
        readable = sorted(self.positions.keys() & set(self.partitions))
        for leader, partitions in by_leader({each: self._leader_of(each) for each in readable}).items():
            if leader == NO_LEADER:
                self.failures.update(dict.fromkeys(partitions, "it has no leader"))
                self._is_stale = True
            elif leader in self._pending or leader in taken_from:
                continue
            elif self._again_at.get(leader, now) > now:
                timeout_s = min(timeout_s, self._again_at[leader] - now)
            else:
                asked = {partition: self._progress.position(partition) for partition in partitions}
                self._pending[leader] = self._connections.begin(self._ask, leader, asked)
        await self._connections.wait_for_any(self._pending.values(), timeout_s)
        for leader, future in tuple(self._pending.items()):
            if future.is_done:
                del self._pending[leader]
                if future.exception is not None:
                    raise future.exception
                self._take(leader, *future.value)

    async def _ask(
        self, leader: int, asked: Mapping[int, Position]
    ) -> tuple[Mapping[int, Position], Mapping[int, Fetched] | BrokerFault]:
        """Returns the request, and the response or its failure."""

        def read(answer: Any) -> Mapping[int, Fetched]:
            return fetched_of_topic(answer, STATE_TOPIC, asked.keys())

        try:
            request = fetch.request(STATE_TOPIC, asked, wait_ms=WAIT_MS)
            return asked, await self._client().request(leader, "Fetch", request, read)
        except BrokerFault as fault:
            return asked, fault

    def _take(self, leader: int, asked: Mapping[int, Position], answers: Mapping[int, Fetched] | BrokerFault) -> None:
        if isinstance(answers, BrokerFault):
            self._failure = str(answers)
            self._is_stale = True
            self._again_at[leader] = self._clock() + AGAIN_SECONDS
            for partition in asked:
                self._ends.pop(partition, None)
                self.failures[partition] = str(answers)
            return
        self._failure = None
        for partition, answer in answers.items():
            if self.positions.get(partition) == asked[partition].offset:  # else the topic was made again meanwhile
                self._take_one(leader, partition, answer)
        if not any(answer.records for answer in answers.values()):
            self._again_at[leader] = max(self._again_at.get(leader, 0), self._clock() + PAUSE_SECONDS)

    def _take_one(self, leader: int, partition: int, answer: Fetched) -> None:
        if answer.diverges_at is not None or answer.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._is_stale = True  # the topic may have been made again
            self._again_at[leader] = self._clock() + AGAIN_SECONDS
        if answer.diverges_at is not None:
            self._progress.jump(partition, min(self.positions[partition], answer.diverges_at))
        elif answer.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range.add(partition)
        elif answer.error != ErrorCode.NONE:
            self._refused(leader, partition, answer.error)
        else:
            self._moves.pop(partition, None)
            self._ends[partition] = answer.high_watermark, self._clock()
            if answer.records:
                records = self._progress.records_in(partition, answer.records)
                self._pieces.append(_Piece(leader, partition, records))
            else:
                self._progress.at_end(partition)

    def _refused(self, leader: int, partition: int, error: int) -> None:
        self._is_stale = True
        self._again_at[leader] = self._clock() + AGAIN_SECONDS
        self._moves[partition] = self._moves.get(partition, 0) + 1
        if error not in _MOVED or self._moves[partition] > MOVES_MAX:
            self.failures[partition] = refusal_of(leader, STATE_TOPIC, error)

    def _taken(self) -> Iterator[LogRecord]:
        """Takes up to BATCH_RECORDS_MAX records from the pieces."""
        left = BATCH_RECORDS_MAX
        while self._pieces and left:
            piece = self._pieces[0]
            try:
                for record in islice(piece.records, left):
                    left -= 1
                    yield record
            except MalformedResponseError as error:
                self.failures[piece.partition] = str(error)
                self._again_at[piece.leader] = self._clock() + AGAIN_SECONDS
            if left:
                self._pieces.popleft()

    async def _jump(self, client: ClusterClient) -> None:
        """The position does not exist in this partition any more: continue at its beginning or end, whichever is nearer."""
        lost, self._out_of_range = self._out_of_range, set()
        first = await self._offsets(client, lost, LOG_START)
        last = await self._offsets(client, first.keys(), LATEST)
        for partition, end in last.items():
            self._progress.jump(partition, min(max(self.positions[partition], first[partition]), end))
