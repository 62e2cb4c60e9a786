"""Translates the `kafka` section into properties of Java's client, for Spark's own Kafka source."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.config.kafka_section import KafkaSettings, SaslSettings, TlsSettings
from exporter.config.sasl import MECHANISMS
from exporter.config.table import given_in


class JavaClientError(ValueError):
    """A setting that the exporter's own clients support, and Spark's Kafka source does not."""


def java_client_options(kafka: KafkaSettings) -> dict[str, str]:
    """Options for `spark.read.format("kafka")`, passwords among them. Raises JavaClientError."""
    options = {
        "bootstrap.servers": kafka.bootstrap,
        "client.id": kafka.client_id,
        "request.timeout.ms": str(kafka.request_timeout_ms),
        "default.api.timeout.ms": str(kafka.request_timeout_ms),
        "security.protocol": kafka.security_protocol,
        **({} if kafka.sasl is None else _sasl(kafka.sasl)),
        **({} if kafka.tls is None else _tls(kafka.tls)),
    }
    return {f"kafka.{name}": value for name, value in options.items()}


def _sasl(sasl: SaslSettings) -> Mapping[str, str]:
    mechanism = MECHANISMS[sasl.mechanism]
    if not mechanism.is_for_spark:
        known = ", ".join(mechanism.name for mechanism in MECHANISMS.values() if mechanism.is_for_spark)
        raise JavaClientError(
            f"kafka.sasl.mechanism {mechanism.name} is not supported with Spark's Kafka source: use {known}"
        )
    given = given_in(sasl)
    options = (f"{name}={_quoted(given[ours])}" for name, ours in mechanism.login_options.items() if ours in given)
    return {
        "sasl.mechanism": mechanism.name,
        "sasl.jaas.config": f"{mechanism.login_module} required {' '.join(options)};",
    }


def _tls(tls: TlsSettings) -> Mapping[str, str]:
    if tls.certificate_location is not None:
        raise JavaClientError(
            "kafka.ssl.certificate.location is not supported with Spark's Kafka source: put key and certificate into a "
            "PKCS12 file and set kafka.ssl.keystore.location"
        )
    if tls.crl_location is not None:
        raise JavaClientError("kafka.ssl.crl.location is not supported with Spark's Kafka source")
    given = {
        "ssl.truststore.type": "PEM" if tls.ca_location is not None else "PKCS12" if tls.truststore_location else None,
        "ssl.truststore.location": tls.ca_location or tls.truststore_location,
        "ssl.truststore.password": tls.truststore_password,
        "ssl.keystore.type": "PKCS12" if tls.keystore_location is not None else None,
        "ssl.keystore.location": tls.keystore_location,
        "ssl.keystore.password": tls.keystore_password,
        "ssl.endpoint.identification.algorithm": "https" if tls.check_hostname else "",
    }
    return {name: value for name, value in given.items() if value is not None}


def _quoted(value: str) -> str:
    """A string in the syntax of JAAS."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
