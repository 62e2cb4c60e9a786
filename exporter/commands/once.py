"""`once`: runs one full cycle, including the second read, and prints it: a smoke test, and a quick view in an incident."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.commands.clusters import on_each
from exporter.commands.context import Context
from exporter.commands.evaluations import Results, has_output, render_evaluations, status_of_evaluations
from exporter.commands.examine import Examiner, for_output
from exporter.commands.lines import fit_terminal
from exporter.commands.one_cycle import publication_of
from exporter.commands.rows import Paint, paint_for
from exporter.commands.transactions_table import summary
from exporter.config.settings import ClusterSettings, Settings
from exporter.daemon.wiring import policy_of
from exporter.evaluation.evaluate import all_rows, worst_first
from exporter.evaluation.verdicts import Evaluation
from exporter.kafka.collect.collector import Collector
from exporter.kafka.collect.scope import EVERYTHING


def run(context: Context, settings: Settings) -> int:
    """Prints one cycle; returns the exit status. Every transaction is described, because there is no next cycle."""

    def look(cluster: ClusterSettings, collector: Collector) -> Evaluation:
        policy = policy_of(cluster.settings)
        evaluation = Examiner(collector, policy, search_logs=False, shows_progress=not settings.clusters).look()
        return for_output(evaluation, collector, context.options.format, EVERYTHING)

    results = on_each(settings, look)
    if has_output(results, context.options.format):
        print(_printed(results, context.options.format, paint_for(context)))
    return status_of_evaluations(results, context.options.format)


def _printed(results: Results, output: str, paint: Paint) -> str:
    if output == "prometheus":
        return _exposition({result.cluster: result.value for result in results})
    only = results[0].value if results[0].cluster.name is None else None
    if output == "table" and only is not None and not worst_first(only):
        return fit_terminal(summary(only))
    return render_evaluations(results, all_rows if output == "json" else worst_first, output, paint)


def _exposition(found: Mapping[ClusterSettings, Evaluation | None]) -> str:
    from exporter.publication.exposition import Renderer  # noqa: PLC0415 - the other formats do without

    publications = [publication_of(cluster, evaluation) for cluster, evaluation in found.items()]
    return Renderer().render(*publications).text.body.decode().rstrip("\n")
