"""Baselines: the small file that the pipeline writes and an evaluation reads.

    {"format": "kafka-transaction-exporter baselines", "version": 1, "cluster_ids": [...], "made_at_ms": 0, "window_ms": 0,
     "thresholds": {"transactional_ids": [{"cluster_id", "transactional_id", ...}],
                    "groups": [{"cluster_id", "group", ...}], "topics": [{"cluster_id", "topic", ...}]}}

with `samples`, `p99_ms` and `threshold_ms` (null where there is none) in each of them, and more for people.
Fields that are not known here are passed over. A transaction is unusually long when it is open for longer than the
threshold of its transactional id, else of its group, else of its topic: the first of these that has one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from exporter.patterns import GroupRules, group_of

FORMAT = "kafka-transaction-exporter baselines"
VERSION = 1
BYTES_MAX = 100_000_000


class BaselineError(Exception):
    """The text is not a baseline file; the sentence says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualDuration:
    """The usual duration of one kind of transaction, and the threshold of an unusual one."""

    of: str
    """Description for operators: `transactional id 'billing-7'`, `group billing`, `topic orders`."""
    threshold_ms: int
    p99_ms: int
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The contents of the file, without entries that have no threshold."""

    made_at_ms: int = 0
    cluster_ids: frozenset[str] = frozenset()
    transactional_ids: Mapping[tuple[str, str], UsualDuration] = field(default_factory=lambda: MappingProxyType({}))
    groups: Mapping[tuple[str, str], UsualDuration] = field(default_factory=lambda: MappingProxyType({}))
    topics: Mapping[tuple[str, str], UsualDuration] = field(default_factory=lambda: MappingProxyType({}))
    rules: GroupRules = ()

    def usual(self, cluster_id: str, transactional_id: str | None, topic: str) -> UsualDuration | None:
        """The usual duration of such a transaction; None if it is unknown."""
        found = None
        if transactional_id is not None:
            found = self.transactional_ids.get((cluster_id, transactional_id))
            if found is None and self.groups:
                found = self.groups.get((cluster_id, group_of(self.rules, transactional_id)))
        return self.topics.get((cluster_id, topic)) if found is None else found


NO_BASELINE = Baseline()


def parse(text: str, rules: GroupRules = ()) -> Baseline:
    """The baselines in a file's text. Raises BaselineError."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"it is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BaselineError("it is not a baseline file")
    if document.get("version") != VERSION:
        raise BaselineError(f"its version is {document.get('version')!r}, and this exporter reads version {VERSION}")
    try:
        thresholds = document["thresholds"]
        return Baseline(
            made_at_ms=_number(document, "made_at_ms"),
            cluster_ids=frozenset(_text(cluster_id) for cluster_id in document["cluster_ids"]),
            transactional_ids=_table(thresholds, "transactional_ids", "transactional_id", "transactional id {!r}"),
            groups=_table(thresholds, "groups", "group", "group {}"),
            topics=_table(thresholds, "topics", "topic", "topic {}"),
            rules=tuple(rules),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BaselineError(f"it is damaged: {type(error).__name__}: {error}") from error


def _table(thresholds: Any, name: str, key: str, of: str) -> Mapping[tuple[str, str], UsualDuration]:
    found = {}
    for entry in thresholds[name]:
        if entry["threshold_ms"] is not None:
            found[_text(entry["cluster_id"]), _text(entry[key])] = UsualDuration(
                of=of.format(entry[key]),
                threshold_ms=_number(entry, "threshold_ms"),
                p99_ms=_number(entry, "p99_ms"),
                samples=_number(entry, "samples"),
            )
    return MappingProxyType(found)


def _number(entry: Mapping[str, Any], name: str) -> int:
    value = entry[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**63:
        raise ValueError(f"{name} is {value!r}")
    return int(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value
