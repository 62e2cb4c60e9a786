"""What a producer of the workload does, transaction by transaction: chosen beforehand, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Literal


class Step(Enum):
    """What becomes of one transaction."""

    COMMIT = "commit"
    ABORT = "abort"
    """By the application itself."""
    STALL = "stall"
    """Its producer says nothing until the coordinator has timed the transaction out."""
    ZOMBIE = "zombie"
    """A newer producer takes the id while the transaction is open; the older one then tries to commit."""
    CRASH = "crash"
    """Its process is killed (SIGKILL) while the transaction is open."""


AfterCrash = Literal["initialise", "wait"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """How one transactional id works.

    `..._every` N means each Nth transaction, and 0 none; where two meet, the first of them here happens.
    """

    records: int = 3
    size: int = 0
    """Bytes of a record's value at least; its name takes what it takes."""
    hold_s: float = 0.0
    """How long a transaction stays open with all its records written."""
    per_second: float = 0.0
    """Transactions begun in a second; 0: one after the other."""
    abort_share: float = 0.0
    stall_every: int = 0
    zombie_every: int = 0
    crash_every: int = 0
    after_crash: AfterCrash = "initialise"
    """What comes first after a crash: a new producer, which fences the open transaction, or its time-out."""
    timeout_ms: int = 60_000
    """`transaction.timeout.ms`."""
    stall_timeout_ms: int = 2_000
    """The same for those that are to be timed out."""
    transactions: int | None = None
    """How many to begin; None: until the workload is stopped."""
    give_up_s: float = 120.0
    """How long brokers may be away."""


def steps(rhythm: Rhythm, seed: str) -> Iterator[Step]:
    """What becomes of the first transaction, the second, and so on. Endless."""
    chance = random.Random(seed)
    number = 0
    while True:
        number += 1
        aborts = chance.random() < rhythm.abort_share
        if _is_due(number, rhythm.stall_every):
            yield Step.STALL
        elif _is_due(number, rhythm.zombie_every):
            yield Step.ZOMBIE
        elif _is_due(number, rhythm.crash_every):
            yield Step.CRASH
        else:
            yield Step.ABORT if aborts else Step.COMMIT


def _is_due(number: int, every: int) -> bool:
    return every > 0 and number % every == 0
