"""`abort --plan-file`: judges each transaction of a plan again, asks once, and aborts those that are proved to hang."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from exporter.commands.consent import agrees, audit_log, on_cluster
from exporter.commands.context import Context
from exporter.commands.lines import say
from exporter.commands.recover import ClusterAccess, describe_plan, log_plan, logged_failure, reported, say_how_to_write
from exporter.commands.report import complain
from exporter.commands.status import ExitStatus
from exporter.evaluation.evaluate import all_rows
from exporter.evaluation.gaps import gaps
from exporter.evaluation.humanize import humanize_count
from exporter.evaluation.verdicts import Evaluation
from exporter.kafka.collect.scope import Scope
from exporter.recovery.audit import AuditLog
from exporter.recovery.carry_out import RecoveryOutcome, carry_out
from exporter.recovery.plan import Action, Plan, plan_for, refusal, what_changed, which
from exporter.recovery.plan_file import PlanFile, PlanFileError, PlannedAbort, load

ABORTS_MAX = 10
"""Limit without `--max-aborts`: an operator should review a longer plan."""


class Standing(Enum):
    """State of a planned transaction now."""

    HANGS = "hangs"
    REFUSED = "refused"
    """The partition has changed since the plan, or its transaction is no longer proved to hang."""
    GONE = "gone"
    UNREAD = "unread"


@dataclass(frozen=True, slots=True)
class AbortReview:
    """One planned transaction, judged again; with a plan if it is still open."""

    standing: Standing
    evaluation: Evaluation
    plan: Plan | None = None
    against: str = ""
    """Reason why no marker will be written, in a sentence."""


def abort_planned(context: Context, means: ClusterAccess) -> int:
    """Aborts the transactions in the plan file; returns the worst exit status. Raises AuditError."""
    options = context.options
    path = Path(options.plan_file)
    try:
        plan = load(path)
    except PlanFileError as error:
        for problem in error.problems:
            complain(problem)
        return ExitStatus.COULD_NOT_RUN
    aborts_max = ABORTS_MAX if options.max_aborts is None else options.max_aborts
    if len(plan.transactions) > aborts_max:
        planned = humanize_count(len(plan.transactions), "transaction")
        return complain(
            f"refused, nothing is written: the plan has {planned}, more than --max-aborts {aborts_max}; "
            "shorten the plan, or raise --max-aborts",
            ExitStatus.REFUSED,
        )
    if not plan.transactions:
        print("the plan has no transaction: there is nothing to do")
        return ExitStatus.ANSWERED
    judged = [judge(planned, means) for planned in plan.transactions]
    clusters = {judgement.evaluation.snapshot.cluster_id for judgement in judged}
    if clusters != {plan.cluster_id}:
        return complain(
            f"refused, nothing is written: the plan is for cluster {plan.cluster_id}, and this cluster is "
            f"{', '.join(sorted(clusters))}",
            ExitStatus.REFUSED,
        )
    return _agreed_and_done(context, means, plan, judged)


def judge(planned: PlannedAbort, means: ClusterAccess) -> AbortReview:
    """Judges the transaction by its partition's state now."""
    evaluation = means.judge(Scope(topic=planned.topic, partition=planned.partition))
    missing = gaps(evaluation.snapshot)
    rows = [row for row in all_rows(evaluation) if planned.is_same(row)]
    if not rows:
        if len(evaluation.snapshot.partitions) == 0:
            return AbortReview(
                Standing.UNREAD,
                evaluation,
                against="the partition does not exist or is not visible (needs DESCRIBE on the topic)",
            )
        unread = evaluation.snapshot.partitions.answer.any()
        if unread:
            return AbortReview(Standing.UNREAD, evaluation, against="; ".join(missing))
        if any(row.producer_id == planned.producer_id for row in all_rows(evaluation)):
            other = (
                "its producer has another transaction open on this partition, at another start offset: write a new plan"
            )
            return AbortReview(Standing.REFUSED, evaluation, against=other)
        return AbortReview(Standing.GONE, evaluation, against="the transaction is not open any more: nothing to write")
    plan = plan_for(Action.ABORT, rows[0])
    changed = what_changed(planned, rows[0])
    if changed is not None:
        sentence = (
            f"the transaction has changed since the plan was made, {changed}: another client writes to the partition"
        )
        return AbortReview(Standing.REFUSED, evaluation, plan, sentence)
    against = refusal(plan, None, may_force=False) or means.missing_right(rows[0])
    return AbortReview(Standing.HANGS if against is None else Standing.REFUSED, evaluation, plan, against or "")


def _agreed_and_done(context: Context, means: ClusterAccess, plan: PlanFile, judged: list[AbortReview]) -> int:
    for number, (planned, judgement) in enumerate(zip(plan.transactions, judged, strict=True), 1):
        say(
            f"{number}. {planned if judgement.plan is None else describe_plan(judgement.plan, means, judgement.evaluation)}"
        )
        if judgement.against:
            say(f"  nothing will be written: {judgement.against}")
    options = context.options
    asked = [which(each.plan) for each in judged if each.plan is not None and each.standing is Standing.HANGS]
    hanging = len(asked)
    if options.dry_run:
        say(f"dry run{on_cluster(plan.cluster_id)}: nothing is written; {hanging} of {len(judged)} would be aborted")
        if hanging:
            say_how_to_write(context)
        return _worst([_status_of(judgement.standing) for judgement in judged])
    audit = audit_log(context, plan.cluster_id)
    audit.step("plan_file", path=options.plan_file, sha256=plan.sha256, judged=len(judged), transactions=asked)
    if hanging and not agrees(options, audit, {"transactions": asked}, humanize_count(hanging, "ABORT marker")):
        return ExitStatus.REFUSED
    statuses = []
    for number, (planned, judgement) in enumerate(zip(plan.transactions, judged, strict=True), 1):
        if judgement.standing is Standing.HANGS:  # of the others everything is said already
            print(f"{number}. {planned}", flush=True)
        statuses.append(_one(planned, judgement, means, audit))
    return _worst(statuses)


def _one(planned: PlannedAbort, before: AbortReview, means: ClusterAccess, audit: AuditLog) -> int:
    """Judges again while the lock excludes other writers, and aborts. Writes nothing that the operator did not confirm."""
    if before.plan is None or before.standing is not Standing.HANGS:
        return _done(planned, before, before, means, audit)
    with logged_failure(audit, before.plan), audit.exclusively():
        return _done(planned, before, judge(planned, means), means, audit)


def _done(planned: PlannedAbort, before: AbortReview, now: AbortReview, means: ClusterAccess, audit: AuditLog) -> int:
    if now.plan is not None:
        log_plan(audit, now.plan, "judged_again")
    if now.standing is Standing.HANGS:
        assert now.plan is not None, "only what is open can be judged to hang"
        result = carry_out(now.plan, means.partition(planned.topic, planned.partition), audit)
        if result.outcome is RecoveryOutcome.GONE:
            say(result.sentence)
            return ExitStatus.ANSWERED
        return reported(result)
    audit.step(
        now.standing.value,
        topic=planned.topic,
        partition=planned.partition,
        start_offset=planned.start_offset,
        sentence=now.against,
    )
    if now.standing is not Standing.GONE:
        refused = "refused, " if now.standing is Standing.REFUSED else ""
        complain(f"{planned}: {refused}nothing is written: {now.against}")
    elif before.standing is Standing.HANGS:
        say(now.against)
    return _status_of(now.standing)


def _status_of(standing: Standing) -> ExitStatus:
    if standing is Standing.UNREAD:
        return ExitStatus.COULD_NOT_RUN
    return ExitStatus.REFUSED if standing is Standing.REFUSED else ExitStatus.ANSWERED


def _worst(statuses: list[int] | list[ExitStatus]) -> int:
    for status in (ExitStatus.COULD_NOT_RUN, ExitStatus.REFUSED):
        if status in statuses:
            return status
    return ExitStatus.ANSWERED
