"""`once`: runs one full cycle, including the second read, and prints it: a smoke test, and a quick view in an incident."""

from __future__ import annotations

import argparse
import platform

from exporter import __version__
from exporter.commands.context import Context
from exporter.commands.document import document
from exporter.commands.examine import Judge
from exporter.commands.report import complain_of_gaps, with_collector
from exporter.commands.rows import as_json
from exporter.commands.status import ExitStatus
from exporter.commands.transactions_table import summary, with_summary
from exporter.config.settings import Settings
from exporter.daemon.wiring import policy_of, publish_options_of
from exporter.evaluation.evaluate import all_rows, worst_first
from exporter.evaluation.gaps import gaps
from exporter.evaluation.verdicts import Evaluation
from exporter.kafka.collect.collector import Collector
from exporter.publication.publication import Publication
from exporter.status import ClusterStatus, ProcessStatus


def run(context: Context, settings: Settings) -> int:
    """Print one cycle; returns the exit status."""
    options = context.options
    return with_collector(settings, lambda collector: _once(options, settings, collector))


def _once(options: argparse.Namespace, settings: Settings, collector: Collector) -> int:
    """Every transaction is described, because there is no next cycle."""
    evaluation = Judge(collector, policy_of(settings), search_logs=False).look()
    print(_printed(settings, evaluation, options.format))
    return ExitStatus.INCOMPLETE if complain_of_gaps(gaps(evaluation.snapshot)) else ExitStatus.ANSWERED


def _printed(settings: Settings, evaluation: Evaluation, output: str) -> str:
    if output == "json":
        return as_json(document(evaluation, all_rows(evaluation), cluster_name=settings.cluster_name))
    if output == "prometheus":
        return _exposition(settings, evaluation)
    rows = worst_first(evaluation)
    return with_summary(evaluation, rows) if rows else summary(evaluation)


def _exposition(settings: Settings, evaluation: Evaluation) -> str:
    from exporter.publication.exposition import Renderer  # noqa: PLC0415 - the other formats do without

    snapshot = evaluation.snapshot
    process = ProcessStatus(
        version=__version__, python_version=platform.python_version(), started_at_ms=snapshot.taken_at_ms
    )
    status = ClusterStatus(
        cycles=1,
        last_cycle_duration_seconds=(snapshot.finished_at_ms - snapshot.taken_at_ms) / 1000,
        last_cycle_succeeded=True,
        last_success_at_ms=snapshot.finished_at_ms,
        snapshot_taken_at_ms=snapshot.taken_at_ms,
        interval_ms=settings.scan.interval_ms,
        stale_after_cycles=settings.publish.stale_after_cycles,
    )
    publication = Publication(
        evaluation=evaluation, process=process, status=status, options=publish_options_of(settings)
    )
    return Renderer().render(publication).text.body.decode().rstrip("\n")
