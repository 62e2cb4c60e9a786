"""Owners: producers that a cycle reads in the order of time, by a plan or by chance."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Final, Protocol

from tests.verification.noise.plans import Plan, PlannedTransaction

EPOCH_MAX: Final = 32_766
"""A producer gets a new id after this epoch; with TransactionVersion 2 each transaction has an epoch of its own."""


class Owner(Protocol):
    """A producer. It is read in the order of time."""

    def during(self, from_ms: int, to_ms: int) -> Sequence[PlannedTransaction]:
        """Returns the transactions that are open at some time between, the oldest first."""


class PlannedOwner:
    """A producer that follows a plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._current: deque[PlannedTransaction] = deque()

    def during(self, from_ms: int, to_ms: int) -> Sequence[PlannedTransaction]:
        """Returns the transactions that are open at some time between, the oldest first."""
        while not self._current or self._current[-1].began_ms <= to_ms:
            following = next(self._plan, None)
            if following is None:
                break
            self._current.append(following)
        while self._current and self._current[0].ended_ms <= from_ms:
            self._current.popleft()
        return [each for each in self._current if each.began_ms <= to_ms]


class StreamsOwner:
    """A thread of Kafka Streams that commits every 100 ms.

    Between two cycles it has hundreds of transactions, so a cycle meets it at a random place of one of them. Only those
    around the cycle are made; the epochs and offsets of the others have passed.
    """

    PERIOD_MS: Final = 110
    """A commit takes 8 ms, and the first record of the next transaction 2 ms."""

    def __init__(self, random: Random, name: str, producer_id: int) -> None:
        self._random, self._name, self._producer_id = random, name, producer_id
        self._number, self._from_ms = random.randrange(EPOCH_MAX), 0

    def during(self, from_ms: int, to_ms: int) -> Sequence[PlannedTransaction]:
        """Returns the transactions that are open at some time between, the oldest first."""
        if self._from_ms:
            self._number += (from_ms - self._from_ms) // self.PERIOD_MS
        self._from_ms = from_ms
        first_ms = from_ms - self._random.randrange(self.PERIOD_MS)
        return [
            self._one(self._number + later, first_ms + later * self.PERIOD_MS)
            for later in range((to_ms - first_ms) // self.PERIOD_MS + 1)
        ]

    def _one(self, number: int, from_ms: int) -> PlannedTransaction:
        return PlannedTransaction(
            transactional_id=self._name,
            producer_id=self._producer_id + number // EPOCH_MAX,
            producer_epoch=number % EPOCH_MAX,
            began_ms=from_ms + 2,
            decided_ms=from_ms + 102,
            ended_ms=from_ms + 110,
            bursts=((from_ms + 2, from_ms + 98),),
            every_ms=25,
            offsets_from_ms=from_ms + 99,
        )
