"""Replaces `exporter.kafka.client.connections.Connections` without sockets: each `ask` is one step at one broker.

Coroutines run on a trampoline. A coroutine stops before each request, and where several run side by side the schedule
chooses which goes on: so requests come in every order in which real ones could.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from typing import Any, TypeVar

from exporter.kafka.client.connections import Address, ResponseFrame
from exporter.status import ApiStatistics
from tests.verification.model.world import World

T = TypeVar("T")


class _Step:
    """Gives way once."""

    def __await__(self) -> Generator[None, None, None]:
        yield


_STEP = _Step()


class _Gathered:
    """Coroutines side by side."""

    def __init__(self, coroutines: Iterable[Coroutine[Any, Any, Any]], choose: Callable[[int], int]) -> None:
        self._coroutines = tuple(coroutines)
        self._choose = choose

    def __await__(self) -> Generator[None, None, list[Any]]:
        results: list[Any] = [None] * len(self._coroutines)
        running = list(enumerate(self._coroutines))
        failure: Exception | None = None
        while running:
            chosen = self._choose(len(running)) if len(running) > 1 else 0
            index, coroutine = running[chosen]
            try:
                coroutine.send(None)
            except StopIteration as ended:
                results[index] = ended.value
                del running[chosen]
            except Exception as error:  # noqa: BLE001 - raised again below, once nothing runs any more
                failure = failure or error
                del running[chosen]
            else:
                yield
        if failure is not None:
            raise failure
        return results


class SimConnections:
    """Connections to the brokers of a model."""

    def __init__(self, world: World) -> None:
        self._world = world

    def run(self, coroutine: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        """Run it to its end."""
        running = coroutine(*arguments)
        while True:
            try:
                running.send(None)
            except StopIteration as ended:
                result: T = ended.value
                return result

    async def gather(self, coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """Run them side by side; their results in order."""
        return await _Gathered(coroutines, self._world.director.choose)

    async def sleep(self, seconds: float) -> None:
        """Time passes, and things may happen."""
        await _STEP
        self._world.pass_time(int(seconds * 1000))
        self._world.director.before(self._world, "pause")

    async def receive(
        self,
        address: Address,
        request: Any,
        *,
        api: str,
        timeout_s: float,
        once: bool = False,  # noqa: ARG002 - nothing is ever sent twice here
        sent: Any = None,  # noqa: ARG002 - nothing is sent ahead
    ) -> ResponseFrame:
        """The response, still to be decoded. Raises BrokerFault."""
        await _STEP
        return ResponseFrame(address, api, self._world.answer(address.port, request, timeout_s), 0.0)

    def decode(self, received: ResponseFrame, read: Callable[[Any], Any]) -> Any:
        """What `read` makes of the response. Raises BrokerFault."""
        return received.decoded(read)

    def send_ahead(self, _address: Address, _request: Any, *, timeout_s: float) -> None:  # noqa: ARG002
        """Never: one request is under way at a time."""
        return

    def too_new(self) -> tuple[str, ...]:
        """None: brokers offer what is known."""
        return ()

    def statistics(self) -> tuple[ApiStatistics, ...]:
        """Nothing is counted here."""
        return ()

    def use(self, options: Mapping[str, Any], *, client_id: str) -> None:
        """Nothing to connect with."""

    def close(self) -> None:
        """Nothing to close."""
