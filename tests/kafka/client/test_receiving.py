"""Responses use as much memory as was received, and together no more than the limit of the process."""

from __future__ import annotations

import gc
import socket
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from exporter.evaluation.gaps import gaps
from exporter.kafka.client.receiving import PROCESS, STEP_BYTES, ReceiveBudget, ReceiveLimitError, ResponseParser, Share
from exporter.kafka.errors import FaultReason
from tests.kafka.fake_broker import FakeCluster
from tests.kafka.fake_model import Model, Partition, Producer
from tests.kafka.loopback import HOST, wait_for_end
from tests.kafka.scene import collector_of, reasons
from tests.kafka.talking import SOON_S, ask, broker, client, fault_of, raw_answer, raw_request

ROOT = Path(__file__).parents[3]
ANNOUNCED = 100_000_000
BODY = bytes(range(256)) * 8192


def announce(connection: socket.socket, _correlation_id: int, _frame: bytes) -> None:
    connection.sendall(struct.pack(">i", ANNOUNCED) + bytes(6))
    wait_for_end(connection)


def parser(budget: ReceiveBudget) -> ResponseParser:
    made = ResponseParser(budget.share(), client_id="test", receive_message_max_bytes=ANNOUNCED)
    made.send_request(raw_request())
    return made


@pytest.mark.parametrize("piece", [1, 7, 1000, STEP_BYTES - 1, STEP_BYTES, 10**7])
def test_a_response_comes_whole_however_it_is_cut(piece: int) -> None:
    """Growing moves nothing; what it took is given back when the body is let go."""
    budget = ReceiveBudget(10**7)
    body = BODY if piece > 7 else BODY[:1000]
    whole, receiver = raw_answer(1, body), parser(budget)
    responses = [body for at in range(0, len(whole), piece) for body in receiver.receive_bytes(whole[at : at + piece])]

    ((_, answer),) = responses
    assert bytes(answer.body[4:]) == body
    assert budget.held_bytes == len(whole) - 4
    del answer, responses
    assert budget.held_bytes == 0


def test_two_responses_in_one_piece_are_two() -> None:
    """The remaining bytes begin the next one."""
    receiver = parser(ReceiveBudget(10**7))
    receiver.send_request(raw_request())

    answers = receiver.receive_bytes(raw_answer(1, b"one") + raw_answer(2, b"two"))
    assert [bytes(answer.body[4:]) for _, answer in answers] == [b"one", b"two"]


def test_a_buffer_is_one_step_longer_than_what_came_at_most() -> None:
    budget = ReceiveBudget(ANNOUNCED)
    receiver = parser(budget)
    receiver.receive_bytes(struct.pack(">i", ANNOUNCED) + b"x")
    assert budget.held_bytes == STEP_BYTES
    received = 1
    for _ in range(200):
        receiver.receive_bytes(bytes(10_000))
        received += 10_000
        assert received <= budget.held_bytes <= received + STEP_BYTES


def test_beyond_the_limit_nothing_more_is_received() -> None:
    """The sentence says how much was announced, and which setting it is."""
    receiver = parser(ReceiveBudget(STEP_BYTES))
    with pytest.raises(ReceiveLimitError, match=r"100,000,000 bytes.*scan\.receive_limit"):
        receiver.receive_bytes(struct.pack(">i", ANNOUNCED) + bytes(STEP_BYTES + 1))


def test_a_cluster_that_floods_leaves_room_for_the_others() -> None:
    """It gets half of the memory, two get a third each; alone it would get all. What ends gives its part back."""
    unit = 1_000_000
    budget = ReceiveBudget(12 * unit)
    flood, second, small = budget.share(), budget.share(), budget.share()

    def most(share: Share) -> int:
        """Units that it gets, one after the other."""
        for number in range(20):
            try:
                share.take(unit, unit)
            except ReceiveLimitError:
                return number
        return 20

    assert most(flood) == 6
    assert most(second) == 3
    small.take(unit, unit)
    flood.give_back(6 * unit)
    second.give_back(3 * unit)
    small.give_back(unit)
    second.end()
    small.end()
    assert (budget.held_bytes, most(flood)) == (0, 12)


def test_a_broker_beyond_the_limit_is_a_fault_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not taken for a lost connection, which would be tried again; and the memory is there for the next one."""
    monkeypatch.setattr(PROCESS, "limit_bytes", 1_000_000)
    gc.collect()
    before = PROCESS.held_bytes

    def serve(connection: socket.socket, correlation_id: int, frame: bytes) -> None:
        connection.sendall(raw_answer(correlation_id, bytes(100 if frame.endswith(b"small") else 3_000_000)))

    with broker(serve) as listener, client() as connections:
        for _ in range(2):
            fault = fault_of(connections, listener)
            assert fault.reason is FaultReason.RECEIVE_LIMIT
            assert str(listener.port) in str(fault)
            assert "scan.receive_limit" in str(fault)
        assert len(ask(connections, listener, raw_request(b"small")).body) == 104
    gc.collect()
    assert PROCESS.held_bytes == before


def test_a_response_that_never_comes_gives_back_what_it_took() -> None:
    """At the time-out the connection ends, and its buffer with it."""
    gc.collect()
    before = PROCESS.held_bytes
    with broker(announce) as listener, client() as connections:
        assert fault_of(connections, listener, timeout_s=SOON_S).reason is FaultReason.TIMED_OUT
        gc.collect()
        assert PROCESS.held_bytes == before


def test_brokers_that_announce_much_take_little() -> None:
    """Twenty announce 100 MB each, to a process that may take 1.5 GB more than it has, threads included."""
    program = """
        import resource
        from functools import partial
        from contextlib import ExitStack
        from benchmarks.contestants import peak_mb
        from exporter.kafka.client.connections import Address
        from tests.kafka.loopback import HOST
        from tests.kafka.talking import answered, broker, client, raw_request
        from tests.kafka.client.test_receiving import announce

        async def ask_all(connections, ports):
            async def one(port):
                try:
                    await answered(connections, Address(HOST, port), raw_request(), api="Contract", timeout_s=2)
                except Exception as error:
                    return error.reason.value
            return await connections.gather(one(port) for port in ports)

        with ExitStack() as stack, client() as connections:
            ports = [stack.enter_context(broker(announce)).port for _ in range(20)]
            connections.run(partial(ask_all, connections, ports[:1]))
            pages = int(open("/proc/self/statm").read().split()[0])
            most = pages * resource.getpagesize() + 1_500_000_000
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            print(*connections.run(partial(ask_all, connections, ports)))
        print(peak_mb("self"))  # ru_maxrss has that of the process that started this one
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=60,
    )

    assert run.returncode == 0, run.stderr
    reasons, peak_mb = run.stdout.splitlines()
    assert reasons.split() == ["timed_out"] * 20
    assert float(peak_mb) < 200


def test_partitions_of_a_broker_beyond_the_limit_are_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are read; reason and gap say which limit it was, and which broker."""
    model = Model(
        topics={"small": [Partition(1)], "large": [Partition(2, producers=[Producer(i) for i in range(2000)])]}
    )
    with FakeCluster(model, nodes=2) as cluster, collector_of(cluster) as collector:
        monkeypatch.setattr(PROCESS, "limit_bytes", PROCESS.held_bytes + 50_000)
        snapshot = collector.collect()

    assert reasons(snapshot) == {("large", 0): "receive_limit"}
    assert not snapshot.is_complete
    (failure,) = [broker.failure for broker in snapshot.brokers if broker.failure is not None]
    assert f"{HOST}:{cluster.ports[2]}" in failure
    assert failure in gaps(snapshot)
    assert "scan.receive_limit" in failure
