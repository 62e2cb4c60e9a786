"""Decides which settings of a cluster prevent hanging transactions, and which leave it exposed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from exporter.evaluation.humanize import humanize_count, humanize_names
from exporter.snapshot.origin import Protection

REPLICAS_MIN = 3
IN_SYNC_MIN = 2
TRANSACTION_VERSION = 2
NOT_READ = "not read"
ADMIN_FILE = "admin.properties"
"""Name of the file with an administrator's login in the printed commands of Kafka's own tools."""
_NAMED_MAX = 3


class ProtectionState(Enum):
    """State of a protective measure."""

    GOOD = "good"
    EXPOSED = "exposed"
    UNKNOWN = "unknown"
    """The measure could not be read, or is not a setting of the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Setting that prevents a hang, and its state."""

    name: str
    state: ProtectionState = ProtectionState.UNKNOWN
    found: str
    """Present setting, as a phrase."""
    advice: str
    """Action to take, and why it helps."""
    command: str = ""
    """Command of Kafka's own tools that does it, without the options that name the cluster."""

    def on(self, connection: str) -> Measure:
        """Returns the measure with the command in its advice; the options `connection` name the cluster."""
        tool, _, options = self.command.partition(" ")
        who = f" (an administrator's login is in {ADMIN_FILE})" if ADMIN_FILE in connection else ""
        line = f"{self.advice}{who}: {tool} {connection} {options}"
        return replace(self, advice=line, command="") if tool else self


def _state(*, is_good: bool | None) -> ProtectionState:
    """Returns the state for a setting; `is_good` is None if it is not known."""
    return ProtectionState.UNKNOWN if is_good is None else ProtectionState.GOOD if is_good else ProtectionState.EXPOSED


def _transaction_version(protection: Protection) -> Measure:
    level = protection.features.get("transaction.version", 0)
    is_read = bool(protection.features)
    old = sorted({release for release in protection.releases.values() if re.match(r"[0-3]\.", release)})
    first = f"; brokers of Kafka {humanize_names(old, shown_max=_NAMED_MAX)} do not have it: upgrade them first"
    return Measure(
        name="transaction.version",
        state=_state(is_good=level >= TRANSACTION_VERSION if is_read else None),
        found=f"finalized at {level}" if is_read else NOT_READ,
        advice="with version 2 (Kafka 4.0, KIP-890) every transaction has an epoch of its own, so a partition refuses a "
        f"late record; clients need the protocol too (Java 4.0, others as their notes say){first if old else ''}",
        command="" if old else "kafka-features.sh upgrade --feature transaction.version=2",
    )


def _verification(protection: Protection) -> Measure:
    name = "transaction.partition.verification.enable"
    return Measure(
        name=name,
        state=_of_brokers(protection, name, lambda value: value == "true"),
        found=_values(protection, name),
        advice="with it (Kafka 3.6, KIP-890) a leader asks the coordinator before the first record of a transaction, and "
        "refuses one that belongs to none; no restart is needed",
        command=f"kafka-configs.sh --alter --entity-type brokers --entity-default --add-config {name}=true",
    )


def _unclean_of_brokers(protection: Protection) -> Measure:
    name = "unclean.leader.election.enable"
    return Measure(
        name=name,
        state=_of_brokers(protection, name, lambda value: value == "false"),
        found=_values(protection, name),
        advice="with false, for the topic too, only a replica that has every marker can become leader",
    )


def _unclean_of_state_topic(protection: Protection) -> Measure:
    name = "unclean.leader.election.enable"
    value = protection.state_topic_configs.get(name)
    return Measure(
        name=f"{name} of __transaction_state",
        state=_state(is_good=None if value is None else value == "false"),
        found=value or NOT_READ,
        advice="with false only a replica that has every decision can become coordinator",
    )


def _replicas(protection: Protection) -> Measure:
    count = protection.state_topic_replicas
    return Measure(
        name="replicas of __transaction_state",
        state=_state(is_good=None if count is None else count >= REPLICAS_MIN),
        found=NOT_READ if count is None else str(count),
        advice=f"{REPLICAS_MIN} or more: the log of a coordinator is lost with the disk of its last replica",
    )


def _in_sync(protection: Protection) -> Measure:
    lagging = protection.state_topic_lagging
    found = f"{humanize_count(lagging, 'partition')} with fewer than replicas" if lagging else "all replicas"
    return Measure(
        name="in-sync replicas of __transaction_state",
        state=_state(is_good=None if lagging is None else not lagging),
        found=NOT_READ if lagging is None else found,
        advice="a replica that lags cannot become coordinator without losing decisions: find out why it lags",
    )


def number_of(value: str | None) -> int | None:
    """A configuration of Kafka's types INT and LONG; None for anything else that a broker returns."""
    return int(value) if value is not None and re.fullmatch("[0-9]{1,19}", value) else None


def _min_in_sync(protection: Protection) -> Measure:
    count = number_of(protection.state_topic_configs.get("min.insync.replicas"))
    return Measure(
        name="min.insync.replicas of __transaction_state",
        state=_state(is_good=None if count is None else count >= IN_SYNC_MIN),
        found=NOT_READ if count is None else str(count),
        advice=f"{IN_SYNC_MIN} or more: a decision is then on two disks before it counts",
    )


def _cleanup(protection: Protection) -> Measure:
    value = protection.state_topic_configs.get("cleanup.policy")
    return Measure(
        name="cleanup.policy of __transaction_state",
        state=_state(is_good=None if value is None else value == "compact"),
        found=value or NOT_READ,
        advice="compact alone: with delete, retention removes the states of ids that are in use",
    )


def _releases(protection: Protection) -> Measure:
    releases = sorted({release for release in protection.releases.values() if release})
    return Measure(
        name="versions of the brokers",
        state=_state(is_good=len(releases) == 1 if releases else None),
        found=humanize_names(releases, shown_max=_NAMED_MAX) or NOT_READ,
        advice="one version: a leader with an older one does not verify as the others do; end the upgrade",
    )


CHECKS: Mapping[str, Callable[[Protection], Measure]] = {
    "transaction_version": _transaction_version,
    "partition_verification": _verification,
    "state_topic_unclean_election": _unclean_of_state_topic,
    "state_topic_replicas": _replicas,
    "state_topic_in_sync": _in_sync,
    "state_topic_min_in_sync": _min_in_sync,
    "state_topic_cleanup": _cleanup,
    "unclean_election": _unclean_of_brokers,
    "broker_versions": _releases,
}
"""The checks by the value of the label `check`, in order of effect."""


def _of_brokers(protection: Protection, name: str, is_good: Callable[[str], bool]) -> ProtectionState:
    """A broker that returns its settings without this one is too old for it."""
    values = [settings.get(name, "") for settings in protection.broker_configs.values()]
    return _state(is_good=all(map(is_good, values)) if values else None)


def _values(protection: Protection, name: str) -> str:
    """`true`, or with brokers where they differ."""
    values = {broker: settings.get(name, "not offered") for broker, settings in protection.broker_configs.items()}
    different = sorted(set(values.values()))
    if len(different) == 1:
        return different[0]
    return (
        humanize_names([f"broker {broker}: {value}" for broker, value in sorted(values.items())], shown_max=_NAMED_MAX)
        or NOT_READ
    )
