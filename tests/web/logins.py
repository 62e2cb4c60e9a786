"""Makes users with passwords, and TLS for a web server of a test."""

from __future__ import annotations

import base64
import ssl

import bcrypt

from tests.certificates import Authority, Issued

TLS = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"
CHEAP = 4
"""bcrypt's cost in tests."""


def hashed(password: str, cost: int = CHEAP) -> bytes:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost))


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def client_tls(authority: Authority, client: Issued | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.path)
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    return context
