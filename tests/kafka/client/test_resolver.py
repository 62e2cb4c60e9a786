"""A name server that does not respond affects only the broker with that name."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from exporter.kafka.client.connections import Address, Connections
from exporter.kafka.client.resolver import LOOKUPS_MAX, Resolver
from exporter.kafka.errors import BrokerFault, FaultReason
from hangbench.waiting import until
from tests.kafka.loopback import HOST, Listener
from tests.kafka.talking import PATIENCE_S, answered, broker, client, echo, raw_request

MUTE = "mute.example"


class NameServer:
    """A getaddrinfo that holds one name back until it is released, resolves another, and passes addresses on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lookups: list[str] = []
        self.release = threading.Event()
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self.look_up)

    def look_up(self, host: str, port: int, *more: Any) -> Any:
        self.lookups.append(host)
        if host == MUTE:
            self.release.wait(PATIENCE_S)
            return self._real(HOST, port, *more)
        if host == "nobody.example":
            raise socket.gaierror(-2, "Name or service not known")
        return self._real(HOST if host == "known.example" else host, port, *more)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    server = NameServer(monkeypatch)
    yield server
    server.release.set()


def ask(connections: Connections, host: str, listener: Listener, *, timeout_s: float = PATIENCE_S) -> Any:
    return connections.run(
        partial(answered, connections, Address(host, listener.port), raw_request(), api="Contract", timeout_s=timeout_s)
    )


def fault(connections: Connections, host: str, listener: Listener, *, timeout_s: float = PATIENCE_S) -> BrokerFault:
    with pytest.raises(BrokerFault) as caught:
        ask(connections, host, listener, timeout_s=timeout_s)
    return caught.value


def test_others_are_answered_while_a_name_is_not(names: NameServer) -> None:
    """Requests are concurrent: the broker with a known name responds while the name of the other is still looked up."""
    with broker(echo) as listener, client() as connections:
        waiting: list[BrokerFault] = []
        thread = threading.Thread(target=lambda: waiting.append(fault(connections, MUTE, listener, timeout_s=3)))
        thread.start()
        until(lambda: MUTE in names.lookups)

        answers = [bytes(ask(connections, host, listener).body) for host in (HOST, "known.example")]
        was_waiting = thread.is_alive()
        thread.join()

    assert all(answer.endswith(b"answered") for answer in answers)
    assert was_waiting
    assert waiting[0].reason is FaultReason.TIMED_OUT


def test_an_address_that_does_not_respond_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead route, or one host of a name that is down: the others have their share of the time, and come first later."""
    with ExitStack() as stack, broker(echo) as listener, client() as connections:
        hole = stack.enter_context(socket.socket())
        hole.bind(("127.0.0.2", listener.port))
        hole.listen(0)
        for _ in range(3):  # its queue is full: further attempts are not responded to
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.2", listener.port))
        real = socket.getaddrinfo

        def both(_host: str, port: int, *more: Any) -> Any:
            return [info for address in ("127.0.0.2", HOST) for info in real(address, port, *more)]

        monkeypatch.setattr(socket, "getaddrinfo", both)
        answer = ask(connections, "broker.example", listener, timeout_s=2)
        later = connections.run(connections._names.addresses, "broker.example", listener.port)

    assert bytes(answer.body).endswith(b"answered")
    assert [where for *_, where in later] == [(HOST, listener.port), ("127.0.0.2", listener.port)]


def test_a_name_is_looked_up_once_at_a_time_and_works_when_it_is_known(names: NameServer) -> None:
    """Cycle after cycle that gives up does not make a thread each; as soon as the name is known, it is used."""
    with broker(echo) as listener, client() as connections:
        for _ in range(5):
            assert fault(connections, MUTE, listener, timeout_s=0.05).reason is FaultReason.TIMED_OUT
        assert [thread.name for thread in threading.enumerate()].count(f"names-{MUTE}") == 1
        until(lambda: MUTE in names.lookups)
        assert names.lookups.count(MUTE) == 1
        names.release.set()
        answer = ask(connections, MUTE, listener)

    assert bytes(answer.body).endswith(b"answered")


def test_an_unknown_name_is_reported_and_looked_up_again(names: NameServer) -> None:
    """Unreachable, with the name in the sentence; the next time may be another."""
    with broker(echo) as listener, client() as connections:
        faults = [fault(connections, "nobody.example", listener) for _ in range(2)]

    assert {fault.reason for fault in faults} == {FaultReason.UNREACHABLE}
    assert "the host name nobody.example cannot be resolved" in faults[0].sentence
    assert names.lookups.count("nobody.example") == 2


def test_closing_does_not_wait_for_a_name(names: NameServer) -> None:
    """The lookup ends by itself, later, and no future waits for its result."""
    with broker(echo) as listener:
        connections = Connections({}, client_id="contract")
        thread = threading.Thread(target=lambda: pytest.raises(Exception, ask, connections, MUTE, listener))  # noqa: B017, RUF061
        thread.start()
        until(lambda: MUTE in names.lookups)
        began = time.monotonic()
        connections.close()
        thread.join(10)

        assert not thread.is_alive()
        assert time.monotonic() - began < 5
    names.release.set()


def test_many_names_share_a_stated_number_of_threads(names: NameServer) -> None:
    """Two hundred lookups without a response: the one after them waits, and runs once the others have ended."""
    count = LOOKUPS_MAX + 136

    async def ask_all(connections: Connections) -> list[Any]:
        async def one(port: int) -> Any:
            try:
                return await answered(connections, Address(MUTE, port), raw_request(), api="Contract", timeout_s=0.3)
            except BrokerFault as fault:
                return fault.reason

        return await connections.gather(one(port) for port in range(1, count + 1))

    with client() as connections:
        reasons = connections.run(ask_all, connections)
        threads = [thread for thread in threading.enumerate() if thread.name == f"names-{MUTE}"]
        assert set(reasons) == {FaultReason.TIMED_OUT}
        assert len(threads) == LOOKUPS_MAX
        names.release.set()
        until(lambda: len(names.lookups) == count)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "1.2.3.4%x.example.com"])
def test_an_address_is_never_asked_from_a_name_server(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked up on the client's only thread; brokers choose what stands there."""
    asked = list[int]()

    def look_up(_host: str, _port: int, _family: int, _type: int, _protocol: int, flags: int) -> list[Any]:
        asked.append(flags)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    found = Resolver(lambda _: None).addresses(host, 9092)
    with pytest.raises(StopIteration):
        found.send(None)

    assert asked == [socket.AI_NUMERICHOST]
