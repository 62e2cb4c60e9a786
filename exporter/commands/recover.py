"""What `abort` and `complete` share: judge afresh, show the plan, ask, carry it out, and say what became of it."""

from __future__ import annotations

import argparse

from exporter.commands.consent import agrees, audit_log
from exporter.commands.document import gaps
from exporter.commands.examine import examine
from exporter.commands.report import complain, with_collector
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.evaluation.evaluate import all_rows
from exporter.evaluation.verdicts import Evaluation, TransactionRow, Verdict
from exporter.kafka.collect import Collector
from exporter.kafka.scope import Scope
from exporter.recovery.audit import AuditError
from exporter.recovery.carry_out import carry_out
from exporter.recovery.plan import Action, document, in_words, plan_for, refusal


def recover(
    options: argparse.Namespace,
    settings: Settings,
    action: Action,
    *,
    forced: Verdict | None = None,
    stuck_after_ms: int = 0,
) -> int:
    """Run `action` on the transaction that the options name; the exit status."""

    def command(collector: Collector) -> int:
        scope = Scope(topic=options.topic, partition=options.partition)
        evaluation = examine(settings, collector, scope, stuck_after_ms=stuck_after_ms)
        row = chosen(options, evaluation)
        if row is None:
            return ExitStatus.COULD_NOT_RUN
        try:
            return _on(options, collector, row, action, forced)
        except AuditError as error:
            complain(str(error))
            return ExitStatus.COULD_NOT_RUN

    return with_collector(settings, command)


def chosen(options: argparse.Namespace, evaluation: Evaluation) -> TransactionRow | None:
    """The open transaction that the options name; None, with a complaint, when it is not there."""
    rows = all_rows(evaluation)
    if options.start_offset is not None:
        named = [row for row in rows if row.start_offset == options.start_offset]
        by = f"at start offset {options.start_offset}"
    else:
        producer = (options.producer_id, options.producer_epoch)
        named = [row for row in rows if (row.producer_id, row.producer_epoch) == producer]
        by = f"of producer {options.producer_id} at epoch {options.producer_epoch}"
    if len(named) == 1:
        return named[0]
    missing = "; ".join(gaps(evaluation.snapshot))
    complain(
        f"no transaction {by} is open on {options.topic}-{options.partition}" + (f" ({missing})" if missing else "")
    )
    return None


def _on(
    options: argparse.Namespace, collector: Collector, row: TransactionRow, action: Action, forced: Verdict | None
) -> int:
    plan = plan_for(action, row)
    print(in_words(plan))
    against = refusal(plan, forced)
    if options.dry_run:
        print(f"dry run: nothing is written{'' if against is None else f'; it would be refused: {against}'}")
        return ExitStatus.ANSWERED if against is None else ExitStatus.REFUSED
    audit = audit_log(options)
    if audit is None:
        return ExitStatus.COULD_NOT_RUN
    audit.step("planned", plan=document(plan), forced=None if forced is None else forced.label)
    if against is not None:
        audit.step("refused", sentence=against)
        complain(f"refused, nothing is written: {against}")
        return ExitStatus.REFUSED
    if not agrees(options, audit):
        return ExitStatus.REFUSED
    result = carry_out(plan, collector, audit)
    if result.is_done:
        print(result.sentence)
        return ExitStatus.ANSWERED
    complain(result.sentence)
    return ExitStatus.COULD_NOT_RUN
