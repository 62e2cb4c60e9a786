"""Finds the name under which brokers' ACLs know this client, as far as the settings show it."""

from __future__ import annotations

from pathlib import Path

from exporter.config.kafka_section import KafkaSettings, TlsSettings
from exporter.files import contents


def principal_of(kafka: KafkaSettings) -> str | None:
    """`User:NAME` by Kafka's default rules; None if only the broker knows it (Kerberos, tokens, IAM, mapping rules).

    The files have been read once: they are usable.
    """
    if kafka.sasl is not None:
        return None if kafka.sasl.username is None else f"User:{kafka.sasl.username}"
    subject = None if kafka.tls is None else _subject(kafka.tls)
    return "User:ANONYMOUS" if subject is None else f"User:{subject}"


def _subject(tls: TlsSettings) -> str | None:
    """The distinguished name of the client's certificate (RFC 4514, as Java prints it); None without one."""
    from cryptography import x509  # noqa: PLC0415 - 50 ms that few need
    from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415

    if tls.certificate_location is not None:
        certificates = x509.load_pem_x509_certificates(contents(Path(tls.certificate_location)))
        return certificates[0].subject.rfc4514_string()
    if tls.keystore_location is not None:
        password = None if tls.keystore_password is None else tls.keystore_password.encode()
        store = pkcs12.load_pkcs12(contents(Path(tls.keystore_location)), password)
        return None if store.cert is None else store.cert.certificate.subject.rfc4514_string()
    return None
