"""Makes the status page for operators, as bytes once per publication.

It is HTML without scripts and assets; `_e` escapes every text from outside.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape as _e

from exporter.evaluation.verdicts import Evaluation, StartSource, TransactionRow, Verdict
from exporter.publication.page.humanize import humanize_count, humanize_duration, humanize_group, humanize_instant
from exporter.publication.page.sections import coverage_section, exporter_section, figures_section, verdicts_section
from exporter.publication.page.style import style_sheet
from exporter.publication.page.summary import Level, Summary, summarize
from exporter.publication.page.timeouts import timeouts_section
from exporter.publication.publication import Publication

SUSPECTS_SHOWN_MAX = 200
"""Suspects on the page; it shows the number of the others."""
_REFRESH_SECONDS_MIN = 10

_START_SOURCE = {
    StartSource.COORDINATOR: "start from its coordinator",
    StartSource.FIRST_SEEN: "since first seen by this exporter",
    StartSource.LAST_WRITE: "since its last write",
    StartSource.TRANSACTION_LOG: "start from the transaction log",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The page in two pieces: between them the web server puts an alarm when the exporter's own loop has stopped.

    The page was made while the loop was running, so it cannot contain the alarm.
    """

    head: bytes
    rest: bytes

    def with_alarm(self, sentence: str | None) -> bytes:
        """The whole page; `sentence` is the reason why the loop has stopped, None while it runs."""
        return self.head + (_alarm(sentence).encode() if sentence is not None else b"") + self.rest


def render_page(publication: Publication) -> Page:
    evaluation = publication.evaluation
    rest = [_banner(summarize(evaluation, publication.status)), figures_section(publication)]
    if evaluation is not None:
        rest += [
            _suspects_section(publication.suspects, evaluation),
            '<div class="columns">',
            verdicts_section(evaluation),
        ]
        rest += [coverage_section(evaluation), "</div>"]
    rest += [timeouts_section(publication.status), exporter_section(publication), "</body></html>"]
    return Page(head=as_bytes([_head(publication)]), rest=as_bytes(rest))


def as_bytes(parts: Iterable[str]) -> bytes:
    """Encodes the page; invalid text in names from brokers is replaced, so that it cannot break the page."""
    return "\n".join(parts).encode("utf-8", "replace")


def _head(publication: Publication) -> str:
    cluster_id = "unknown" if publication.evaluation is None else publication.evaluation.snapshot.cluster_id
    name = publication.cluster
    title = cluster_id if name is None else name
    of = "" if name is None else f' <span class="quiet">{_e(cluster_id)}</span>'
    heading = f'Kafka transactions of cluster <code id="cluster">{_e(title)}</code>{of}'
    links = (("/incidents", "incidents"),) if name is None else (("/", "all clusters"),)
    return head(f"Kafka transactions: {title}", heading, publication.status.interval_ms, links)


_LINKS = tuple((path, path) for path in ("/metrics", "/-/healthy", "/-/ready"))


def head(title: str, heading: str, interval_ms: int, links: tuple[tuple[str, str], ...] = ()) -> str:
    """The beginning of a page, which the browser reloads once per cycle; `heading` is HTML."""
    refresh_seconds = max(_REFRESH_SECONDS_MIN, interval_ms // 1000)
    nav = "".join(f'<a href="{_e(path)}">{_e(text)}</a>' for path, text in (*links, *_LINKS))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="{refresh_seconds}">
<title>{_e(title)}</title>
<style>{style_sheet()}</style></head><body>
<header><h1>{heading}</h1>
<nav>{nav}</nav></header>
"""


def _banner(it: Summary) -> str:
    notes = "".join(f"<li>{_e(note)}</li>" for note in it.notes)
    listed = f"<ul>{notes}</ul>" if notes else ""
    return f'<div class="banner {it.level.value}" id="headline" role="status"><strong>{_e(it.title)}</strong>{listed}</div>'


def _alarm(sentence: str) -> str:
    return (
        f'<div class="banner {Level.BAD.value}" id="alarm" role="alert"><strong>This exporter is not working: '
        f"the page below is old</strong><p>{_e(sentence)}</p></div>"
    )


GROUPS_SHOWN_MAX = 5
"""Of each suspect."""


def _suspects_section(suspects: tuple[TransactionRow, ...], evaluation: Evaluation) -> str:
    if not evaluation.suspect_count:
        return ""
    hidden = evaluation.suspect_count - min(len(suspects), SUSPECTS_SHOWN_MAX)
    rest = f'<p id="hidden">{humanize_count(hidden, "more suspect")} not shown here.</p>' if hidden > 0 else ""
    now_ms = evaluation.snapshot.cluster_time_ms
    shown = "\n".join(_suspect(row, now_ms) for row in suspects[:SUSPECTS_SHOWN_MAX])
    when = humanize_instant(evaluation.snapshot.taken_at_ms)
    count = f"{evaluation.suspect_count:,}"
    return (
        f'<h2>Suspect transactions, worst first <span class="quiet">({count}, ages as of {when})</span></h2>\n'
        f'<section id="suspects">{shown}</section>{rest}'
    )


def _suspect(row: TransactionRow, now_ms: int) -> str:
    level = Level.BAD if row.verdict.is_hanging else Level.WARNING
    pairs = [
        (
            "age",
            f"{humanize_duration(row.duration_ms)} ({_START_SOURCE[row.start_source]}{', late' if row.is_late else ''})",
        ),
        *_unusual(row),
        ("idle", humanize_duration(row.idle_ms)),
        ("records held back", "unknown" if row.last_stable_offset_lag is None else f"{row.last_stable_offset_lag:,}"),
        ("transactional id", row.transactional_id if row.transactional_id is not None else "unknown"),
        ("producer id / epoch", f"{row.producer_id} / {row.producer_epoch}"),
        ("start offset", str(row.start_offset)),
        ("coordinator", _coordinator(row)),
    ]
    if row.groups:
        pairs.append(("consumer groups", _groups(row, now_ms)))
    facts = "".join(
        f'<div class="{_e(name.split()[0])}"><dt>{_e(name)}</dt><dd>{_e(text)}</dd></div>' for name, text in pairs
    )
    return (
        f'<article class="suspect"><h3><code>{_e(row.topic)}-{row.partition}</code>'
        f'<span class="tag {level.value}">{_e(_verdict_words(row))}</span></h3>'
        f"<p>{_e(row.reason)}</p><dl>{facts}</dl></article>"
    )


def _unusual(row: TransactionRow) -> tuple[tuple[str, str], ...]:
    if row.unusual is None:
        return ()
    usual = row.unusual
    words = f"{usual.of}: 99th percentile {humanize_duration(usual.p99_ms)} ({usual.samples:,} samples)"
    return (("longer than usual", words),)


def _verdict_words(row: TransactionRow) -> str:
    words = row.verdict.label
    return f"{words}: {row.inconclusive_reason.value}" if row.inconclusive_reason is not None else words


def _groups(row: TransactionRow, now_ms: int) -> str:
    """The groups with most waiting records by name, blocked ones with the time; the number of the others."""
    named = [humanize_group(it, now_ms) for it in row.groups[:GROUPS_SHOWN_MAX]]
    more = len(row.groups) - len(named)
    return ", ".join(named) + (f" and {more:,} more" if more else "")


def _coordinator(row: TransactionRow) -> str:
    if row.coordinator is None:
        return "none lists this producer id" if row.verdict is Verdict.HANGING_NO_TRANSACTIONAL_ID else "unknown"
    state = f", state {row.coordinator_state}" if row.coordinator_state is not None else ""
    epoch = f", epoch {row.coordinator_producer_epoch}" if row.coordinator_producer_epoch is not None else ""
    return f"broker {row.coordinator}{state}{epoch}"
