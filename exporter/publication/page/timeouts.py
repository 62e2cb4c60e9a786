"""Makes the page's section on transactions that their coordinators timed out or fenced."""

from __future__ import annotations

from html import escape as _e

from exporter.evaluation.humanize import humanize_count, humanize_duration, humanize_names
from exporter.publication.page.humanize import humanize_instant
from exporter.publication.publication import Publication
from exporter.transaction_log.timeouts import EndedByCoordinator

SHOWN_MAX = 20
_PARTITIONS_SHOWN_MAX = 5


def timeouts_section(publication: Publication) -> str:
    """Renders the section; empty without the transaction log, or before the first timeout."""
    report = publication.status.transaction_log
    ended = () if report is None else report.timeouts
    if not ended:
        return ""
    heads = "".join(
        f'<th scope="col">{heading}</th>' for heading in ("ended", "transactional id", "outcome", "after", "partitions")
    )
    rows = "".join(
        _row(transaction, is_named=publication.options.transactional_ids) for transaction in ended[:SHOWN_MAX]
    )
    more = len(ended) - SHOWN_MAX
    rest = (
        f"<p>{humanize_count(more, 'earlier one')} not shown here: <code>ktx timeouts</code> has them.</p>"
        if more > 0
        else ""
    )
    return (
        f'<section id="timeouts"><h2>Timed out or fenced by the coordinator</h2><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table>{rest}</section>"
    )


def _row(transaction: EndedByCoordinator, *, is_named: bool) -> str:
    after = "unknown" if transaction.duration_ms < 0 else humanize_duration(transaction.duration_ms)
    cells = (
        humanize_instant(transaction.at_ms),
        transaction.transactional_id if is_named else "(hidden)",
        transaction.outcome.value,
        f"{after} (time-out {humanize_duration(transaction.timeout_ms)})",
        humanize_names(transaction.partitions, shown_max=_PARTITIONS_SHOWN_MAX),
    )
    return f"<tr>{''.join(f'<td>{_e(cell)}</td>' for cell in cells)}</tr>"
