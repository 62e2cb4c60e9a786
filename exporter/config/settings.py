"""Every setting: its name, what it takes, its default and what it is for, in one table; and the records that code reads.

Sections are rooms; the `kafka` section has a file of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from exporter.config import values
from exporter.config.kafka_section import KAFKA_SETTINGS, KafkaSettings, impossible_in_kafka, kafka_settings
from exporter.config.table import Setting, with_files

_ROWS: tuple[Setting, ...] = (
    *KAFKA_SETTINGS,
    Setting(
        name="scan.interval",
        kind=values.POSITIVE_DURATION,
        default="30s",
        help="Time from the start of one cycle to the start of the next.",
    ),
    Setting(
        name="scan.deadline",
        kind=values.POSITIVE_DURATION,
        default="25s",
        help="Time limit of a cycle, which then publishes the responses that it has. Must be shorter than the interval.",
    ),
    Setting(
        name="scan.transactions_limit",
        kind=values.whole_number_kind(1, 10_000_000),
        default=50000,
        help="Open transactions that a cycle examines, the longest idle first; the others are counted, and inconclusive "
        "unless they began just now.",
    ),
    Setting(
        name="scan.receive_limit",
        kind=values.SIZE,
        default="512MB",
        help="Most memory for the responses of all brokers together, in B, kB, MB or GB; a response beyond it is refused, "
        "and the broker is named. One response may have 100 MiB.",
    ),
    Setting(
        name="verdicts.late_padding",
        kind=values.DURATION,
        default="5m",
        help="A transaction is late when it is open for longer than transaction.max.timeout.ms and this.",
    ),
    Setting(
        name="verdicts.max_timeout_fallback",
        kind=values.POSITIVE_DURATION,
        default="15m",
        help="Used for transaction.max.timeout.ms where no broker's value can be read (DESCRIBE_CONFIGS on the cluster).",
    ),
    Setting(
        name="verdicts.overdue_slack",
        kind=values.DURATION,
        default="30s",
        help="A transaction is overdue this long after its own timeout; coordinators check for expired ones every 10 s.",
    ),
    Setting(
        name="verdicts.stuck_after",
        kind=values.DURATION,
        default="1m",
        help="A transaction that is completing for longer than this is stuck.",
    ),
    Setting(
        name="publish.listen_address",
        kind=values.LISTEN_ADDRESS,
        default="0.0.0.0:9814",
        help="Address and port of /metrics and the status page.",
        needs_restart=True,
    ),
    Setting(
        name="publish.web_config_file",
        kind=values.TEXT,
        default=None,
        help="TLS, client certificates, basic auth and headers of the web server, in the format of Prometheus' exporters.",
        needs_restart=True,
    ),
    Setting(
        name="publish.partition_series",
        kind=values.one_of_kind("all", "open"),
        default="all",
        help="`all`: partitions without an open transaction have a 0 series of the longest duration; `open`: they do not.",
    ),
    Setting(
        name="publish.partition_series_limit",
        kind=values.whole_number_kind(0, 10_000_000),
        default=100000,
        help="With more partitions than this, `all` falls back to `open`, and a gauge shows it.",
    ),
    Setting(
        name="publish.suspects_limit",
        kind=values.whole_number_kind(0, 100_000),
        default=100,
        help="Suspects with one series each, worst first; the others are counted.",
    ),
    Setting(
        name="publish.stale_after_cycles",
        kind=values.whole_number_kind(1, 1000),
        default=3,
        help="After this many missed cycles the series of the cluster are dropped; those about the exporter itself stay.",
    ),
    Setting(
        name="publish.transactional_ids",
        kind=values.SWITCH,
        default=True,
        help="Whether /metrics and the status page show transactional ids; with false they are empty.",
    ),
    Setting(
        name="publish.reload_endpoint",
        kind=values.SWITCH,
        default=False,
        help="Whether POST /-/reload reads the settings again. SIGHUP always does.",
        needs_restart=True,
    ),
    Setting(
        name="reload.watch_interval",
        kind=values.DURATION,
        default="10s",
        help="How often files of settings, secrets and certificates are checked for changes; 0 is never.",
    ),
    Setting(
        name="state.file",
        kind=values.TEXT,
        default="auto",
        help="File that keeps first-seen times over restarts: a path, `none`, or `auto` (in the user's state directory).",
        needs_restart=True,
    ),
    Setting(
        name="transaction_log.enabled",
        kind=values.SWITCH,
        default=False,
        help="Whether `__transaction_state` is read, for the outcome of every transaction. Needs READ and DESCRIBE on it.",
        needs_restart=True,
    ),
    Setting(
        name="transaction_log.lookback",
        kind=values.DURATION,
        default="1h",
        help="How far back the transaction log is read at the start; records counted by an earlier run do not count again.",
        needs_restart=True,
    ),
    Setting(
        name="transaction_log.groups",
        kind=values.GROUPS,
        default=[],
        help="Groups of transactional ids, as a list of {name, match}: the label `group` is the name of the first regular "
        "expression that matches the whole id, or `other`. In a variable or flag as JSON.",
        needs_restart=True,
    ),
    Setting(
        name="history.directory",
        kind=values.TEXT,
        default=None,
        help="Directory for Parquet files with every cycle's open transactions; nothing is recorded when left out.",
        needs_restart=True,
    ),
    Setting(
        name="history.rotate_interval",
        kind=values.POSITIVE_DURATION,
        default="15m",
        help="Time between two files. A kill loses at most this much history.",
        needs_restart=True,
    ),
    Setting(
        name="history.retention_age",
        kind=values.POSITIVE_DURATION,
        default="30d",
        help="Older files are removed.",
        needs_restart=True,
    ),
    Setting(
        name="history.retention_size",
        kind=values.SIZE,
        default="1GB",
        help="With more than this in the directory the oldest files are removed: B, kB, MB, GB or TB.",
        needs_restart=True,
    ),
    Setting(
        name="baseline.file",
        kind=values.TEXT,
        default=None,
        help="The pipeline's baselines: usual durations by transactional id, group and topic; read again when it changes.",
        needs_restart=True,
    ),
    Setting(
        name="baseline.max_age",
        kind=values.POSITIVE_DURATION,
        default="7d",
        help="An older file is not used.",
        needs_restart=True,
    ),
    Setting(
        name="log.level",
        kind=values.one_of_kind("debug", "info", "warning", "error"),
        default="info",
        help="The lowest level that is logged to standard error.",
    ),
    Setting(
        name="log.format",
        kind=values.one_of_kind("auto", "text", "logfmt", "json"),
        default="auto",
        help="Format of log lines: `auto` is `text` on a terminal and `logfmt` elsewhere.",
        needs_restart=True,
    ),
)

SETTINGS = with_files(_ROWS)

BY_NAME: Mapping[str, Setting] = {setting.name: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSettings:
    """The pace of the loop, and how much a cycle may do."""

    interval_ms: int
    deadline_ms: int
    transactions_limit: int = 50_000
    receive_limit_bytes: int = 512_000_000


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
    web_config_file: str | None
    partition_series: Literal["all", "open"]
    partition_series_limit: int
    suspects_limit: int
    stale_after_cycles: int
    transactional_ids: bool
    reload_endpoint: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLogSettings:
    """Whether and how the coordinators' log is read."""

    enabled: bool
    lookback_ms: int
    groups: tuple[tuple[str, re.Pattern[str]], ...]
    """(name, pattern of whole ids); the first that matches counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySettings:
    """Where and for how long cycles are recorded."""

    directory: str | None
    """None records nothing."""
    rotate_interval_ms: int
    retention_age_ms: int
    retention_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineSettings:
    """Where it stands what is usual."""

    file: str | None
    age_ms_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """One cluster of a fleet."""

    name: str
    """The value of the label `cluster`."""
    kafka: KafkaSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of them, validated."""

    kafka: KafkaSettings
    scan: ScanSettings
    verdicts: VerdictSettings
    publish: PublishSettings
    transaction_log: TransactionLogSettings
    history: HistorySettings
    baseline: BaselineSettings
    state_file: str
    """A path, `none` or `auto`."""
    watch_interval_ms: int
    """0 watches nothing."""
    log_level: str
    log_format: Literal["auto", "text", "logfmt", "json"]
    clusters: tuple[ClusterSettings, ...] = ()
    """Of a fleet; `kafka` is then that of the first."""


def settings_of(value: Mapping[str, Any]) -> Settings:
    """The records made from parsed values by full name, each name of the table present."""
    return Settings(
        kafka=kafka_settings(value),
        scan=ScanSettings(
            interval_ms=value["scan.interval"],
            deadline_ms=value["scan.deadline"],
            transactions_limit=value["scan.transactions_limit"],
            receive_limit_bytes=value["scan.receive_limit"],
        ),
        verdicts=VerdictSettings(
            late_padding_ms=value["verdicts.late_padding"],
            max_timeout_fallback_ms=value["verdicts.max_timeout_fallback"],
            overdue_slack_ms=value["verdicts.overdue_slack"],
            stuck_after_ms=value["verdicts.stuck_after"],
        ),
        publish=PublishSettings(
            listen_address=value["publish.listen_address"],
            web_config_file=value["publish.web_config_file"],
            partition_series=value["publish.partition_series"],
            partition_series_limit=value["publish.partition_series_limit"],
            suspects_limit=value["publish.suspects_limit"],
            stale_after_cycles=value["publish.stale_after_cycles"],
            transactional_ids=value["publish.transactional_ids"],
            reload_endpoint=value["publish.reload_endpoint"],
        ),
        transaction_log=TransactionLogSettings(
            enabled=value["transaction_log.enabled"],
            lookback_ms=value["transaction_log.lookback"],
            groups=value["transaction_log.groups"],
        ),
        history=HistorySettings(
            directory=value["history.directory"],
            rotate_interval_ms=value["history.rotate_interval"],
            retention_age_ms=value["history.retention_age"],
            retention_bytes=value["history.retention_size"],
        ),
        baseline=BaselineSettings(file=value["baseline.file"], age_ms_max=value["baseline.max_age"]),
        state_file=value["state.file"],
        watch_interval_ms=value["reload.watch_interval"],
        log_level=value["log.level"],
        log_format=value["log.format"],
    )


def impossible(value: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(setting, sentence) for each combination of valid values that cannot work together."""
    problems = []
    if value["scan.deadline"] >= value["scan.interval"]:
        problems.append(("scan.deadline", "must be shorter than scan.interval, or cycles would pile up"))
    if value["transaction_log.enabled"] and value["kafka.sasl.mechanism"] == "AWS_MSK_IAM":
        problems.append(("transaction_log.enabled", "cannot be true: librdkafka, which reads it, has no AWS_MSK_IAM"))
    return [*problems, *impossible_in_kafka(value)]
