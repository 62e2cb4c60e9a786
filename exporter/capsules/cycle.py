"""Declares the contents of a capsule: what a cycle knew before it began, what it read, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from exporter.baseline import Baseline
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Policy
from exporter.kafka.client.connections import Address
from exporter.kafka.collect.collector import EarlierState
from exporter.kafka.errors import FaultReason
from exporter.transaction_log.journal import Journal

_SENTENCE_MAX: Final = 500


class CapsuleError(Exception):
    """A file is not a capsule that this exporter can use; the sentence says why.

    It is cut, as parts of the file may be in it.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence[:_SENTENCE_MAX])


class Mark(Enum):
    """Kinds of moments; `number` is that of an exchange, or of a pause."""

    MONOTONIC = "m"
    WALL = "w"
    RECEIVED = "r"
    FAULT = "f"
    """The broker gave no usable response; `texts` has the sentence."""
    PAUSE = "p"
    RESUMED = "e"
    PROBE_IDS = "i"
    """Transactional ids were made up, one for each state partition, or before `ACL_PROBES` one for an ACL: `texts`."""
    ACL_PROBES = "a"
    """Ids for all ACLs were made up: `texts`, with an empty one where none can be."""
    TOO_NEW = "t"
    """Sentences about brokers that are too new: `texts`."""


class TapeMoment(NamedTuple):
    """A reading of a clock, or a step at the border to the brokers."""

    mark: Mark
    number: int = 0
    seconds: float = 0.0
    fault: FaultReason | None = None
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedExchange:
    """A request to one broker, with its response, which is None after a fault."""

    address: Address
    api: str
    key: int
    """Kafka's number of the API."""
    version: int
    is_raw: bool
    """True if this exporter decodes the response itself, and not kafka-python."""
    request: bytes
    response: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCycle:
    """One cycle, ready to be run again: its settings, its knowledge, and all that it read."""

    reasons: tuple[str, ...]
    """Reasons why it was kept."""
    taken_at_ms: int
    policy: Policy
    deadline_s: float
    request_timeout_s: float
    transactions_limit: int
    excluded: tuple[str, ...]
    """Topics that `scan.topics` leaves out."""
    bootstrap: tuple[Address, ...]
    earlier: EarlierState
    memory: Memory
    journal: Journal
    """The entries of the transaction log that the evaluation has used."""
    baseline: Baseline
    """The usual durations that the evaluation has used."""
    moments: Sequence[TapeMoment]
    exchanges: Sequence[RecordedExchange]
