"""Makes the web server's TLS context, and replaces it when its files change."""

from __future__ import annotations

import logging
import ssl
import sys
from asyncio.sslproto import SSLProtocol
from collections.abc import Mapping
from typing import Any

from exporter.files import FileChanges, check_regular
from exporter.web.config import ServerTls

log = logging.getLogger("exporter")

# A connection that ends within its handshake leaves a cycle of references: its buffer, 256 KiB, stays until the garbage
# collector runs on old objects. Many silent connections made that 300 MB within seconds. Python 3.10 has no such buffer.
if sys.version_info >= (3, 11):
    SSLProtocol.max_size = 16 * 1024

_AUTH = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_SAN_KINDS = {"DNS", "IP Address", "email", "URI"}


class ServerTlsError(Exception):
    """The certificate, key or authority cannot be used; the message is one sentence for the operator."""


class RenewingContext(ssl.SSLContext):
    """The context of the server; each new connection uses one from the present files.

    Each state of the files has its own context, instead of a callback that changes the first context's certificate: the
    first context decides about resumed sessions, so a certificate stayed valid after its authority was removed.
    """

    def __new__(cls, options: ServerTls) -> RenewingContext:
        del options
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, options: ServerTls) -> None:
        """Raises ServerTlsError."""
        self._files = options
        files = (options.certificate, options.key, options.client_ca)
        self._changes = FileChanges(*(path for path in files if path is not None))
        self._changes.must_be_read()
        self._newest = self._build()
        self._problem = ""

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        """Asyncio calls this for each connection."""
        return self.current().wrap_bio(*arguments, **named)

    def current(self) -> ssl.SSLContext:
        """A context from the present files; from the last valid ones while they cannot be used."""
        if self._changes.must_be_read():
            try:
                self._newest = self._build()
            except ServerTlsError as error:
                if not isinstance(error.__cause__, ssl.SSLError):
                    self._changes.read_again()
                if str(error) != self._problem:
                    log.error("web server certificate not reloaded, the previous one stays in use: %s", error)  # noqa: TRY400
                self._problem = str(error)
            else:
                self._problem = ""
                log.info("web server certificate reloaded")
        return self._newest

    def _build(self) -> ssl.SSLContext:
        files = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion[files.version_min]
        if files.version_max is not None:
            context.maximum_version = ssl.TLSVersion[files.version_max]
        if files.ciphers:
            context.set_ciphers(":".join(files.ciphers))
        try:
            for path in (files.certificate, files.key):
                check_regular(path)
            # An empty password and not None: with None OpenSSL would ask for one on the terminal.
            context.load_cert_chain(files.certificate, files.key, "")
        except (OSError, ssl.SSLError) as error:
            raise ServerTlsError(
                f"{files.certificate} and {files.key} are no certificate and its key: {_why(error)}"
            ) from error
        context.verify_mode = _AUTH[files.client_auth]
        if files.client_ca is not None:
            try:
                check_regular(files.client_ca)
                context.load_verify_locations(files.client_ca)
            except (OSError, ssl.SSLError) as error:
                raise ServerTlsError(f"{files.client_ca} holds no certificates: {_why(error)}") from error
            # A resumed session is not verified again. Only TLS 1.2's cache remains, for five minutes at most.
            context.num_tickets = 0
            context.options |= ssl.OP_NO_TICKET
        return context


def is_allowed(certificate: Mapping[str, Any] | None, sans: frozenset[str], *, now_s: float) -> bool:
    """True if no names are required, or the peer's certificate has one of them; False if it is expired.

    A resumed session has the certificate of its first connection, which OpenSSL does not verify again.
    """
    if certificate and ssl.cert_time_to_seconds(certificate["notAfter"]) < now_s:
        return False
    if not sans:
        return True
    names = (certificate or {}).get("subjectAltName", ())
    return any(kind in _SAN_KINDS and value in sans for kind, value in names)


def _why(error: OSError) -> str:
    return (error.strerror or str(error)) if not isinstance(error, ssl.SSLError) else (error.reason or str(error))
