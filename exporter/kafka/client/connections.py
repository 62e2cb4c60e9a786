"""Sends requests to brokers over one connection each, and turns every failure into a `BrokerFault`.

kafka-python (3.0.x) does connecting, TLS, SASL, ApiVersions and framing; `tests/kafka/client/test_contract.py` checks the
calls that are used. This file adds a deadline to every step (kafka-python's TLS handshake has none) and retries a refused
login at the next request (its connection manager never does), and does nothing in the background.

Everything but `run` and `close` belongs to the client's own thread: coroutines that `run` starts there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import kafka.errors as foreign
from kafka.future import Future
from kafka.net.selector import NetworkSelector

from exporter.config.values import host_and_port
from exporter.kafka.client.fault_text import MAY_NEED_LOGIN, NOT_ALLOWED, border, describe_error, refused_login
from exporter.kafka.client.logins import Logins
from exporter.kafka.client.negotiation import negotiate
from exporter.kafka.client.oauth import NoTokenError
from exporter.kafka.client.receiving import FRAME_BYTES_MAX, PROCESS, Share
from exporter.kafka.client.resolver import Resolver
from exporter.kafka.client.sockets import close_all, connect
from exporter.kafka.client.tally import Tally
from exporter.kafka.client.tasks import gather, wait_for_any
from exporter.kafka.client.transport import Connection, PlainTransport, Selector, TlsTransport
from exporter.kafka.errors import THROTTLES, BrokerFault, ClientClosedError, FaultReason, MalformedResponseError
from exporter.kafka.messages.raw_request import RawRequest
from exporter.status import ApiStatistics

T = TypeVar("T")

THROTTLE_POLL_SECONDS = 0.05
BUSY_POLL_SECONDS = 0.005
IDLE_SECONDS_MAX = 540
"""The time of `connections.max.idle.ms` in Kafka's clients: a broker that nobody asks may have left the cluster."""


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """Address of a broker's listener."""

    host: str
    port: int

    def __str__(self) -> str:
        return host_and_port(self.host, self.port)


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request in flight: `Connections.receive` waits for its response."""

    answer: Any
    """Future of the response."""
    at: float
    """Instant by the client's clock."""


@dataclass(frozen=True, slots=True)
class ResponseFrame:
    """A received response that is not decoded yet: see `Connections.decode`."""

    address: Address
    api: str
    answer: Any
    after_s: float

    def decoded(self, read: Callable[[Any], Any]) -> Any:
        """Returns what `read` makes of it. Raises BrokerFault, also for a TypeError: null where a value is required."""
        try:
            return read(self.answer)
        except (MalformedResponseError, TypeError) as error:
            sentence = f"broker at {self.address} sent a response to {self.api} that cannot be decoded: {error}"
            raise BrokerFault(FaultReason.MALFORMED_ANSWER, sentence) from error


class Connections:
    """Connections to the brokers of one cluster, opened at the first request.

    `options` are kafka-python's names (`security_protocol`, `sasl_mechanism`, `ssl_cafile`, ...).
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        *,
        client_id: str,
        clock: Callable[[], float] = time.monotonic,
        logins: Logins | None = None,
        receive_share: Share | None = None,
    ) -> None:
        """`receive_share` is by default one of the process's budget for responses."""
        self._options = _all_options(options, client_id)
        self._clock = clock
        self._logins = logins or Logins(clock)
        self._net = NetworkSelector(client_id=client_id, slow_task_threshold_secs=0, selector=Selector)
        self._names = Resolver(self._net.call_soon_threadsafe)
        self._connections: dict[Address, Any] = {}
        self._opening: dict[Address, Any] = {}
        self._opening_sockets: dict[Address, list[Any]] = {}
        self._tallies: dict[str, Tally] = {}
        self._receive_share = receive_share or PROCESS.share()
        self._closed = False
        self._net.start()

    def run(self, coroutine: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        """Runs `coroutine(*arguments)` on the client's thread and waits for it.

        Raises ClientClosedError if the client is closed in the meantime, otherwise whatever the coroutine raises.
        """
        if self._closed:
            raise ClientClosedError
        try:
            result: T = self._net.run(coroutine, *arguments)
        except Exception:
            if self._closed:
                raise ClientClosedError from None
            raise
        return result

    def use(self, options: Mapping[str, Any], *, client_id: str, logins: Logins | None = None) -> None:
        """Uses these options for new connections and ends the open ones. Call it between two calls of `run`."""
        self._options = _all_options(options, client_id)
        self._logins = logins or Logins(self._clock)
        self.run(self._drop_all)

    async def _drop_all(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def close(self) -> None:
        """Closes every connection; a `run` that waits in another thread ends with ClientClosedError. May be repeated."""
        if self._closed:
            return
        self._closed = True
        self._receive_share.end()
        self._net.call_soon_threadsafe(self._close_all)
        self._net.stop(timeout_ms=500)
        with suppress(RuntimeError):  # its thread is still blocked; it ends by itself
            self._net.close()

    def _close_all(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        for sockets in self._opening_sockets.values():
            close_all(sockets)

    def statistics(self) -> tuple[ApiStatistics, ...]:
        """Requests so far, by API. May be called from any thread."""
        return tuple(tally.statistics(api) for api, tally in sorted(self._tallies.copy().items()))

    def release_at(self, address: Address) -> tuple[int, ...] | None:
        """The Kafka release whose APIs the broker there offers; None without an open connection."""
        connection = self._usable(address)
        return None if connection is None else connection.broker_version_data.broker_version

    def too_new(self) -> tuple[str, ...]:
        """Brokers with open connections that are newer than this exporter supports, one sentence each."""
        return tuple(
            sorted(sentence for open_ in self._connections.values() if not open_.closed for sentence in open_.too_new)
        )

    async def gather(self, coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """Runs `coroutines` concurrently; results are in order. Raises the first one's exception, after all ended."""
        return await gather(self._net, coroutines)

    def begin(self, coroutine: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
        """The future of `coroutine(*arguments)`, which runs from now on."""
        return self._net.call_soon_with_future(coroutine, *arguments)

    async def wait_for_any(self, futures: Iterable[Any], timeout_s: float) -> None:
        """Waits until one of `futures` is done, or the time is over."""
        await wait_for_any(self._net, futures, self._clock() + timeout_s)

    async def sleep(self, seconds: float) -> None:
        """Waits while other coroutines run."""
        await self._net.sleep(seconds)

    async def receive(
        self,
        address: Address,
        request: Any,
        *,
        api: str,
        timeout_s: float,
        once: bool = False,
        sent: PendingRequest | None = None,
    ) -> ResponseFrame:
        """The response of the broker at `address` within `timeout_s` seconds.

        It is not decoded yet, so that the caller can send the next request before it decodes. With `sent` the request is
        already in flight: see `send_ahead`. Raises BrokerFault. An idle connection that turns out to be lost is opened
        again, once: the broker may have restarted since the last cycle. Not with `once`: a request that writes may have
        been carried out.
        """
        tally = self._tallies.setdefault(api, Tally())
        tally.requests += 1
        began = self._clock() if sent is None else sent.at
        timeout_at = began + timeout_s
        try:
            was_open = sent is not None or self._usable(address) is not None
            try:
                answer = await (
                    self._ask_once(address, request, timeout_at) if sent is None else _answer_to(sent, address)
                )
            except BrokerFault as fault:
                if once or self._closed or not (was_open and fault.reason is FaultReason.CONNECTION_LOST):
                    raise
                answer = await self._ask_once(address, request, timeout_at)
        except BrokerFault:
            self._count_failure(api)
            raise
        return ResponseFrame(address, api, answer, self._clock() - began)

    def decode(self, received: ResponseFrame, read: Callable[[Any], Any]) -> Any:
        """Returns what `read` makes of a response. Raises what `ResponseFrame.decoded` raises.

        A connection that sent an invalid response is not used again; its throttle time is ignored too.
        """
        try:
            result = received.decoded(read)
        except BrokerFault as fault:
            connection = self._usable(received.address) if fault.reason is FaultReason.MALFORMED_ANSWER else None
            if connection is not None:
                connection.close()
            self._count_failure(received.api)
            raise
        self._tallies[received.api].answered(received.after_s)
        return result

    def _count_failure(self, api: str) -> None:
        if self._closed:
            raise ClientClosedError from None  # not a fault of the broker
        self._tallies[api].failures += 1

    def send_ahead(self, address: Address, request: RawRequest, *, timeout_s: float) -> PendingRequest | None:
        """Sends `request` for `receive` to wait for; None if it cannot be sent now, and `receive` has to send it."""
        connection = self._usable(address)
        if connection is None or connection.paused:
            return None
        try:
            negotiate(connection, request)
        except BrokerFault:
            return None
        connection.used_at = self._clock()
        return PendingRequest(connection.send_request(request, request_timeout_ms=timeout_s * 1000), connection.used_at)

    async def _ask_once(self, address: Address, request: Any, timeout_at: float) -> Any:
        connection = self._usable(address) or await self._open(address, timeout_at)
        negotiate(connection, request)
        await self._wait_while_paused(address, connection, timeout_at)
        connection.used_at = self._clock()
        remaining_ms = max((timeout_at - connection.used_at) * 1000, 1)
        try:
            with border(address, "asked"):
                answer = await connection.send_request(request, request_timeout_ms=remaining_ms)
        except BrokerFault as fault:
            logs_in = "SASL" in str(self._options.get("security_protocol"))
            if fault.reason is not FaultReason.CONNECTION_LOST or connection.has_responded or logs_in:
                raise
            raise BrokerFault(fault.reason, f"{fault}; {MAY_NEED_LOGIN}") from fault
        connection.has_responded = True
        return answer

    def _usable(self, address: Address) -> Any | None:
        connection = self._connections.get(address)
        if connection is not None and connection.closed:
            del self._connections[address]
            return None
        return connection

    async def _wait_while_paused(self, address: Address, connection: Any, timeout_at: float) -> None:
        """kafka-python refuses to send while the client exceeds its quota (KIP-219), and while five requests wait."""
        while connection.paused and not connection.closed:
            is_throttled = "throttle" in connection.paused
            if self._clock() >= timeout_at:
                why = THROTTLES if is_throttled else "did not respond to earlier requests"
                raise BrokerFault(FaultReason.TIMED_OUT, f"broker at {address} {why}")
            await self._net.sleep(THROTTLE_POLL_SECONDS if is_throttled else BUSY_POLL_SECONDS)

    async def _open(self, address: Address, timeout_at: float) -> Any:
        """A ready connection. Two requests to the same address share one connection attempt."""
        if address not in self._opening:
            attempt = self._net.call_soon_with_future(self._open_alone, address, timeout_at)
            self._opening[address] = attempt
            attempt.add_both(lambda _: self._opening.pop(address, None))
        return await self._opening[address]

    def _end_idle(self) -> None:
        for address, connection in tuple(self._connections.items()):
            if connection.used_at < self._clock() - IDLE_SECONDS_MAX:
                connection.close()
            if connection.closed:
                del self._connections[address]

    async def _open_alone(self, address: Address, timeout_at: float) -> Any:
        self._end_idle()
        if not self._logins.allows(address.host):
            raise BrokerFault(FaultReason.UNREACHABLE, f"broker at {address} is not connected to: {NOT_ALLOWED}")
        pause = self._logins.pause_at(address)
        if pause is not None:
            raise refused_login(address, pause)
        with border(address, "connected to"):
            sockets = self._opening_sockets[address] = []
            try:
                transport = await self._build_transport(address, timeout_at, sockets)
                connection = Connection(self._net, node_id=str(address), **self._options)
                connection.receive_share = self._receive_share
                connection.connection_made(transport)
                await connection.initialize(timeout_at=timeout_at)
                if connection.login_failure is not None:
                    if not isinstance(connection.login_failure, NoTokenError):  # then no login was sent
                        self._logins.refused(address, describe_error(connection.login_failure))
                    raise connection.login_failure
                await connection  # raises the error that initialize only stored
                self._logins.accepted(address)
            finally:
                self._opening_sockets.pop(address, None)
        connection.used_at = self._clock()
        self._connections[address] = connection
        return connection

    async def _build_transport(self, address: Address, timeout_at: float, sockets: list[Any]) -> Any:
        """TCP and TLS handshake with the deadline `timeout_at`; releases everything after a failed attempt."""
        made = Future()

        async def attempt() -> None:
            try:
                made.success(await self._handshake(address, timeout_at, sockets))
            except Exception as error:  # noqa: BLE001 - handed to the one who waits
                close_all(sockets)
                made.failure(error)

        task = self._net.call_soon(attempt)

        def expire() -> None:
            if not made.is_done:
                self._net.cancel(task)
                close_all(sockets)
                made.failure(foreign.KafkaTimeoutError("the handshake timed out"))

        timer = self._net.call_at(timeout_at, expire)
        try:
            return await made
        finally:
            self._net.cancel(timer)

    async def _handshake(self, address: Address, timeout_at: float, sockets: list[Any]) -> Any:
        found = await self._names.addresses(address.host, address.port)
        sock, where = await connect(self._net, found, sockets, clock=self._clock, timeout_at=timeout_at)
        self._names.prefer(address.host, address.port, where)
        if self._options.get("security_protocol") in ("SSL", "SASL_SSL"):
            tls = {name: value for name, value in self._options.items() if name.startswith("ssl_")}
            transport = TlsTransport(self._net, sock, host=address.host, **tls)
            sockets.append(transport._sock)  # noqa: SLF001 - the wrapped socket, to be closed should the handshake stall
        else:
            transport = PlainTransport(self._net, sock, host=address.host)
        await transport.handshake()
        return transport


def _all_options(options: Mapping[str, Any], client_id: str) -> dict[str, Any]:
    return {**options, "client_id": client_id, "receive_message_max_bytes": FRAME_BYTES_MAX}


async def _answer_to(sent: PendingRequest, address: Address) -> Any:
    with border(address, "asked"):
        return await sent.answer
