"""Sends a request with an encoded body, and returns the response as bytes.

kafka-python decodes every response into objects, which costs hundreds of times the reading (a DescribeProducers response
may hold 100,000 entries). Its protocol parser accepts any object that can encode itself and names a class for its response;
these two classes are the minimum that it accepts. `tests/kafka/client/test_contract.py` checks the members that are used.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from exporter.kafka.messages.versions import Api


@dataclass(frozen=True, slots=True)
class RawResponse:
    """The body of a response, not decoded, and the one field that the connection itself reads."""

    body: memoryview
    throttle_time_ms: int
    version: int
    """Version of the API that the connection negotiated."""


@dataclass(frozen=True, slots=True)
class _ResponseHeader:
    correlation_id: int


@dataclass(frozen=True, slots=True)
class _FlexibleResponse:
    """Reads a response header v1 (correlation id, tagged fields) and nothing of the body."""

    version: int

    @staticmethod
    def parse_header(buffer: bytearray) -> _ResponseHeader:
        data = memoryview(buffer)
        (correlation_id,) = struct.unpack_from(">i", data, 0)
        return _ResponseHeader(correlation_id)

    def decode(self, buffer: bytearray) -> RawResponse:
        """Every flexible response that is read raw begins with its throttle time.

        Raises ValueError for a response that is too short or has tagged header fields, which no broker sends.
        """
        data = memoryview(buffer)
        if len(data) < 9 or data[4] != 0:  # correlation id, no tagged fields, throttle time  # noqa: PLR2004
            raise ValueError("the response's header is not a response header v1")
        (throttle_time_ms,) = struct.unpack_from(">i", data, 5)
        return RawResponse(body=data[5:], throttle_time_ms=throttle_time_ms, version=self.version)


@dataclass(frozen=True, slots=True)
class _RequestHeader:
    correlation_id: int
    api_key: int
    api_version: int

    def get_response_class(self) -> _FlexibleResponse:
        return _FlexibleResponse(self.api_version)


class RawRequest:
    """A request of a flexible API version (request header v2) with its body already encoded.

    A connection chooses `API_VERSION` from `min_version` and `max_version`, as for kafka-python's own requests.
    """

    __slots__ = ("API_KEY", "API_VERSION", "_body", "_client_id", "header", "max_version", "min_version", "name")
    _min_version = _max_version = None
    """kafka-python's names for a narrower range of one request."""

    def __init__(self, api: Api, body: bytes) -> None:
        self.name = api.name
        self.API_KEY = api.key
        self.API_VERSION = api.highest
        self.min_version, self.max_version = api.lowest, api.highest
        self.header: _RequestHeader | None = None
        self._body = body
        self._client_id = b""

    def with_header(self, correlation_id: int, client_id: str) -> None:
        self.header = _RequestHeader(correlation_id, self.API_KEY, self.API_VERSION)
        self._client_id = client_id.encode()

    def expect_response(self) -> bool:
        return True

    def encode(self, *, framed: bool, header: bool) -> bytes:
        """The whole frame. Raises ValueError without the header, or if only the body is requested."""
        if not (framed and header and self.header is not None):
            raise ValueError("a raw request is sent as a whole frame")
        client_id = self._client_id
        head = struct.pack(
            f">hhih{len(client_id)}sb",
            self.API_KEY,
            self.API_VERSION,
            self.header.correlation_id,
            len(client_id),
            client_id,
            0,
        )
        return struct.pack(">i", len(head) + len(self._body)) + head + self._body
