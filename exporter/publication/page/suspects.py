"""Makes the list of suspects of the status page, and the table of the longest transactions that are not suspects.

`_e` escapes every text from outside.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape as _e

from exporter.evaluation.humanize import humanize_bytes, humanize_count, humanize_duration, humanize_names
from exporter.evaluation.reasons import START_IN_WORDS, open_for_in_words
from exporter.evaluation.verdicts import StartSource, TransactionRow, Verdict
from exporter.publication.page.advice import (
    Suspected,
    advice_of,
    next_command,
    plan_commands,
    runbook_url,
    variables,
)
from exporter.publication.page.humanize import humanize_groups, humanize_id, humanize_instant
from exporter.publication.page.sections import breakable, table
from exporter.publication.page.summary import SUSPECT_MEANS, Severity
from exporter.publication.paths import incidents_of, query_of
from exporter.publication.publication import Publication

SUSPECTS_SHOWN_MAX = 200
"""Suspects on the page; it shows the number of the others."""
FULL_SHOWN_MAX_MS = 90 * 24 * 3_600_000
"""A disk that is full later than in 90 days is nothing to act on."""
GROUPS_SHOWN_MAX = 5
"""Maximum of groups shown per suspect."""
_GROUPS_SEARCHED_MAX = 500
"""Maximum of the others that the search finds."""
_LAST_WRITE = START_IN_WORDS[StartSource.LAST_WRITE]


def suspects_section(publication: Publication) -> str:
    """Renders every suspect up to the maximum, worst first."""
    evaluation, suspects = publication.evaluation, publication.suspects
    if evaluation is None or not evaluation.suspect_count:
        return ""
    hidden = evaluation.suspect_count - min(len(suspects), SUSPECTS_SHOWN_MAX)
    rest = f'<p id="hidden">{humanize_count(hidden, "more suspect")} not shown here.</p>' if hidden > 0 else ""
    now_ms = evaluation.snapshot.cluster_time_ms
    shown = "\n".join(_suspect(row, now_ms, publication) for row in suspects[:SUSPECTS_SHOWN_MAX])
    when = humanize_instant(evaluation.snapshot.taken_at_ms)
    title = humanize_count(evaluation.suspect_count, "suspect")
    order = "worst first; " if evaluation.suspect_count > 1 else ""
    means = SUSPECT_MEANS if evaluation.suspect_count == 1 else "open transactions that need attention"
    return (
        f'<section id="suspects"><h2>{title} <span class="quiet">({means}; {order}ages as of {when})</span></h2>\n'
        f"{all_at_once(suspects, publication.bootstrap)}{shown}</section>{rest}"
    )


def all_at_once(suspects: Iterable[Suspected], bootstrap: str) -> str:
    """The commands for all hangs together, if there are several."""
    count = sum(row.verdict.is_hanging for row in suspects)
    if count <= 1:
        return ""
    lines = "".join(f'<code class="command">{_command(line)}</code>' for line in plan_commands(bootstrap))
    return f'<p class="next"><span class="quiet">{count} hang: all in one plan (dry run)</span>{lines}</p>\n'


def _suspect(row: TransactionRow, now_ms: int, publication: Publication) -> str:
    """First what an operator decides by, then the evidence."""
    level = Severity.BAD if row.verdict.is_hanging else Severity.WARNING
    late = ", late" if row.is_late else ""
    first = [
        ("age", f"{humanize_duration(row.duration_ms)} ({START_IN_WORDS[row.start_source]}{late})"),
        *_unusual(row),
    ]
    groups = humanize_groups(row, now_ms)
    first.append(("consumer groups", humanize_names(groups, shown_max=GROUPS_SHOWN_MAX) or "none seen"))
    evidence = (
        ("idle", "unknown" if row.idle_ms is None else f"{humanize_duration(row.idle_ms)} ({_LAST_WRITE})"),
        *held_back(row, publication),
        ("transactional id", humanize_id(row.transactional_id, is_shown=publication.options.transactional_ids)),
        ("producer id / epoch", f"{row.producer_id} / {row.producer_epoch}" if row.has_producer else "unknown"),
        ("start offset", str(row.start_offset)),
        ("coordinator", _coordinator(row)),
    )
    step = what_to_paste(row, publication.bootstrap, publication.options.runbook_url, publication.cluster_id)
    place = incidents_of(publication.cluster) + query_of(row.topic, row.partition, row.start_offset)
    incident = f'<a href="{_e(place)}">incident</a>'
    tag = f'<span class="tag {level.value}">{_e(_verdict_words(row))}</span> {incident}'
    return article(row, tag, f"{pairs_of(first)}{step}<p>{_e(row.reason)}</p>{pairs_of(evidence)}")


def what_to_paste(row: Suspected, bootstrap: str, runbooks: str | None, cluster_id: str, otherwise: str = "") -> str:
    """The next command, perhaps another one as HTML, and the line before the commands of the runbook."""
    return f"{next_step(row, bootstrap, runbooks)}{otherwise}{paste_first(variables(row, bootstrap, cluster_id))}"


def paste_first(line: str) -> str:
    """The line with the variables of a runbook's commands."""
    before = "for the runbook's commands paste first, before its login line:"
    return f'<p class="quiet">{before} <code class="command variables">{_e(line)}</code></p>'


def article(row: TransactionRow, tag: str, content: str) -> str:
    """One transaction of the page; `tag` and `content` are HTML."""
    others = "\n".join(group.group for group in row.groups[GROUPS_SHOWN_MAX:][:_GROUPS_SEARCHED_MAX])
    unshown = f' data-groups="{_e(others)}"' if others else ""
    place = f"<h3><code>{_e(row.topic)}-{row.partition}</code>{tag}</h3>"
    return f'<article class="suspect"{unshown}>{place}{content}</article>'


def held_back(row: TransactionRow, publication: Publication) -> tuple[tuple[str, str], ...]:
    """The offsets and bytes that a transaction holds back, with the growth of the bytes where it is known."""
    lag = row.last_stable_offset_lag
    offsets = ("offsets held back", "unknown" if lag is None else f"{lag:,}")
    held = None if publication.evaluation is None else publication.evaluation.held.get(row.key[:2])
    if row.held_bytes is None:
        return (offsets,)
    words = f"about {humanize_bytes(row.held_bytes)}"
    if held is not None and held.bytes_per_second:
        words += f", {humanize_bytes(int(held.bytes_per_second * 60))} more each minute on average"
    if held is not None and held.log_dir_full_ms is not None and held.log_dir_full_ms < FULL_SHOWN_MAX_MS:
        words += f": its log directory is full in {humanize_duration(held.log_dir_full_ms)}"
    return offsets, ("bytes held", words)


def pairs_of(pairs: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> str:
    cells = (f'<div class="{_e(name.split()[0])}"><dt>{_e(name)}</dt><dd>{_e(text)}</dd></div>' for name, text in pairs)
    return f"<dl>{''.join(cells)}</dl>"


def next_step(row: Suspected, bootstrap: str, runbooks: str | None) -> str:
    """The next command, which prints only, and the runbook."""
    runbook = f' <a href="{_e(runbook_url(row.verdict, runbooks))}" rel="noreferrer">runbook</a>'
    return step_of(advice_of(row.verdict).purpose, next_command(row, bootstrap), runbook)


def step_of(purpose: str, command: str, link: str = "") -> str:
    """A command with its purpose. A line never ends within the name of an option."""
    words = f'<span class="quiet">next ({_e(purpose)})</span>{link}'
    return f'<p class="next">{words}<code class="command">{_command(command)}</code></p>'


def _command(line: str) -> str:
    return " ".join(f"<span>{_e(word)}</span>" if word.startswith("--") else _e(word) for word in line.split(" "))


def _unusual(row: TransactionRow) -> tuple[tuple[str, str], ...]:
    if row.unusual is None:
        return ()
    usual = row.unusual
    words = f"{usual.of}: 99th percentile {humanize_duration(usual.p99_ms)} ({humanize_count(usual.samples, 'sample')})"
    return (("longer than usual", words),)


def _verdict_words(row: TransactionRow) -> str:
    words = row.verdict.label
    return f"{words}: {row.inconclusive_reason.value}" if row.inconclusive_reason is not None else words


def _coordinator(row: TransactionRow) -> str:
    if row.coordinator is None:
        return "none lists this producer id" if row.verdict is Verdict.HANGING_NO_TRANSACTIONAL_ID else "unknown"
    state = f", state {row.coordinator_state}" if row.coordinator_state is not None else ""
    epoch = f", epoch {row.coordinator_producer_epoch}" if row.coordinator_producer_epoch is not None else ""
    return f"broker {row.coordinator}{state}{epoch}"


def others_section(publication: Publication) -> str:
    """The longest transactions that are not suspects, and the number of all."""
    evaluation = publication.evaluation
    if evaluation is None:
        return ""
    count = evaluation.open_count - evaluation.suspect_count
    rows = [
        f"<tr><td><code>{_e(row.topic)}-{row.partition}</code>{_id_below(row)}</td>"
        f'<td class="number">{open_for_in_words(row)}</td>'
        f'<td class="word">{breakable(row.verdict.label)}</td></tr>'
        for row in publication.longest_others
    ]
    shown = f"the {len(rows)} longest of {count:,}" if len(rows) < count else f"{count:,}"
    note = f' <span class="quiet">({shown})</span>' if rows else ""
    listed = table(("partition, transactional id", "#open for", "verdict"), rows) if rows else "<p>None.</p>"
    return f'<section id="others"><h2>Open transactions that are not suspects{note}</h2>{listed}</section>'


def _id_below(row: TransactionRow) -> str:
    return "" if row.transactional_id is None else f'<br><span class="quiet">{_e(row.transactional_id)}</span>'
