"""The `kafka` section: librdkafka's property names, translated to kafka-python's.

A property that would be silently ignored is not in the table, so it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from exporter.config import values
from exporter.config.table import Setting

KAFKA_SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="kafka.bootstrap.servers",
        kind=values.SERVERS,
        default=None,
        help="Brokers to ask first, as host:port[,host:port...]. Required.",
    ),
    Setting(
        name="kafka.client.id",
        kind=values.TEXT,
        default="kafka-transaction-exporter",
        help="The name under which brokers see this client, in their logs and quotas.",
    ),
    Setting(
        name="kafka.request.timeout.ms",
        kind=values.whole_number_kind(100, 600_000),
        default=10000,
        help="How long a broker may take to answer one request, connecting included, in milliseconds.",
    ),
    Setting(
        name="kafka.security.protocol",
        kind=values.one_of_kind("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        default="PLAINTEXT",
        help="How brokers are spoken to.",
    ),
    Setting(
        name="kafka.sasl.mechanism",
        kind=values.one_of_kind("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        default=None,
        help="The SASL mechanism, with SASL_PLAINTEXT and SASL_SSL.",
    ),
    Setting(name="kafka.sasl.username", kind=values.TEXT, default=None, help="The SASL user."),
    Setting(name="kafka.sasl.password", kind=values.TEXT, default=None, help="The SASL password.", is_secret=True),
    Setting(
        name="kafka.ssl.ca.location",
        kind=values.TEXT,
        default=None,
        help="PEM file with the authorities that sign brokers' certificates; the system's when left out.",
        is_path=True,
    ),
    Setting(
        name="kafka.ssl.certificate.location",
        kind=values.TEXT,
        default=None,
        help="PEM file with this client's certificate.",
        is_path=True,
    ),
    Setting(
        name="kafka.ssl.key.location",
        kind=values.TEXT,
        default=None,
        help="PEM file with this client's private key.",
        is_path=True,
    ),
    Setting(
        name="kafka.ssl.key.password",
        kind=values.TEXT,
        default=None,
        help="The password of that private key.",
        is_secret=True,
    ),
    Setting(
        name="kafka.ssl.endpoint.identification.algorithm",
        kind=values.one_of_kind("https", "none"),
        default="https",
        help="`none` accepts a broker's certificate for any host name.",
    ),
)

ALIASES: Mapping[str, str] = {"kafka.sasl.mechanisms": "kafka.sasl.mechanism"}
"""Other spellings of the same property."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """The cluster to watch and how to reach it."""

    bootstrap_servers: tuple[tuple[str, int], ...]
    client_id: str
    request_timeout_ms: int
    options: Mapping[str, Any] = field(repr=False)
    """kafka-python's names: security_protocol, sasl_*, ssl_*. Passwords among them."""


def kafka_settings(value: Mapping[str, Any]) -> KafkaSettings:
    """The record made from parsed values by full name."""
    return KafkaSettings(
        bootstrap_servers=value["kafka.bootstrap.servers"],
        client_id=value["kafka.client.id"],
        request_timeout_ms=value["kafka.request.timeout.ms"],
        options=kafka_python_options(value),
    )


def kafka_python_options(value: Mapping[str, Any]) -> dict[str, Any]:
    """The `kafka` section in kafka-python's names; what was not set is left out."""
    options = {
        "security_protocol": value["kafka.security.protocol"],
        "sasl_mechanism": value["kafka.sasl.mechanism"],
        "sasl_plain_username": value["kafka.sasl.username"],
        "sasl_plain_password": value["kafka.sasl.password"],
        "ssl_cafile": value["kafka.ssl.ca.location"],
        "ssl_certfile": value["kafka.ssl.certificate.location"],
        "ssl_keyfile": value["kafka.ssl.key.location"],
        "ssl_password": value["kafka.ssl.key.password"],
        "ssl_check_hostname": value["kafka.ssl.endpoint.identification.algorithm"] == "https",
    }
    return {name: option for name, option in options.items() if option is not None}


def impossible_in_kafka(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(setting, sentence) for each combination of valid values that cannot work together."""
    uses_sasl = value["kafka.security.protocol"].startswith("SASL")
    if uses_sasl and value["kafka.sasl.mechanism"] is None:
        yield "kafka.sasl.mechanism", "is required by kafka.security.protocol"
    if not uses_sasl:
        for name in ("kafka.sasl.mechanism", "kafka.sasl.username", "kafka.sasl.password"):
            if value[name] is not None:
                yield name, "would be ignored: kafka.security.protocol is not SASL_PLAINTEXT or SASL_SSL"
    if not value["kafka.security.protocol"].endswith("SSL"):
        for name in value:
            if name.startswith("kafka.ssl.") and name.endswith(("location", "password")) and value[name] is not None:
                yield name, "would be ignored: kafka.security.protocol is not SSL or SASL_SSL"
