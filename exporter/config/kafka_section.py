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
        help="Brokers for the first connection, as host:port[,host:port...]. Required.",
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
        help="Time limit for a broker's response to one request, including the connection, in milliseconds.",
    ),
    Setting(
        name="kafka.security.protocol",
        kind=values.one_of_kind("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        default="PLAINTEXT",
        help="The protocol of the connections to brokers.",
    ),
    Setting(
        name="kafka.sasl.mechanism",
        kind=values.one_of_kind("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM"),
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
    Setting(
        name="kafka.ssl.crl.location",
        kind=values.TEXT,
        default=None,
        help="PEM file with certificates that are revoked.",
        is_path=True,
    ),
    Setting(
        name="kafka.ssl.keystore.location",
        kind=values.TEXT,
        default=None,
        help="PKCS12 file with this client's certificate and key, in place of the two PEM files.",
        is_path=True,
    ),
    Setting(
        name="kafka.ssl.keystore.password",
        kind=values.TEXT,
        default=None,
        help="The password of that file.",
        is_secret=True,
    ),
    Setting(
        name="kafka.ssl.truststore.location",
        kind=values.TEXT,
        default=None,
        help="PKCS12 file with the authorities, in place of the PEM file; a property of Java, not of librdkafka.",
        is_path=True,
    ),
    Setting(
        name="kafka.ssl.truststore.password",
        kind=values.TEXT,
        default=None,
        help="The password of that file.",
        is_secret=True,
    ),
    Setting(
        name="kafka.sasl.oauthbearer.token.endpoint.url",
        kind=values.URL,
        default=None,
        help="URL that issues tokens for OAUTHBEARER (client credentials grant).",
    ),
    Setting(
        name="kafka.sasl.oauthbearer.client.id",
        kind=values.TEXT,
        default=None,
        help="The client for which a token is issued.",
    ),
    Setting(
        name="kafka.sasl.oauthbearer.client.secret",
        kind=values.TEXT,
        default=None,
        help="That client's secret.",
        is_secret=True,
    ),
    Setting(
        name="kafka.sasl.oauthbearer.scope",
        kind=values.TEXT,
        default=None,
        help="The scope of the token.",
    ),
    Setting(
        name="kafka.sasl.oauthbearer.extensions",
        kind=values.PAIRS,
        default=None,
        help="SASL extensions, as key=value[,key=value...].",
    ),
    Setting(
        name="kafka.https.ca.location",
        kind=values.TEXT,
        default=None,
        help="PEM file with the authorities that sign the token endpoint's certificate; the system's when left out.",
        is_path=True,
    ),
    Setting(
        name="kafka.sasl.kerberos.service.name",
        kind=values.TEXT,
        default=None,
        help="The name of the brokers' Kerberos principal, with GSSAPI; kafka when left out.",
    ),
)

ALIASES: Mapping[str, str] = {"kafka.sasl.mechanisms": "kafka.sasl.mechanism"}
"""Other spellings of the same property."""

SAME_AS_OURS: Mapping[str, str] = {
    "kafka.sasl.oauthbearer.method": "oidc",
    "kafka.enable.ssl.certificate.verification": "true",
}
"""Properties of librdkafka with the one value that they have here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Files of TLS and their passwords. One kind of certificates and one of authorities at most is given."""

    ca_location: str | None
    crl_location: str | None
    certificate_location: str | None
    key_location: str | None
    key_password: str | None = field(repr=False)
    keystore_location: str | None
    keystore_password: str | None = field(repr=False)
    truststore_location: str | None
    truststore_password: str | None = field(repr=False)
    check_hostname: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OauthSettings:
    """Where tokens come from (RFC 6749, section 4.4)."""

    token_endpoint_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None
    extensions: tuple[tuple[str, str], ...]
    https_ca_location: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """The cluster to watch and how to reach it."""

    bootstrap_servers: tuple[tuple[str, int], ...]
    client_id: str
    request_timeout_ms: int
    options: Mapping[str, Any] = field(repr=False)
    """kafka-python's names: security_protocol, sasl_*. Passwords among them."""
    tls: TlsSettings | None = None
    """None where brokers are not spoken to by TLS."""
    oauth: OauthSettings | None = None
    """None for another mechanism than OAUTHBEARER."""

    @property
    def bootstrap(self) -> str:
        """The servers as Kafka's clients write them: IPv6 in brackets, separated by commas."""
        return ",".join(
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.bootstrap_servers
        )


def kafka_settings(value: Mapping[str, Any]) -> KafkaSettings:
    """The record made from parsed values by full name."""
    protocol, mechanism = value["kafka.security.protocol"], value["kafka.sasl.mechanism"]
    return KafkaSettings(
        bootstrap_servers=value["kafka.bootstrap.servers"],
        client_id=value["kafka.client.id"],
        request_timeout_ms=value["kafka.request.timeout.ms"],
        options=kafka_python_options(value),
        tls=_tls(value) if protocol.endswith("SSL") else None,
        oauth=_oauth(value) if mechanism == "OAUTHBEARER" else None,
    )


def _tls(value: Mapping[str, Any]) -> TlsSettings:
    return TlsSettings(
        ca_location=value["kafka.ssl.ca.location"],
        crl_location=value["kafka.ssl.crl.location"],
        certificate_location=value["kafka.ssl.certificate.location"],
        key_location=value["kafka.ssl.key.location"],
        key_password=value["kafka.ssl.key.password"],
        keystore_location=value["kafka.ssl.keystore.location"],
        keystore_password=value["kafka.ssl.keystore.password"],
        truststore_location=value["kafka.ssl.truststore.location"],
        truststore_password=value["kafka.ssl.truststore.password"],
        check_hostname=value["kafka.ssl.endpoint.identification.algorithm"] == "https",
    )


def _oauth(value: Mapping[str, Any]) -> OauthSettings:
    return OauthSettings(
        token_endpoint_url=value["kafka.sasl.oauthbearer.token.endpoint.url"],
        client_id=value["kafka.sasl.oauthbearer.client.id"],
        client_secret=value["kafka.sasl.oauthbearer.client.secret"],
        scope=value["kafka.sasl.oauthbearer.scope"],
        extensions=value["kafka.sasl.oauthbearer.extensions"] or (),
        https_ca_location=value["kafka.https.ca.location"],
    )


def kafka_python_options(value: Mapping[str, Any]) -> dict[str, Any]:
    """What kafka-python takes by name; what was not set is left out. TLS and tokens are made in `exporter/kafka`."""
    is_kerberos = value["kafka.sasl.mechanism"] == "GSSAPI"
    options = {
        "security_protocol": value["kafka.security.protocol"],
        "sasl_mechanism": value["kafka.sasl.mechanism"],
        "sasl_plain_username": value["kafka.sasl.username"],
        "sasl_plain_password": value["kafka.sasl.password"],
        "sasl_kerberos_service_name": (value["kafka.sasl.kerberos.service.name"] or "kafka") if is_kerberos else None,
    }
    return {name: option for name, option in options.items() if option is not None}


_NEEDED_BY = {
    "PLAIN": ("kafka.sasl.username", "kafka.sasl.password"),
    "SCRAM-SHA-256": ("kafka.sasl.username", "kafka.sasl.password"),
    "SCRAM-SHA-512": ("kafka.sasl.username", "kafka.sasl.password"),
    "OAUTHBEARER": (
        "kafka.sasl.oauthbearer.token.endpoint.url",
        "kafka.sasl.oauthbearer.client.id",
        "kafka.sasl.oauthbearer.client.secret",
    ),
    "GSSAPI": (),
    "AWS_MSK_IAM": (),
}
_TAKEN_BY = {
    "OAUTHBEARER": ("kafka.sasl.oauthbearer.scope", "kafka.sasl.oauthbearer.extensions", "kafka.https.ca.location"),
    "GSSAPI": ("kafka.sasl.kerberos.service.name",),
}
_OF_SASL = tuple(dict.fromkeys(name for names in (*_NEEDED_BY.values(), *_TAKEN_BY.values()) for name in names))


def impossible_in_kafka(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(setting, sentence) for each combination of valid values that cannot work together."""
    uses_sasl = value["kafka.security.protocol"].startswith("SASL")
    mechanism = value["kafka.sasl.mechanism"]
    if uses_sasl and mechanism is None:
        yield "kafka.sasl.mechanism", "is required by kafka.security.protocol"
    elif uses_sasl:
        yield from _impossible_in_mechanism(value, mechanism)
    else:
        for name in ("kafka.sasl.mechanism", *_OF_SASL):
            if value[name] is not None:
                yield name, "would be ignored: kafka.security.protocol is not SASL_PLAINTEXT or SASL_SSL"
    if value["kafka.security.protocol"].endswith("SSL"):
        yield from _impossible_in_tls(value)
    else:
        for name in value:
            if name.startswith("kafka.ssl.") and name.endswith(("location", "password")) and value[name] is not None:
                yield name, "would be ignored: kafka.security.protocol is not SSL or SASL_SSL"


def _impossible_in_mechanism(value: Mapping[str, Any], mechanism: str) -> Iterator[tuple[str, str]]:
    for name in _NEEDED_BY[mechanism]:
        if value[name] is None:
            yield name, f"is required by kafka.sasl.mechanism {mechanism}"
    for name in _OF_SASL:
        if value[name] is not None and name not in (*_NEEDED_BY[mechanism], *_TAKEN_BY.get(mechanism, ())):
            yield name, f"would be ignored: kafka.sasl.mechanism is {mechanism}"
    if mechanism == "AWS_MSK_IAM" and value["kafka.security.protocol"] != "SASL_SSL":
        yield "kafka.security.protocol", "must be SASL_SSL with kafka.sasl.mechanism AWS_MSK_IAM"


def _impossible_in_tls(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, other in (
        ("kafka.ssl.key.location", "kafka.ssl.certificate.location"),
        ("kafka.ssl.certificate.location", "kafka.ssl.key.location"),
        ("kafka.ssl.key.password", "kafka.ssl.key.location"),
        ("kafka.ssl.keystore.password", "kafka.ssl.keystore.location"),
        ("kafka.ssl.truststore.password", "kafka.ssl.truststore.location"),
    ):
        if value[name] is not None and value[other] is None:
            yield name, f"is of no use without {other}"
    for name, other in (
        ("kafka.ssl.keystore.location", "kafka.ssl.certificate.location"),
        ("kafka.ssl.truststore.location", "kafka.ssl.ca.location"),
    ):
        if value[name] is not None and value[other] is not None:
            yield name, f"and {other} exclude each other"
