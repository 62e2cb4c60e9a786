"""kafka-python has every member that the exporter uses, and calls every member that it replaces.

A new release of kafka-python that fails here must not be allowed in `pyproject.toml` before the border is adapted. Why each
member is replaced or read, and what would make it unnecessary, is in `exporter/kafka/client/transport.py`.
"""

from __future__ import annotations

import ast
import inspect
import re
import selectors
import socket
import struct
import sys
import textwrap
from collections.abc import Callable
from functools import wraps
from types import FunctionType, ModuleType
from typing import Any

import kafka.net.connection
import kafka.net.sasl.oauth
import kafka.net.selector
import kafka.net.transport
import kafka.protocol.frame
import kafka.protocol.parser
import pytest
from kafka.net.connection import KafkaConnection
from kafka.net.inet import KafkaNetSocket
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.admin.configs import DescribeConfigsRequest
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.frame import KafkaBytes
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from exporter.config.kafka_section import OauthSettings
from exporter.kafka.client import transport
from exporter.kafka.client.oauth import ClientCredentials
from exporter.kafka.client.receiving import GrowingBuffer, ResponseParser
from exporter.kafka.client.transport import Connection, PlainTransport, Selector, TlsTransport
from exporter.kafka.errors import BrokerFault
from tests.kafka.talking import SASL_AUTHENTICATE, SASL_HANDSHAKE, ask, broker, client, echo, raw_request

REPLACED: dict[type, tuple[type, set[str]]] = {
    Connection: (KafkaConnection, {"data_received", "connection_made", "connection_lost", "_sasl_authenticate"}),
    PlainTransport: (KafkaTCPTransport, {"write", "_sock_recv"}),
    TlsTransport: (KafkaSSLTransport, {"write", "_sock_recv"}),
    ResponseParser: (KafkaProtocol, {"receive_bytes"}),
    GrowingBuffer: (KafkaBytes, set()),
    Selector: (selectors.DefaultSelector, {"get_key", "register", "unregister", "modify"}),
    ClientCredentials: (AbstractTokenProvider, {"token", "extensions"}),
}
"""The exporter's class -> kafka-python's (the standard library's for the selector), and the members that it replaces."""

READ: dict[Callable[[], Any], set[str]] = {
    lambda: KafkaConnection(net=None): {"config", "initializing", "parser", "broker_version_data", "closed", "paused"}
    | {"node_id"},
    lambda: KafkaTCPTransport(None, None): {"_closed", "_protocol", "_sock", "_write", "_writing"},
    KafkaProtocol: {"_header", "_process_response", "_rbuffer", "_validate_frame_size"},
    lambda: KafkaBytes(0): {"seek", "tell", "write"},
    lambda: BrokerVersionData(api_versions={}): {"api_versions"},
    DescribeConfigsRequest: {"API_KEY", "API_VERSION", "_max_version", "_min_version", "max_version", "min_version"}
    | {"name"},
}
"""Makes an object of kafka-python's -> members of it that are read."""

OAUTH = OauthSettings(
    token_endpoint_url="",
    client_id="",
    client_secret="",
    scope=None,
    header_urlencode=None,
    extensions=(),
    https_ca_location=None,
)
MODULES: tuple[ModuleType, ...] = (
    kafka.net.connection,
    kafka.net.sasl.oauth,
    kafka.net.selector,
    kafka.net.transport,
    kafka.protocol.frame,
    kafka.protocol.parser,
)


def test_calls_fit_what_they_call() -> None:
    """Every parameter that is given has its name."""
    for function, arguments in {
        KafkaConnection.__init__: {"net", "node_id"},
        KafkaConnection.connection_made: {"transport"},
        KafkaConnection.initialize: {"timeout_at"},
        KafkaConnection.send_request: {"request", "request_timeout_ms"},
        KafkaConnection.data_received: {"data"},
        KafkaNetSocket.socket: {"family", "sock_type", "proto"},
        KafkaNetSocket.sock_connect: {"net", "sock", "sockaddr", "timeout_at"},
        KafkaTCPTransport.__init__: {"net", "sock", "host"},
        KafkaSSLTransport.__init__: {"net", "sock", "host"},
        NetworkSelector.call_at: {"when", "task"},
        NetworkSelector.call_soon: {"task"},
        NetworkSelector.call_soon_threadsafe: {"callback"},
        NetworkSelector.call_soon_with_future: {"coro"},
        NetworkSelector.cancel: {"task"},
        NetworkSelector.run: {"coro"},
        NetworkSelector.sleep: {"delay"},
        NetworkSelector.stop: {"timeout_ms"},
    }.items():
        assert arguments <= set(inspect.signature(function).parameters), function
    assert {"client_id", "receive_message_max_bytes", "security_protocol", "sasl_mechanism"} <= set(
        KafkaConnection.DEFAULT_CONFIG
    )
    assert {"client_id", "slow_task_threshold_secs"} <= set(NetworkSelector.DEFAULT_CONFIG)
    assert KafkaSSLTransport.DEFAULT_CONFIG.keys() >= {
        "ssl_cafile",
        "ssl_certfile",
        "ssl_keyfile",
        "ssl_check_hostname",
    }


def functions(kind: type) -> set[str]:
    """Members of a class of the exporter and of its mixins."""
    ours = [parent for parent in kind.__mro__ if parent.__module__.startswith("exporter.")]
    return {name for parent in ours for name, value in vars(parent).items() if isinstance(value, FunctionType)}


def assert_replaced_members_are_there() -> None:
    for ours, (theirs, members) in REPLACED.items():
        found = {name for name in functions(ours) if hasattr(theirs, name) and not name.startswith("__")}
        assert found == members, f"{ours.__name__} replaces {found}"


def assert_members_that_are_read_are_there() -> None:
    for make, members in READ.items():
        made = make()
        missing = [name for name in sorted(members) if not hasattr(made, name)]
        assert missing == [], f"{type(made).__name__} has no {missing}"


def called_by_kafka_python(patch: pytest.MonkeyPatch) -> set[tuple[type, str]]:
    """Replaced members that kafka-python itself calls while a client logs in, asks, and ends."""
    called = set()

    def watch(kind: type, name: str) -> None:
        function = getattr(kind, name)

        @wraps(function)
        def watched(*arguments: Any, **more: Any) -> Any:
            if sys._getframe(1).f_globals["__name__"].startswith("kafka."):
                called.add((kind, name))
            return function(*arguments, **more)

        patch.setattr(kind, name, watched)

    for kind, (_, members) in REPLACED.items():
        for name in members:
            watch(kind, name)
    options = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Tokens(),
    }
    with broker(log_in) as listener, client(**options) as connections:
        ask(connections, listener, raw_request(bytes(8_000_000)), timeout_s=2)  # the socket does not take it at once
    return called


class Tokens(ClientCredentials):
    """One token that is good."""

    def __init__(self) -> None:
        super().__init__(OAUTH, clock=lambda: 0.0)
        self._token, self._over_at = "token", 1.0


def log_in(connection: socket.socket, correlation_id: int, frame: bytes) -> None:
    key, version = struct.unpack_from(">hh", frame)
    if key == SASL_HANDSHAKE:
        answer = SaslHandshakeResponse(version=version, error_code=0, mechanisms=["OAUTHBEARER"])
    elif key == SASL_AUTHENTICATE:
        answer = SaslAuthenticateResponse(
            version=version, error_code=0, error_message=None, auth_bytes=b"", session_lifetime_ms=0
        )
    else:
        return echo(connection, correlation_id, frame)
    answer.with_header(correlation_id=correlation_id)
    return connection.sendall(answer.encode(header=True, framed=True))


def assert_replaced_members_are_called(patch: pytest.MonkeyPatch) -> None:
    expected = {(kind, name) for kind, (_, members) in REPLACED.items() for name in members if kind is not TlsTransport}
    expected.remove((Connection, "connection_made"))  # `Connections` calls it, in the place of kafka-python's manager
    assert called_by_kafka_python(patch) >= expected


def assert_replaced_members_are_there_and_called(patch: pytest.MonkeyPatch) -> None:
    assert_replaced_members_are_there()
    assert_replaced_members_are_called(patch)


def test_replaced_members_are_there() -> None:
    """The table has exactly the exporter's members that have the name of a member of kafka-python's."""
    assert_replaced_members_are_there()


def test_replaced_members_are_called_by_kafka_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a connection that logs in, asks and ends. TLS has what calls them from TCP."""
    assert_replaced_members_are_called(monkeypatch)
    assert not {"_read_from_sock", "write", "_write_to_sock"} & vars(KafkaSSLTransport).keys()


def test_members_that_are_read_are_there() -> None:
    """Also those that only kafka-python's constructors make."""
    assert_members_that_are_read_are_there()


@pytest.mark.parametrize(
    ("kind", "make"),
    list(zip((Connection, PlainTransport, ResponseParser, GrowingBuffer), READ, strict=False)),
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_no_member_is_read_that_is_not_in_the_table(kind: type, make: Callable[[], Any]) -> None:
    """Members that the exporter's classes read from `self` and that kafka-python's classes have too."""
    trees = [
        ast.parse(textwrap.dedent(inspect.getsource(parent)))
        for parent in kind.__mro__
        if parent.__module__.startswith("exporter.")
    ]
    used = {
        node.attr
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    theirs = set(dir(make())) - set(dir(bytearray)) - functions(kind)

    assert used & theirs <= READ[make]


def rename(patch: pytest.MonkeyPatch, name: str) -> None:
    """As a release of kafka-python would: where it is defined, and wherever it is used."""
    for module in MODULES:
        for kind in [
            value for value in vars(module).values() if inspect.isclass(value) and value.__module__ == module.__name__
        ]:
            for function in [value for value in vars(kind).values() if isinstance(value, FunctionType)]:
                names = tuple(f"{used}_now" if used == name else used for used in function.__code__.co_names)
                patch.setattr(function, "__code__", function.__code__.replace(co_names=names))
            if name in vars(kind):
                patch.setattr(kind, f"{name}_now", vars(kind)[name], raising=False)
                patch.delattr(kind, name)


RENAMED = {name for _, members in REPLACED.values() for name in members} - {"register"}
"""Without `register` no loop can be made, which leaks its sockets."""


@pytest.mark.parametrize("name", sorted(RENAMED))
def test_a_replaced_member_that_kafka_python_renames_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Or that it no longer calls: the selector's are the standard library's, which keeps them."""
    rename(monkeypatch, name)
    with pytest.raises((AssertionError, AttributeError, BrokerFault)):
        assert_replaced_members_are_there_and_called(monkeypatch)


def test_a_replaced_member_that_kafka_python_calls_no_more_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old one is left where it was, and another takes its place."""
    receive = KafkaTCPTransport._sock_recv
    rename(monkeypatch, "_sock_recv")
    monkeypatch.setattr(KafkaTCPTransport, "_sock_recv", receive, raising=False)
    monkeypatch.setattr(KafkaSSLTransport, "_sock_recv", receive, raising=False)
    assert_replaced_members_are_there()
    with pytest.raises(AssertionError):
        assert_replaced_members_are_called(monkeypatch)


@pytest.mark.parametrize("name", sorted(set().union(*list(READ.values())[:4])), ids=lambda name: name)
def test_a_member_that_is_read_and_renamed_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Whether a class has it or its constructor makes it."""
    rename(monkeypatch, name)
    with pytest.raises((AssertionError, AttributeError)):
        assert_members_that_are_read_are_there()


def test_why_each_member_is_replaced_or_read_is_written_down() -> None:
    """In one place, by name."""
    written = set(re.findall(r"[A-Za-z_]+", transport.__doc__ or ""))
    members = {name for _, names in REPLACED.values() for name in names} | set().union(*READ.values())

    assert members - written == set()
