"""Certificates that cannot be used, and the name under which brokers know a client's certificate."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from exporter.config.kafka_section import KafkaSettings, TlsSettings
from exporter.config.loading import load
from exporter.kafka.client.credentials import CredentialsError, tls_context
from exporter.kafka.client.principal import principal_of

NOW = dt.datetime(2027, 1, 15, tzinfo=dt.timezone.utc)
PASSWORD = "changeit"


def store(path: Path, *parts: tuple[x509.ObjectIdentifier, str], bits: int = 2048) -> Path:
    """A PKCS12 file with a certificate of this name and its key."""
    key = rsa.generate_private_key(65537, bits)
    name = x509.Name([x509.NameAttribute(kind, value) for kind, value in parts])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    encryption = serialization.BestAvailableEncryption(PASSWORD.encode())
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"me", key, certificate, None, encryption))
    return path


def kafka(*lines: str) -> KafkaSettings:
    text = "".join(f"  {line}\n" for line in ("bootstrap.servers: a:1", "security.protocol: SSL", *lines))
    return load(file=("c.yaml", f"kafka:\n{text}"), environment={}, flags={}).settings.kafka


def with_keystore(path: Path) -> KafkaSettings:
    return kafka(f"ssl.keystore.location: {path}", f"ssl.keystore.password: {PASSWORD}")


def tls(settings: KafkaSettings) -> TlsSettings:
    assert settings.tls is not None
    return settings.tls


@pytest.mark.parametrize(
    ("parts", "principal"),
    [
        ([(NameOID.COMMON_NAME, "exporter"), (NameOID.ORGANIZATION_NAME, "a, b")], "User:O=a\\, b,CN=exporter"),
        ([(NameOID.COMMON_NAME, "exporter"), (NameOID.EMAIL_ADDRESS, "a@b.c")], None),
        ([(NameOID.COMMON_NAME, "exporter"), (NameOID.SERIAL_NUMBER, "7")], None),
    ],
)
def test_the_principal_is_the_name_as_java_prints_it(
    tmp_path: Path, parts: Sequence[tuple[x509.ObjectIdentifier, str]], principal: str | None
) -> None:
    """Java prints the values of other parts in hexadecimal: a wrong name would hide the ACL that denies the exporter."""
    assert principal_of(with_keystore(store(tmp_path / "me.p12", *parts))) == principal


def test_a_certificate_that_cannot_be_read_has_no_principal(tmp_path: Path) -> None:
    """The cycle goes on, which has a connection already."""
    settings = with_keystore(store(tmp_path / "me.p12", (NameOID.COMMON_NAME, "exporter")))
    (tmp_path / "me.p12").write_bytes(b"nonsense")
    assert principal_of(settings) is None
    (tmp_path / "me.p12").unlink()
    assert principal_of(settings) is None
    assert principal_of(replace(settings, tls=None)) == "User:ANONYMOUS"


def test_a_key_that_openssl_refuses_is_named(tmp_path: Path) -> None:
    """At a reload, the old settings stay then."""
    path = store(tmp_path / "short.p12", (NameOID.COMMON_NAME, "exporter"), bits=1024)
    with pytest.raises(CredentialsError, match=r"short\.p12 contains a certificate or key that OpenSSL refuses"):
        tls_context(tls(with_keystore(path)))


def test_a_trust_store_without_certificates_is_named(tmp_path: Path) -> None:
    encryption = serialization.BestAvailableEncryption(PASSWORD.encode())
    key = rsa.generate_private_key(65537, 2048)
    path = tmp_path / "empty.p12"
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"me", key, None, None, encryption))
    settings = kafka(f"ssl.truststore.location: {path}", f"ssl.truststore.password: {PASSWORD}")
    with pytest.raises(CredentialsError, match=r"empty\.p12 contains no certificate"):
        tls_context(tls(settings))
