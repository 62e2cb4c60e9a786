"""Replaces parts of kafka-python's connection, transports and selector that lose data or are slow.

A scan sends few requests and gets long responses. kafka-python needs two iterations of its loop to send a request, and
copies a response three times; here a request is sent at once, and the rest of a response is received into the parser's
buffer.

Members of kafka-python that this room replaces or reads, why, and when that is no longer needed. A new release that lacks
one, or no longer calls it, fails `tests/kafka/client/test_contract_members.py`.

KafkaConnection, replaced:
    data_received       any error of a decoder ends the connection; until kafka-python catches all of them
    connection_made     sets the parser; until a parser can be passed in
    connection_lost     frees a half-received response; goes with the parser
    _sasl_authenticate  keeps why a login failed, negotiates its versions; until kafka-python passes on the last bytes
KafkaConnection, read:
    config, parser, initializing                for the four above
    broker_version_data (api_versions), node_id  names the side that is too old; until IncompatibleBrokerVersion does
    closed, paused                              no request on a connection that ended or is throttled; public, they stay
Requests, read for the same negotiation:
    API_KEY, API_VERSION, name, min_version, max_version, _min_version, _max_version
KafkaTCPTransport and KafkaSSLTransport, replaced:
    write       sends at once; until kafka-python tries the socket before its loop
    _sock_recv  receives into the parser's buffer, passes on what arrived before the end; until kafka-python does
KafkaTCPTransport, read:
    _sock, _protocol, _closed, _write, _writing  for these two
KafkaProtocol (receiving.py), replaced:
    receive_bytes  into a buffer that grows; until kafka-python reserves no more than it has received
KafkaProtocol and KafkaBytes, read:
    _header, _rbuffer, _process_response, _validate_frame_size, seek, tell, write  for the same
selectors.DefaultSelector, for NetworkSelector, replaced:
    get_key, register, unregister, modify  get_key is slow for a missing socket; until kafka-python registers first
AbstractTokenProvider (oauth.py), public:
    token, extensions  the interface for OAUTHBEARER; they stay
"""

from __future__ import annotations

import selectors
import socket
import ssl
from contextlib import suppress
from typing import Any

import kafka.errors as foreign
from kafka.net.connection import KafkaConnection
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from exporter.kafka.client.fault_text import TLS_SPOKEN_HERE, banner_in, login_in_words
from exporter.kafka.client.negotiation import negotiate
from exporter.kafka.client.receiving import ResponseParser, Share

RECEIVE_BYTES = 16 * 1024
"""Bytes to receive at a time while the length is unknown."""
_TLS_ALERT = b"\x15\x03"
"""First bytes of a TLS alert: as the length of a response they would be 350 MB."""


class Connection(KafkaConnection):  # type: ignore[misc]
    """kafka-python's connection, which ends after any error of a decoder.

    kafka-python expects only its own exceptions there: any other would end its reading, and the request would wait for its
    time-out. It also keeps the reason of a failed login: brokers close right after the refusal, and kafka-python would note
    the end of the connection before it reads the refusal.
    """

    login_failure: Exception | None = None
    has_responded = False
    """True after a response to a request that follows the handshake."""
    used_at: float = 0.0
    """Time of the last request, by the client's clock."""
    receive_share: Share
    """Share of the memory for responses; set before the connection is made."""
    parser: ResponseParser | None
    too_new: set[str]
    """One sentence per API of which the broker offers only higher versions than this exporter knows."""

    def data_received(self, data: bytes) -> None:
        if self.initializing and data.startswith(_TLS_ALERT):
            raise foreign.KafkaProtocolError(TLS_SPOKEN_HERE)
        if self.initializing and (banner := banner_in(data)):
            raise foreign.KafkaProtocolError(f"no Kafka broker listens there: the response begins with {banner!r}")
        try:
            super().data_received(memoryview(data))  # slices copy: this avoids a copy of every megabyte
        except foreign.KafkaProtocolError:
            raise
        except Exception as error:
            raise foreign.KafkaProtocolError(f"response cannot be decoded: {error!r}") from error

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.too_new = set()
        self.parser = ResponseParser(
            self.receive_share,
            client_id=self.config["client_id"],
            receive_message_max_bytes=self.config["receive_message_max_bytes"],
        )

    def connection_lost(self, exc: Exception | None) -> None:
        if self.parser is not None:
            self.parser.drop()
        super().connection_lost(exc)

    def room(self) -> memoryview | None:
        """Room for the missing bytes of the current response except its last byte; None if none is missing.

        The last byte goes through `data_received`, from which the parser learns that the response is complete. Raises
        ReceiveLimitError.
        """
        buffer = None if self.parser is None else self.parser.buffer
        if buffer is None or buffer.missing <= 1:
            return None
        buffer.grow()
        return memoryview(buffer)[buffer.tell() : min(len(buffer), buffer.announced - 1)]

    def filled(self, count: int) -> None:
        """`count` bytes were received into `room`."""
        buffer = None if self.parser is None else self.parser.buffer
        if buffer is not None:
            buffer.seek(buffer.tell() + count)

    async def _sasl_authenticate(self, timeout_at: float | None = None) -> None:
        for request in (SaslHandshakeRequest(max_version=1), SaslAuthenticateRequest()):
            negotiate(self, request)
        try:
            await super()._sasl_authenticate(timeout_at)
        except (foreign.SaslAuthenticationFailedError, foreign.UnsupportedSaslMechanismError) as error:
            self.login_failure = error
            raise
        except foreign.KafkaError:
            raise
        except Exception as error:
            # Kerberos and AWS have libraries and exceptions of their own: no ticket, no credentials.
            self.login_failure = foreign.SaslAuthenticationFailedError(login_in_words(error))
            raise self.login_failure from error


class _WholeReads:
    """A transport that sends requests at once, and passes on what arrived before the end of a connection.

    kafka-python drops those bytes, so the last response of a broker that closes, and its reason for refusing a login, are
    lost. Here the end of the connection is reported after them.
    """

    _sock: socket.socket
    _closed: bool
    _protocol: Connection

    def write(self, data: bytes) -> None:
        """Sends what the socket accepts now; the loop sends the rest, and reports errors."""
        sent = 0
        if not (self._writing or self._closed) and self._write:  # type: ignore[attr-defined]
            with suppress(OSError):  # also if the socket accepts nothing now
                sent = self._sock.send(data)
        if sent < len(data):
            super().write(memoryview(data)[sent:])  # type: ignore[misc]

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        """Receives everything that is available, and passes it on piece by piece, so that the parser has room for the rest.

        The caller gets nothing to pass on, except the end.
        """
        end: Exception | None = None
        try:
            while not self._closed and self._recv_some():  # passing bytes on may close the transport
                pass
            end = foreign.KafkaConnectionError("socket disconnected")
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except foreign.KafkaProtocolError as error:
            end = error
        except OSError as error:
            end = foreign.KafkaConnectionError(error)
        return b"", end

    def _recv_some(self) -> int:
        """Count of the bytes that were received and passed on; 0 at the end of the connection."""
        room = self._protocol.room()
        if room is not None:
            count = self._sock.recv_into(room)
            self._protocol.filled(count)
            return count
        data = self._sock.recv(RECEIVE_BYTES)
        if data:
            self._protocol.data_received(data)
        return len(data)


class PlainTransport(_WholeReads, KafkaTCPTransport):  # type: ignore[misc]
    """TCP without TLS."""


class TlsTransport(_WholeReads, KafkaSSLTransport):  # type: ignore[misc]
    """TLS over TCP."""


class Selector(selectors.DefaultSelector):
    """The selector of kafka-python's loop, which looks up a socket's key before it registers the socket.

    The standard lookup of a missing key describes the socket twice, with two system calls each time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys[fileobj]

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._keys[fileobj] = super().register(fileobj, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        self._keys.pop(fileobj, None)
        return super().unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._keys[fileobj] = super().modify(fileobj, events, data)
        return key
