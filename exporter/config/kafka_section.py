"""Declares the `kafka` section: librdkafka's property names, translated to kafka-python's.

A property that would be ignored silently is not declared, so it is refused.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from exporter.config import values
from exporter.config.sasl import MECHANISMS, SETTINGS_OF_MECHANISMS, SaslMechanism
from exporter.config.table import Values, only_if, setting

ALIASES: Mapping[str, str] = {"kafka.sasl.mechanisms": "kafka.sasl.mechanism"}
"""Other spellings of the same property."""

SAME_AS_OURS: Mapping[str, str] = {
    "kafka.sasl.oauthbearer.method": "oidc",
    "kafka.enable.ssl.certificate.verification": "true",
}
"""Properties of librdkafka with the only value that is supported."""
_AUTHORITIES, _CERTIFICATE, _KEY = (f"kafka.ssl.{name}.location" for name in ("ca", "certificate", "key"))
PEM_OF_STORE: Mapping[str, tuple[str, ...]] = {
    "kafka.ssl.truststore": (_AUTHORITIES,),
    "kafka.ssl.keystore": (_CERTIFICATE, _KEY),
}
"""Settings for a PEM file in place of a store; in Java's manner one file has both certificate and key."""
_LEAVE_IT_OUT, _INTO_A_FILE = "leave it out: a store is PKCS12, and of PEM files", "write it into a file, which"
INSTEAD_OF: Mapping[str, str] = {
    **dict.fromkeys(
        ("kafka.metadata.broker.list", "kafka.brokers", "kafka.server", "kafka.servers"),
        "write kafka.bootstrap.servers",
    ),
    "kafka.sasl.jaas.config": "write its login as kafka.sasl.username and kafka.sasl.password",
    "kafka.ssl.truststore.type": f"{_LEAVE_IT_OUT} the setting is {_AUTHORITIES}",
    "kafka.ssl.keystore.type": f"{_LEAVE_IT_OUT} the settings are {_CERTIFICATE} and {_KEY}",
    **dict.fromkeys(("kafka.ssl.truststore.certificates", "kafka.ssl.ca.pem"), f"{_INTO_A_FILE} {_AUTHORITIES} names"),
    **dict.fromkeys(
        ("kafka.ssl.keystore.certificate.chain", "kafka.ssl.certificate.pem"), f"{_INTO_A_FILE} {_CERTIFICATE} names"
    ),
    **dict.fromkeys(("kafka.ssl.keystore.key", "kafka.ssl.key.pem"), f"{_INTO_A_FILE} {_KEY} names"),
}
"""Names of Kafka's clients and of other exporters that are no settings, and what to write in their place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OauthSettings:
    """The token endpoint (RFC 6749, section 4.4)."""

    token_endpoint_url: str = setting(
        "kafka.sasl.oauthbearer.token.endpoint.url",
        values.ENDPOINT_URL,
        "URL that issues tokens for OAUTHBEARER (client credentials grant).",
    )
    client_id: str = setting("kafka.sasl.oauthbearer.client.id", values.TEXT, "The client for which a token is issued.")
    client_secret: str = setting(
        "kafka.sasl.oauthbearer.client.secret", values.TEXT, "That client's secret.", is_secret=True
    )
    scope: str | None = setting("kafka.sasl.oauthbearer.scope", values.TEXT, "The scope of the token.")
    header_urlencode: bool | None = setting(
        "kafka.sasl.oauthbearer.header.urlencode",
        values.SWITCH,
        "Whether client id and secret are URL-encoded for the token endpoint (RFC 6749, KIP-1025); `false` when left "
        "out, as for Kafka's clients. Different only for characters such as `+`, `/`, `=`, `%` and `:`.",
    )
    extensions: tuple[tuple[str, str], ...] | None = setting(
        "kafka.sasl.oauthbearer.extensions", values.PAIRS, "SASL extensions, as key=value[,key=value...]."
    )
    https_ca_location: str | None = setting(
        "kafka.https.ca.location",
        values.PATH,
        "PEM file with the authorities that sign the token endpoint's certificate; the system's when left out.",
        is_path=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    mechanism: str = setting(
        "kafka.sasl.mechanism",
        values.one_of_kind(*MECHANISMS),
        f"With SASL_PLAINTEXT and SASL_SSL: {', '.join(MECHANISMS)}.",
    )
    """A key of MECHANISMS."""
    username: str | None = setting("kafka.sasl.username", values.TEXT, "The SASL user.")
    password: str | None = setting("kafka.sasl.password", values.TEXT, "The SASL password.", is_secret=True)
    kerberos_service_name: str | None = setting(
        "kafka.sasl.kerberos.service.name",
        values.TEXT,
        "The name of the brokers' Kerberos principal, with GSSAPI; kafka when left out.",
    )
    oauth: OauthSettings | None = only_if(lambda given: given["kafka.sasl.mechanism"] == "OAUTHBEARER")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Files of TLS and their passwords. At most one kind of certificates and one of authorities is given."""

    ca_location: str | None = setting(
        "kafka.ssl.ca.location",
        values.PATH,
        "PEM file with the authorities that sign brokers' certificates; the system's when left out.",
        is_path=True,
    )
    certificate_location: str | None = setting(
        "kafka.ssl.certificate.location", values.PATH, "PEM file with this client's certificate.", is_path=True
    )
    key_location: str | None = setting(
        "kafka.ssl.key.location", values.PATH, "PEM file with this client's private key.", is_path=True
    )
    key_password: str | None = setting(
        "kafka.ssl.key.password", values.TEXT, "The password of that private key.", is_secret=True
    )
    endpoint_identification_algorithm: Literal["https", "none"] = setting(
        "kafka.ssl.endpoint.identification.algorithm",
        values.one_of_kind("https", "none"),
        "`none` accepts a broker's certificate for any host name.",
        default="https",
    )
    crl_location: str | None = setting(
        "kafka.ssl.crl.location", values.PATH, "PEM file with certificates that are revoked.", is_path=True
    )
    keystore_location: str | None = setting(
        "kafka.ssl.keystore.location",
        values.PATH,
        "PKCS12 file with this client's certificate and key, in place of the two PEM files.",
        is_path=True,
    )
    keystore_password: str | None = setting(
        "kafka.ssl.keystore.password", values.TEXT, "The password of that file.", is_secret=True
    )
    truststore_location: str | None = setting(
        "kafka.ssl.truststore.location",
        values.PATH,
        "PKCS12 file with the authorities, in place of the PEM file; a property of Java, not of librdkafka.",
        is_path=True,
    )
    truststore_password: str | None = setting(
        "kafka.ssl.truststore.password", values.TEXT, "The password of that file.", is_secret=True
    )

    @property
    def check_hostname(self) -> bool:
        """True if a broker's certificate must match its host name."""
        return self.endpoint_identification_algorithm == "https"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """The cluster to watch and how to connect to it."""

    bootstrap_servers: tuple[tuple[str, int], ...] = setting(
        "kafka.bootstrap.servers",
        values.SERVERS,
        "Brokers for the first connection, as host:port[,host:port...]. Required.",
    )
    client_id: str = setting(
        "kafka.client.id",
        values.TEXT,
        "The name under which brokers see this client, in their logs and quotas.",
        default="kafka-transaction-exporter",
    )
    allowed_hosts: tuple[re.Pattern[str], ...] | None = setting(
        "kafka.allowed.hosts",
        values.SOME_PATTERNS,
        "Regular expressions that match a whole host name: the exporter connects to these brokers only, and sends its "
        "credentials nowhere else. Without it, to every host that the cluster's metadata names.",
    )
    request_timeout_ms: int = setting(
        "kafka.request.timeout.ms",
        values.whole_number_kind(100, 600_000),
        "Time limit for a broker's response to one request, including the connection, in milliseconds.",
        default=10000,
    )
    security_protocol: str = setting(
        "kafka.security.protocol",
        values.one_of_kind("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`.",
        default="PLAINTEXT",
    )
    sasl: SaslSettings | None = only_if(lambda given: given["kafka.security.protocol"].startswith("SASL"))
    tls: TlsSettings | None = only_if(lambda given: given["kafka.security.protocol"].endswith("SSL"))

    @property
    def bootstrap(self) -> str:
        """The servers as Kafka's clients write them: IPv6 in brackets, separated by commas."""
        return ",".join(values.host_and_port(host, port) for host, port in self.bootstrap_servers)

    @property
    def connection_of_tools(self) -> str:
        """Options of Kafka's own tools that name the cluster, for a shell; an administrator's login has its own file."""
        return shlex.join(self.options_of_tools("admin.properties"))

    def options_of_tools(self, file: str) -> tuple[str, ...]:
        """Options of Kafka's own tools that name the cluster; `file` has the login, if the cluster has any."""
        login = () if self.security_protocol == "PLAINTEXT" else ("--command-config", file)
        return ("--bootstrap-server", self.bootstrap, *login)


def in_client_file(name: str, java_file: str | None) -> str:
    """Says how a client's file has a setting; nothing without such a file."""
    jaas = " or in sasl.jaas.config" if name in {"kafka.sasl.username", "kafka.sasl.password"} else ""
    return "" if java_file is None else f": in {java_file} it is {name.removeprefix('kafka.')}{jaas}"


def impossible_in_kafka(value: Values) -> Iterator[tuple[str, str]]:
    """(setting, sentence) for each combination of valid values that cannot work together."""
    uses_sasl = value["kafka.security.protocol"].startswith("SASL")
    mechanism = value["kafka.sasl.mechanism"]
    if uses_sasl and mechanism is None:
        yield "kafka.sasl.mechanism", f"is required by kafka.security.protocol: one of {', '.join(MECHANISMS)}"
    elif uses_sasl:
        yield from _impossible_in_mechanism(value, MECHANISMS[mechanism])
    else:
        for name in ("kafka.sasl.mechanism", *SETTINGS_OF_MECHANISMS):
            if value[name] is not None:
                yield name, "would be ignored: kafka.security.protocol is not SASL_PLAINTEXT or SASL_SSL"
    if value["kafka.security.protocol"].endswith("SSL"):
        yield from _impossible_in_tls(value)
    else:
        for name in value:
            if name.startswith("kafka.ssl.") and name.endswith(("location", "password")) and value[name] is not None:
                yield name, "would be ignored: kafka.security.protocol is not SSL or SASL_SSL"


def _impossible_in_mechanism(value: Values, mechanism: SaslMechanism) -> Iterator[tuple[str, str]]:
    for name in mechanism.needs:
        if value[name] is None:
            yield name, f"is required by kafka.sasl.mechanism {mechanism.name}"
    for name in SETTINGS_OF_MECHANISMS:
        if value[name] is not None and name not in (*mechanism.needs, *mechanism.takes):
            yield name, f"would be ignored: kafka.sasl.mechanism is {mechanism.name}"
    if mechanism.needs_tls and value["kafka.security.protocol"] != "SASL_SSL":
        yield "kafka.security.protocol", f"must be SASL_SSL with kafka.sasl.mechanism {mechanism.name}"


def _impossible_in_tls(value: Values) -> Iterator[tuple[str, str]]:
    for name, other in (
        ("kafka.ssl.key.location", "kafka.ssl.certificate.location"),
        ("kafka.ssl.certificate.location", "kafka.ssl.key.location"),
        ("kafka.ssl.key.password", "kafka.ssl.key.location"),
        ("kafka.ssl.keystore.password", "kafka.ssl.keystore.location"),
        ("kafka.ssl.truststore.password", "kafka.ssl.truststore.location"),
    ):
        if value[name] is not None and value[other] is None:
            yield name, f"has no effect without {other}"
    for name, other in (
        ("kafka.ssl.keystore.location", "kafka.ssl.certificate.location"),
        ("kafka.ssl.truststore.location", "kafka.ssl.ca.location"),
    ):
        if value[name] is not None and value[other] is not None:
            yield name, f"and {other} cannot both be set"
