"""The web server's side of TLS: one context, whose certificate is read anew when its files change.

Law of this file: `ssl` and the files that it names, nothing of HTTP.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exporter.config.web_config import ServerTls
from exporter.stamps import Stamp, stamp

log = logging.getLogger("exporter")

_AUTH = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_SAN_KINDS = {"DNS", "IP Address", "email", "URI"}


class ServerTlsError(Exception):
    """The certificate, key or authority cannot be used; the text is one sentence for the operator."""


class RenewingContext:
    """`context` is what the server is given; every handshake looks whether the files have changed."""

    def __init__(self, options: ServerTls) -> None:
        """Raises ServerTlsError."""
        self._options = options
        self._stamps = self._stamp_all()
        self._newest = self._build()
        self.context = self._newest
        self.context.sni_callback = self._on_handshake

    def _on_handshake(self, connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        """Also called where the peer names no host. A peer of now is shown the certificate of now."""
        del name
        stamps = self._stamp_all()
        if stamps != self._stamps:
            self._stamps = stamps
            try:
                self._newest = self._build()
            except ServerTlsError as error:
                log.error("the web server's certificate is not renewed, the old one stays: %s", error)  # noqa: TRY400
            else:
                log.info("the web server's certificate is renewed")
        connection.context = self._newest

    def _stamp_all(self) -> Mapping[Path, Stamp | None]:
        it = self._options
        return {path: stamp(path) for path in (it.certificate, it.key, it.client_ca) if path is not None}

    def _build(self) -> ssl.SSLContext:
        it = self._options
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion[it.version_min]
        if it.version_max is not None:
            context.maximum_version = ssl.TLSVersion[it.version_max]
        if it.ciphers:
            context.set_ciphers(":".join(it.ciphers))
        try:
            context.load_cert_chain(it.certificate, it.key)
        except (OSError, ssl.SSLError) as error:
            raise ServerTlsError(
                f"{it.certificate} and {it.key} are no certificate and its key: {_why(error)}"
            ) from error
        context.verify_mode = _AUTH[it.client_auth]
        if it.client_ca is not None:
            try:
                context.load_verify_locations(it.client_ca)
            except (OSError, ssl.SSLError) as error:
                raise ServerTlsError(f"{it.client_ca} holds no certificates: {_why(error)}") from error
        return context


def is_allowed(certificate: Mapping[str, Any] | None, sans: frozenset[str]) -> bool:
    """True when no names are demanded, or the peer's certificate carries one of them."""
    if not sans:
        return True
    names = (certificate or {}).get("subjectAltName", ())
    return any(kind in _SAN_KINDS and value in sans for kind, value in names)


def _why(error: OSError) -> str:
    return (error.strerror or str(error)) if not isinstance(error, ssl.SSLError) else (error.reason or str(error))
