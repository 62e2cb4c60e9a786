"""Makes the score card of results: as Markdown, and as HTML."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from hangbench.parties.words import OF_PARTIES
from hangbench.run import JUDGEMENTS, NOT_JUDGED, Result
from hangbench.situations.stages import STAGES

SENTENCE = (
    "Each situation was planted on real brokers of this version, and its truth was read from them before and after each "
    "look. *right*: all that can be known is said, and nothing else. *weak*: nothing false, and less than can be known. "
    "*missed*: not a word of a transaction that needs a person. *false*: a transaction is called hanging that is not. "
    f"*crashed*: an error instead of an answer. *{NOT_JUDGED}*: the truth could not be confirmed; it counts for nobody."
)
SENTENCE_OF_PARTIES = (
    "Each situation was made on real brokers of this version, and who stands still was compared with them. *right*: every "
    "party in every phase, and nobody else. *weak*: another transaction is named, or none. *missed*: a party stands still. "
    "*false*: it does not, or not because of a transaction. *crashed*: an error instead of an answer. "
    f"*{NOT_JUDGED}*: the truth could not be confirmed; it counts for nobody."
)
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""(heading, rows)."""


def score_card(results: Sequence[Result], version: str) -> Table:
    """How often each detector was what, in situations, and the median time of a look."""
    rows = []
    for detector in detectors_of(results):
        own = [each for each in results if each.detector == detector and each.kafka == version]
        counts = Counter(each.judgement for each in own)
        seconds = sorted(each.seconds for each in own if each.judgement != NOT_JUDGED)
        median = f"{seconds[len(seconds) // 2]:.1f} s" if seconds else "–"  # noqa: RUF001 - the dash of an empty cell
        rows.append((detector, *(str(counts[judgement]) for judgement in JUDGEMENTS), median))
    return ("detector", *JUDGEMENTS, "a look takes"), rows


def details(results: Sequence[Result], version: str, stage: str) -> Table:
    """What each detector said in each situation of a stage."""
    detectors = detectors_of(results)
    by_situation: dict[str, dict[str, Result]] = {}
    for each in results:
        if (each.kafka, each.stage) == (version, stage):
            by_situation.setdefault(each.situation, {})[each.detector] = each
    rows = [
        (
            situation,
            _truth_of(said),
            *(_words_of(said.get(detector)) for detector in detectors),
        )
        for situation, said in by_situation.items()
    ]
    return ("situation", "what is true", *detectors), rows


def _words_of(result: Result | None) -> str:
    if result is None:
        return ""
    return f"{NOT_JUDGED}: {result.words}" if result.judgement == NOT_JUDGED else result.words


def _truth_of(said: Mapping[str, Result]) -> str:
    return next((each.truth for each in said.values() if each.judgement != NOT_JUDGED), "")


def detectors_of(results: Iterable[Result]) -> list[str]:
    """In the order of the results."""
    return list(dict.fromkeys(each.detector for each in results))


def _sentence(results: Sequence[Result]) -> str:
    return SENTENCE_OF_PARTIES if any(each.stage == OF_PARTIES for each in results) else SENTENCE


def markdown(results: Sequence[Result]) -> str:
    """The whole score card, a chapter for each version."""
    parts = ["# Score card of HangBench", _sentence(results)]
    for level, title, table in _chapters(results):
        parts += [f"{'#' * level} {title}", *([markdown_table(*table).rstrip()] if table else [])]
    return "\n\n".join(parts) + "\n"


def page(results: Sequence[Result]) -> str:
    """The same as a page of its own."""
    parts = []
    for level, title, table in _chapters(results):
        parts += [f"<h{level}>{html.escape(title)}</h{level}>", *([_html_table(table)] if table else [])]
    sentence = html.escape(_sentence(results).replace("*", ""))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Score card of HangBench</title><style>{STYLE}</style><h1>Score card of HangBench</h1>"
        f"<p>{sentence}</p>{''.join(parts)}</html>\n"
    )


STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;margin:1rem auto;max-width:80rem;padding:0 1rem}"
    "div{overflow-x:auto}table{border-collapse:collapse}th,td{border:1px solid #8888;padding:.25rem .5rem;text-align:left;"
    "vertical-align:top}"
)


def _chapters(results: Sequence[Result]) -> Iterable[tuple[int, str, Table | None]]:
    titles = {stage.name: stage.title for stage in STAGES} | {OF_PARTIES: "Who stands still"}
    for version in dict.fromkeys(each.kafka for each in results):
        yield 2, f"Apache Kafka {version}", score_card(results, version)
        for stage in dict.fromkeys(each.stage for each in results if each.kafka == version):
            yield 3, titles.get(stage, stage), details(results, version, stage)


def _in_one_line(cell: str) -> str:
    """The words of a cell, which a detector may have chosen, without what a table or a file in UTF-8 cannot have."""
    return " ".join(cell.split()).encode("utf-8", "backslashreplace").decode()


def markdown_table(heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table whose cells cannot end it."""
    lines = [heading, ("---",) * len(heading), *rows]
    return "".join(f"| {' | '.join(_in_one_line(cell).replace('|', '/') for cell in line)} |\n" for line in lines)


def _html_table(table: Table) -> str:
    heading, rows = table
    head = "".join(f"<th>{html.escape(_in_one_line(cell))}</th>" for cell in heading)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(_in_one_line(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
