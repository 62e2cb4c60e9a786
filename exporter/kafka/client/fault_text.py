"""Turns exceptions of client libraries into `BrokerFault`s whose sentence says what to do."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import kafka.errors as foreign

from exporter.kafka.client.receiving import ReceiveLimitError
from exporter.kafka.errors import BrokerFault, FaultReason

_VERIFICATION = {
    9: "its certificate is not valid yet: compare the clocks",
    10: "its certificate has expired",
    18: "its certificate is self-signed: to trust it, set ssl.ca.location to it (with a truststore: add it there)",
    23: "its certificate is revoked",
}
_UNKNOWN_AUTHORITY = frozenset({2, 19, 20, 21})
_OTHER_HOST = frozenset({62, 63, 64})
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"})
_MAJOR = re.compile(r"^Major .*, Minor \(\d+\): ", re.DOTALL)
"""GSS-API's general text, before Kerberos' own."""
_WRAPPING = re.compile(r"^(?:\[Error \d+\] )?(?:\w+Error: )*")
_SYSTEM_ERROR = re.compile(r"(\d{1,3}) E[A-Z0-9]+|\[Errno (\d{1,3})\] .*")
"""A system's error as kafka-python writes it: `111 ECONNREFUSED`, or Python: `[Errno 111] Connection refused`."""
_WRONG_LOGIN = re.compile("invalid credentials|username or password", re.IGNORECASE)
_OF_LOGIN = "sasl.username, sasl.password and sasl.mechanism"
_LATE = (foreign.KafkaTimeoutError, foreign.RequestTimedOutError, TimeoutError)
NOT_ALLOWED = "kafka.allowed.hosts does not match its host name"
MAY_NEED_LOGIN = (
    "a listener that requires a login ends the connection like this at the first request: in that case set "
    "security.protocol to SASL_PLAINTEXT or SASL_SSL"
)
TLS_SPOKEN_HERE = "this listener uses TLS: set security.protocol to SSL or SASL_SSL"


_BANNER_MIN, _BANNER_MAX = 4, 20


def banner_in(data: bytes) -> str:
    """The beginning of a text that a server of another protocol sent (HTTP, SSH, SMTP); empty if it may be Kafka's.

    Kafka's responses begin with their length: four letters would announce more than half a gigabyte.
    """
    begin = data[:_BANNER_MIN]
    is_text = len(begin) == _BANNER_MIN and begin.isascii() and begin.decode().isprintable()
    return data[:_BANNER_MAX].split(b"\r")[0].decode("ascii", "replace") if is_text else ""


def tls_error_in(error: BaseException) -> ssl.SSLError | None:
    """The TLS error itself, or the one that a client library wrapped."""
    if isinstance(error, ssl.SSLError):
        return error
    inner = error.args[0] if isinstance(error, foreign.KafkaConnectionError) and error.args else None
    return inner if isinstance(inner, ssl.SSLError) else None


def describe_error(error: BaseException) -> str:
    """Returns a phrase for an error, without a full stop."""
    tls_error = tls_error_in(error)
    if tls_error is not None:
        return _tls_in_words(tls_error)
    if isinstance(error, foreign.IllegalSaslStateError):
        return "this listener does not use SASL: set security.protocol to PLAINTEXT or SSL"
    if isinstance(error, foreign.UnsupportedSaslMechanismError):
        return "this listener has no such login: set sasl.mechanism to one of the broker's sasl.enabled.mechanisms"
    if isinstance(error, foreign.SaslAuthenticationFailedError):
        # Number and name come before the broker's own sentence, once for each time that kafka-python wrapped it.
        said = _WRAPPING.sub("", str(error)) or "the broker gave no reason"
        return f"{said}: check {_OF_LOGIN}" if _WRONG_LOGIN.search(said) else said
    if is_tls_spoken(error):
        return TLS_SPOKEN_HERE
    return _plain(error)


def _plain(error: BaseException) -> str:
    """Describes the error without names of classes and numbers, which say nothing to an operator."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = _WRAPPING.sub("", str(error))
    code = _SYSTEM_ERROR.fullmatch(text)
    if code is not None:
        return os.strerror(int(code[1] or code[2]))
    if text and not text.endswith("Error"):
        return text
    return "no response came in time" if isinstance(error, _LATE) else text or type(error).__name__


def login_in_words(error: BaseException) -> str:
    """Returns why a login did not begin, if a library of the mechanism says so."""
    said = str(error) or type(error).__name__
    if type(error).__module__.partition(".")[0] == "gssapi":
        return f"Kerberos: {_MAJOR.sub('', said)}"
    return said


def is_tls_spoken(error: BaseException) -> bool:
    """True if a broker responded to unencrypted bytes with a TLS alert."""
    return isinstance(error, foreign.KafkaProtocolError) and TLS_SPOKEN_HERE in str(error)


def _tls_in_words(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        code = error.verify_code
        if code in _UNKNOWN_AUTHORITY:
            return (
                "its certificate is signed by an unknown authority: set ssl.ca.location (with a truststore: add that "
                "authority to it)"
            )
        if code in _OTHER_HOST:
            cure = "bootstrap.servers, or its advertised.listeners, must have a name of the certificate"
            return f"its certificate is for another host: {error.verify_message.rstrip('.')}: {cure}"
        return _VERIFICATION.get(code, f"its certificate cannot be verified: {error.verify_message}")
    # The same end of a connection: Python 3.11.2 raises the second, 3.11.7 the first.
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return (
            "it ends the connection during the TLS handshake, as a listener without TLS does: in that case set "
            "security.protocol to PLAINTEXT or SASL_PLAINTEXT"
        )
    reason = error.reason or ""
    if reason in _NO_TLS:
        return "this listener does not use TLS: set security.protocol to PLAINTEXT or SASL_PLAINTEXT"
    if "ALERT" in reason and ("CERTIFICATE" in reason or reason.endswith(("UNKNOWN_CA", "HANDSHAKE_FAILURE"))):
        return (
            f"it rejects this client's certificate ({reason}): set ssl.certificate.location and "
            "ssl.key.location to one that it trusts"
        )
    return f"TLS failed: {reason or error}"


@contextmanager
def border(address: object, doing: str) -> Iterator[None]:
    """Turns every client exception into a BrokerFault that names the broker and the action."""
    try:
        yield
    except BrokerFault:
        raise
    except Exception as error:
        reason = reason_of(error, connecting=doing != "asked")
        raise BrokerFault(
            reason, f"broker at {address} cannot be {doing} ({reason.value}): {describe_error(error)}"
        ) from error


def refused_login(address: object, why: str) -> BrokerFault:
    """The fault of a broker that refused an earlier login, where no new one is sent yet."""
    reason = FaultReason.AUTHENTICATION_FAILED
    return BrokerFault(reason, f"broker at {address} cannot be connected to ({reason.value}): {why}")


def reason_of(error: Exception, *, connecting: bool) -> FaultReason:
    if isinstance(error, ReceiveLimitError):
        return FaultReason.RECEIVE_LIMIT
    if isinstance(error, _LATE):
        return FaultReason.TIMED_OUT
    if tls_error_in(error) is not None or is_tls_spoken(error):
        return FaultReason.TLS_FAILED if connecting else FaultReason.CONNECTION_LOST
    if isinstance(
        error,
        foreign.SaslAuthenticationFailedError | foreign.UnsupportedSaslMechanismError | foreign.IllegalSaslStateError,
    ):
        return FaultReason.AUTHENTICATION_FAILED
    if isinstance(error, foreign.IncompatibleBrokerVersion | foreign.UnsupportedVersionError):
        return FaultReason.UNSUPPORTED_API
    if isinstance(error, foreign.KafkaConnectionError | foreign.NodeNotReadyError | foreign.Cancelled | OSError):
        return FaultReason.UNREACHABLE if connecting else FaultReason.CONNECTION_LOST
    return FaultReason.MALFORMED_ANSWER
