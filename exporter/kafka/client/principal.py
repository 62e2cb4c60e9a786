"""Finds the name under which brokers' ACLs know this client, as far as the settings show it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from exporter.config.kafka_section import KafkaSettings, TlsSettings
from exporter.files import contents


def principal_of(kafka: KafkaSettings) -> str | None:
    """`User:NAME` by Kafka's default rules (`ssl.principal.mapping.rules`); None if only the broker knows it.

    That is so with Kerberos, tokens and IAM, and for a certificate that cannot be read here, or whose name has parts that
    Java prints otherwise.
    """
    if kafka.sasl is not None:
        return None if kafka.sasl.username is None else f"User:{kafka.sasl.username}"
    try:
        subject = None if kafka.tls is None else _subject(kafka.tls)
    except (OSError, ValueError):
        return None
    return "User:ANONYMOUS" if subject is None else f"User:{subject}"


def _subject(tls: TlsSettings) -> str | None:
    """The distinguished name of the client's certificate (RFC 4514, as Java prints it); None without one.

    Raises ValueError for a name with parts other than CN, OU, O, L, ST, C, STREET, DC and UID: Java prints their values in
    hexadecimal.
    """
    from cryptography import x509  # noqa: PLC0415 - 50 ms that few need
    from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415

    if tls.certificate_location is not None:
        certificates = x509.load_pem_x509_certificates(contents(Path(tls.certificate_location)))
        return _printed(certificates[0].subject)
    if tls.keystore_location is not None:
        password = None if tls.keystore_password is None else tls.keystore_password.encode()
        store = pkcs12.load_pkcs12(contents(Path(tls.keystore_location)), password)
        return None if store.cert is None else _printed(store.cert.certificate.subject)
    return None


def _printed(subject: Any) -> str:
    if not all(part.rfc4514_attribute_name.isalpha() for part in subject):
        raise ValueError("only Java knows how it prints this name")
    return str(subject.rfc4514_string())
