"""Findings about brokers: which respond, their settings, and the clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from exporter.doctor.findings import NAMED_MAX, NOT_AUTHORIZED, Finding, FindingLevel, Grant, ok
from exporter.evaluation.humanize import humanize_count, humanize_duration, humanize_names
from exporter.snapshot import BrokerContact, ClockSource, DenyRule, Resource, Snapshot

_CLOCK_OFF_MS = 60_000


def of_brokers(snapshot: Snapshot, contacts: Sequence[BrokerContact]) -> Iterable[Finding]:
    led = {broker.broker: broker.partitions for broker in snapshot.brokers}
    reached = [_contact(contact) for contact in contacts if not contact.failure]
    if reached:
        addresses = humanize_count(len(contacts), "address", "addresses")
        verb = "responds" if len(reached) == 1 else "respond"
        result = f"{len(reached)} of {addresses} {verb}: {humanize_names(reached, shown_max=NAMED_MAX)}"
        yield ok("brokers", result)
    for contact in contacts:
        if contact.failure:
            count = 0 if contact.broker is None else led.get(contact.broker, 0)
            lost = f"transactions on its {humanize_count(count, 'partition')} are not seen" if count else ""
            level = FindingLevel.LIMITED if contact.broker is None else FindingLevel.MISSING
            yield Finding(check="brokers", level=level, result=contact.failure, consequence=lost)
        elif contact.out_of_date:
            cut_off = "its responses prove nothing: other brokers may lead its partitions"
            yield Finding(check="brokers", level=FindingLevel.MISSING, result=contact.out_of_date, consequence=cut_off)
    strangers = snapshot.visibility.strangers
    if strangers:
        names = humanize_names([*map(str, strangers)], shown_max=NAMED_MAX)
        yield Finding(
            check="brokers",
            level=FindingLevel.MISSING,
            result=f"not reached at an address of its own: broker {names}",
            consequence="another broker responds: transactions on its partitions are not seen, none of its ids is proved",
            advice="give each broker its own address: advertised.listeners, and a port-forward for each",
        )
    failed = {contact.broker for contact in contacts if contact.failure}
    for broker in snapshot.brokers:
        if broker.failure is not None and broker.broker not in failed:
            lost = f"transactions on some of its {humanize_count(broker.partitions, 'partition')} are not seen"
            yield Finding(check="brokers", level=FindingLevel.MISSING, result=broker.failure, consequence=lost)


def _contact(contact: BrokerContact) -> str:
    name = contact.address if contact.broker is None else f"{contact.broker} at {contact.address}"
    offered = f"APIs of Kafka {contact.release}" if contact.release else "APIs of no known release"
    return f"{name} ({offered}, {contact.latency_ms or 0:.1f} ms)"


def of_settings(snapshot: Snapshot, denied: Iterable[DenyRule]) -> Finding:
    """`denied` are the rules that may be about the exporter."""
    check, limit = "broker settings", snapshot.max_timeout
    if limit.timeout_ms is not None and not limit.unread:
        return ok(check, f"transaction.max.timeout.ms is {humanize_duration(limit.timeout_ms)}")
    reasons = dict.fromkeys(why for _, why in limit.unread)
    used = "that of the other brokers" if limit.timeout_ms is not None else "verdicts.max_timeout_fallback"
    is_refused = any(why in NOT_AUTHORIZED for why in reasons)
    return Finding(
        check=check,
        level=FindingLevel.LIMITED,
        result=f"transaction.max.timeout.ms could not be read: {humanize_names(tuple(reasons), shown_max=NAMED_MAX)}",
        consequence=f"late transactions are computed with {used}"
        + (", and how one ended on other partitions is not proved" if is_refused else ""),
        grants=(Grant(operation="DescribeConfigs", resource=Resource.CLUSTER),) if is_refused else (),
        denied_by=tuple(
            rule
            for rule in denied
            if is_refused and rule.resource is Resource.CLUSTER and rule.operation in {"All", "DescribeConfigs"}
        ),
    )


def of_clock(snapshot: Snapshot) -> Finding:
    check = "clock"
    if snapshot.clock_source is ClockSource.EXPORTER:
        return ok(check, "the brokers' clock was not needed, or they do not show it: this machine's clock is used")
    offset_ms = abs(snapshot.clock_offset_ms)
    apart = "behind" if snapshot.clock_offset_ms > 0 else "ahead of"
    result = f"this machine's clock is {humanize_duration(offset_ms)} {apart} the controller's"
    if offset_ms < _CLOCK_OFF_MS:
        return ok(check, result)
    return Finding(
        check=check,
        level=FindingLevel.LIMITED,
        result=result,
        consequence="verdicts use the controller's clock; durations that Prometheus computes are wrong by this much",
        advice="synchronize the clocks of this machine and of the brokers (NTP)",
    )
