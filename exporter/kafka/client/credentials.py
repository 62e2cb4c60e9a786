"""Makes a client's TLS context and token source from the settings and their files."""

from __future__ import annotations

import importlib.util
import os
import shlex
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from exporter.config.kafka_section import PEM_OF_STORE, KafkaSettings, SaslSettings, TlsSettings
from exporter.config.sasl import MECHANISMS
from exporter.files import check_regular, contents
from exporter.http.tls import client_context
from exporter.kafka.client.connections import Address
from exporter.kafka.client.oauth import ClientCredentials
from exporter.kafka.client.scram import register
from exporter.kafka.errors import ClusterUnavailableError


class CredentialsError(ClusterUnavailableError):
    """A file or value in the settings is unusable, so no request can be sent. The sentence is for the operator."""

    def __init__(self, setting: str, sentence: str) -> None:
        """`setting` is the one that names the file or value."""
        super().__init__(sentence)
        self.setting = setting


def client_options(kafka: KafkaSettings) -> dict[str, Any]:
    """kafka-python's options, including TLS context and token provider. Raises CredentialsError."""
    options: dict[str, Any] = {"security_protocol": kafka.security_protocol}
    if kafka.sasl is not None:
        options |= _sasl_options(kafka.sasl)
    if kafka.tls is not None:
        options["ssl_context"] = tls_context(kafka.tls)
    return options


def bootstrap_of(kafka: KafkaSettings) -> tuple[Address, ...]:
    """The addresses of `kafka.bootstrap.servers`."""
    return tuple(Address(host, port) for host, port in kafka.bootstrap_servers)


def _sasl_options(sasl: SaslSettings) -> dict[str, Any]:
    mechanism = MECHANISMS[sasl.mechanism]
    package = mechanism.python_package
    if package is not None and importlib.util.find_spec(package) is None:
        raise CredentialsError(
            "kafka.sasl.mechanism",
            f"kafka.sasl.mechanism {sasl.mechanism} needs the Python package {package}, which is not installed: in a clone "
            f"of the project pip install '.[{mechanism.extra}]'",
        )
    register()
    options = {
        "sasl_mechanism": sasl.mechanism,
        "sasl_plain_username": sasl.username,
        "sasl_plain_password": sasl.password,
        "sasl_kerberos_service_name": sasl.kerberos_service_name,
        "sasl_oauth_token_provider": None if sasl.oauth is None else ClientCredentials(sasl.oauth),
    }
    return {name: option for name, option in options.items() if option is not None}


def tls_context(tls: TlsSettings) -> ssl.SSLContext:
    """Makes the context of connections to brokers. Raises CredentialsError."""
    context = client_context()
    context.check_hostname = tls.check_hostname
    _load_authorities(context, tls)
    _load_certificate(context, tls)
    return context


def _load_authorities(context: ssl.SSLContext, tls: TlsSettings) -> None:
    if tls.truststore_location is not None:
        _, _, authorities = _pkcs12("kafka.ssl.truststore", tls.truststore_location, tls.truststore_password)
        with _named("kafka.ssl.truststore.location", tls.truststore_location, "contains no certificate"):
            context.load_verify_locations(cadata=authorities)
    elif tls.ca_location is not None:
        with _named("kafka.ssl.ca.location", tls.ca_location, "contains no PEM certificate"):
            context.load_verify_locations(tls.ca_location)
    else:
        context.load_default_certs()
    if tls.crl_location is not None:
        with _named("kafka.ssl.crl.location", tls.crl_location, "contains no PEM list of revoked certificates"):
            context.load_verify_locations(tls.crl_location)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _load_certificate(context: ssl.SSLContext, tls: TlsSettings) -> None:
    if tls.keystore_location is not None:
        key, certificate, _ = _pkcs12("kafka.ssl.keystore", tls.keystore_location, tls.keystore_password)
        if not key or not certificate:
            name = "kafka.ssl.keystore.location"
            raise CredentialsError(name, f"{name}: {tls.keystore_location} contains no certificate with its key")
        # OpenSSL reads keys from files only; only this user can read this one, and it is deleted at once.
        what = (
            "contains a certificate or key that OpenSSL refuses, such as a short one, or no file can be written for it"
        )
        with (
            _named("kafka.ssl.keystore.location", tls.keystore_location, what),
            tempfile.NamedTemporaryFile(mode="w") as file,
        ):
            file.write(key + certificate)
            file.flush()
            context.load_cert_chain(file.name)
    elif tls.certificate_location is not None:
        what = f"is not the PEM certificate of the key in {tls.key_location}, or the key's password is wrong"
        with _named("kafka.ssl.certificate.location", tls.certificate_location, what):
            if tls.key_location is not None:
                check_regular(tls.key_location)
            # An empty password and not None: with None OpenSSL would ask for one on the terminal.
            context.load_cert_chain(tls.certificate_location, tls.key_location, tls.key_password or "")


_JKS, _PEM = b"\xfe\xed\xfe\xed", b"-----BEGIN "


def _pkcs12(name: str, location: str, password: str | None) -> tuple[str, str, str]:
    """(key, certificate and its chain, all certificates) as PEM; what the file does not contain is empty."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - 50 ms that few need
    from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415

    pem = serialization.Encoding.PEM
    setting = f"{name}.location"
    with _named(setting, location, f"is not a PKCS12 file, or {name}.password is wrong"):
        data = contents(Path(location))
        if data.startswith(_JKS):
            old, new = shlex.quote(location), shlex.quote(str(Path(location).with_suffix(".p12")))
            raise CredentialsError(
                setting,
                f"{setting}: {location} is a JKS store, which only Java reads: keytool -importkeystore "
                f"-srckeystore {old} -destkeystore {new} -deststoretype PKCS12",
            )
        if data.lstrip().startswith(_PEM):
            of_pem = " and ".join(PEM_OF_STORE[name])
            of_java = f"in a Java client's file add {name.removeprefix('kafka.')}.type=PEM"
            raise CredentialsError(setting, f"{setting}: {location} is a PEM file: name it in {of_pem} ({of_java})")
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    others = [other.certificate.public_bytes(pem).decode() for other in store.additional_certs]
    own = [] if store.cert is None else [store.cert.certificate.public_bytes(pem).decode()]
    key = ""
    if store.key is not None:
        plain = serialization.NoEncryption()
        key = store.key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain).decode()
    return key, "".join([*own, *others]) if own else "", "".join([*own, *others])


@contextmanager
def _named(setting: str, location: str, what: str) -> Iterator[None]:
    """Turns an error of one file into a sentence with its setting."""
    try:
        check_regular(location)
        yield
    except (ssl.SSLError, ValueError) as error:
        raise CredentialsError(setting, f"{setting}: {location} {what}") from error
    except OSError as error:
        why = error.strerror or os.strerror(error.errno or 0)
        raise CredentialsError(setting, f"{setting}: {location} cannot be read: {why}") from error
