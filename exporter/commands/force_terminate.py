"""`force-terminate`: makes the coordinator abort the ongoing transaction of a transactional id.

Kafka's own tool silently creates an id that does not exist, by the same request: this command reads the id first.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from exporter.commands.consent import agrees, audit_log, with_audited
from exporter.commands.context import Context
from exporter.commands.describe import described
from exporter.commands.lines import say
from exporter.commands.report import complain
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.evaluation.humanize import humanize_duration
from exporter.evaluation.owner import coordinator_ends_at_ms
from exporter.kafka.collect.collector import Collector
from exporter.kafka.errors import BrokerFault, ClusterUnavailableError
from exporter.kafka.lookups import KafkaRequestError, describe_id
from exporter.recovery.audit import AuditLog
from exporter.recovery.termination import CoordinatorOnBrokers, Ending, refusal_to_terminate, terminate
from exporter.snapshot import CoordinatorTransaction, TransactionState


def run(context: Context, settings: Settings) -> int:
    """Fences the id, or reports why not; returns the exit status."""
    options = context.options

    def command(collector: Collector) -> int:
        return _on(context, collector, collector.query(lambda client: describe_id(client, options.transactional_id)))

    return with_audited(settings, command)


def _on(context: Context, collector: Collector, transaction: CoordinatorTransaction) -> int:
    options = context.options
    say(in_words(transaction, int(time.time() * 1000)))
    why = refusal_to_terminate(transaction)
    if why is not None:
        return complain(f"refused, nothing is written: {why}", ExitStatus.REFUSED)
    if options.dry_run:
        print("dry run: nothing is written")
        return ExitStatus.ANSWERED
    audit = audit_log(context)
    audit.step("planned", action="force-terminate", transaction=described(transaction, int(time.time() * 1000)))
    if not agrees(options, audit, {"transactional_id": transaction.transactional_id}):
        return ExitStatus.REFUSED
    with ExitStack() as stack:
        try:
            stack.enter_context(audit.exclusively())
        except KeyboardInterrupt:
            audit.step(
                "ended",
                transactional_id=transaction.transactional_id,
                done=False,
                error="stopped by Ctrl-C: nothing was sent",
            )
            raise
        return _terminate(collector, transaction, audit)


def in_words(transaction: CoordinatorTransaction, now_ms: int) -> str:
    """The question to the operator."""
    named = (f"{topic}-{partition}" for topic, partition in sorted(transaction.partitions or ()))
    partitions = ", ".join(named) or "no partition"
    return (
        f"force-terminate: coordinator {transaction.coordinator} has {transaction.transactional_id!r} "
        f"{transaction.state.value} at epoch {transaction.producer_epoch} with {partitions}; "
        f"fence its producer and abort the ongoing transaction{_until(transaction, now_ms)}"
    )


def _until(transaction: CoordinatorTransaction, now_ms: int) -> str:
    """Says what happens without this command."""
    ends_at_ms = coordinator_ends_at_ms(transaction)
    if ends_at_ms is None or transaction.state is not TransactionState.ONGOING:
        return ""
    return f"; without this its coordinator aborts it in {humanize_duration(max(ends_at_ms - now_ms, 0))}"


def _terminate(collector: Collector, transaction: CoordinatorTransaction, audit: AuditLog) -> int:
    """Fences the id, and waits until the coordinator has aborted its transaction. Raises AuditError before it writes."""
    audit.step(
        "sending",
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
    )
    try:
        result = terminate(transaction, CoordinatorOnBrokers(collector, transaction.transactional_id))
    except (BrokerFault, KafkaRequestError, ClusterUnavailableError, KeyboardInterrupt) as left:
        audit.step("ended", transactional_id=transaction.transactional_id, done=False, error=str(left) or "Ctrl-C")
        raise
    is_done = result.ending is Ending.ABORTED
    audit.step(
        "ended",
        transactional_id=transaction.transactional_id,
        done=is_done,
        outcome=result.ending.value,
        error=None if is_done else result.sentence,
    )
    if is_done:
        say(result.sentence)
        return ExitStatus.ANSWERED
    complain(result.sentence)
    return ExitStatus.REFUSED if result.ending is Ending.REFUSED else ExitStatus.COULD_NOT_RUN
