"""Makes the lower sections of the status page: figures of the cycle, transactions by verdict, coverage, requests.

`_e` escapes every text from outside, and every list has a maximum.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape as _e

import numpy as np

from exporter.evaluation.humanize import humanize_count, humanize_duration
from exporter.evaluation.verdicts import Evaluation, Verdict
from exporter.publication.metrics.coverage import unread_by_reason
from exporter.publication.metrics.transactions import open_by_verdict
from exporter.publication.page.humanize import humanize_instant
from exporter.publication.publication import Publication
from exporter.status import ApiStatistics, ClusterStatus

_FAILURES_SHOWN_MAX = 50
_EXAMPLES_SHOWN_MAX = 5


def figures_section(publication: Publication) -> str:
    """Figures of the last cycle, or "unknown"."""
    evaluation, status = publication.evaluation, publication.status
    started = f"started {humanize_instant(publication.process.started_at_ms)}"
    failed = f"{status.failed_cycles:,} failed, {status.missed_cycles:,} missed; {started}"
    counts = ("cycles since start", f"{status.cycles:,}", failed)
    figures = [_snapshot_figure(status), _cycle_figure(status, started), counts]
    if evaluation is not None:
        older = "older than transaction.max.timeout.ms plus padding"
        late = ("late transactions", f"{evaluation.late_count:,}", older)
        figures += [*_coverage_figures(evaluation), _timeout_figure(evaluation), late]
    cells = "".join(
        f"<div><dt>{breakable(name)}</dt><dd>{_e(value)}<small>{breakable(note)}</small></dd></div>"
        for name, value, note in figures
    )
    return f'<dl class="facts" id="facts">{cells}</dl>'


Figure = tuple[str, str, str]


def _snapshot_figure(status: ClusterStatus) -> Figure:
    limit = humanize_count(status.stale_after_cycles, "missed cycle")
    note = f"every {humanize_duration(status.interval_ms)}; dropped after {limit}"
    if status.snapshot_taken_at_ms is None:
        return "newest snapshot", "none yet", note
    return "newest snapshot", humanize_instant(status.snapshot_taken_at_ms), note


def _cycle_figure(status: ClusterStatus, started: str) -> Figure:
    if status.last_cycle_succeeded is None:
        return "last cycle", "none yet", started
    seconds = status.last_cycle_duration_seconds
    took = "" if seconds is None else f"took {humanize_duration(_ms(seconds))}"
    return "last cycle", "succeeded" if status.last_cycle_succeeded else "FAILED", took


def _coverage_figures(evaluation: Evaluation) -> Iterable[Figure]:
    snapshot = evaluation.snapshot
    partitions, read = snapshot.partitions, snapshot.partitions.covered_count
    note = f"{humanize_count(evaluation.open_count, 'transaction')} open"
    excluded = partitions.excluded_count
    note += f"; {excluded:,} excluded" if excluded else ""
    by_offsets = partitions.by_offsets_count
    note += f"; {by_offsets:,} by offsets alone" if by_offsets else ""
    yield "partitions read", f"{read:,} of {partitions.included_count:,}", note
    yield "brokers that responded", _answered([broker.failure for broker in snapshot.brokers]), "leaders of partitions"
    coordinators = [coordinator.failure for coordinator in snapshot.coordinators]
    yield (
        "coordinators that responded",
        _answered(coordinators),
        "" if coordinators else "not needed: no open transaction",
    )


def _answered(failures: Sequence[str | None]) -> str:
    return f"{sum(failure is None for failure in failures):,} of {len(failures):,}"


def _timeout_figure(evaluation: Evaluation) -> Figure:
    limits = evaluation.snapshot.max_timeout
    notes = []
    if evaluation.max_timeout_is_fallback:
        notes.append("fallback: could not be read from any broker")
    if limits.timeout_ms is not None and limits.timeout_ms_min not in (None, limits.timeout_ms):
        notes.append(f"brokers differ: smallest {humanize_duration(limits.timeout_ms_min or 0)}")
    if limits.unread and not evaluation.max_timeout_is_fallback:
        notes.append(f"{humanize_count(len(limits.unread), 'broker')} unread")
    return "transaction.max.timeout.ms", humanize_duration(evaluation.max_timeout_ms), "; ".join(notes)


def verdicts_section(evaluation: Evaluation) -> str:
    """Open transactions by verdict, the worst first; verdicts without one are left out."""
    rows = [
        f'<tr><td class="word">{breakable(verdict.label)}</td><td class="number">{int(sample.value):,}</td></tr>'
        for verdict, sample in zip(Verdict, open_by_verdict(evaluation), strict=True)
        if sample.value
    ]
    if not rows:
        return ""
    return _table("verdicts", "Open transactions by verdict", ("verdict", "#transactions"), rows)


def coverage_section(evaluation: Evaluation) -> str:
    """Unread parts with their reasons."""
    snapshot = evaluation.snapshot
    failures = [
        (f"broker {broker.broker} ({broker.host}:{broker.port})", broker.failure)
        for broker in snapshot.brokers
        if broker.failure
    ]
    failures += [
        (f"coordinator {coordinator.broker}", coordinator.failure)
        for coordinator in snapshot.coordinators
        if coordinator.failure
    ]
    failures += [("visibility", sentence) for sentence in snapshot.visibility.gaps]
    failures += _proof_failures(evaluation)
    failures += [("consumer groups", why) for why in (() if snapshot.impact is None else snapshot.impact.failures)]
    failures += [("log directories", why) for why in (() if snapshot.disk is None else snapshot.disk.failures)]
    failures += [
        (f"transaction.max.timeout.ms of broker {broker}", reason) for broker, reason in snapshot.max_timeout.unread
    ]
    rows = [
        f"<tr><td>{humanize_count(int(sample.value), 'partition')} unread</td><td>{breakable(sample.labels[0])}"
        f'<br><span class="quiet">{_e(_examples(evaluation, sample.labels[0]))}</span></td></tr>'
        for sample in unread_by_reason(evaluation)
    ]
    rows += [
        f"<tr><td>{breakable(what)}</td><td>{breakable(why)}</td></tr>" for what, why in failures[:_FAILURES_SHOWN_MAX]
    ]
    if len(failures) > _FAILURES_SHOWN_MAX:
        rows.append(f"<tr><td>{humanize_count(len(failures) - _FAILURES_SHOWN_MAX, 'more failure')}</td><td></td></tr>")
    if not rows:
        return '<section id="coverage"><h2>Unread: nothing</h2></section>'
    return _table("coverage", "Unread", ("part", "reason"), rows)


def _proof_failures(evaluation: Evaluation) -> list[tuple[str, str]]:
    proof = evaluation.snapshot.proof
    if proof is None:
        return []
    failures = [
        (f"__transaction_state-{state_partition.partition} at broker {state_partition.leader}", state_partition.failure)
        for state_partition in proof.state_partitions
    ]
    listed = [(f"list of transactions of broker {broker}", reason) for broker, reason in proof.listing_failures]
    return [(what, why) for what, why in failures if why is not None] + listed


def _examples(evaluation: Evaluation, reason: str) -> str:
    """Returns the first partitions that could not be read for this reason."""
    partitions = evaluation.snapshot.partitions
    index = partitions.reasons.index(reason) if reason in partitions.reasons else -1
    rows = np.flatnonzero((partitions.reason == index) & partitions.is_unread)
    names = [f"{topic}-{partition}" for topic, partition in map(partitions.name, rows[:_EXAMPLES_SHOWN_MAX].tolist())]
    return ", ".join(names) + (", …" if len(rows) > len(names) else "")


def exporter_section(publication: Publication) -> str:
    """Requests of this process to Kafka, phases of the last cycle, and versions."""
    process, status = publication.process, publication.status
    phases = ", ".join(f"{phase} {humanize_duration(_ms(duration))}" for phase, duration in status.phase_durations)
    rows = [_api_row(statistics) for statistics in status.api_statistics]
    headings = ("API", "#requests", "#failed", "#mean latency")
    requests = _table("requests", "Requests to Kafka since start", headings, rows) if rows else ""
    last = f"Last cycle: {_e(phases)}. " if phases else ""
    return (
        f'{requests}<p class="quiet">{last}kafka-transaction-exporter {_e(process.version)}, Python '
        f"{_e(process.python_version)}. This page is made once per cycle and only reads from Kafka.</p>"
    )


def _api_row(statistics: ApiStatistics) -> str:
    answered = sum(statistics.latency_counts)
    mean = f"{1000 * statistics.seconds_total / answered:.1f} ms" if answered else ""
    figures = (f"{statistics.requests:,}", f"{statistics.failures:,}", mean)
    cells = "".join(f'<td class="number">{figure}</td>' for figure in figures)
    return f'<tr><td class="word">{breakable(statistics.api)}</td>{cells}</tr>'


def _table(name: str, title: str, headings: Sequence[str], rows: Sequence[str]) -> str:
    return f'<section id="{name}"><h2>{_e(title)}</h2>{table(headings, rows)}</section>'


def breakable(text: str) -> str:
    """A line may end between the words of a name like `transaction.max.timeout.ms` or `DescribeProducers`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=\w[._])(?=\w)", "<wbr>", _e(text))


def table(headings: Sequence[str], rows: Iterable[str], attributes: str = "") -> str:
    """Renders a table; a heading that begins with # is of a column of numbers."""
    head = "".join(
        f'<th class="number">{_e(text[1:])}</th>' if text.startswith("#") else f"<th>{_e(text)}</th>"
        for text in headings
    )
    body = "\n".join(rows)
    return f"<table{attributes}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _ms(duration_seconds: float) -> int:
    return round(duration_seconds * 1000)
