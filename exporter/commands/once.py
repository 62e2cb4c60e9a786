"""`once`: runs one full cycle, including the second read, and prints it: a smoke test, and a quick view in an incident."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping

from exporter import __version__
from exporter.commands.clusters import on_each
from exporter.commands.context import Context
from exporter.commands.document import document
from exporter.commands.everywhere import printed_everywhere, status_everywhere
from exporter.commands.examine import Judge
from exporter.commands.lines import fitted, terminal_width
from exporter.commands.report import complain_of_gaps, with_collector
from exporter.commands.rows import Paint, as_json, paint_for
from exporter.commands.status import ExitStatus
from exporter.commands.transactions_table import summary, with_summary
from exporter.config.settings import ClusterSettings, Settings
from exporter.daemon.wiring import policy_of, publish_options_of
from exporter.evaluation.evaluate import all_rows, worst_first
from exporter.evaluation.gaps import gaps
from exporter.evaluation.verdicts import Evaluation
from exporter.kafka.collect.collector import Collector
from exporter.publication.publication import Publication
from exporter.status import ClusterStatus, ProcessStatus


def run(context: Context, settings: Settings) -> int:
    """Print one cycle; returns the exit status."""
    if settings.clusters:
        return _once_everywhere(context, settings)
    return with_collector(settings, lambda collector: _once(context, settings, collector))


def _once_everywhere(context: Context, settings: Settings) -> int:
    def look(cluster: ClusterSettings, collector: Collector) -> Evaluation:
        return Judge(collector, policy_of(cluster.settings), search_logs=False, shows_progress=False).look()

    results = on_each(settings, look)
    output = context.options.format
    if output == "prometheus":
        print(_exposition({result.cluster: result.value for result in results}))
    else:
        print(printed_everywhere(results, all_rows if output == "json" else worst_first, output, paint_for(context)))
    return status_everywhere(results)


def _once(context: Context, settings: Settings, collector: Collector) -> int:
    """Every transaction is described, because there is no next cycle."""
    options = context.options
    evaluation = Judge(collector, policy_of(settings), search_logs=False).look()
    print(_printed(settings, evaluation, options.format, paint_for(context)))
    return ExitStatus.INCOMPLETE if complain_of_gaps(gaps(evaluation.snapshot)) else ExitStatus.ANSWERED


def _printed(settings: Settings, evaluation: Evaluation, output: str, paint: Paint) -> str:
    if output == "json":
        return as_json(document(evaluation, all_rows(evaluation), cluster_name=settings.cluster_name))
    if output == "prometheus":
        (cluster,) = settings.watched
        return _exposition({cluster: evaluation})
    rows = worst_first(evaluation)
    return with_summary(evaluation, rows, paint) if rows else fitted(summary(evaluation), terminal_width())


def _exposition(found: Mapping[ClusterSettings, Evaluation | None]) -> str:
    from exporter.publication.exposition import Renderer  # noqa: PLC0415 - the other formats do without

    publications = [_publication(cluster, evaluation) for cluster, evaluation in found.items()]
    return Renderer().render(*publications).text.body.decode().rstrip("\n")


def _publication(cluster: ClusterSettings, evaluation: Evaluation | None) -> Publication:
    """Of one cycle; without an evaluation it has failed."""
    settings = cluster.settings
    snapshot = None if evaluation is None else evaluation.snapshot
    status = ClusterStatus(
        cycles=1,
        failed_cycles=0 if snapshot is not None else 1,
        last_cycle_duration_seconds=None
        if snapshot is None
        else (snapshot.finished_at_ms - snapshot.taken_at_ms) / 1000,
        last_cycle_succeeded=snapshot is not None,
        last_success_at_ms=None if snapshot is None else snapshot.finished_at_ms,
        snapshot_taken_at_ms=None if snapshot is None else snapshot.taken_at_ms,
        interval_ms=settings.scan.interval_ms,
        stale_after_cycles=settings.publish.stale_after_cycles,
    )
    started_at_ms = int(time.time() * 1000) if snapshot is None else snapshot.taken_at_ms
    process = ProcessStatus(version=__version__, python_version=platform.python_version(), started_at_ms=started_at_ms)
    options = publish_options_of(settings)
    return Publication(evaluation=evaluation, process=process, status=status, options=options, cluster=cluster.name)
