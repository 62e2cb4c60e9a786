"""Sends the requests of one cycle: all share the cycle's deadline, and a broker is named by its id."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from exporter.kafka.client.connections import Address, Connections, PendingRequest, ResponseFrame
from exporter.kafka.cluster_clock import ClusterClock
from exporter.kafka.errors import (
    THROTTLES,
    AnotherClusterError,
    BrokerFault,
    ClusterUnavailableError,
    FaultReason,
    some_names,
)
from exporter.kafka.messages import metadata
from exporter.kafka.messages.raw_request import RawRequest, RawResponse
from exporter.kafka.topology import Topology, topology_of
from exporter.snapshot import UNKNOWN_CLUSTER, ClusterIdentity

T = TypeVar("T")
MakeProbes = Callable[[Callable[[], str]], "tuple[str | None, ...]"]
"""Makes an id for each ACL, None where none can be, from a function of random texts."""
TRANSACTIONS_LIMIT = 50_000
_THROTTLE_TIME_BYTES = 4


class LatestMetadata:
    """The last metadata of all topics, not decoded again while the response stays the same, byte for byte."""

    def __init__(self) -> None:
        self._decoded = b""
        self._topology: Topology | None = None
        self.cluster = UNKNOWN_CLUSTER
        """The cluster that is read: brokers of another one are refused."""

    def topology_of(self, answer: RawResponse) -> Topology:
        """The topology of this response; the same object as before if nothing has changed."""
        content = answer.body[_THROTTLE_TIME_BYTES:].tobytes()
        if self._topology is None or content != self._decoded:
            self._topology = topology_of(metadata.decode(answer.body))
            self._decoded = content
        return self._topology

    def check(self, topology: Topology, address: Address, *, is_of_all_topics: bool) -> None:
        """Raises BrokerFault if the broker at `address`, which returned `topology`, belongs to another cluster.

        Some topics alone may all have been made again.
        """
        now = topology.identity if is_of_all_topics else ClusterIdentity(cluster_id=topology.cluster_id)
        contradiction = None if now is self.cluster else self.cluster.contradiction(now)
        if contradiction is not None:
            raise BrokerFault(
                FaultReason.ANOTHER_CLUSTER, f"broker at {address} belongs to another cluster: {contradiction}"
            )


@dataclass(slots=True)
class ClusterClient:
    """The requests of one cycle. Coroutines of this class run on the client's thread."""

    connections: Connections
    bootstrap: tuple[Address, ...]
    request_timeout_s: float
    deadline: float
    """Instant of `clock` after which no request is sent."""
    clock: Callable[[], float] = time.monotonic
    brokers: Mapping[int, Address] | None = None
    """Addresses by broker id, from the latest metadata."""
    latest: LatestMetadata = field(default_factory=LatestMetadata)
    cluster_clock: ClusterClock = field(default_factory=lambda: ClusterClock(time.time, time.monotonic))
    source: Address | None = None
    """The broker whose metadata is used: it returned the latest metadata of all topics."""
    out_of_touch: set[Address] = field(default_factory=set)
    """Brokers that are cut off from their controller: they are the last to be queried for metadata."""
    transactions_limit: int = TRANSACTIONS_LIMIT
    """Maximum of open transactions that are examined one by one."""
    probe_ids: Callable[[int], tuple[str, ...]] | None = None
    """Makes up a transactional id for each partition of `__transaction_state`; None: they are random."""
    acl_probes: Callable[[MakeProbes], tuple[str | None, ...]] | None = None
    """Takes the place of the function that makes an id for each ACL; None: it is called with random ids."""
    silent: dict[Address, str] = field(default_factory=dict)
    """Brokers that let a request time out in this cycle, and what each did: they get no further request."""

    def remaining_s(self) -> float:
        """Seconds until the deadline, never negative."""
        return max(self.deadline - self.clock(), 0.0)

    async def gather(self, coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """Runs `coroutines` concurrently; returns their results in order."""
        return await self.connections.gather(coroutines)

    async def request(
        self,
        broker: int,
        api: str,
        request: Any,
        read: Callable[[Any], T],
        *,
        once: bool = False,
        patience_s: float | None = None,
    ) -> T:
        """Returns what `read` makes of the response of `broker`. Raises BrokerFault, also if `read` cannot decode the
        response.

        `once`: never sent again, not even over a new connection; for requests that write. `patience_s`: a shorter
        time-out, for requests that the broker forwards to another broker, which may not respond.
        """
        address = self._address_of(broker)
        if patience_s is None:
            return await self._ask_at(address, api, request, self.request_timeout_s, read, once=once)
        was_silent = address in self.silent
        try:
            return await self._ask_at(address, api, request, min(self.request_timeout_s, patience_s), read, once=once)
        finally:
            if not was_silent:
                self.silent.pop(address, None)

    async def receive(self, broker: int, api: str, request: RawRequest, sent: PendingRequest | None) -> ResponseFrame:
        """The response of `broker`, for `connections.decode`. Raises BrokerFault. `sent`: see `send_ahead`."""
        return await self._receive_from(self._address_of(broker), api, request, self.request_timeout_s, sent=sent)

    def _address_of(self, broker: int) -> Address:
        brokers = self.brokers or {}
        address = brokers.get(broker)
        if address is None:
            known = some_names([str(each) for each in sorted(brokers)], shown_max=10) or "none"
            raise BrokerFault(
                FaultReason.UNKNOWN_BROKER,
                f"broker {broker} is not in the cluster's metadata, whose brokers are {known}",
            )
        return address

    async def latency_s(self, address: Address) -> float:
        """Connect, and measure a request that costs the broker nothing. Raises BrokerFault."""
        nothing = metadata.request(())
        await self._ask_at(address, "Metadata", nothing, self.request_timeout_s, _topology)  # may have to connect first
        began = self.clock()
        await self._ask_at(address, "Metadata", nothing, self.request_timeout_s, _topology)
        return self.clock() - began

    def release_at(self, address: Address) -> str:
        """The Kafka release whose APIs the broker there offers, as `4.3`; empty without an open connection."""
        return ".".join(map(str, self.connections.release_at(address) or ()))

    async def pause(self, seconds: float) -> None:
        """Waits while other coroutines run, not beyond the deadline."""
        await self.connections.sleep(min(seconds, self.remaining_s()))

    def send_ahead(self, broker: int, request: RawRequest) -> PendingRequest | None:
        """Sends `request` before the previous response of `broker` is decoded; None if `receive` has to send it."""
        address = (self.brokers or {}).get(broker)
        timeout_s = min(self.request_timeout_s, self.remaining_s())
        if address is None or timeout_s <= 0:
            return None
        return self.connections.send_ahead(address, request, timeout_s=timeout_s)

    async def _ask_at(
        self,
        address: Address,
        api: str,
        request: Any,
        timeout_s: float,
        read: Callable[[Any], T],
        *,
        once: bool = False,
    ) -> T:
        received = await self._receive_from(address, api, request, timeout_s, once=once)
        result: T = self.connections.decode(received, read)
        return result

    async def _receive_from(
        self,
        address: Address,
        api: str,
        request: Any,
        timeout_s: float,
        *,
        once: bool = False,
        sent: PendingRequest | None = None,
    ) -> ResponseFrame:
        timeout_s = min(timeout_s, self.remaining_s())
        if address in self.silent:
            what = self.silent[address]
            raise BrokerFault(
                FaultReason.TIMED_OUT, f"broker at {address} gets no further request in this cycle: it {what}"
            )
        if timeout_s <= 0:
            raise BrokerFault(
                FaultReason.TIMED_OUT, f"broker at {address} got no request: the cycle's deadline has passed"
            )
        try:
            return await self.connections.receive(address, request, api=api, timeout_s=timeout_s, once=once, sent=sent)
        except BrokerFault as fault:
            if fault.reason is FaultReason.TIMED_OUT:
                self.silent[address] = THROTTLES if str(fault).endswith(THROTTLES) else "timed out"
            raise

    async def topology(self, topics: tuple[str, ...] | None = None, *, broker: int | None = None) -> Topology:
        """The metadata of `topics` or of all, from `broker` or the first that responds; later requests use its addresses.

        Raises BrokerFault if `broker` does not respond, ClusterUnavailableError if no broker does.
        """
        if broker is not None:
            topology = await self.request(broker, "Metadata", metadata.request(topics), _topology)
            self.latest.check(topology, self._address_of(broker), is_of_all_topics=topics is None)
            return topology
        topology = await self._ask_anyone(topics)
        self.brokers = topology.brokers
        return topology

    async def _ask_anyone(self, topics: tuple[str, ...] | None) -> Topology:
        """The current source first, then other known brokers, then the bootstrap addresses; each gets a share of time."""
        known = dict.fromkeys([*(self.brokers or {}).values(), *self.bootstrap])
        addresses = sorted(known, key=lambda candidate: (candidate in self.out_of_touch, candidate != self.source))
        faults: list[BrokerFault] = []
        read = self.latest.topology_of if topics is None else _topology
        for tried, address in enumerate(addresses):
            share = self.remaining_s() / (len(addresses) - tried)
            try:
                topology = await self._ask_at(
                    address, "Metadata", metadata.request(topics), min(self.request_timeout_s, share), read
                )
                self.latest.check(topology, address, is_of_all_topics=topics is None)
            except BrokerFault as fault:
                faults.append(fault)
                continue
            if topics is None:
                self.source = address
                self.latest.cluster = self.latest.cluster.updated(topology.identity)
            return topology
        raise _unavailable(faults, self.latest.cluster.way_on)


def _unavailable(faults: Iterable[BrokerFault], way_on: str) -> ClusterUnavailableError:
    sentences = "; ".join(dict.fromkeys(map(str, faults)))
    if any(fault.reason is FaultReason.ANOTHER_CLUSTER for fault in faults):
        return AnotherClusterError(f"no broker of the watched cluster responded: {sentences}{way_on}")
    return ClusterUnavailableError(f"no broker responded: {sentences}")


def _topology(answer: RawResponse) -> Topology:
    return topology_of(metadata.decode(answer.body))
