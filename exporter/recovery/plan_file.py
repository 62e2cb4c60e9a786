"""Writes and reads plan files: proved hangs from find-hanging that an operator reads, shortens and gives to `abort`.

A plan file names transactions, and is not a proof: `abort` proves each hang again. Its `evidence` is for the operator, and
is not read back.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from exporter.config.values import whole_number
from exporter.evaluation.field_types import Output
from exporter.evaluation.fields import project
from exporter.evaluation.verdicts import TransactionRow, Verdict
from exporter.files import MEGABYTE, contents
from exporter.primitives import INT16_MAX, INT32_MAX, INT64_MAX

FORMAT = "kafka-transaction-exporter plan"
VERSION = 2
"""Version 1 is refused: without topic id and last write, a producer that continues cannot be detected."""

BYTES_MAX = 16 * MEGABYTE
"""Ten thousand transactions."""
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class PlanFileError(Exception):
    """The file is not a valid plan. `problems` are sentences, each with its place."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAbort:
    """Transaction to be aborted, as it was when the plan was made."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_sequence: int
    last_timestamp_ms: int
    topic_id: str
    """"" from brokers without topic ids."""
    transactional_id: str | None
    verdict: Verdict

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} at start offset {self.start_offset}"

    def is_same(self, row: TransactionRow) -> bool:
        """True if `row` has the same partition, producer id and start offset, at any epochs."""
        return (self.topic, self.partition, self.producer_id, self.start_offset) == (
            row.topic,
            row.partition,
            row.producer_id,
            row.start_offset,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """Proved hangs of one cluster at one instant."""

    cluster_id: str
    taken_at_ms: int
    transactions: tuple[PlannedAbort, ...]
    sha256: str = ""
    """Digest of the bytes that were parsed, for the audit log: the file may be another one by now."""


def render_plan_file(cluster_id: str, taken_at_ms: int, rows: Iterable[TransactionRow]) -> str:
    """The text of a plan file for those of `rows` that are proved hanging, each with its evidence.

    A marker names its producer, so one of which only the offset is known has no place in a plan.
    """
    return (
        json.dumps(
            {
                "format": FORMAT,
                "version": VERSION,
                "cluster_id": cluster_id,
                "taken_at_ms": taken_at_ms,
                "transactions": [
                    {**plan_entry(row), "evidence": project(row, Output.JSON)}
                    for row in rows
                    if row.verdict.is_hanging and row.has_producer
                ],
            },
            indent=2,
        )
        + "\n"
    )


def plan_entry(row: TransactionRow) -> dict[str, Any]:
    """Returns a plan's entry for a transaction: the keys of `PlannedAbort`."""
    return project(row, Output.PLAN)


def load(path: Path) -> PlanFile:
    """Reads a plan file. Raises PlanFileError."""
    try:
        read = contents(path, bytes_max=BYTES_MAX)
        text = read.decode()
    except OSError as error:
        raise PlanFileError([f"{path}: cannot be read: {error.strerror or error}"]) from error
    except UnicodeDecodeError as error:
        raise PlanFileError([f"{path}: is not UTF-8 text"]) from error
    try:
        return replace(parse(text), sha256=hashlib.sha256(read).hexdigest())
    except PlanFileError as error:
        raise PlanFileError(f"{path}: {problem}" for problem in error.problems) from None


def parse(text: str) -> PlanFile:
    """The plan in `text`, with every key checked. Raises PlanFileError with all problems."""
    try:
        root = json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise PlanFileError([f"is not complete JSON: {error}"]) from error
    problems: list[str] = []
    if not isinstance(root, dict) or root.get("format") != FORMAT:
        raise PlanFileError([f'is not a plan: find-hanging --plan-file writes "format": "{FORMAT}" into it'])
    if root.get("version") != VERSION or isinstance(root.get("version"), bool):
        raise PlanFileError(
            [f"version must be {VERSION}, it is {root.get('version')!r}: another release wrote it; make a new plan"]
        )
    fields = _checked(root, _PLAN, "", problems)
    entries = root.get("transactions")
    transactions: list[PlannedAbort] = []
    for number, entry in enumerate(entries if isinstance(entries, list) else ()):
        place = f"transactions[{number}]"
        if not isinstance(entry, dict):
            problems.append(f"{place} must be an object")
            continue
        known = _checked(entry, _ENTRY, f"{place}.", problems)
        known.pop("evidence", None)
        if known.keys() == PlannedAbort.__dataclass_fields__.keys():
            transactions.append(PlannedAbort(**known))
    problems += _repeated(transactions)
    if problems:
        raise PlanFileError(problems)
    return PlanFile(
        cluster_id=fields["cluster_id"], taken_at_ms=fields["taken_at_ms"], transactions=tuple(transactions)
    )


Check = Callable[[Any], Any]
"""Converts the value. Raises ValueError with the end of a sentence."""


def _checked(given: Mapping[str, Any], checks: Mapping[str, Check], place: str, problems: list[str]) -> dict[str, Any]:
    """The valid keys of `given`; invalid, missing and unknown ones go to `problems`."""
    kept: dict[str, Any] = {}
    for key, check in checks.items():
        if key not in given:
            problems.append(f"{place}{key} is missing")
            continue
        try:
            kept[key] = check(given[key])
        except ValueError as error:
            problems.append(f"{place}{key} {error}, it is {_short(given[key])}")
    problems += [f"{place}{key} is unknown" for key in given if key not in checks]
    return kept


def _repeated(transactions: Iterable[PlannedAbort]) -> list[str]:
    seen: set[tuple[str, int, int]] = set()
    problems = []
    for planned in transactions:
        key = (planned.topic, planned.partition, planned.start_offset)
        if key in seen:
            problems.append(f"{planned} is in the plan twice")
        seen.add(key)
    return problems


def _short(value: Any, length_max: int = 60) -> str:
    shown = repr(value)
    return shown if len(shown) <= length_max else shown[:length_max] + "..."


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has the same key twice")
    return found


def _integer(minimum: int, maximum: int) -> Check:
    within = whole_number(minimum, maximum)

    def check(value: Any) -> Any:
        if not isinstance(value, int):
            raise ValueError(f"must be a whole number from {minimum} to {maximum}")  # noqa: TRY004 - a check's one error
        return within(value)

    return check


def _of(kind: type | tuple[type, ...], words: str) -> Check:
    def check(value: Any) -> Any:
        if not isinstance(value, kind):
            raise ValueError(f"must be {words}")  # noqa: TRY004 - a check's one error
        return value

    return check


def _topic(value: Any) -> Any:
    if not isinstance(value, str) or not _TOPIC.fullmatch(value):
        raise ValueError("must be the name of a topic")
    return value


def _verdict(value: Any) -> Verdict:
    for verdict in Verdict:
        if verdict.is_hanging and verdict.label == value:
            return verdict
    proofs = ", ".join(verdict.label for verdict in Verdict if verdict.is_hanging)
    raise ValueError(f"must be a verdict that is a proof: {proofs}")


_PLAN: Mapping[str, Check] = {
    "format": _of(str, "a string"),
    "version": _integer(VERSION, VERSION),
    "cluster_id": _of(str, "a string"),
    "taken_at_ms": _integer(0, INT64_MAX),
    "transactions": _of(list, "a list"),
}

_ENTRY: Mapping[str, Check] = {
    "topic": _topic,
    "partition": _integer(0, INT32_MAX),
    "producer_id": _integer(0, INT64_MAX),
    "producer_epoch": _integer(0, INT16_MAX),
    "coordinator_epoch": _integer(-1, INT32_MAX),
    "start_offset": _integer(0, INT64_MAX),
    "last_sequence": _integer(-1, INT32_MAX),
    "last_timestamp_ms": _integer(-INT64_MAX - 1, INT64_MAX),
    "topic_id": _of(str, "a string"),
    "transactional_id": _of((str, type(None)), "a string or null"),
    "verdict": _verdict,
    "evidence": _of(dict, "an object"),
}
