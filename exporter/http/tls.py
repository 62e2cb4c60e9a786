"""TLS of every connection that the exporter opens: to brokers, token endpoints and Prometheus."""

from __future__ import annotations

import ssl

from exporter.files import check_regular


def client_context(ca_location: str | None = None) -> ssl.SSLContext:
    """TLS 1.2 or later; the server's certificate and host name are verified. Without a file, by no authority yet.

    As strict as Java's clients, on every Python: the file's certificates are trusted as they are, so an intermediate
    authority is enough, and RFC 5280's demands on the fields of an authority, which Python makes from 3.13 on and many
    private authorities do not meet, are not made. Raises OSError and ValueError for the file.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if ca_location is not None:
        check_regular(ca_location)
        context.load_verify_locations(ca_location)
    return context


def system_context() -> ssl.SSLContext:
    """`client_context` with the system's authorities."""
    context = client_context()
    context.load_default_certs()
    return context
