"""kafka-python behaves as `exporter.kafka.client.connections` and `raw_request` require.

`test_contract_members.py` holds that each member is there and called.

A new release of kafka-python that fails here must not be allowed in `pyproject.toml` before the border is adapted.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
import time
from collections.abc import Callable
from typing import Any

import kafka.errors as foreign
import pytest
from kafka.protocol.metadata import MetadataRequest

from exporter.kafka.client.connections import Address
from exporter.kafka.client.fault_text import describe_error, reason_of
from exporter.kafka.client.receiving import FRAME_BYTES_MAX, PROCESS, ResponseParser
from exporter.kafka.errors import BrokerFault, FaultReason, MalformedResponseError
from exporter.kafka.messages.raw_request import RawResponse
from tests.kafka.loopback import HOST, framed
from tests.kafka.talking import (
    METADATA,
    PATIENCE_S,
    RAW,
    SOON_S,
    answered,
    ask,
    broker,
    client,
    echo,
    end,
    fault_of,
    hang,
    raw_answer,
    raw_request,
)


@pytest.mark.parametrize(
    ("error", "asking", "connecting"),
    [
        (foreign.KafkaTimeoutError, FaultReason.TIMED_OUT, FaultReason.TIMED_OUT),
        (foreign.RequestTimedOutError, FaultReason.TIMED_OUT, FaultReason.TIMED_OUT),
        (foreign.SaslAuthenticationFailedError, FaultReason.AUTHENTICATION_FAILED, FaultReason.AUTHENTICATION_FAILED),
        (foreign.UnsupportedSaslMechanismError, FaultReason.AUTHENTICATION_FAILED, FaultReason.AUTHENTICATION_FAILED),
        (foreign.IncompatibleBrokerVersion, FaultReason.UNSUPPORTED_API, FaultReason.UNSUPPORTED_API),
        (foreign.UnsupportedVersionError, FaultReason.UNSUPPORTED_API, FaultReason.UNSUPPORTED_API),
        (foreign.KafkaConnectionError, FaultReason.CONNECTION_LOST, FaultReason.UNREACHABLE),
        (foreign.Cancelled, FaultReason.CONNECTION_LOST, FaultReason.UNREACHABLE),
        (OSError, FaultReason.CONNECTION_LOST, FaultReason.UNREACHABLE),
        (foreign.CorrelationIdError, FaultReason.MALFORMED_ANSWER, FaultReason.MALFORMED_ANSWER),
        (foreign.InvalidReceiveError, FaultReason.MALFORMED_ANSWER, FaultReason.MALFORMED_ANSWER),
        (foreign.KafkaProtocolError, FaultReason.MALFORMED_ANSWER, FaultReason.MALFORMED_ANSWER),
    ],
)
def test_foreign_exceptions_are_of_the_kinds_that_the_border_distinguishes(
    error: type[Exception], asking: FaultReason, connecting: FaultReason
) -> None:
    """Each exception of kafka-python in a known situation gets the right reason."""
    assert reason_of(error(), connecting=False) is asking
    assert reason_of(error(), connecting=True) is connecting


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (foreign.KafkaConnectionError("111 ECONNREFUSED"), "Connection refused"),
        (foreign.KafkaConnectionError(ConnectionResetError(104, "reset")), "Connection reset by peer"),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (foreign.KafkaConnectionError("socket disconnected"), "socket disconnected"),
        (foreign.KafkaTimeoutError("the handshake timed out"), "the handshake timed out"),
        (foreign.RequestTimedOutError(), "no response came in time"),
        (TimeoutError(), "no response came in time"),
        (
            foreign.UnsupportedSaslMechanismError(),
            "this listener has no such login: set sasl.mechanism to one of the broker's sasl.enabled.mechanisms",
        ),
        (foreign.CorrelationIdError("3 nodes did"), "3 nodes did"),
    ],
    ids=str,
)
def test_a_fault_says_what_happened_and_not_which_class(error: Exception, words: str) -> None:
    """The number of a system's error is its text."""
    assert describe_error(error) == words


@pytest.mark.parametrize("error", [ssl.SSLEOFError(8, "EOF"), ssl.SSLZeroReturnError(6, "closed (EOF)")], ids=type)
def test_an_end_during_the_handshake_says_which_setting_is_probably_wrong(error: ssl.SSLError) -> None:
    """Versions of Python raise different exceptions for the same end of the connection."""
    assert describe_error(error).startswith(
        "it ends the connection during the TLS handshake, as a listener without TLS does"
    )


def parser_with_one_request() -> tuple[ResponseParser, int]:
    parser = ResponseParser(PROCESS.share(), client_id="contract", receive_message_max_bytes=1000)
    correlation_id = parser.send_request(raw_request(b"body"))
    return parser, correlation_id


def test_the_parser_takes_a_raw_request_and_frames_it() -> None:
    """Frame length, request header v2 with the exporter's client id, and the body as it was given."""
    parser, correlation_id = parser_with_one_request()
    sent = bytes(parser.send_bytes())

    assert sent == framed(struct.pack(">hhih8sb", RAW, 0, correlation_id, 8, b"contract", 0) + b"body")


def test_the_parser_hands_the_body_over_however_it_is_cut() -> None:
    """The response arrives in two pieces, cut at any byte: its body comes undecoded, from the throttle time on."""
    whole = raw_answer(1, b"columns", throttle_time_ms=5)
    for cut in range(len(whole) + 1):
        parser, correlation_id = parser_with_one_request()
        assert correlation_id == 1
        answers = [*parser.receive_bytes(whole[:cut]), *parser.receive_bytes(whole[cut:])]

        ((answered_id, answer),) = answers
        assert answered_id == correlation_id
        assert isinstance(answer, RawResponse)
        assert (answer.throttle_time_ms, bytes(answer.body)) == (5, struct.pack(">i", 5) + b"columns")


def test_a_response_has_the_version_that_its_request_was_sent_at() -> None:
    """A connection sets it for each request: brokers of one cluster may differ during an upgrade."""
    for version in (3, 7):
        parser = ResponseParser(PROCESS.share(), client_id="contract", receive_message_max_bytes=1000)
        request = raw_request(b"body")
        request.API_VERSION = version
        parser.send_request(request)

        ((_, answer),) = parser.receive_bytes(raw_answer(1))
        assert answer.version == version


def test_the_parser_has_room_for_the_response_that_is_coming() -> None:
    """A bytearray that knows how much of the frame is there, from its length on until its last byte."""
    parser, correlation_id = parser_with_one_request()
    whole = raw_answer(correlation_id, b"columns")
    assert parser.buffer is None
    assert parser.receive_bytes(whole[:6]) == []
    buffer: Any = parser.buffer
    assert (len(buffer), buffer.tell()) == (len(whole) - 4, 2)
    buffer[2:-1] = whole[6:-1]
    buffer.seek(len(whole) - 5)
    ((_, answer),) = parser.receive_bytes(whole[-1:])

    assert bytes(answer.body[4:]) == b"columns"
    assert parser.buffer is None


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (raw_answer(2, b"body"), foreign.CorrelationIdError),
        (struct.pack(">i", 1001), foreign.InvalidReceiveError),
        (struct.pack(">i", -1), foreign.InvalidReceiveError),
        (framed(struct.pack(">ibi", 1, 1, 0)), foreign.KafkaProtocolError),
        (framed(struct.pack(">ibh", 1, 0, 0)), foreign.KafkaProtocolError),
    ],
    ids=["another correlation id", "too large", "negative length", "tagged header", "too short"],
)
def test_the_parser_refuses_what_is_not_a_response(frame: bytes, error: type[Exception]) -> None:
    """Frames that cannot be the response end in exceptions that the border knows."""
    parser, _ = parser_with_one_request()

    with pytest.raises(error):
        parser.receive_bytes(frame)


def test_a_response_comes_back_whole() -> None:
    """Also one beyond kafka-python's own limit of a megabyte."""
    body = os.urandom(3_000_000)

    def serve(connection: socket.socket, correlation_id: int, frame: bytes) -> None:
        assert frame.endswith(b"asked")
        connection.sendall(raw_answer(correlation_id, body))

    with broker(serve) as listener, client() as connections:
        answer = ask(connections, listener)

    assert bytes(answer.body) == bytes(4) + body


def test_requests_on_one_connection_share_it() -> None:
    """Two that ask a new address at once share one connection, and each gets its own response."""

    def serve(connection: socket.socket, correlation_id: int, frame: bytes) -> None:
        connection.sendall(raw_answer(correlation_id, frame[-1:]))

    with broker(serve) as listener, client() as connections:
        address = Address(HOST, listener.port)

        async def many() -> list[Any]:
            return await connections.gather(
                answered(connections, address, raw_request(bytes([i])), api="Contract", timeout_s=PATIENCE_S)
                for i in range(5)
            )

        answers = connections.run(many)
        assert listener.accepted == 1
    assert [bytes(answer.body)[-1] for answer in answers] == [0, 1, 2, 3, 4]


def test_gather_raises_the_first_failure_after_all_have_ended() -> None:
    """Nothing still runs when it raises."""
    ended = []

    with client() as connections:

        async def fail(kind: type[Exception]) -> None:
            raise kind

        async def last() -> None:
            await connections._net.sleep(0.05)
            ended.append("last")

        async def all_three() -> None:
            await connections.gather([fail(KeyError), fail(ValueError), last()])

        with pytest.raises(KeyError):
            connections.run(all_three)
    assert ended == ["last"]


def test_a_throttled_client_holds_back() -> None:
    """After a response with a throttle time the next request is not sent before that has passed (KIP-219)."""
    throttle_s = 0.3
    times = []

    def serve(connection: socket.socket, correlation_id: int, _frame: bytes) -> None:
        times.append(time.monotonic())
        throttle_time_ms = int(throttle_s * 1000) if len(times) == 1 else 0
        connection.sendall(raw_answer(correlation_id, throttle_time_ms=throttle_time_ms))

    with broker(serve) as listener, client() as connections:
        ask(connections, listener)
        ask(connections, listener)

    assert times[1] - times[0] >= throttle_s


def test_more_requests_at_once_than_a_connection_takes_are_all_answered() -> None:
    """kafka-python sends five and refuses the others: those wait, as for the 50 partitions of the transaction log."""
    with broker(echo) as listener, client() as connections:
        address = Address(HOST, listener.port)

        async def all_of_them() -> list[Any]:
            asked = (
                answered(connections, address, raw_request(), api="Contract", timeout_s=PATIENCE_S) for _ in range(50)
            )
            return list(await connections.gather(asked))

        assert [bytes(answer.body)[4:] for answer in connections.run(all_of_them)] == [b"answered"] * 50


def test_a_request_behind_others_that_are_not_answered_ends_in_its_time() -> None:
    """And says what it waited for."""
    with broker(hang) as listener, client() as connections:
        address = Address(HOST, listener.port)

        async def sentence(timeout_s: float) -> str:
            try:
                await answered(connections, address, raw_request(), api="Contract", timeout_s=timeout_s)
            except BrokerFault as fault:
                return fault.sentence
            return ""

        async def all_of_them() -> list[str]:
            return list(await connections.gather([*(sentence(2 * SOON_S) for _ in range(5)), sentence(SOON_S)]))

        assert "did not respond to earlier requests" in connections.run(all_of_them)[-1]


def test_a_throttle_longer_than_the_timeout_is_a_timeout_that_says_so() -> None:
    """A request that may not even be sent in its time is not waited for any longer."""

    def serve(connection: socket.socket, correlation_id: int, _frame: bytes) -> None:
        connection.sendall(raw_answer(correlation_id, throttle_time_ms=3_600_000))

    with broker(serve) as listener, client() as connections:
        ask(connections, listener)
        fault = fault_of(connections, listener, timeout_s=SOON_S)

    assert fault.reason is FaultReason.TIMED_OUT
    assert "throttles" in fault.sentence


def test_throttling_by_a_response_that_cannot_be_decoded_is_ignored() -> None:
    """Nonsense ends its connection: the next request goes out at once, on another."""

    def serve(connection: socket.socket, correlation_id: int, _frame: bytes) -> None:
        connection.sendall(raw_answer(correlation_id, throttle_time_ms=2**31 - 1))

    def refuse(_answer: RawResponse) -> None:
        raise MalformedResponseError("nonsense")

    with broker(serve) as listener, client() as connections:
        fault = fault_of(connections, listener, read=refuse)
        ask(connections, listener)
        assert listener.accepted == 2
        statistics = connections.statistics()

    assert fault.reason is FaultReason.MALFORMED_ANSWER
    assert "nonsense" in fault.sentence
    ((requests, failures),) = [(api.requests, api.failures) for api in statistics]
    assert (requests, failures) == (2, 1)


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: struct.pack(">i", FRAME_BYTES_MAX + 1),
        lambda correlation_id: raw_answer(correlation_id + 1, b"another's"),
        lambda correlation_id: framed(struct.pack(">ib", correlation_id, 0)),
    ],
    ids=["too large a frame", "another's correlation id", "too short"],
)
def test_an_invalid_response_is_malformed_at_once(answer: Callable[[int], bytes]) -> None:
    """The fault comes long before the time-out, and the next request gets a new connection."""
    answers = iter([answer, raw_answer])

    def serve(connection: socket.socket, correlation_id: int, _frame: bytes) -> None:
        connection.sendall(next(answers)(correlation_id))

    with broker(serve) as listener, client() as connections:
        fault = fault_of(connections, listener)
        ask(connections, listener)

    assert fault.reason is FaultReason.MALFORMED_ANSWER


@pytest.mark.parametrize(
    "body",
    [
        bytes(4) + b"\x05" + b"\xff" * 3,
        bytes(4) + b"\xff" * 12,
        b"\0",
        bytes(4) + b"\x02" + bytes(4) + b"\x04\xff\xff\xff",
    ],
    ids=["ends in a length", "a length of too many bytes", "ends at once", "no UTF-8"],
)
def test_bytes_that_kafka_python_cannot_decode_are_malformed_at_once(body: bytes) -> None:
    """Also where its decoder raises what its reader does not expect, such as IndexError."""

    def serve(connection: socket.socket, correlation_id: int, _frame: bytes) -> None:
        connection.sendall(framed(struct.pack(">ib", correlation_id, 0) + body))

    with broker(serve) as listener, client() as connections:
        fault = fault_of(connections, listener, MetadataRequest(topics=None))

    assert fault.reason is FaultReason.MALFORMED_ANSWER


def test_null_where_something_must_be_is_malformed() -> None:
    """A TypeError of the reader is the broker's fault: it stumbled over a null."""

    def serve(connection: socket.socket, correlation_id: int, _frame: bytes) -> None:
        connection.sendall(framed(struct.pack(">ib", correlation_id, 0) + bytes(20)))

    with broker(serve) as listener, client() as connections:
        fault = fault_of(connections, listener, MetadataRequest(topics=None), read=lambda answer: len(answer.brokers))

    assert fault.reason is FaultReason.MALFORMED_ANSWER


@pytest.mark.parametrize("sent", [0, 3, 4, 9, 15], ids=lambda sent: f"after {sent} bytes")
def test_a_connection_closed_in_mid_frame_is_lost(sent: int) -> None:
    """A new connection that is lost is not tried again: the fault says what happened."""

    def serve(connection: socket.socket, correlation_id: int, _frame: bytes) -> None:
        connection.sendall(raw_answer(correlation_id, b"answered")[:sent])
        raise ConnectionResetError

    with broker(serve) as listener, client() as connections:
        fault = fault_of(connections, listener)
        assert listener.accepted == 1

    assert fault.reason is FaultReason.CONNECTION_LOST


def test_an_idle_connection_that_was_lost_is_opened_again_once() -> None:
    """After a broker's restart the next request does not fail; when the new connection is lost too, it does."""
    answers = iter([echo, end, echo, end, end])

    def serve(connection: socket.socket, correlation_id: int, frame: bytes) -> None:
        next(answers)(connection, correlation_id, frame)

    with broker(serve) as listener, client() as connections:
        ask(connections, listener)
        ask(connections, listener)
        assert listener.accepted == 2
        fault = fault_of(connections, listener)
        assert listener.accepted == 3

    assert fault.reason is FaultReason.CONNECTION_LOST


def test_silence_ends_at_the_timeout() -> None:
    with broker(hang) as listener, client() as connections:
        fault = fault_of(connections, listener, timeout_s=SOON_S)

    assert fault.reason is FaultReason.TIMED_OUT


def test_a_port_without_a_listener_is_unreachable() -> None:
    with broker(echo) as listener:
        pass
    with client() as connections:
        fault = fault_of(connections, listener)

    assert fault.reason is FaultReason.UNREACHABLE


def test_an_api_that_the_broker_does_not_offer_is_reported_before_it_is_requested() -> None:
    """The sentence names the version that is needed."""
    with broker(echo, apis=(METADATA,)) as listener, client() as connections:
        fault = fault_of(connections, listener)

    assert fault.reason is FaultReason.UNSUPPORTED_API
    assert "2.8" in fault.sentence


def test_latencies_and_failures_are_counted_by_api() -> None:
    """Answered requests go into one bucket each, failed ones only into the failures."""
    answers = iter([echo, echo, end, end])

    def serve(connection: socket.socket, correlation_id: int, frame: bytes) -> None:
        next(answers)(connection, correlation_id, frame)

    with broker(serve) as listener, client() as connections:
        ask(connections, listener)
        ask(connections, listener)
        fault_of(connections, listener)
        (statistics,) = connections.statistics()

    assert (statistics.api, statistics.requests, statistics.failures) == ("Contract", 3, 1)
    assert sum(statistics.latency_counts) == 2
    assert statistics.seconds_total > 0
