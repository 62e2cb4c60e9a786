"""Every setting: its name, what it takes, its default and what it is for, in one table; and the records that code reads.

Sections are rooms. The `kafka` section speaks librdkafka's property names; they are translated to kafka-python's here,
and a name that would be silently ignored is not in the table, so it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from exporter.config import values
from exporter.config.values import Parser


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the table."""

    name: str
    """`section.key`; keys of the kafka section contain dots of their own."""
    parse: Parser
    default: Any
    """As a user would write it; None when there is none."""
    help: str
    is_secret: bool = False
    """Never accepted on a command line, never shown."""


SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="kafka.bootstrap.servers",
        parse=values.bootstrap_servers,
        default=None,
        help="Brokers to ask first, as host:port[,host:port...]. Required.",
    ),
    Setting(
        name="kafka.client.id",
        parse=values.text,
        default="kafka-transaction-exporter",
        help="The name under which brokers see this client, in their logs and quotas.",
    ),
    Setting(
        name="kafka.request.timeout.ms",
        parse=values.whole_number(100, 600_000),
        default=10000,
        help="How long a broker may take to answer one request, connecting included, in milliseconds.",
    ),
    Setting(
        name="kafka.security.protocol",
        parse=values.one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        default="PLAINTEXT",
        help="How brokers are spoken to.",
    ),
    Setting(
        name="kafka.sasl.mechanism",
        parse=values.one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        default=None,
        help="The SASL mechanism, with SASL_PLAINTEXT and SASL_SSL.",
    ),
    Setting(name="kafka.sasl.username", parse=values.text, default=None, help="The SASL user."),
    Setting(name="kafka.sasl.password", parse=values.text, default=None, help="The SASL password.", is_secret=True),
    Setting(
        name="kafka.ssl.ca.location",
        parse=values.text,
        default=None,
        help="PEM file with the authorities that sign brokers' certificates; the system's when left out.",
    ),
    Setting(
        name="kafka.ssl.certificate.location",
        parse=values.text,
        default=None,
        help="PEM file with this client's certificate.",
    ),
    Setting(
        name="kafka.ssl.key.location", parse=values.text, default=None, help="PEM file with this client's private key."
    ),
    Setting(
        name="kafka.ssl.key.password",
        parse=values.text,
        default=None,
        help="The password of that private key.",
        is_secret=True,
    ),
    Setting(
        name="kafka.ssl.endpoint.identification.algorithm",
        parse=values.one_of("https", "none"),
        default="https",
        help="`none` accepts a broker's certificate for any host name.",
    ),
    Setting(
        name="scan.interval",
        parse=values.positive_duration_ms,
        default="30s",
        help="Time from the start of one cycle to the start of the next.",
    ),
    Setting(
        name="scan.deadline",
        parse=values.positive_duration_ms,
        default="25s",
        help="A cycle ends after this with whatever was answered. Must be shorter than the interval.",
    ),
    Setting(
        name="verdicts.late_padding",
        parse=values.duration_ms,
        default="5m",
        help="A transaction is late when it is open for longer than transaction.max.timeout.ms and this.",
    ),
    Setting(
        name="verdicts.max_timeout_fallback",
        parse=values.positive_duration_ms,
        default="15m",
        help="Used when no broker lets us read transaction.max.timeout.ms (DESCRIBE_CONFIGS on the cluster).",
    ),
    Setting(
        name="verdicts.overdue_slack",
        parse=values.duration_ms,
        default="30s",
        help="How far past its own time-out a transaction is overdue; coordinators look every 10 s.",
    ),
    Setting(
        name="verdicts.stuck_after",
        parse=values.duration_ms,
        default="1m",
        help="A transaction seen completing for longer than this is stuck.",
    ),
    Setting(
        name="publish.listen_address",
        parse=values.listen_address,
        default="0.0.0.0:9814",
        help="Where /metrics and the status page are served.",
    ),
    Setting(
        name="publish.partition_series",
        parse=values.one_of("all", "open"),
        default="all",
        help="Whether partitions without an open transaction get a 0 series of the longest duration.",
    ),
    Setting(
        name="publish.partition_series_limit",
        parse=values.whole_number(0, 10_000_000),
        default=100000,
        help="With more partitions than this, `all` falls back to `open`, and a gauge says so.",
    ),
    Setting(
        name="publish.suspects_limit",
        parse=values.whole_number(0, 100_000),
        default=100,
        help="Suspects that get a series of their own, worst first; the others are counted.",
    ),
    Setting(
        name="publish.stale_after_cycles",
        parse=values.whole_number(1, 1000),
        default=3,
        help="After this many missed cycles the rows of the cluster are dropped; the exporter's own stay.",
    ),
    Setting(
        name="state.file",
        parse=values.text,
        default="auto",
        help="Where first-seen times are kept over restarts: a path, `none`, or `auto` for the user's state directory.",
    ),
    Setting(
        name="log.level",
        parse=values.one_of("debug", "info", "warning", "error"),
        default="info",
        help="What is logged to standard error.",
    ),
)

BY_NAME: Mapping[str, Setting] = {setting.name: setting for setting in SETTINGS}

ALIASES: Mapping[str, str] = {"kafka.sasl.mechanisms": "kafka.sasl.mechanism"}
"""Other spellings of the same property."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """The cluster to watch and how to reach it."""

    bootstrap_servers: tuple[tuple[str, int], ...]
    client_id: str
    request_timeout_ms: int
    options: Mapping[str, Any]
    """kafka-python's names: security_protocol, sasl_*, ssl_*."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSettings:
    """The pace of the loop."""

    interval_ms: int
    deadline_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictSettings:
    """What an evaluation is told."""

    late_padding_ms: int
    max_timeout_fallback_ms: int
    overdue_slack_ms: int
    stuck_after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishSettings:
    """What is served, and where."""

    listen_address: str
    partition_series: Literal["all", "open"]
    partition_series_limit: int
    suspects_limit: int
    stale_after_cycles: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of them, validated."""

    kafka: KafkaSettings
    scan: ScanSettings
    verdicts: VerdictSettings
    publish: PublishSettings
    state_file: str
    """A path, `none` or `auto`."""
    log_level: str


def settings_of(value: Mapping[str, Any]) -> Settings:
    """The records made from parsed values by full name, each name of the table present."""
    return Settings(
        kafka=KafkaSettings(
            bootstrap_servers=value["kafka.bootstrap.servers"],
            client_id=value["kafka.client.id"],
            request_timeout_ms=value["kafka.request.timeout.ms"],
            options=kafka_python_options(value),
        ),
        scan=ScanSettings(interval_ms=value["scan.interval"], deadline_ms=value["scan.deadline"]),
        verdicts=VerdictSettings(
            late_padding_ms=value["verdicts.late_padding"],
            max_timeout_fallback_ms=value["verdicts.max_timeout_fallback"],
            overdue_slack_ms=value["verdicts.overdue_slack"],
            stuck_after_ms=value["verdicts.stuck_after"],
        ),
        publish=PublishSettings(
            listen_address=value["publish.listen_address"],
            partition_series=value["publish.partition_series"],
            partition_series_limit=value["publish.partition_series_limit"],
            suspects_limit=value["publish.suspects_limit"],
            stale_after_cycles=value["publish.stale_after_cycles"],
        ),
        state_file=value["state.file"],
        log_level=value["log.level"],
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


def impossible(value: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(setting, sentence) for each combination of valid values that cannot work together."""
    problems = []
    if value["scan.deadline"] >= value["scan.interval"]:
        problems.append(("scan.deadline", "must be shorter than scan.interval, or cycles would pile up"))
    uses_sasl = value["kafka.security.protocol"].startswith("SASL")
    if uses_sasl and value["kafka.sasl.mechanism"] is None:
        problems.append(("kafka.sasl.mechanism", "is required by kafka.security.protocol"))
    if not uses_sasl:
        problems += [
            (name, "would be ignored: kafka.security.protocol is not SASL_PLAINTEXT or SASL_SSL")
            for name in ("kafka.sasl.mechanism", "kafka.sasl.username", "kafka.sasl.password")
            if value[name] is not None
        ]
    if not value["kafka.security.protocol"].endswith("SSL"):
        problems += [
            (name, "would be ignored: kafka.security.protocol is not SSL or SASL_SSL")
            for name in value
            if name.startswith("kafka.ssl.") and name.endswith(("location", "password")) and value[name] is not None
        ]
    return problems
