"""Declares what a detector is asked, and what it says. `command.py` runs one that is a program of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum

from hangbench.kafka.cluster import KafkaCluster

Row = tuple[str, int, "int | None"]
"""(topic, partition, producer id); None for a detector that knows the partition only."""


class Says(Enum):
    """The four things that a detector may say of one transaction."""

    HANGING = "hanging"
    """Nothing will ever end it: an operator may abort it."""
    ATTENTION = "attention"
    """Something is wrong with it, and it is not proved hanging."""
    OPEN = "open"
    """Open, and nothing is wrong with it."""
    UNKNOWN = "unknown"
    """The evidence does not suffice."""


class When(Enum):
    """The moment of a change in the middle of a look: just before a request of the detector passes."""

    BEFORE_READING = "before the first partition is read"
    BEFORE_LISTING = "before the coordinators are asked"
    IN_MID_PROOF = "between two looks at the same transaction"
    BEFORE_LAST_READ = "before the last read of the partition"
    BEFORE_READING_IF_IT_LOOKS_AGAIN = (
        "before the first partition is read; before the look of a detector that looks once"
    )


Request = tuple[int, int]
"""(API key, which request of it since the look began)."""
DESCRIBE_PRODUCERS, LIST_TRANSACTIONS = 61, 66
ONE_PASS: Mapping[When, Request] = {
    When.BEFORE_READING: (DESCRIBE_PRODUCERS, 1),
    When.BEFORE_LISTING: (LIST_TRANSACTIONS, 1),
    When.IN_MID_PROOF: (LIST_TRANSACTIONS, 1),
    When.BEFORE_LAST_READ: (LIST_TRANSACTIONS, 1),
    When.BEFORE_READING_IF_IT_LOOKS_AGAIN: (DESCRIBE_PRODUCERS, 1),
}
"""The moments of a detector that reads the partitions and then lists the coordinators, once."""
READS_TWICE: Mapping[When, Request] = {
    When.BEFORE_READING: (DESCRIBE_PRODUCERS, 1),
    When.BEFORE_LISTING: (LIST_TRANSACTIONS, 1),
    When.IN_MID_PROOF: (LIST_TRANSACTIONS, 2),
    When.BEFORE_LAST_READ: (DESCRIBE_PRODUCERS, 3),
    When.BEFORE_READING_IF_IT_LOOKS_AGAIN: (DESCRIBE_PRODUCERS, 1),
}
"""The moments of one that verifies what it suspects: it lists again, and reads its partition before and after that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One cluster to look at, and how."""

    bootstrap: str
    cluster: KafkaCluster
    """Whose jars have Kafka's own tools."""
    situations: tuple[str, ...]
    """Their names, for messages."""
    user: str | None = None
    """Logs in by SASL/PLAIN; None: nobody does."""
    broker_ids: tuple[int, ...] = (1,)
    """The brokers whose partitions are of interest, for detectors that need them as an argument."""
    topic: str | None = None
    partition: int | None = None
    """Only this topic, or this partition of it."""
    rounds: int = 2
    """How often a detector that keeps looking looks."""
    pause_s: float = 0.0
    """Between two of its looks."""
    request_timeout_ms: int = 5000
    """How long to wait for one response."""
    patience_s: int = 3
    """How long to try at all."""
    grace_ms: int | None = None
    """How long a coordinator may take for a decision or a time-out, where the detector has such a setting."""
    clock_ahead_s: float = 0.0
    """How far the clock of the detector is ahead, where it can be set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What one look has shown."""

    rows: Mapping[Row, Says] = field(default_factory=dict)
    is_complete: bool = True
    """False where the detector says that it could not see everything."""
    death: str | None = None
    """The sentence with which it ended instead of an answer."""
    seconds: float = 0.0
    detail: object = None
    """More of it, for tests of one detector."""

    def says(self, topic: str, partition: int, producer_id: int) -> Says | None:
        """What it says of a transaction; None where it does not mention it."""
        return self.rows.get((topic, partition, producer_id), self.rows.get((topic, partition, None)))


Look = Callable[[], Response]


class UnreachableError(Exception):
    """The cluster does not respond at all, which is no answer about any transaction."""


class Detector(ABC):
    """Whatever claims to find hanging transactions."""

    keeps_looking = False
    """True for one that remembers what it saw, as a daemon does, and is asked several times."""
    extra_rounds = 0
    """How many more looks it needs than `Question.rounds`."""
    moments: Mapping[When, Request] = ONE_PASS

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def watching(self, question: Question) -> AbstractContextManager[Look]:
        """Within it, each call is one look. A look raises UnreachableError."""
