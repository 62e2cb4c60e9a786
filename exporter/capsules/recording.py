"""Records the cycles of a reader: the bytes at the border to the brokers, readings of clocks, and what was known before.

A recorded cycle refers to objects that the cycle has made anyway; only the bytes of large responses are copied, once while
they stay the same. Everything is encoded only for a cycle that is kept.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any, Final

from exporter.baseline import Baseline
from exporter.capsules.cycle import Mark, RecordedCycle, RecordedExchange, TapeMoment
from exporter.cycle import EmbeddedReader, EvaluationInput, JournalOf
from exporter.evaluation.verdicts import Evaluation
from exporter.kafka.client.connections import Address, Connections, ResponseFrame
from exporter.kafka.cluster_client import MakeProbes
from exporter.kafka.collect.collector import CollectOptions, EarlierState
from exporter.kafka.errors import BrokerFault
from exporter.kafka.messages.raw_request import RawRequest
from exporter.kafka.messages.recorded import bytes_of, kept, version_of
from exporter.kafka.state_partitions import probe_ids
from exporter.kafka.visibility.ids import random_id
from exporter.transaction_log.journal import NO_JOURNAL, Journal

RING_BYTES_MAX: Final = 128_000_000
RING_AGE_S_MAX: Final = 600.0
RING_CYCLES_MAX: Final = 2
_LARGE_COLUMNS: Final = ("partition", "leader", "leader_epoch")


@dataclass(slots=True)
class Tape:
    """The moments of one cycle, in their order, and its requests: (address, API, request, response)."""

    moments: list[tuple[Any, ...]] = field(default_factory=list)
    exchanges: list[list[Any]] = field(default_factory=list)
    last: dict[tuple[Address, str, int], bytes] = field(default_factory=dict)
    """Responses of the cycle before by address, API and place among those to the address."""
    counts: Counter[tuple[Address, str]] = field(default_factory=Counter)

    def follow(self, before: Tape) -> None:
        """Refers to the responses of an earlier cycle."""
        counts: Counter[tuple[Address, str]] = Counter()
        for address, api, _, response in before.exchanges:
            counts[address, api] += 1
            if isinstance(response, bytes):
                self.last[address, api, counts[address, api]] = response


@dataclass(frozen=True, slots=True, kw_only=True)
class RingCycle:
    """A cycle in memory."""

    at_s: float
    options: CollectOptions
    bootstrap: tuple[Address, ...]
    earlier: EarlierState
    known: EvaluationInput
    journal: Journal
    evaluation: Evaluation
    tape: Tape

    def recorded(self, reasons: tuple[str, ...] = ()) -> RecordedCycle:
        """Returns the cycle as a capsule has it."""
        snapshot, options, last = self.evaluation.snapshot, self.options, self.earlier.topology
        topics = {*snapshot.partitions.topics, *self.earlier.topics.visible, *self.earlier.topics.hidden}
        if last is not None:  # a cycle looks at topics and addresses alone
            last = replace(last, **{name: getattr(last, name)[:0] for name in _LARGE_COLUMNS})
            last = replace(last, replicas=last.replicas.cut(), in_sync=last.in_sync.cut())
        return RecordedCycle(
            reasons=reasons,
            taken_at_ms=snapshot.taken_at_ms,
            policy=self.known.policy,
            deadline_s=options.deadline_s,
            request_timeout_s=options.request_timeout_s,
            transactions_limit=options.transactions_limit,
            excluded=tuple(sorted(topic for topic in topics if options.topics.excludes(topic))),
            bootstrap=self.bootstrap,
            earlier=replace(self.earlier, topology=last),
            memory=self.known.memory,
            journal=self.journal,
            baseline=_used_baseline(self.evaluation),
            moments=[TapeMoment(*moment) for moment in self.tape.moments],
            exchanges=[_exchange(*exchange) for exchange in self.tape.exchanges],
        )


def _exchange(address: Address, api: str, request: Any, response: Any) -> RecordedExchange:
    return RecordedExchange(
        address=address,
        api=api,
        key=request.API_KEY,
        version=version_of(request),
        is_raw=isinstance(request, RawRequest),
        request=bytes_of(request),
        response=response if response is None or isinstance(response, bytes) else bytes_of(response),
    )


def _used_baseline(evaluation: Evaluation) -> Baseline:
    cluster_id = evaluation.snapshot.cluster_id
    ids, topics = {}, {}
    for evidence, usual in zip(evaluation.evidence, evaluation.usual, strict=True):
        if usual is not None and evidence.transactional_id is not None:
            ids[cluster_id, evidence.transactional_id] = usual
        elif usual is not None:
            topics[cluster_id, evidence.key.topic] = usual
    cluster_ids = frozenset({cluster_id} if evaluation.has_baseline else ())
    return Baseline(cluster_ids=cluster_ids, transactional_ids=ids, topics=topics)


class RecordingConnections(Connections):
    """Connections that record the requests of a cycle on a tape, and nothing between two cycles."""

    tape: Tape | None = None

    async def receive(self, address: Address, request: Any, *, api: str, **options: Any) -> ResponseFrame:
        """The response of the broker at `address`; see `Connections.receive`."""
        tape = self.tape or Tape()
        number, exchange = len(tape.exchanges), [address, api, request, None]
        tape.exchanges.append(exchange)
        tape.counts[address, api] += 1
        place = tape.counts[address, api]
        try:
            frame = await super().receive(address, request, api=api, **options)
        except BrokerFault as fault:
            tape.moments.append((Mark.FAULT, number, 0.0, fault.reason, (str(fault),)))
            raise
        if self.tape is not None:
            exchange[3] = kept(request.API_KEY, frame.answer, tape.last.get((address, api, place), b""))
        tape.moments.append((Mark.RECEIVED, number))
        return frame

    async def sleep(self, seconds: float) -> None:
        """Waits while other coroutines run."""
        moments = (self.tape or Tape()).moments
        number = len(moments)
        moments.append((Mark.PAUSE, number))
        await super().sleep(seconds)
        moments.append((Mark.RESUMED, number))

    def too_new(self) -> tuple[str, ...]:
        """Brokers with open connections that are newer than this exporter supports, one sentence each."""
        sentences = super().too_new()
        (self.tape or Tape()).moments.append((Mark.TOO_NEW, 0, 0.0, None, sentences))
        return sentences


class RecordingReader(EmbeddedReader):
    """A reader that keeps its latest cycles in memory."""

    connections_class = RecordingConnections

    def __init__(
        self,
        connections: RecordingConnections,
        *arguments: Any,
        wall_clock: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        **others: Any,
    ) -> None:
        self._recording = connections
        super().__init__(
            connections,
            *arguments,
            wall_clock=self._read_by(Mark.WALL, wall_clock),
            clock=self._read_by(Mark.MONOTONIC, clock),
            **others,
        )
        self.probe_ids, self.acl_probes = self._probe_ids, self._acl_probes
        self.ring: deque[RingCycle] = deque()
        """The latest cycles, the newest last. Only the thread of the cycle changes it."""

    def cycle(self, known: EvaluationInput, journal_of: JournalOf) -> Evaluation:
        """Runs one cycle and keeps it in memory. Raises ClusterUnavailableError and ClientClosedError."""
        earlier, tape, journal = self.state(), Tape(), NO_JOURNAL
        if self.ring:
            tape.follow(self.ring[-1].tape)

        def recorded_journal(producer_ids: Collection[int]) -> Journal:
            nonlocal journal
            journal = journal_of(producer_ids)
            return journal

        self._recording.tape = tape
        try:
            evaluation = super().cycle(known, recorded_journal)
        finally:
            self._recording.tape = None
        self._put(
            RingCycle(
                at_s=self._clock(),
                options=self._options,
                bootstrap=self._bootstrap,
                earlier=earlier,
                known=known,
                journal=journal,
                evaluation=evaluation,
                tape=tape,
            )
        )
        return evaluation

    def _put(self, newest: RingCycle) -> None:
        """Adds a cycle, within the limits."""
        self.ring.append(newest)
        while len(self.ring) > 1 and (
            len(self.ring) > RING_CYCLES_MAX
            or newest.at_s - self.ring[0].at_s > RING_AGE_S_MAX
            or _size_of(self.ring) > RING_BYTES_MAX
        ):
            self.ring.popleft()

    def _probe_ids(self, partitions: int) -> tuple[str, ...]:
        ids = probe_ids(partitions)
        (self._recording.tape or Tape()).moments.append((Mark.PROBE_IDS, 0, 0.0, None, ids))
        return ids

    def _acl_probes(self, make: MakeProbes) -> tuple[str | None, ...]:
        """Records them as they are: with other names of ACLs, other ones would be made."""
        ids = make(random_id)
        texts = tuple(each or "" for each in ids)
        (self._recording.tape or Tape()).moments.append((Mark.ACL_PROBES, 0, 0.0, None, texts))
        return ids

    def _read_by(self, mark: Mark, clock: Callable[[], float]) -> Callable[[], float]:
        def read() -> float:
            now = clock()
            if self._recording.tape is not None:
                self._recording.tape.moments.append((mark, 0, now))
            return now

        return read


def _size_of(ring: Collection[RingCycle]) -> int:
    responses = (exchange[3] for cycle in ring for exchange in cycle.tape.exchanges)
    return sum({id(each): len(each) for each in responses if isinstance(each, bytes)}.values())
