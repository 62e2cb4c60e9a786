"""Runs a recorded cycle again, without a broker: the same collection and evaluation, on the recorded bytes and clocks.

Responses arrive in their recorded order. A request is matched by its address, API, version and bytes, so another version of
the exporter, which sends other requests, gets the responses to those that are the same; the others fail and are reported.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from exporter.capsules.cycle import CapsuleError, Mark, RecordedCycle
from exporter.cycle import EmbeddedReader, EvaluationInput
from exporter.evaluation.verdicts import Evaluation
from exporter.kafka.client.connections import Address, ResponseFrame
from exporter.kafka.client.tasks import results_of
from exporter.kafka.cluster_client import MakeProbes
from exporter.kafka.collect.collector import CollectOptions
from exporter.kafka.collect.topic_filter import TopicFilter
from exporter.kafka.errors import BrokerFault, ClusterUnavailableError, FaultReason
from exporter.kafka.messages.recorded import UNREADABLE, bytes_of, response_of
from exporter.kafka.state_partitions import probe_ids

T = TypeVar("T")
_ARRIVALS: Final = {Mark.RECEIVED, Mark.FAULT, Mark.RESUMED}
_CLOCKS: Final = (Mark.MONOTONIC, Mark.WALL)
DAMAGED: Final = (*UNREADABLE, AssertionError, MemoryError, RecursionError)
"""Raised where the contents of a capsule contradict each other."""


class _Arrival:
    """A result that coroutines wait for."""

    def __init__(self) -> None:
        self.is_there = False
        self.result: Any = None
        self.failure: Exception | None = None
        self.waiting: list[Coroutine[Any, Any, Any]] = []

    def __await__(self) -> Generator[_Arrival, None, Any]:
        if not self.is_there:
            yield self
        return self.value()

    def value(self) -> Any:
        if self.failure is not None:
            raise self.failure
        return self.result


class ReplayConnections:
    """Takes the place of `Connections`: every response is one of the recorded cycle."""

    def __init__(self, cycle: RecordedCycle) -> None:
        self._moments, self._exchanges = cycle.moments, cycle.exchanges
        self._at = 0
        """Index of the moment after the last response that has arrived."""
        self._next = dict.fromkeys(Mark, 0)
        self._seconds = {mark: next((m.seconds for m in cycle.moments if m.mark is mark), 0.0) for mark in _CLOCKS}
        self._numbers: dict[tuple[Any, ...], deque[int]] = defaultdict(deque)
        self._versions: dict[tuple[Address, int], set[int]] = defaultdict(set)
        for number, each in enumerate(cycle.exchanges):
            self._numbers[each.address, each.key, each.version, each.request].append(number)
            self._versions[each.address, each.key].add(each.version)
        self._awaited: dict[tuple[bool, int], _Arrival] = {}
        self._ready: deque[tuple[Coroutine[Any, Any, Any], _Arrival]] = deque()
        self._results: dict[Coroutine[Any, Any, Any], _Arrival] = {}
        self.unmatched: list[str] = []
        """Requests to which the capsule has no response."""

    def clock(self, mark: Mark) -> Callable[[], float]:
        """A clock that shows the recorded readings; the last one again where the next response comes before another."""

        def read() -> float:
            for index in range(max(self._at, self._next[mark]), len(self._moments)):
                moment = self._moments[index]
                if moment.mark in _ARRIVALS:
                    break
                if moment.mark is mark:
                    self._next[mark], self._seconds[mark] = index + 1, moment.seconds
                    break
            return self._seconds[mark]

        return read

    def rewind(self) -> None:
        """Begins with the first reading of each clock."""
        self._next = dict.fromkeys(Mark, 0)

    def _number(self, mark: Mark) -> int | None:
        """The index of the next moment of this kind."""
        found = range(self._next[mark], len(self._moments))
        index = next((index for index in found if self._moments[index].mark is mark), None)
        self._next[mark] = len(self._moments) if index is None else index + 1
        return index

    def probe_ids(self, partitions: int) -> tuple[str, ...]:
        """The ids that were made up in the recorded cycle; others if it has none for so many partitions."""
        index = self._number(Mark.PROBE_IDS)
        ids = () if index is None else self._moments[index].texts
        return ids if len(ids) == partitions else probe_ids(partitions)

    def acl_probes(self, make: MakeProbes) -> tuple[str | None, ...]:
        """The recorded ids; a capsule that is older has the random parts only."""
        index = self._number(Mark.ACL_PROBES)
        if index is None:
            return make(lambda: self.probe_ids(1)[0])
        return tuple(text or None for text in self._moments[index].texts)

    def too_new(self) -> tuple[str, ...]:
        """The recorded sentences."""
        index = self._number(Mark.TOO_NEW)
        return () if index is None else self._moments[index].texts

    def run(self, coroutine: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        """Runs it to its end. Raises what it raises."""
        main = self._start(coroutine(*arguments))
        while not main.is_there:
            if self._ready:
                self._step(*self._ready.popleft())
            else:
                self._arrive()
        result: T = main.value()
        return result

    def _start(self, coroutine: Coroutine[Any, Any, Any]) -> _Arrival:
        arrival = self._results[coroutine] = _Arrival()
        self._ready.append((coroutine, arrival))
        return arrival

    def _step(self, coroutine: Coroutine[Any, Any, Any], arrival: _Arrival) -> None:
        try:
            coroutine.send(None).waiting.append(coroutine)
        except StopIteration as end:
            self._finish(arrival, end.value)
        except Exception as error:  # noqa: BLE001 - raised again where the result is awaited
            self._finish(arrival, None, error)

    def _finish(self, arrival: _Arrival, result: Any, failure: Exception | None = None) -> None:
        arrival.is_there, arrival.result, arrival.failure = True, result, failure
        self._ready.extend((coroutine, self._results[coroutine]) for coroutine in arrival.waiting)

    def _arrive(self) -> None:
        """The next response arrives for which a coroutine waits: in the recorded order, as far as that is possible."""
        for index in (*range(self._at, len(self._moments)), *range(self._at)):
            moment = self._moments[index]
            place = moment.mark is Mark.RESUMED, moment.number
            if moment.mark in _ARRIVALS and place in self._awaited:
                self._at = index + 1
                fault = None if moment.fault is None else BrokerFault(moment.fault, moment.texts[0])
                return self._finish(self._awaited.pop(place), None, fault)
        raise CapsuleError("it ends in the middle of a cycle")

    async def gather(self, coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """Results in order, as `exporter.kafka.client.tasks.gather` has them."""
        parts = tuple(coroutines)
        if len(parts) == 1:
            return [await parts[0]]
        return await results_of([self._start(part) for part in parts])

    async def sleep(self, _: float) -> None:
        """Waits for the end of the recorded pause."""
        index = self._number(Mark.PAUSE)
        if index is not None:
            await self._awaited.setdefault((True, self._moments[index].number), _Arrival())

    async def receive(self, address: Address, request: Any, *, api: str, **_: Any) -> ResponseFrame:
        """The recorded response to the same request. Raises BrokerFault."""
        number = self._number_of(address, request)
        if number is None:
            self.unmatched.append(f"{api} to {address}")
            sentence = f"broker at {address}: the capsule has no response to this {api} request"
            raise BrokerFault(FaultReason.UNREACHABLE, sentence)
        await self._awaited.setdefault((False, number), _Arrival())
        each = self._exchanges[number]
        answer = response_of(each.key, each.version, each.response or b"", is_raw=each.is_raw)
        return ResponseFrame(address, api, answer, 0.0)

    def _number_of(self, address: Address, request: Any) -> int | None:
        """The first exchange with this request that was not used yet."""
        for version in sorted(self._versions.get((address, request.API_KEY), ())):
            if request.min_version <= version <= request.max_version:
                request.API_VERSION = version
                numbers = self._numbers.get((address, request.API_KEY, version, bytes_of(request)))
                if numbers:
                    return numbers.popleft()
        return None

    def decode(self, received: ResponseFrame, read: Callable[[Any], Any]) -> Any:
        """Returns what `read` makes of a response. Raises BrokerFault."""
        return received.decoded(read)

    def send_ahead(self, _address: Address, _request: Any, *, timeout_s: float) -> None:
        """Nothing is sent ahead: `receive` finds the response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The result of a cycle that ran again."""

    evaluation: Evaluation
    unmatched: tuple[str, ...]
    """Requests to which the capsule has no response: this exporter sends others than the one that recorded it."""


def replay(cycle: RecordedCycle) -> Replay:
    """Runs the cycle. Raises CapsuleError."""
    excluded = re.compile("|".join(map(re.escape, cycle.excluded)))
    connections: Any = ReplayConnections(cycle)
    try:
        reader = EmbeddedReader(
            connections,
            cycle.bootstrap,
            CollectOptions(
                deadline_s=cycle.deadline_s,
                request_timeout_s=cycle.request_timeout_s,
                transactions_limit=cycle.transactions_limit,
                topics=TopicFilter((), (excluded,) if cycle.excluded else ()),
            ),
            wall_clock=connections.clock(Mark.WALL),
            clock=connections.clock(Mark.MONOTONIC),
        )
        connections.rewind()  # a new reader looks at its clocks before its first cycle
        reader.probe_ids, reader.acl_probes = connections.probe_ids, connections.acl_probes
        reader.resume(cycle.earlier)
        known = EvaluationInput(memory=cycle.memory, policy=cycle.policy, baseline=cycle.baseline)
        evaluation = reader.cycle(known, lambda _: cycle.journal)
    except (ClusterUnavailableError, BrokerFault) as error:
        raise CapsuleError(f"its cycle cannot run to its end: {error}") from error
    except DAMAGED as error:
        raise CapsuleError(f"it is damaged: {type(error).__name__}: {str(error)[:200]}") from error
    return Replay(evaluation=evaluation, unmatched=tuple(dict.fromkeys(connections.unmatched)))
