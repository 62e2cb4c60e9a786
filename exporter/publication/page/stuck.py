"""Makes the section of the status page about transactions that are stuck at their coordinators. `_e` escapes."""

from __future__ import annotations

from html import escape as _e

from exporter.evaluation.humanize import humanize_count, humanize_duration
from exporter.evaluation.stuck import stuck_in_words
from exporter.evaluation.stuck_transaction import StuckTransaction
from exporter.publication.page.advice import address_of, variables_of_producer, why_command
from exporter.publication.page.humanize import humanize_instant
from exporter.publication.page.summary import Severity
from exporter.publication.page.suspects import SUSPECTS_SHOWN_MAX, pairs_of, paste_first
from exporter.publication.publication import Publication
from exporter.snapshot import MarkerFinding

RUNBOOKS = {
    MarkerFinding.CONTRADICTED: "KafkaTransactionOutcomeContradicted",
    **dict.fromkeys(
        (MarkerFinding.MISSING, MarkerFinding.UNKNOWN, MarkerFinding.AS_DECIDED), "KafkaTransactionProducerCannotStart"
    ),
}


def stuck_section(publication: Publication) -> str:
    """Renders the producers that cannot start, worst first; empty if there are none."""
    stuck = publication.stuck
    if not stuck:
        return ""
    shown = "\n".join(_stuck(each, publication) for each in stuck[:SUSPECTS_SHOWN_MAX])
    hidden = len(stuck) - SUSPECTS_SHOWN_MAX
    rest = f"<p>{humanize_count(hidden, 'more stuck transaction')} not shown here.</p>" if hidden > 0 else ""
    title = humanize_count(len(stuck), "producer")
    return (
        f'<section id="stuck"><h2>{title} cannot start <span class="quiet">(the coordinator has decided the outcome, and '
        f"waits for its markers)</span></h2>\n{shown}</section>{rest}"
    )


def _stuck(stuck: StuckTransaction, publication: Publication) -> str:
    level = Severity.BAD if stuck.markers_state is MarkerFinding.CONTRADICTED else Severity.WARNING
    runbook = RUNBOOKS[stuck.markers_state]
    step = why_it_cannot_start(
        stuck.transactional_id,
        stuck.producer_id,
        runbook,
        publication.bootstrap,
        publication.options.runbook_url,
        publication.cluster_id,
    )
    evidence = (
        ("state", f"{stuck.state.value} for {humanize_duration(stuck.stuck_ms)}"),
        ("markers", stuck.markers_state.value),
        ("transaction began", humanize_instant(stuck.start_ms)),
        ("producer id / epoch", f"{stuck.producer_id} / {stuck.producer_epoch}"),
        ("coordinator", f"broker {stuck.coordinator}"),
    )
    name = stuck.transactional_id or f"producer {stuck.producer_id}"
    return (
        f'<article class="suspect"><h3><code>{_e(name)}</code> <span class="tag {level.value}">cannot start</span></h3>'
        f"{step}<p>{_e(stuck_in_words(stuck))}</p>{pairs_of(evidence)}</article>"
    )


def why_it_cannot_start(
    transactional_id: str | None,
    producer_id: int,
    runbook: str,
    bootstrap: str,
    runbooks: str | None,
    cluster_id: str,
) -> str:
    """The next command about a producer, the runbook named `runbook`, and the line before its commands, as HTML."""
    return (
        '<p class="next"><span class="quiet">next (evidence)</span> '
        f'<a href="{_e(address_of(runbook, runbooks))}" rel="noreferrer">runbook</a>'
        f'<code class="command">{_e(why_command(producer_id, bootstrap))}</code></p>'
        f"{paste_first(variables_of_producer(transactional_id, producer_id, bootstrap, cluster_id))}"
    )
