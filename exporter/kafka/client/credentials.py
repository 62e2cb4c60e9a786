"""What a client needs beside names: a TLS context and a source of tokens, made from files that may change.

Both clients are configured from the same settings: `kafka_python_options` for connections, `librdkafka_properties` for the
consumer of the transaction log.
"""

from __future__ import annotations

import importlib.util
import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exporter.config.kafka_section import KafkaSettings, TlsSettings
from exporter.files import check_regular, contents
from exporter.kafka.client.oauth import ClientCredentials
from exporter.kafka.errors import ClusterUnavailableError

_PACKAGES = {"GSSAPI": "gssapi", "AWS_MSK_IAM": "botocore"}
"""Mechanism -> the package that kafka-python needs for it."""


class CredentialsError(ClusterUnavailableError):
    """Something that the settings name cannot be used: nobody can be asked. The sentence is for the operator."""


def client_options(kafka: KafkaSettings) -> dict[str, Any]:
    """kafka-python's options, TLS context and token provider among them. Raises CredentialsError."""
    options = dict(kafka.options)
    package = _PACKAGES.get(options.get("sasl_mechanism", ""))
    if package is not None and importlib.util.find_spec(package) is None:
        raise CredentialsError(
            f"kafka.sasl.mechanism {options['sasl_mechanism']} needs the Python package {package}, which is not installed"
        )
    if kafka.tls is not None:
        options["ssl_context"] = tls_context(kafka.tls)
    if kafka.oauth is not None:
        options["sasl_oauth_token_provider"] = ClientCredentials(kafka.oauth)
    return options


def tls_context(tls: TlsSettings) -> ssl.SSLContext:
    """TLS 1.2 or later, brokers always verified. Raises CredentialsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = tls.check_hostname
    _load_authorities(context, tls)
    _load_certificate(context, tls)
    return context


def _load_authorities(context: ssl.SSLContext, tls: TlsSettings) -> None:
    if tls.truststore_location is not None:
        _, _, authorities = _pkcs12("kafka.ssl.truststore", tls.truststore_location, tls.truststore_password)
        context.load_verify_locations(cadata=authorities)
    elif tls.ca_location is not None:
        with _Named("kafka.ssl.ca.location", tls.ca_location, "holds no PEM certificate"):
            context.load_verify_locations(tls.ca_location)
    else:
        context.load_default_certs()
    if tls.crl_location is not None:
        with _Named("kafka.ssl.crl.location", tls.crl_location, "holds no PEM list of revoked certificates"):
            context.load_verify_locations(tls.crl_location)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _load_certificate(context: ssl.SSLContext, tls: TlsSettings) -> None:
    if tls.keystore_location is not None:
        key, certificate, _ = _pkcs12("kafka.ssl.keystore", tls.keystore_location, tls.keystore_password)
        if not key or not certificate:
            raise CredentialsError(
                f"kafka.ssl.keystore.location: {tls.keystore_location} holds no certificate with its key"
            )
        # OpenSSL takes keys from files only; this one is ours alone, and gone in a moment.
        with tempfile.NamedTemporaryFile(mode="w") as file:
            file.write(key + certificate)
            file.flush()
            context.load_cert_chain(file.name)
    elif tls.certificate_location is not None:
        what = f"is no PEM certificate of the key in {tls.key_location}, or the key's password is wrong"
        with _Named("kafka.ssl.certificate.location", tls.certificate_location, what):
            if tls.key_location is not None:
                check_regular(tls.key_location)
            # An empty password rather than None: OpenSSL would ask for one on the terminal.
            context.load_cert_chain(tls.certificate_location, tls.key_location, tls.key_password or "")


def _pkcs12(name: str, location: str, password: str | None) -> tuple[str, str, str]:
    """(key, certificate and those above it, all certificates) as PEM; what is not there is empty."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - 50 ms that few need
    from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415

    pem = serialization.Encoding.PEM
    with _Named(f"{name}.location", location, f"is no PKCS12 file, or {name}.password is wrong"):
        store = pkcs12.load_pkcs12(contents(Path(location)), None if password is None else password.encode())
    others = [it.certificate.public_bytes(pem).decode() for it in store.additional_certs]
    own = [] if store.cert is None else [store.cert.certificate.public_bytes(pem).decode()]
    key = ""
    if store.key is not None:
        plain = serialization.NoEncryption()
        key = store.key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain).decode()
    return key, "".join([*own, *others]) if own else "", "".join([*own, *others])


class _Named:
    """Turns what goes wrong with one file into a sentence with its setting."""

    def __init__(self, setting: str, location: str, what: str) -> None:
        self._setting, self._location, self._what = setting, location, what

    def __enter__(self) -> None:
        try:
            check_regular(self._location)
        except OSError as error:
            raise self._unread(error) from error

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ssl.SSLError | ValueError):
            raise CredentialsError(f"{self._setting}: {self._location} {self._what}") from error
        if isinstance(error, OSError):
            raise self._unread(error) from error

    def _unread(self, error: OSError) -> CredentialsError:
        why = error.strerror or os.strerror(error.errno or 0)
        return CredentialsError(f"{self._setting}: {self._location} cannot be read: {why}")


def librdkafka_properties(kafka: KafkaSettings) -> Mapping[str, Any]:
    """The same settings for confluent-kafka. Raises CredentialsError."""
    properties: dict[str, Any] = {
        "bootstrap.servers": kafka.bootstrap,
        "client.id": kafka.client_id,
        "socket.timeout.ms": kafka.request_timeout_ms,
        "security.protocol": kafka.options["security_protocol"],
    }
    for ours, theirs in (
        ("sasl_mechanism", "sasl.mechanism"),
        ("sasl_plain_username", "sasl.username"),
        ("sasl_plain_password", "sasl.password"),
        ("sasl_kerberos_service_name", "sasl.kerberos.service.name"),
    ):
        if ours in kafka.options:
            properties[theirs] = kafka.options[ours]
    if kafka.options.get("sasl_mechanism") == "AWS_MSK_IAM":
        raise CredentialsError("librdkafka cannot log in with AWS_MSK_IAM")
    if kafka.tls is not None:
        properties |= _tls_properties(kafka.tls)
    if kafka.oauth is not None:
        properties |= {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": kafka.oauth.token_endpoint_url,
            "sasl.oauthbearer.client.id": kafka.oauth.client_id,
            "sasl.oauthbearer.client.secret": kafka.oauth.client_secret,
            **({} if kafka.oauth.scope is None else {"sasl.oauthbearer.scope": kafka.oauth.scope}),
            **({} if not kafka.oauth.extensions else {"sasl.oauthbearer.extensions": _pairs(kafka.oauth.extensions)}),
            **({} if kafka.oauth.https_ca_location is None else {"https.ca.location": kafka.oauth.https_ca_location}),
        }
    return properties


def _tls_properties(tls: TlsSettings) -> dict[str, Any]:
    given = {
        "ssl.ca.location": tls.ca_location,
        "ssl.crl.location": tls.crl_location,
        "ssl.certificate.location": tls.certificate_location,
        "ssl.key.location": tls.key_location,
        "ssl.key.password": tls.key_password,
        "ssl.keystore.location": tls.keystore_location,
        "ssl.keystore.password": tls.keystore_password,
        "ssl.endpoint.identification.algorithm": "https" if tls.check_hostname else "none",
    }
    if tls.truststore_location is not None:
        given["ssl.ca.pem"] = _pkcs12("kafka.ssl.truststore", tls.truststore_location, tls.truststore_password)[2]
    return {name: value for name, value in given.items() if value is not None}


def _pairs(extensions: tuple[tuple[str, str], ...]) -> str:
    return ",".join(f"{key}={value}" for key, value in extensions)
