"""`find-hanging`: prints suspects with their evidence, of the whole cluster or of one topic or broker."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from exporter.commands.clusters import ClusterResult, on_each
from exporter.commands.context import Context
from exporter.commands.evaluations import MINUTE_MS, Results, has_output, render_evaluations, status_of_evaluations
from exporter.commands.examine import Examiner, completing, for_output, policy
from exporter.commands.lines import connection_of, next_line
from exporter.commands.option_types import KNOWN_STATES, UNKNOWN
from exporter.commands.report import complain, why_missing, with_collector
from exporter.commands.rows import output_format, paint_for
from exporter.commands.status import ExitStatus
from exporter.commands.watch import watch
from exporter.config.settings import ClusterSettings, Settings
from exporter.evaluation.evaluate import worst_first
from exporter.evaluation.humanize import humanize_count
from exporter.evaluation.verdicts import Evaluation, TransactionRow
from exporter.files import write_new
from exporter.kafka.collect.collector import Collector
from exporter.kafka.collect.scope import Scope
from exporter.kafka.errors import ErrorCode
from exporter.kafka.lookups import KafkaRequestError
from exporter.recovery.plan_file import render_plan_file


def run(context: Context, settings: Settings) -> int:
    """Prints the suspects; returns the exit status."""
    options = context.options
    against = wrong_usage(options)
    if against is not None:
        return complain(against, ExitStatus.WRONG_USAGE)
    if options.plan_file is not None and Path(options.plan_file).exists():
        return complain(f"{options.plan_file} exists already and is not overwritten: remove it or name another file")
    if len(settings.clusters) > 1 and options.watch is not None:
        return complain("--watch is about one cluster: choose it by --cluster NAME", ExitStatus.WRONG_USAGE)
    if len(settings.clusters) > 1 and options.plan_file is not None:
        return complain("--plan-file is about one cluster: choose it by --cluster NAME", ExitStatus.WRONG_USAGE)
    if options.watch is not None:
        return with_collector(settings, lambda collector: _watch(context, settings, collector))
    return _find(context, settings)


def _watch(context: Context, settings: Settings, collector: Collector) -> int:
    options, scope = context.options, _scope(context.options)
    judge = _judge(options, settings, collector, shows_progress=True)
    (cluster,) = settings.watched

    def look() -> Evaluation:
        evaluation = judge.look(scope)  # a table does not show what for_output adds
        return for_output(evaluation, collector, options.format, scope) if options.format == "json" else evaluation

    return watch(
        options,
        look,
        lambda evaluation: _printed(context, (ClusterResult(cluster, evaluation),)),
    )


def _printed(context: Context, results: Results) -> str:
    options = context.options
    return render_evaluations(results, partial(_rows, options), output_format(options.format), paint_for(context))


def _scope(options: argparse.Namespace) -> Scope:
    return Scope(topic=options.topic, partition=options.partition, broker=options.broker_id)


def _judge(options: argparse.Namespace, settings: Settings, collector: Collector, *, shows_progress: bool) -> Examiner:
    known = policy(settings, stuck_after_ms=options.stuck_after, overdue_slack_ms=options.overdue_slack)
    return Examiner(collector, known, shows_progress=shows_progress)


def wrong_usage(options: argparse.Namespace) -> str | None:
    """Options that cannot be combined, in a sentence."""
    if options.partition is not None and options.topic is None:
        return "--partition needs --topic"
    if options.watch is not None:
        if options.exit_code or options.plan_file is not None:
            return "--watch cannot be combined with --exit-code or --plan-file: it has no single result"
        if options.format == "csv":
            return "--watch prints tables or JSON, not CSV"
    return None


def _find(context: Context, settings: Settings) -> int:
    options, scope, is_fleet = context.options, _scope(context.options), bool(settings.clusters)

    def look(cluster: ClusterSettings, collector: Collector) -> Evaluation:
        evaluation = _judge(options, cluster.settings, collector, shows_progress=not is_fleet).judge(scope)
        if not is_fleet and len(evaluation.snapshot.partitions) == 0 and scope != Scope():
            why = ": the broker does not exist, or leads none"
            if options.topic is not None:
                of_broker = "" if options.broker_id is None else f", or broker {options.broker_id} does not lead it"
                why = f": {why_missing(collector, options.topic, options.partition)}{of_broker}"
            raise KafkaRequestError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name, f"no partition matches these options{why}"
            )
        return for_output(evaluation, collector, options.format, scope)

    results = on_each(settings, look)
    found = [result.value for result in results if result.value is not None]
    if has_output(results, output_format(options.format)):
        print(_printed(context, results))
    unwaited = (
        0 if is_fleet else sum(len({each.producer_id for each in completing(evaluation)}) for evaluation in found)
    )
    if unwaited:
        complain(
            f"{unwaited} {'transaction is' if unwaited == 1 else 'transactions are'} completing and not stuck so far; "
            "their end is not known yet"
        )
    status = status_of_evaluations(results, output_format(options.format))
    rows = [row for evaluation in found for row in _rows(options, evaluation)]
    is_planned = options.plan_file is not None and found
    if is_planned and not _write_plan(Path(options.plan_file), found[0], rows, connection_of(options)):
        return ExitStatus.COULD_NOT_RUN
    is_hanging = any(row.verdict.is_hanging for row in rows)
    return ExitStatus.HANGING if options.exit_code and is_hanging and status is ExitStatus.ANSWERED else status


def _rows(options: argparse.Namespace, evaluation: Evaluation) -> tuple[TransactionRow, ...]:
    return selected(
        evaluation,
        show_all=options.all,
        at_least_ms=options.max_transaction_timeout * MINUTE_MS,
        states=options.states,
    )


def selected(
    evaluation: Evaluation, *, show_all: bool = False, at_least_ms: int = 0, states: Sequence[str] = ()
) -> tuple[TransactionRow, ...]:
    """Suspects at least that old and every proved hang, or everything that is open, in `states` or any; worst first."""
    if show_all:
        rows = worst_first(evaluation)
    else:
        rows = tuple(row for row in evaluation.suspects if row.verdict.is_hanging or row.duration_ms >= at_least_ms)
    return tuple(row for row in rows if not states or _state(row) in states)


def _state(row: TransactionRow) -> str | None:
    return row.coordinator_state if row.coordinator_state in KNOWN_STATES else UNKNOWN


def _write_plan(path: Path, evaluation: Evaluation, rows: Sequence[TransactionRow], connection: Sequence[str]) -> bool:
    """False, with a message, if it could not be written."""
    snapshot = evaluation.snapshot
    text = render_plan_file(snapshot.cluster_id, snapshot.taken_at_ms, rows)
    try:
        write_new(path, text.encode())
    except OSError as error:
        complain(f"the plan was not written: {path}: {error.strerror or error}")
        return False
    hangs = [row.has_producer for row in rows if row.verdict.is_hanging]
    hanging = humanize_count(sum(hangs), "proved hanging transaction")
    complain(f"{path} has a plan to abort {hanging}{': read it before the next command' if any(hangs) else ''}")
    if not all(hangs):
        left_out = humanize_count(len(hangs) - sum(hangs), "hang")
        complain(f"it leaves out {left_out} whose producer is unknown without READ on the topic")
    if any(hangs):
        words = ["abort", "--plan-file", str(path), "--dry-run", *connection]
        print(next_line(words), file=sys.stderr)
    return True
