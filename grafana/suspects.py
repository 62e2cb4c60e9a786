"""The table of suspects: one row each, with its certainty, its runbook and the next command.

It uses the exporter's own series, so that it works without recording rules. Where a part could not be read it has a row
with that: it is never empty without a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from grafana.fields import COLOURED_CELL, NOT_READ, PARTLY_READ, UNKNOWN, VERDICT_COLOURS, column, texts
from grafana.owners import CHOSEN_ID, SUSPECTS, with_group
from grafana.page import Json
from grafana.panels import WRAPPED, age_column, table
from grafana.queries import (
    EXPORTER,
    HANGING_VERDICTS,
    PARTITION,
    either,
    fresh,
    known_exporters,
    labelled,
    linked,
    now,
    series,
)

Selection = Callable[[str], str]
"""From matchers to the series of suspects."""

PROGRAM: Final = "kafka-transaction-exporter"
TRANSACTION: Final = f"{PARTITION}, producer_id, producer_epoch, start_offset, transactional_id, verdict"
ADVISED: Final = f"{TRANSACTION}, rank, certainty, runbook, command"


OPEN: Final = "open"
"""The text of a cell with a link. The link has its address from a hidden column: Grafana would give it a mapped text."""


@dataclass(frozen=True)
class Advice:
    """The columns that depend on the verdict."""

    verdicts: str
    certainty: str
    runbook: str
    """The name of the alert, which is the name of its runbook."""
    command: Sequence[str]
    """The words of the command before the topic, before the partition and before the start offset."""


def _ask(command: str, *, ends: str = "") -> Sequence[str]:
    begins = f"{PROGRAM} {command} --bootstrap-server $bootstrap_server --topic"
    return (begins, "--partition", "--start-offset", ends) if ends else (begins, "--partition")


# The worst first: their order is the order of the rows.
ADVICE: Final = (
    Advice(HANGING_VERDICTS, "proved", "KafkaTransactionHanging", _ask("abort", ends="--dry-run")),
    Advice("replica_diverged", "a follower differs", "KafkaTransactionReplicaDiverged", _ask("find-hanging")),
    Advice(
        "stuck_completing",
        "by its coordinator",
        "KafkaTransactionStuckCompleting",
        _ask("complete", ends="--dry-run"),
    ),
    Advice(
        "overdue_at_coordinator",
        "by its coordinator",
        "KafkaTransactionOverdueAtCoordinator",
        _ask("find-hanging"),
    ),
    Advice(
        "inconclusive",
        "proof incomplete",
        "KafkaTransactionInconclusive",
        _ask("find-hanging"),
    ),
)


def suspects(
    title: str,
    description: str,
    matchers: str,
    links: Sequence[Json],
    *,
    select: Selection,
    hidden: Sequence[str] = (),
    has_starts: bool = False,
) -> Json:
    """The table of suspects that `select` takes of those with `matchers`.

    `links` lead from a topic or partition to more about it.
    `has_starts`: the instant of the start, too. Without that column the commands fit on two lines.
    """
    return table(
        title,
        f"{description} Age counts from the start of the transaction; in a row without a topic, from the newest snapshot. "
        "The command only prints a plan or a list; copy it as it is.",
        [
            _ages(matchers, select),
            _held_back(matchers, select),
            *([_starts(matchers, select)] if has_starts else []),
        ],
        no_value="No suspect. Clusters without an exporter are unknown.",
        no_cell="-",
        columns=_columns(links, has_starts=has_starts),
        hidden=("job", "linked_cluster", "rank", "producer_epoch", "runbook", "url", *hidden),
        sorted_by={"Value #A": True, "rank": False},
    )


def of_any_owner(matchers: str) -> str:
    """All suspects that `matchers` select."""
    return series(SUSPECTS, matchers)


def of_owner(matchers: str) -> str:
    """Of these, the chosen transactional ids, where they block the chosen consumer groups."""
    return with_group(SUSPECTS, f"{matchers}, {CHOSEN_ID}")


def advised(advice: Advice, matchers: str, select: Selection) -> str:
    """The start of each fresh suspect, labelled with the advice for its verdict."""
    chosen = select(", ".join(part for part in (f'verdict=~"{advice.verdicts}"', matchers) if part))
    words = {f"words_{number}": words for number, words in enumerate(advice.command)}
    spoken = [name for pair in zip(words, ("topic", "partition", "start_offset", ""), strict=False) for name in pair]
    joined = ", ".join(f'"{name}"' for name in spoken if name)
    rank = str(1 + ADVICE.index(advice))
    said = labelled(chosen, rank=rank, certainty=advice.certainty, runbook=advice.runbook, **words)
    return f'max by ({ADVISED}) (label_join({said}, "command", " ", {joined}))'


def _chosen(matchers: str, select: Selection) -> str:
    return now(f"max by ({TRANSACTION}) ({select(matchers)})")


def _ages(matchers: str, select: Selection) -> str:
    starts = either(advised(advice, matchers, select) for advice in ADVICE)
    ages = f"clamp_min(time() - ({now(f'({starts})')}), 0)"
    addresses = f"max by ({EXPORTER}, url) ({series('kafka_transaction_exporter_page_info')})"
    linking = labelled(addresses, incident_link=OPEN)
    with_address = f"({ages}) * on ({EXPORTER}) group_left (url, incident_link) {linking}"
    without = f"{ages} unless on ({EXPORTER}) {addresses}"
    return linked(labelled(f"({either((with_address, without, *_gaps()))})", runbook_link=OPEN))


def _gaps() -> Iterator[str]:
    """A row for each exporter that could not read everything."""
    taken = series("kafka_transaction_exporter_snapshot_timestamp_seconds")
    answering = series("kafka_transaction_exporter_build_info")
    age = f"(time() - max by ({EXPORTER}) (max_over_time({taken}[$__range])) or 0 * {known_exporters()})"
    silent = f"and on ({EXPORTER}) {known_exporters()} unless on ({EXPORTER}) {answering}"
    partly = f"0 * {age} - 1"  # no age of a suspect, and a cell with a dash
    for verdict, value, condition, runbook, command in (
        (NOT_READ, age, silent, "Down", "find-hanging"),
        (NOT_READ, age, f"and on ({EXPORTER}) {answering} unless on ({EXPORTER}) {fresh()}", "SnapshotStale", "once"),
        (PARTLY_READ, partly, f"and on ({EXPORTER}) ({fresh()} == 0)", "CoverageIncomplete", "once"),
    ):
        yield labelled(
            f"({value} {condition})",
            verdict=verdict,
            rank=str(1 + len(ADVICE)),
            certainty="unknown",
            runbook=f"KafkaTransactionExporter{runbook}",
            command=f"{PROGRAM} {command} --bootstrap-server $bootstrap_server",
        )


def _starts(matchers: str, select: Selection) -> str:
    return f"1000 * ({_chosen(matchers, select)})"


def _held_back(matchers: str, select: Selection) -> str:
    lag = series("kafka_partition_last_stable_offset_lag", matchers)
    return f"0 * ({_chosen(matchers, select)})\n+ on ({PARTITION}) group_left () max by ({PARTITION}) ({lag})"


def _columns(links: Sequence[Json], *, has_starts: bool) -> Sequence[Json]:
    runbook = {"title": "Open the runbook", "url": "${runbooks:raw}/${__data.fields.runbook}.md", "targetBlank": True}
    fields = ("topic", "partition", "start_offset")
    place = "&".join(f"{field}=${{__data.fields.{field}}}" for field in fields)
    url = f"${{__data.fields.url:raw}}/incidents?{place}"
    incident = {"title": "Open the incident", "url": url, "targetBlank": True}
    return (
        column("verdict", "Verdict", {"mappings": [_verdicts()], **COLOURED_CELL, "custom.width": 215}),
        column("certainty", "How sure", {"custom.width": 140}),
        column("cluster", "Cluster", {"custom.width": 90}),
        column("topic", "Topic", {"links": list(links), "custom.width": 130}),
        column("partition", "Partition", {"links": list(links), "custom.width": 75}),
        age_column("Age", width=95),
        column("Value #B", "Held back", {"unit": "locale", "custom.width": 80}),
        column("command", "Next command", {**WRAPPED, "custom.inspect": True, "custom.minWidth": 300}),
        column("runbook_link", "Runbook", {"links": [runbook], "custom.width": 70}),
        column("incident_link", "Incident", {"links": [incident], "custom.width": 70}),
        column("transactional_id", "Transactional id", {"custom.width": 120}),
        column("producer_id", "Producer id", {"custom.width": 90}),
        column("start_offset", "Start offset", {"custom.width": 90}),
        *([column("Value #C", "Began", {"unit": "dateTimeAsIso", "custom.width": 160})] if has_starts else []),
        column("instance", "Exporter", {"custom.width": 125}),
    )


def _verdicts() -> Json:
    unread = {NOT_READ: UNKNOWN, PARTLY_READ: UNKNOWN}
    return texts({name: (name, colour) for name, colour in {**VERDICT_COLOURS, **unread}.items()})
