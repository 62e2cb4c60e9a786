"""kafka-python's connection and transports, where they would lose what a broker said last."""

from __future__ import annotations

import socket
import ssl

import kafka.errors as foreign
from kafka.net.connection import KafkaConnection
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from exporter.kafka.explain import TLS_SPOKEN_HERE, login_in_words

RECEIVE_BYTES = 256 * 1024
_TLS_ALERT = b"\x15\x03"
"""As the length of an answer it would be 350 MB."""


class Connection(KafkaConnection):  # type: ignore[misc]
    """kafka-python's connection, which ends when bytes come that cannot be decoded, whatever that raises.

    kafka-python expects only its own exceptions there: any other would end its reading, and the request would wait for
    its time-out. And why a login failed is kept: brokers close right behind the refusal, and the end of the connection
    would be noted before the refusal is looked at.
    """

    login_failure: Exception | None = None

    def data_received(self, data: bytes) -> None:
        if self.initializing and data.startswith(_TLS_ALERT):
            raise foreign.KafkaProtocolError(TLS_SPOKEN_HERE)
        try:
            super().data_received(memoryview(data))  # it is sliced: a copy of every megabyte less
        except foreign.KafkaProtocolError:
            raise
        except Exception as error:
            raise foreign.KafkaProtocolError(f"not a decodable answer: {error!r}") from error

    async def _sasl_authenticate(self, timeout_at: float | None = None) -> None:
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
    """For a transport: what came before the end of a connection is handed over, and the end is told after it.

    kafka-python drops it, so that the last answer of a broker that closes, and its reason for refusing a login, are lost.
    """

    _sock: socket.socket

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        received: list[bytes] = []
        end: Exception | None = None
        try:
            while data := self._sock.recv(RECEIVE_BYTES):
                received.append(data)
            end = foreign.KafkaConnectionError("socket disconnected")
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError as error:
            end = foreign.KafkaConnectionError(error)
        # Joining a single piece hands on that piece itself.
        return b"".join(received), None if received else end


class PlainTransport(_WholeReads, KafkaTCPTransport):  # type: ignore[misc]
    """TCP."""


class TlsTransport(_WholeReads, KafkaSSLTransport):  # type: ignore[misc]
    """TLS over TCP."""
