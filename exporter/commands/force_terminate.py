"""`force-terminate`: have the coordinator abort what a transactional id has ongoing.

Kafka's own tool creates an id that does not exist, by the same request, and says nothing: this one looks first.
"""

from __future__ import annotations

import argparse
import time

from exporter.commands.consent import agrees, audit_log
from exporter.commands.describe import described
from exporter.commands.report import complain, with_collector
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.kafka.collect import Collector
from exporter.kafka.errors import BrokerFault, ClusterUnavailableError, ErrorCode
from exporter.kafka.inquiry import Inquiry
from exporter.kafka.markers import fence
from exporter.kafka.questions import RefusedError, describe_id
from exporter.recovery.audit import AuditError, AuditLog
from exporter.snapshot import CoordinatorTransaction, TransactionState

WAIT_SECONDS = 30.0
POLL_SECONDS = 0.2


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Fence the id, or say why not; the exit status."""

    def command(collector: Collector) -> int:
        it = collector.inquire(lambda inquiry: describe_id(inquiry, options.transactional_id))
        try:
            return _on(options, collector, it)
        except AuditError as error:
            complain(str(error))
            return ExitStatus.COULD_NOT_RUN

    return with_collector(settings, command)


def _on(options: argparse.Namespace, collector: Collector, it: CoordinatorTransaction) -> int:
    print(in_words(it))
    if it.state is not TransactionState.ONGOING:
        complain(f"refused, nothing is written: only an Ongoing transaction can be terminated, it is {it.state.value}")
        return ExitStatus.REFUSED
    if options.dry_run:
        print("dry run: nothing is written")
        return ExitStatus.ANSWERED
    audit = audit_log(options)
    if audit is None:
        return ExitStatus.COULD_NOT_RUN
    audit.step("planned", action="force-terminate", transaction=described(it, int(time.time() * 1000)))
    if not agrees(options, audit):
        return ExitStatus.REFUSED
    return _fence(collector, it, audit)


def in_words(it: CoordinatorTransaction) -> str:
    """What a person is asked to agree to."""
    partitions = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(it.partitions or ())) or "no partition"
    return (
        f"force-terminate: coordinator {it.coordinator} has {it.transactional_id!r} {it.state.value} at epoch "
        f"{it.producer_epoch} with {partitions}; fence its producer and abort what is ongoing"
    )


def _fence(collector: Collector, it: CoordinatorTransaction, audit: AuditLog) -> int:
    """Ask until the coordinator has aborted it; asking again is harmless, an id that is fenced stays fenced."""
    audit.step("sending", transactional_id=it.transactional_id)
    try:
        error = _fence_until_done(collector, it)
    except (BrokerFault, RefusedError, ClusterUnavailableError, KeyboardInterrupt) as left:
        audit.step("ended", transactional_id=it.transactional_id, done=False, error=str(left) or "Ctrl-C")
        raise
    audit.step("ended", transactional_id=it.transactional_id, done=error is None, error=error)
    if error is None:
        print(f"{it.transactional_id!r} is fenced and its transaction aborted")
        return ExitStatus.ANSWERED
    complain(explained(it, error))
    return ExitStatus.COULD_NOT_RUN


def _fence_until_done(collector: Collector, it: CoordinatorTransaction) -> str | None:
    """None when it is done, else the error that does not pass."""
    until = time.monotonic() + WAIT_SECONDS
    while True:
        error = collector.inquire(lambda inquiry: _fence_once(inquiry, it))
        if error != ErrorCode.CONCURRENT_TRANSACTIONS.name or time.monotonic() > until:
            return error
        time.sleep(POLL_SECONDS)


async def _fence_once(inquiry: Inquiry, it: CoordinatorTransaction) -> str | None:
    """None when it is done, else the error's name. The coordinator is looked up anew: it may have moved."""
    now = await describe_id(inquiry, it.transactional_id)
    return await fence(inquiry, now.coordinator, it.transactional_id, it.timeout_ms)


def explained(it: CoordinatorTransaction, error: str) -> str:
    """What an error of the coordinator means here."""
    if error == ErrorCode.CONCURRENT_TRANSACTIONS.name:
        return (
            f"the coordinator was still completing {it.transactional_id!r} after {WAIT_SECONDS:.0f} s: its markers are not "
            "getting through; see find-hanging for stuck_completing"
        )
    if error == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.name:
        return f"we may not fence {it.transactional_id!r}: grant WRITE on the transactional id to this principal"
    return f"the coordinator refused with {error}"
