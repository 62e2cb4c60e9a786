"""A connection uses the highest version that both sides know, or names the side that is too old."""

from __future__ import annotations

import importlib
import pkgutil
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin.configs import DescribeConfigsRequest
from kafka.protocol.consumer.fetch import FetchRequest

import exporter.kafka
from exporter.kafka.client.connections import Address, Connections
from exporter.kafka.errors import BrokerFault, FaultReason
from exporter.kafka.messages import (
    describe_producers,
    describe_share_group_offsets,
    list_offsets,
    list_transactions,
    metadata,
    versions,
)
from exporter.kafka.messages.raw_request import RawRequest
from exporter.kafka.messages.versions import Api, api_of
from hangbench.waiting import until
from tests.kafka.loopback import HOST, Listener
from tests.kafka.talking import (
    PATIENCE_S,
    RAW,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    Offered,
    answered,
    broker,
    client,
    echo,
    fault_of,
    raw_request,
)

HIGHER = (30, 32)
"""Versions that do not exist yet."""
RANGES = st.tuples(st.integers(-2, 8), st.integers(-2, 8))


def requests() -> Iterator[Any]:
    """One of every API that the exporter needs, bytes and kafka-python's, logins included."""
    yield metadata.request(None)
    yield describe_producers.request({"t": [0]})
    yield list_offsets.request({"t": [0]}, 0, -1)
    yield list_transactions.request((), ())
    yield describe_share_group_offsets.request((), None)
    modules = [
        importlib.import_module(module.name)
        for module in pkgutil.walk_packages(exporter.kafka.__path__, f"{exporter.kafka.__name__}.")
    ]
    for kind in {
        value
        for module in modules
        for name, value in vars(module).items()
        if name.endswith("Request") and value.__module__.startswith("kafka.")
    }:
        yield kind()


REQUESTS = sorted(requests(), key=lambda request: (api_of(request).name, type(request).__name__))
NAMES = [f"{type(request).__name__}-{api_of(request).name}" for request in REQUESTS]


def refuse(_connection: socket.socket, _correlation_id: int, _frame: bytes) -> None:
    raise AssertionError("a request was sent that the broker does not offer")


def fault(request: Any, offered: Offered) -> BrokerFault:
    with broker(refuse, offered=offered) as listener, client() as connections:
        return fault_of(connections, listener, request)


def test_no_request_is_forgotten_here() -> None:
    """The versions in the table and those that kafka-python encodes are all tested."""
    assert {value for value in vars(versions).values() if isinstance(value, Api)} == {
        api_of(request) for request in REQUESTS if isinstance(request, RawRequest)
    }
    assert {"DescribeTransactions", "DescribeConfigs", "DescribeAcls", "WriteTxnMarkers", "SaslHandshake"} <= {
        api_of(request).name for request in REQUESTS
    }


@given(known=RANGES, offered=RANGES)
def test_the_highest_common_version_is_agreed_on(known: tuple[int, int], offered: tuple[int, int]) -> None:
    """None where the ranges share none, backward ranges included."""
    common = set(range(known[0], known[1] + 1)) & set(range(offered[0], offered[1] + 1))

    assert Api(1, "Any", *known).agreed(*offered) == max(common, default=None)


@pytest.mark.parametrize("request_", REQUESTS, ids=NAMES)
def test_a_broker_that_offers_only_higher_versions_is_newer_than_this_exporter_supports(request_: Any) -> None:
    """API, versions offered and versions known are named, and nothing is sent."""
    api = api_of(request_)
    refused = fault(request_, {api.key: HIGHER})

    assert refused.reason is FaultReason.UNSUPPORTED_API
    assert f"newer than this exporter supports: of {api.name} (API key {api.key})" in refused.sentence
    assert "it offers versions 30 to 32" in refused.sentence
    known = f"version {api.lowest};" if api.lowest == api.highest else f"versions {api.lowest} to {api.highest};"
    assert f"this exporter knows {known}" in refused.sentence
    assert "or later" not in refused.sentence


@pytest.mark.parametrize(
    ("request_", "needs"),
    [
        (metadata.request(None), "Metadata needs Apache Kafka 2.8 or later"),
        (list_offsets.request({}, 0, -1), "ListOffsets needs Apache Kafka 2.8 or later"),
        (DescribeConfigsRequest(min_version=1), ""),
        (FetchRequest(min_version=4), ""),
    ],
    ids=["Metadata", "ListOffsets", "DescribeConfigs", "Fetch"],
)
def test_a_broker_that_offers_only_lower_versions_is_too_old(request_: Any, needs: str) -> None:
    """APIs of which version 0 is known have no lower one."""
    api = api_of(request_)
    refused = fault(request_, {api.key: (0, api.lowest - 1)})

    assert refused.reason is FaultReason.UNSUPPORTED_API
    assert f"does not offer {api.name} (API key {api.key}) in a version that this exporter knows" in refused.sentence
    assert needs in refused.sentence
    assert "newer" not in refused.sentence


@pytest.mark.parametrize("request_", [*REQUESTS[:1], DescribeConfigsRequest()], ids=["raw", "kafka-python"])
def test_a_range_that_runs_backwards_is_not_a_newer_broker(request_: Any) -> None:
    """Such a broker says nonsense."""
    assert "newer" not in fault(request_, {api_of(request_).key: (99, -9)}).sentence


class Versions:
    """Brokers that note the version of each request."""

    def __init__(self) -> None:
        self.versions: list[int] = []

    def broker(self, key: int, offered: tuple[int, int]) -> Listener:
        return broker(self._note, offered={key: offered})

    def _note(self, connection: socket.socket, correlation_id: int, frame: bytes) -> None:
        self.versions.append(struct.unpack_from(">hh", frame)[1])
        echo(connection, correlation_id, frame)


def test_each_connection_has_its_own_version() -> None:
    """Of a request that is kept and sent to other brokers, ahead or not: the highest that both sides know."""
    brokers = Versions()
    request = raw_request(api=Api(RAW, "DescribeProducers", 1, 3))
    with client() as connections:
        for offered in ((0, 2), (0, 9), (1, 1), (3, 9)):
            with brokers.broker(RAW, offered) as listener:
                ask_twice(connections, listener, request)

    assert brokers.versions == [2, 2, 3, 3, 1, 1, 3, 3]


def ask_twice(connections: Connections, listener: Listener, request: RawRequest) -> None:
    """The second time ahead."""
    address = Address(HOST, listener.port)

    async def both() -> None:
        await answered(connections, address, request, api="Contract", timeout_s=PATIENCE_S)
        request.API_VERSION = -1
        sent = connections.send_ahead(address, request, timeout_s=PATIENCE_S)
        assert sent is not None
        await answered(connections, address, request, api="Contract", timeout_s=PATIENCE_S, sent=sent)

    connections.run(both)


@pytest.mark.parametrize("key", [SASL_HANDSHAKE, SASL_AUTHENTICATE])
def test_a_login_that_only_a_newer_exporter_knows_says_so(key: int) -> None:
    """Before anything of it is sent."""
    options = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
    }
    with broker(refuse, offered={key: HIGHER}) as listener, client(**options) as connections:
        refused = fault_of(connections, listener)

    assert refused.reason is FaultReason.UNSUPPORTED_API
    assert "newer than this exporter supports: of Sasl" in refused.sentence


def test_what_was_too_new_is_known_for_as_long_as_its_connection_is_open() -> None:
    """A broker that was replaced is judged by the versions that it offers now."""
    request = describe_producers.request({})
    with client() as connections:
        with broker(refuse, offered={RAW: HIGHER}) as listener:
            sentence = fault_of(connections, listener, request).sentence
            assert connections.too_new() == (sentence,)
            assert fault_of(connections, listener, request).sentence == sentence
            assert connections.too_new() == (sentence,)
        until(lambda: connections.too_new() == ())
