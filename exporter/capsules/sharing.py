"""Makes the capsule of an incident that a user sends: joins its cycles, replaces names, and says what is in it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, Final

import numpy as np

from exporter.capsules.cycle import CapsuleError
from exporter.capsules.file import CYCLES_MAX, TEXT_BYTES_MAX, Capsule, expected_of, text_size
from exporter.capsules.names import Names, transformed
from exporter.capsules.replaying import DAMAGED, replay
from exporter.evaluation.humanize import humanize_count
from exporter.kafka.errors import MalformedResponseError
from exporter.snapshot import STATE_TOPIC
from exporter.snapshot.partitions import OFFSETS_TOPIC

JOINED_BYTES_MAX: Final = TEXT_BYTES_MAX * 3 // 4
"""Limit of its text, with the names of the cluster: others may be longer."""
_FACTS: Final = ("partition", "producer_id", "start_offset", "verdict", "duration_ms", "start_source")
_NEVER: Final = """\
It has no record's key, value or header value, no password, no token and no certificate. Of partitions' logs it has
headers of batches and end markers. Look at it before you send it: all members but bytes.bin are text."""


def joined(capsules: Sequence[Capsule]) -> Capsule:
    """All cycles of one incident in one capsule, by time; of too many, or too large ones, the first and the last."""
    pairs = [pair for capsule in capsules for pair in zip(capsule.cycles, capsule.expected, strict=True)]
    pairs.sort(key=lambda pair: pair[0].taken_at_ms)
    sizes = [text_size(*pair) for pair in pairs]
    while len(pairs) > 1 and (len(pairs) > CYCLES_MAX or sum(sizes) > JOINED_BYTES_MAX):
        del pairs[len(pairs) // 2], sizes[len(sizes) // 2]
    cycles, expected = zip(*pairs, strict=True)
    return replace(capsules[-1], cycles=cycles, expected=expected)


_PLURALS: Final = {"prefix": "prefixes"}


def with_summary(capsule: Capsule, note: str = "Names are those of the cluster.") -> Capsule:
    """The capsule with a summary of what is in it."""
    lines = [
        f"A capsule of kafka-transaction-exporter {capsule.exporter} (Python {capsule.python})",
        f"Incident {capsule.incident or '-'}, {humanize_count(len(capsule.cycles), 'cycle')}",
        "",
        note,
        _NEVER,
    ]
    for number, (cycle, expected) in enumerate(zip(capsule.cycles, capsule.expected, strict=True), 1):
        at = datetime.fromtimestamp(cycle.taken_at_ms / 1000, timezone.utc).isoformat(" ", "seconds")
        apis = Counter(exchange.api for exchange in cycle.exchanges)
        lines += [
            "",
            f"Cycle {number}, {at}: {', '.join(cycle.reasons) or 'recorded'}",
            f"  requests: {_in_words(apis)}",
            f"  open transactions: {_in_words(Counter(row['verdict'] for row in _rows(expected)))}",
        ]
    return replace(capsule, summary="\n".join(lines) + "\n")


def _in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"


def anonymous(capsule: Capsule) -> Capsule:
    """The capsule with other names, and a summary. Raises CapsuleError."""
    names, partitions = Names(), replay(capsule.cycles[-1]).evaluation.snapshot.partitions
    counts = dict(zip(partitions.topics, np.bincount(partitions.topic, minlength=len(partitions.topics)), strict=True))
    try:
        for cycle in capsule.cycles:
            names.note(cycle)
        names.choose(int(counts.get(STATE_TOPIC, 0)), int(counts.get(OFFSETS_TOPIC, 0)))
        cycles = tuple(transformed(cycle, names.rename) for cycle in capsule.cycles)
    except MalformedResponseError as error:
        raise CapsuleError(f"names cannot be replaced: {error}") from error
    expected = tuple(expected_of(replay(cycle).evaluation) for cycle in cycles)
    same = [_facts(before) == _facts(after) for before, after in zip(capsule.expected, expected, strict=True)]
    counted = (humanize_count(count, kind, _PLURALS.get(kind)) for kind, count in names.counts().items())
    replaced = ", ".join(counted) or "none"
    note = (
        f"Names are replaced, the same name by the same replacement: {replaced}.\n"
        "Ids and groups keep their partition of __transaction_state and __consumer_offsets. Sentences are left out.\n"
        f"With other names {'all' if all(same) else f'{same.count(True)} of {len(same)}'} cycles have the same verdicts."
    )
    return with_summary(replace(capsule, cycles=cycles, expected=expected, names="replaced"), note)


def _rows(expected: bytes) -> Sequence[Mapping[str, Any]]:
    try:
        return [{name: row[name] for name in _FACTS} for row in json.loads(expected)["transactions"]]
    except DAMAGED as error:
        raise CapsuleError(f"a result in it is damaged: {error}") from error


def _facts(expected: bytes) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in _rows(expected))
