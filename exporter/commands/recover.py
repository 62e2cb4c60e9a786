"""The common part of `abort` and `complete`: judge, show the plan, ask, judge again, write the marker, report."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from exporter.commands.consent import agrees, audit_log, on_cluster, with_audited
from exporter.commands.context import Context
from exporter.commands.examine import Examiner, policy
from exporter.commands.lines import next_line, say
from exporter.commands.report import complain, why_missing, why_unknown
from exporter.commands.standstill import OF_THOSE_SEEN
from exporter.commands.status import ExitStatus
from exporter.commands.transactions_table import GROUPS_MAX
from exporter.config.settings import Settings
from exporter.evaluation.blocked import group_failures
from exporter.evaluation.evaluate import all_rows
from exporter.evaluation.gaps import gaps
from exporter.evaluation.humanize import humanize_names, printable
from exporter.evaluation.verdicts import Evaluation, TransactionRow, Verdict
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.collector import Collector
from exporter.kafka.collect.held_back import HeldBack, held_back
from exporter.kafka.collect.scope import Scope
from exporter.kafka.errors import BrokerFault, ClusterUnavailableError
from exporter.kafka.lookups import KafkaRequestError, leader_of
from exporter.kafka.markers import lacks_right_to_write_markers
from exporter.publication.page.humanize import humanize_groups
from exporter.recovery.audit import AuditLog
from exporter.recovery.carry_out import MARKERS_NEED_A_RIGHT, RecoveryOutcome, RecoveryResult, carry_out
from exporter.recovery.partition import Partition, PartitionOnBrokers
from exporter.recovery.plan import Action, Plan, document, in_words, plan_for, refusal, what_changed, which

DRY_RUN: Final = "--dry-run"


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """The cluster access that a recovery needs."""

    judge: Callable[[Scope], Evaluation]
    partition: Callable[[str, int], Partition]
    why_missing: Callable[[str, int], str] = "{}-{} does not exist".format
    """Says why there is no such partition."""
    records: Callable[[TransactionRow], HeldBack | None] = lambda _: None
    """Counts what a transaction holds back; None where that is not done."""
    missing_right: Callable[[TransactionRow], str | None] = lambda _: None
    """Says which right to write a marker this login lacks; None where it has it, or brokers do not show it."""


def means_of(settings: Settings, collector: Collector, *, stuck_after_ms: int | None = 0) -> ClusterAccess:
    """The access to a real cluster."""
    return ClusterAccess(
        judge=Examiner(collector, policy(settings, stuck_after_ms=stuck_after_ms)).judge,
        partition=lambda topic, partition: PartitionOnBrokers(collector, topic, partition),
        why_missing=partial(why_missing, collector),
        records=partial(counted, collector),
        missing_right=lambda row: collector.query(partial(_missing_right, row)),
    )


async def _missing_right(row: TransactionRow, client: ClusterClient) -> str | None:
    try:
        lacks_it = await lacks_right_to_write_markers(client, await leader_of(client, row.topic, row.partition))
    except (KafkaRequestError, ClusterUnavailableError):
        return None
    return MARKERS_NEED_A_RIGHT if lacks_it else None


def counted(collector: Collector, row: TransactionRow) -> HeldBack:
    """Counts the records that a transaction holds back, its own and those of others."""
    return collector.query(
        lambda client: held_back(
            client,
            row.topic,
            row.partition,
            producer_id=row.producer_id,
            start_offset=row.start_offset,
        )
    )


def with_means(settings: Settings, command: Callable[[ClusterAccess], int], *, stuck_after_ms: int | None = 0) -> int:
    """Runs `command` as `with_audited` does."""
    return with_audited(
        settings, lambda collector: command(means_of(settings, collector, stuck_after_ms=stuck_after_ms))
    )


def recover(context: Context, means: ClusterAccess, action: Action, *, forced: Verdict | None = None) -> int:
    """Runs `action` on the transaction that the options name; returns the exit status. Raises AuditError."""
    options = context.options
    scope = Scope(topic=options.topic, partition=options.partition)
    evaluation = means.judge(scope)
    row = find_transaction(options, evaluation, means.why_missing)
    if isinstance(row, ExitStatus):
        return row
    plan = plan_for(action, row)
    against = refusal(plan, forced)
    if action is Action.ABORT or against is None:  # a refused completion has decided nothing that a plan could show
        say(describe_plan(plan, means, evaluation))
    against = against or means.missing_right(row)
    if options.dry_run:
        return dry_run(context, evaluation.snapshot.cluster_id, against)
    audit = audit_log(context, evaluation.snapshot.cluster_id)
    log_plan(audit, plan, forced=None if forced is None else forced.label)
    if against is not None:
        return refused(audit, plan, against)
    if not agrees(options, audit, which(plan)):
        return ExitStatus.REFUSED
    with logged_failure(audit, plan), audit.exclusively():
        return _judged_and_done(options, means, plan, forced, audit)


def describe_plan(plan: Plan, means: ClusterAccess, evaluation: Evaluation) -> str:
    """The plan in words, with the records that the transaction holds back, and the consumer groups behind it."""
    return f"{in_words(plan, means.records(plan.row))}\n  {groups_in_words(plan.row, evaluation)}"


def groups_in_words(row: TransactionRow, evaluation: Evaluation) -> str:
    """Names the visible consumer groups behind a transaction, and those of which nothing is known."""
    groups = list(map(printable, humanize_groups(row)))
    impact = evaluation.snapshot.impact
    waiting = "none that this login sees has committed offsets here"
    if groups:
        waiting = f"{humanize_names(groups, shown_max=GROUPS_MAX)} ({OF_THOSE_SEEN})"
    if impact is None:
        waiting = "unknown, no broker was queried"
    elif failures := group_failures(impact, (row.topic, row.partition)):
        waiting = f"{waiting}; not all are known: {humanize_names(failures, shown_max=GROUPS_MAX)}"
    # Beside the records that wait, which are counted without them.
    markers = " (their lag counts end markers too)" if any(group.waiting_records for group in row.groups) else ""
    return f"consumer groups{markers}: {waiting}"


def _judged_and_done(
    options: argparse.Namespace, means: ClusterAccess, asked: Plan, forced: Verdict | None, audit: AuditLog
) -> int:
    """Judges again while the lock excludes other writers: the question and the lock may have taken time."""
    row = find_transaction(
        options, means.judge(Scope(topic=options.topic, partition=options.partition)), means.why_missing
    )
    if isinstance(row, ExitStatus):
        is_unread = row is ExitStatus.INCOMPLETE
        found = "its partition could not be read" if is_unread else "the transaction was not open any more"
        audit.step("ended", done=False, sentence=f"{found} at the second evaluation")
        return row
    plan = plan_for(asked.action, row)
    changed = what_changed(asked.row, row)
    if changed is None and plan.marker != asked.marker:  # a coordinator that has lost its log may decide again
        changed = f"its coordinator had decided {asked.row.coordinator_state}, and has {row.coordinator_state} now"
    if changed is not None:
        return refused(audit, plan, f"the transaction has changed since it was shown, {changed}: run the command again")
    against = refusal(plan, forced)
    if against is not None:
        return refused(audit, plan, against)
    return reported(carry_out(plan, means.partition(row.topic, row.partition), audit))


class LoggedInterrupt(KeyboardInterrupt):
    """The operator pressed Ctrl-C, and the audit log has the result of the marker."""


@contextmanager
def logged_failure(audit: AuditLog, plan: Plan) -> Iterator[None]:
    """Logs the end if waiting for the lock or judging again fails, and raises the failure again. Raises AuditError."""
    try:
        yield
    except LoggedInterrupt:
        raise
    except (BrokerFault, KafkaRequestError, ClusterUnavailableError, KeyboardInterrupt) as error:
        sentence = f"nothing was written: {error}"
        if isinstance(error, KeyboardInterrupt):
            sentence = "stopped by Ctrl-C: a marker was sent only if the audit log has the step `sending`"
        audit.step("ended", **which(plan), sentence=sentence)
        raise


def find_transaction(
    options: argparse.Namespace, evaluation: Evaluation, why_missing: Callable[[str, int], str]
) -> TransactionRow | ExitStatus:
    """The open transaction that the options name; a status, with a message, if it is not there, or nobody knows."""
    rows = all_rows(evaluation)
    if options.start_offset is not None:
        named = [row for row in rows if row.start_offset == options.start_offset]
        by = f"at start offset {options.start_offset}"
    else:
        producer = (options.producer_id, options.producer_epoch, max(options.coordinator_epoch, 0))
        named = [
            row for row in rows if (row.producer_id, row.producer_epoch, max(row.coordinator_epoch, 0)) == producer
        ]
        by = (
            f"of producer {options.producer_id} at epoch {options.producer_epoch} and coordinator epoch "
            f"{options.coordinator_epoch}"
        )
    if len(named) == 1:
        return named[0]
    if len(evaluation.snapshot.partitions) == 0:
        return complain(why_missing(options.topic, options.partition))
    if unknown := why_unknown(evaluation, options.topic, options.partition):
        return complain(unknown, ExitStatus.INCOMPLETE)
    missing = "; ".join(gaps(evaluation.snapshot))
    others = humanize_names([str(row.start_offset) for row in rows], shown_max=GROUPS_MAX)
    return complain(
        f"no transaction {by} is open on {options.topic}-{options.partition}"
        + (f"; those that are open begin at {others}" if others else "")
        + (f" ({missing})" if missing else "")
    )


def dry_run(context: Context, cluster_id: str, against: str | None, needs: str = "") -> int:
    """Prints whether the command would write or refuse, and the command that writes.

    `needs` is a right of which brokers do not say whether this login has it.
    """
    more = f"; it would be refused: {against}" if against is not None else ""
    if needs and against is None:
        more = f"; where there are ACLs, the command needs {needs}: whether this login has that is not visible"
    say(f"dry run{on_cluster(cluster_id)}: nothing is written{more}")
    if against is None:
        say_how_to_write(context)
    return ExitStatus.ANSWERED if against is None else ExitStatus.REFUSED


def say_how_to_write(context: Context) -> None:
    """Prints the command of a dry run again, as one that asks and writes."""
    words = [word for word in context.words if word != DRY_RUN]
    if words:
        say(next_line(words))


def log_plan(audit: AuditLog, plan: Plan, step: str = "planned", *, forced: str | None = None) -> None:
    """Raises AuditError."""
    audit.step(step, plan=document(plan), forced=forced)


def refused(audit: AuditLog, plan: Plan, against: str) -> int:
    """Prints and logs the refusal. Raises AuditError."""
    audit.step("refused", **which(plan), sentence=against)
    return complain(f"refused, nothing is written: {against}", ExitStatus.REFUSED)


def reported(result: RecoveryResult) -> int:
    """Prints the result of a plan. Raises LoggedInterrupt if the operator pressed Ctrl-C."""
    if result.is_done:
        say(result.sentence)
        return ExitStatus.ANSWERED
    complain(result.sentence)
    if result.outcome is RecoveryOutcome.INTERRUPTED:
        raise LoggedInterrupt
    return ExitStatus.COULD_NOT_RUN
