"""Writes an explanation as text for people, as Markdown for a post-mortem, and as a JSON document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from exporter.evaluation.humanize import humanize_count, in_markdown
from exporter.evaluation.protection import Measure, ProtectionState
from exporter.explain.causes import Conclusion, cause_of
from exporter.explain.facts import Facts
from exporter.explain.prevention import prevention
from exporter.explain.timeline import Moment, timeline
from exporter.files import MEGABYTE

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Result of `explain`."""

    facts: Facts
    conclusion: Conclusion
    moments: tuple[Moment, ...]
    measures: tuple[Measure, ...]
    bytes_read: int
    bytes_limit: int

    @property
    def gaps(self) -> tuple[str, ...]:
        """Sentences about what could not be read; of settings only where something is to be prevented."""
        logs, state = self.facts.logs, self.facts.state
        of_settings = self.facts.protection.unread if self.measures else ()
        gaps = (logs.own.unread, state.unread, *logs.unread, *of_settings)
        return tuple(dict.fromkeys(gap for gap in gaps if gap))


def explain(facts: Facts, *, bytes_read: int, bytes_limit: int, connection: str) -> Explanation:
    """Finds the cause and what prevents the next one; `connection` names the cluster to Kafka's own tools."""
    conclusion = cause_of(facts)
    return Explanation(
        facts=facts,
        conclusion=conclusion,
        moments=timeline(facts),
        measures=prevention(facts.protection, conclusion.cause, connection),
        bytes_read=bytes_read,
        bytes_limit=bytes_limit,
    )


def text(explanation: Explanation) -> Iterator[str]:
    """Lines for a terminal; names in them come from brokers and may have control characters."""
    facts, conclusion = explanation.facts, explanation.conclusion
    yield f"{_title(facts)}: {_verdict(facts)}"
    yield _producer(facts)
    yield ""
    yield from _conclusion(conclusion)
    yield ""
    yield "Time line (UTC; the time of each line is by the clock that it names):"
    for moment in explanation.moments:
        yield f"  {_instant(moment.at_ms)}  {moment.clock.value:<11}  {moment.sentence} [{moment.source}]"
    if explanation.measures:
        yield ""
        yield "What prevents the next one, in order of effect:"
        for measure in explanation.measures:
            yield f"  {measure.state.value:<7}  {measure.name}: {measure.found}"
            if measure.state is not ProtectionState.GOOD:
                yield f"           {measure.advice}"
    yield ""
    yield _cost(explanation)


def _conclusion(conclusion: Conclusion) -> Iterator[str]:
    if conclusion.cause is None:
        yield f"No cause: {conclusion.evidence[0]}"
        return
    yield ": ".join(filter(None, ("Cause", conclusion.cause.value, conclusion.cause.sentence)))
    for sentence in (*conclusion.evidence, *conclusion.missing):
        yield f"  - {sentence}"
    if conclusion.possible:
        yield f"  possible causes: {', '.join(cause.value for cause in conclusion.possible)}"


def markdown(explanation: Explanation) -> str:
    """Headings, lists and a table, for a post-mortem. Text from brokers is escaped."""
    facts, conclusion = explanation.facts, explanation.conclusion
    lines = [
        f"## Why {in_markdown(_title(facts))} hung",
        "",
        f"Verdict: {_verdict(facts)}. {in_markdown(_producer(facts))}.",
        "",
    ]
    lines += [
        f"{line.strip()}" if index == 0 else f"- {in_markdown(line.strip(' -'))}"
        for index, line in enumerate(_conclusion(conclusion))
    ]
    lines += ["", "### Time line (UTC)", "", "| time | clock | what | where |", "|---|---|---|---|"]
    lines += [
        f"| {_instant(one.at_ms)} | {one.clock.value} | {in_markdown(one.sentence)} | {in_markdown(one.source)} |"
        for one in explanation.moments
    ]
    if explanation.measures:
        lines += ["", "### What prevents the next one", ""]
        lines += [
            f"- **{one.state.value}**: {in_markdown(one.name)} ({in_markdown(one.found)})"
            + ("" if one.state is ProtectionState.GOOD else f": {in_markdown(one.advice)}")
            for one in explanation.measures
        ]
    return "\n".join([*lines, ""])


def document(explanation: Explanation) -> dict[str, Any]:
    """docs/schema/explain.schema.json. Instants in milliseconds since 1970 UTC."""
    facts, conclusion = explanation.facts, explanation.conclusion
    first = facts.first
    return {
        "topic": facts.opened.topic,
        "partition": facts.opened.partition,
        "start_offset": facts.opened.start_offset,
        "producer_id": facts.opened.producer_id,
        "producer_epoch": None if first is None else first.producer_epoch,
        "transactional_id": facts.state.transactional_id,
        "verdict": None if facts.verdict is None else facts.verdict.label,
        "cause": None if conclusion.cause is None else conclusion.cause.value,
        "evidence": list(conclusion.evidence),
        "possible_causes": [cause.value for cause in conclusion.possible],
        "missing": list(conclusion.missing),
        "timeline": [
            {"at_ms": one.at_ms, "clock": one.clock.value, "source": one.source, "sentence": one.sentence}
            for one in explanation.moments
        ],
        "prevention": [
            {"name": one.name, "state": one.state.value, "found": one.found, "advice": one.advice}
            for one in explanation.measures
        ],
        "gaps": list(explanation.gaps),
        "bytes_read": explanation.bytes_read,
        "bytes_limit": explanation.bytes_limit,
    }


def _title(facts: Facts) -> str:
    return f"{facts.opened.topic}-{facts.opened.partition}, start offset {facts.opened.start_offset}"


def _verdict(facts: Facts) -> str:
    return "not open any more" if facts.verdict is None else facts.verdict.label


def _producer(facts: Facts) -> str:
    first = facts.first
    epoch = "" if first is None else f" epoch {first.producer_epoch}"
    name = facts.state.transactional_id
    owner = "no transactional id is known" if name is None else f"transactional id {name!r}"
    return f"Producer {facts.opened.producer_id}{epoch}, {owner}"


def _cost(explanation: Explanation) -> str:
    state = explanation.facts.state
    return (
        f"Read {explanation.bytes_read / MEGABYTE:.1f} MB of logs, at most {explanation.bytes_limit / MEGABYTE:.0f} "
        f"(--max-megabytes); {humanize_count(state.records_read, 'record')} in "
        f"{humanize_count(state.partitions_read, 'partition')} of __transaction_state; nothing was written."
    )


def _instant(at_ms: int) -> str:
    try:
        return (_EPOCH + timedelta(milliseconds=at_ms)).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except OverflowError:
        return f"{at_ms} ms"
