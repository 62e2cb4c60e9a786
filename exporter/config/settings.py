"""Declares every setting: its name, type, default and purpose, at the field that holds its value.

Sections are records; the `kafka` section has its own file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from exporter.config import values
from exporter.config.kafka_section import KafkaSettings, impossible_in_kafka
from exporter.config.table import Setting, Values, setting, settings_in


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSettings:
    """Interval and limits of a cycle."""

    interval_ms: int = setting(
        "scan.interval",
        values.POSITIVE_DURATION,
        "Time from the start of one cycle to the start of the next.",
        default="30s",
    )
    deadline_ms: int = setting(
        "scan.deadline",
        values.POSITIVE_DURATION,
        "Time limit of a cycle, which then publishes the responses that it has. Must be shorter than the interval; five "
        "sixths of it (25s) where it is not set.",
    )
    topics_include: tuple[re.Pattern[str], ...] = setting(
        "scan.topics.include",
        values.PATTERNS,
        "Regular expressions of whole topic names: only matching topics are read. A list, or one expression; all topics "
        "where it is empty.",
        default=[],
    )
    topics_exclude: tuple[re.Pattern[str], ...] = setting(
        "scan.topics.exclude",
        values.PATTERNS,
        "Regular expressions of whole topic names: matching topics are not read. Excluded partitions are counted, and do "
        "not make coverage incomplete; hangs on them are not found.",
        default=[],
    )
    transactions_limit: int = setting(
        "scan.transactions_limit",
        values.whole_number_kind(1, 10_000_000),
        "Open transactions that a cycle examines, the longest idle first; the others are counted, and inconclusive "
        "unless they began just now.",
        default=50000,
    )
    receive_limit_bytes: int = setting(
        "scan.receive_limit",
        values.SIZE,
        "Most memory for the responses of all brokers together, in B, kB, MB or GB; a response beyond it is "
        "refused, and the broker is named. One response may have 100 MiB.",
        default="512MB",
    )

    @property
    def topic_patterns(self) -> tuple[tuple[str, re.Pattern[str]], ...]:
        """Returns each expression that selects topics, with the name of its setting."""
        included = (("scan.topics.include", pattern) for pattern in self.topics_include)
        excluded = (("scan.topics.exclude", pattern) for pattern in self.topics_exclude)
        return (*included, *excluded)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictSettings:
    """Limits for late, overdue and stuck."""

    late_padding_ms: int = setting(
        "verdicts.late_padding",
        values.DURATION,
        "A transaction is late when it is open for longer than transaction.max.timeout.ms and this.",
        default="5m",
    )
    max_timeout_fallback_ms: int = setting(
        "verdicts.max_timeout_fallback",
        values.POSITIVE_DURATION,
        "Used for transaction.max.timeout.ms where no broker's value can be read (DESCRIBE_CONFIGS on the cluster).",
        default="15m",
    )
    overdue_slack_ms: int = setting(
        "verdicts.overdue_slack",
        values.DURATION,
        "A transaction is overdue this long after its own timeout; coordinators check for expired ones every 10 s.",
        default="30s",
    )
    stuck_after_ms: int = setting(
        "verdicts.stuck_after",
        values.POSITIVE_DURATION,
        "A transaction that is completing for longer than this is stuck.",
        default="1m",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedSettings:
    """Times after which a group behind a live transaction is blocked, and the owner of that is silent."""

    blocked_after_ms: int = setting(
        "blocked.after",
        values.DURATION,
        "Consumer groups at a partition's last stable offset are blocked when a live transaction that holds it is open for "
        "longer, and at once behind a suspect.",
        default="30s",
    )
    owner_silent_after_ms: int = setting(
        "blocked.owner_silent_after",
        values.POSITIVE_DURATION,
        "An owner that has written nothing for longer is silent, if that is unusual for its id (docs/verdicts.md).",
        default="1m",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishSettings:
    """The metrics, the page and their address."""

    listen_address: str = setting(
        "publish.listen_address",
        values.LISTEN_ADDRESS,
        "Address and port of /metrics and the status page.",
        default="0.0.0.0:9814",
        needs_restart=True,
    )
    web_config_file: str | None = setting(
        "publish.web_config_file",
        values.PATH,
        "TLS, client certificates, basic auth and headers of the web server, in the format of Prometheus' exporters.",
        needs_restart=True,
    )
    external_url: str | None = setting(
        "publish.external_url",
        values.PAGE_URL,
        "Where people reach the status page, such as https://ktx.example.org: for links to incidents in alerts, the log "
        "and JSON.",
        needs_restart=True,
    )
    runbook_url: str | None = setting(
        "publish.runbook_url",
        values.PAGE_URL,
        "Where the runbooks are, such as https://wiki.example.org/runbooks: the pages link to NAME.md below it. The "
        "exporter's own pages, /runbooks/NAME.md, when left out.",
        needs_restart=True,
    )
    report: str | None = setting(
        "publish.report",
        values.PLACE,
        "The pipeline's report.html, a path or a URI: the exporter shows it at /report, and its pages link to it. It has "
        "transactional ids.",
        needs_restart=True,
    )
    partition_series: Literal["all", "open"] = setting(
        "publish.partition_series",
        values.one_of_kind("all", "open"),
        "`all`: partitions without an open transaction have a 0 series of the longest duration; `open`: they do not.",
        default="all",
    )
    partition_series_limit: int = setting(
        "publish.partition_series_limit",
        values.whole_number_kind(0, 10_000_000),
        "With more partitions than this, `all` falls back to `open`, and a gauge shows it.",
        default=100000,
    )
    suspects_limit: int = setting(
        "publish.suspects_limit",
        values.whole_number_kind(0, 100_000),
        "Suspects with one series each, worst first; the others are counted.",
        default=100,
    )
    blocked_groups_limit: int = setting(
        "publish.blocked_groups_limit",
        values.whole_number_kind(0, 100_000),
        "Blocked consumer groups, by partition, with two series each; the others are counted.",
        default=100,
    )
    stale_after_cycles: int = setting(
        "publish.stale_after_cycles",
        values.whole_number_kind(1, 1000),
        "After this many missed cycles the series of the cluster are dropped; those about the exporter and from the "
        "transaction log stay.",
        default=3,
    )
    transactional_ids: bool = setting(
        "publish.transactional_ids",
        values.SWITCH,
        "Whether /metrics and the status page show transactional ids; with false they are empty, and from a restart on "
        "one without a separator counts as `other`.",
        default=True,
    )
    reload_endpoint: bool = setting(
        "publish.reload_endpoint",
        values.SWITCH,
        "Whether POST /-/reload reads the settings again. SIGHUP always does.",
        default=False,
        needs_restart=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLogSettings:
    """Settings of the transaction log: if and how it is read."""

    enabled: bool = setting(
        "transaction_log.enabled",
        values.SWITCH,
        "Whether `__transaction_state` is read, for the outcome of every transaction. Needs READ and DESCRIBE on it.",
        default=False,
        needs_restart=True,
    )
    lookback_ms: int = setting(
        "transaction_log.lookback",
        values.DURATION,
        "How far back the transaction log is read at the start; records counted by an earlier run do not count again.",
        default="1h",
        needs_restart=True,
    )
    groups: tuple[tuple[str, re.Pattern[str]], ...] = setting(
        "transaction_log.groups",
        values.GROUPS,
        "Groups of transactional ids, as a list of {name, match}: the label `group` is the name of the first "
        "regular expression that matches the whole id, or `other`. In a variable or flag as JSON.",
        default=[],
        needs_restart=True,
    )
    """(name, pattern of whole ids); the first match counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySettings:
    """Settings of the history: its directory and retention."""

    directory: str | None = setting(
        "history.directory",
        values.PLACE,
        "Place for Parquet files with every cycle's open transactions: a path, or a URI such as `s3://BUCKET/KEY`; "
        "nothing is recorded when left out.",
        needs_restart=True,
    )
    """Directory or URI of the history; None records nothing."""
    rotate_interval_ms: int = setting(
        "history.rotate_interval",
        values.POSITIVE_DURATION,
        "Time between two files. A kill loses at most this much history.",
        default="15m",
        needs_restart=True,
    )
    retention_age_ms: int = setting(
        "history.retention_age", values.POSITIVE_DURATION, "Older files are removed.", default="30d", needs_restart=True
    )
    retention_bytes: int = setting(
        "history.retention_size",
        values.SIZE,
        "With more than this in the directory the oldest files are removed: B, kB, MB, GB or TB.",
        default="1GB",
        needs_restart=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineSettings:
    """Path and maximum age of the baseline file."""

    file: str | None = setting(
        "baseline.file",
        values.PLACE,
        "The pipeline's baselines, a path or a URI: usual durations by transactional id, group and topic; read again when "
        "the file changes.",
        needs_restart=True,
    )
    age_ms_max: int = setting(
        "baseline.max_age", values.POSITIVE_DURATION, "An older file is not used.", default="7d", needs_restart=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, validated."""

    kafka: KafkaSettings
    cluster_name: str | None = setting(
        "cluster.name",
        values.NAME,
        "The cluster's name on the status page, in log lines and in JSON, next to its id. Metrics have no such label: "
        "that is Prometheus' configuration.",
        needs_restart=True,
    )
    show_records: bool = setting(
        "incident.show_records",
        values.SWITCH,
        "Read the first record of each new suspect, and show its timestamp and the names of its headers in its incident; "
        "never keys or values.",
        default=False,
    )
    scan: ScanSettings
    verdicts: VerdictSettings
    blocked: BlockedSettings
    publish: PublishSettings
    watch_interval_ms: int = setting(
        "reload.watch_interval",
        values.DURATION,
        "How often files of settings, secrets and certificates are checked for changes; 0 is never.",
        default="10s",
    )
    """0 turns it off."""
    state_file: str = setting(
        "state.file",
        values.STATE_PATH,
        "File that keeps first-seen times over restarts: a path, `none`, or `auto` (in the user's state directory). "
        "A second exporter of the same user and brokers needs its own.",
        default="auto",
        needs_restart=True,
    )
    """A path, `none` or `auto`."""
    capsules_enabled: bool = setting(
        "state.capsules",
        values.SWITCH,
        "Whether cycles around incidents are recorded.",
        default=True,
        needs_restart=True,
    )
    capsules_limit_bytes: int = setting(
        "state.capsules_limit",
        values.SIZE,
        "With more than this the oldest recorded cycles are removed: B, kB, MB or GB.",
        default="64MB",
        needs_restart=True,
    )
    transaction_log: TransactionLogSettings
    history: HistorySettings
    baseline: BaselineSettings
    log_level: str = setting(
        "log.level",
        values.one_of_kind("debug", "info", "warning", "error"),
        "The lowest level on standard error: `debug`, `info`, `warning` or `error`.",
        default="info",
    )
    log_format: Literal["auto", "text", "logfmt", "json"] = setting(
        "log.format",
        values.one_of_kind("auto", "text", "logfmt", "json"),
        "`text`, `logfmt` or `json`; `auto` is `text` on a terminal and `logfmt` elsewhere.",
        default="auto",
        needs_restart=True,
    )
    clusters: tuple[ClusterSettings, ...] = ()
    """Clusters of a fleet; the other settings are then those of the first cluster."""
    fleet_name: str | None = None
    """The cluster's name, if these are the settings of one cluster of a fleet."""
    has_namesakes: bool = False
    """Other clusters of the fleet have the same brokers."""
    expected_cluster_id: str = ""
    """Commands read no cluster with another id; empty: any."""

    @property
    def watched(self) -> tuple[ClusterSettings, ...]:
        """The clusters to read: those of a fleet, or the only one, without a name."""
        return self.clusters or (ClusterSettings(name=None, settings=self),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """One cluster, with the settings that apply to it."""

    name: str | None
    """The value of the label `cluster`; None without a fleet."""
    settings: Settings
    files: tuple[Path, ...] | None = None
    """Files that its settings refer to: secrets, certificates; None where the settings have no other cluster."""
    written: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Sources of its settings, as in `exporter.config.loading.Loaded`."""


SETTINGS = tuple(settings_in(Settings))

BY_NAME: Mapping[str, Setting] = {declared.name: declared for declared in SETTINGS}


def complete_values(value: Values) -> Values:
    """Adds the settings that follow another setting where they are not set."""
    if value["scan.deadline"] is None:
        return {**value, "scan.deadline": max(value["scan.interval"] * 5 // 6, 1)}
    return value


def impossible(value: Values) -> list[tuple[str, str]]:
    """(setting, sentence) for each combination of valid values that cannot work together."""
    problems = []
    if value["scan.deadline"] >= value["scan.interval"]:
        problems.append(("scan.deadline", "must be shorter than scan.interval, or cycles would be missed"))
    if value["publish.report"] is not None and not value["publish.transactional_ids"]:
        problems.append(
            ("publish.report", "shows transactional ids, which publish.transactional_ids hides: leave one out")
        )
    return [*problems, *impossible_in_kafka(value)]
