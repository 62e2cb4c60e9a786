"""`force-terminate`: makes the coordinator abort the ongoing transaction of a transactional id.

Kafka's own tool silently creates an id that does not exist, by the same request: this command reads the id first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

from exporter.commands.consent import agrees, audit_log, with_audited
from exporter.commands.context import Context
from exporter.commands.describe import described
from exporter.commands.examine import Examiner
from exporter.commands.lines import say
from exporter.commands.recover import counted, dry_run, groups_in_words
from exporter.commands.report import complain
from exporter.commands.standstill import NOT_LISTED, rows_of_producer
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.evaluation.humanize import humanize_count, humanize_duration
from exporter.evaluation.owner import coordinator_ends_at_ms
from exporter.evaluation.verdicts import Policy
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.collector import Collector
from exporter.kafka.collect.scope import EVERYTHING, Scope
from exporter.kafka.errors import BrokerFault, ClusterUnavailableError
from exporter.kafka.lookups import KafkaRequestError, describe_id
from exporter.kafka.visibility.topics import may_hide_topics
from exporter.recovery.audit import AuditLog
from exporter.recovery.plan import records_in_words
from exporter.recovery.termination import CoordinatorOnBrokers, Ending, refusal_to_terminate, terminate
from exporter.snapshot import CoordinatorTransaction, PartitionResult, TransactionState

PARTITIONS_MAX: Final = 10
"""Partitions of which the plan says what the abort costs: their logs are read for it."""


def run(context: Context, settings: Settings) -> int:
    """Fences the id, or reports why not; returns the exit status."""
    options = context.options

    def command(collector: Collector) -> int:
        return _on(context, collector, collector.query(lambda client: describe_id(client, options.transactional_id)))

    return with_audited(settings, command)


def _on(context: Context, collector: Collector, transaction: CoordinatorTransaction) -> int:
    options = context.options
    why = refusal_to_terminate(transaction)
    cost = () if why is not None else tuple(_cost(collector, transaction))
    say("\n  ".join((in_words(transaction, int(time.time() * 1000)), *cost)))
    if options.dry_run:
        return dry_run(context, collector.query(_cluster_id), why, "WRITE on the transactional id")
    if why is not None:
        return complain(f"refused, nothing is written: {why}", ExitStatus.REFUSED)
    audit = audit_log(context, collector.query(_cluster_id))
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


async def _cluster_id(client: ClusterClient) -> str:
    return (await client.topology(())).cluster_id


def in_words(transaction: CoordinatorTransaction, now_ms: int) -> str:
    """The question to the operator."""
    named = (f"{topic}-{partition}" for topic, partition in sorted(transaction.partitions or ()))
    hidden = "partitions that this login does not see (needs DESCRIBE on their topics): what is dropped is not known"
    partitions = ", ".join(named) or (hidden if transaction.has_hidden_partitions else "no partition")
    found = (
        f"force-terminate: coordinator {transaction.coordinator} has {transaction.transactional_id!r} "
        f"{transaction.state.value} at epoch {transaction.producer_epoch} with {partitions}"
    )
    if refusal_to_terminate(transaction) is not None:
        return found
    return f"{found}; fence its producer and abort the ongoing transaction{_until(transaction, now_ms)}"


def _cost(collector: Collector, transaction: CoordinatorTransaction) -> Iterator[str]:
    """Says for each partition what the abort drops, and who waits behind it."""
    partitions = sorted(transaction.partitions or ())
    topics = {topic for topic, _ in partitions}
    scope = Scope(topic=topics.pop()) if len(topics) == 1 else EVERYTHING
    try:
        evaluation = Examiner(collector, Policy(blocked_after_ms=0), search_logs=False).look(scope)
    except (BrokerFault, KafkaRequestError, ClusterUnavailableError) as fault:
        yield f"what is dropped, and who waits, could not be read: {fault}"
        return
    rows = rows_of_producer(evaluation, {transaction.producer_id})
    open_at = {(row.topic, row.partition): row for row in rows}
    examined = evaluation.snapshot.partitions
    for topic, partition in partitions[:PARTITIONS_MAX]:
        row, examined_row = open_at.get((topic, partition)), examined.row(topic, partition)
        if row is not None:
            records = records_in_words(row, counted(collector, row))
            yield f"{topic}-{partition}: {records}; {groups_in_words(row, evaluation)}"
        elif examined_row is not None and examined.answer[examined_row] == int(PartitionResult.BY_OFFSETS):
            yield f"{topic}-{partition}: what is dropped is not known (needs READ on the topic)"
        else:
            yield f"{topic}-{partition}: it could not be read, or has no record of the transaction"
    if len(partitions) > PARTITIONS_MAX:
        yield f"and {humanize_count(len(partitions) - PARTITIONS_MAX, 'more partition')}"
    if collector.query(may_hide_topics):
        yield f"{NOT_LISTED}: what is dropped there is not known"


def _until(transaction: CoordinatorTransaction, now_ms: int) -> str:
    """Says what happens without this command."""
    ends_at_ms = coordinator_ends_at_ms(transaction)
    if ends_at_ms is None or transaction.state is not TransactionState.ONGOING:
        return ""
    return f"; without this its coordinator aborts it within {humanize_duration(max(ends_at_ms - now_ms, 0))}"


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
