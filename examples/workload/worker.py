"""One transactional id at work: its transactions, what is done to them, and what the ledger is told."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Producer

from examples.workload.coordinator import standing_of, wait_until_ended
from examples.workload.crashing import Scene, crash
from examples.workload.producers import transactional_producer
from examples.workload.rhythm import Rhythm, Step, steps
from examples.workload.sources import Batch, Source
from examples.workload.template import Decision, Ended, Transactions, write_all
from examples.workload.truth import Attempt, Fate, Ledger, Seen, fate_of

NEARLY_OVER_MS: Final = 1_000
"""An open transaction with less time than this is left to its coordinator: a client's end would race with the time-out."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class _Trace:
    """What is known of the transaction at hand."""

    began_ms: int = field(default_factory=now_ms)
    epoch: int = -1
    """Of its producer; -1 where that was never told."""
    failed: Seen | None = None
    """What the coordinator said when it was given up, before anything was done about it."""
    successor: Producer | None = None
    """The newer producer that took the id from it."""


class Worker:
    """Does as its rhythm says until `stopping` is set, the source has no more, or its number of transactions is done."""

    def __init__(
        self,
        bootstrap: str,
        transactional_id: str,
        rhythm: Rhythm,
        source: Source,
        ledger: Ledger,
        stopping: threading.Event,
        *,
        seed: str,
    ) -> None:
        self._bootstrap = bootstrap
        self._id = transactional_id
        self._rhythm = rhythm
        self._source = source
        self._ledger = ledger
        self._stopping = stopping
        self._steps = steps(rhythm, seed)
        self._timeout_ms = rhythm.timeout_ms
        self._epoch = -1
        self._trace = _Trace()
        self._transactions = Transactions(self._connect, give_up_s=rhythm.give_up_s)

    def run(self) -> None:
        """Raises GaveUp where brokers were away for too long, KafkaException or BrokerRefused where they refuse."""
        started = time.monotonic()
        try:
            for number in itertools.count():
                if self._stopping.is_set() or number == self._rhythm.transactions:
                    return
                batch = self._source.take(self._rhythm.records)
                if batch is None:
                    return
                fate = self._carry_out(next(self._steps), batch)
                self._source.settle(committed=fate is Fate.COMMITTED)
                if self._rhythm.per_second:
                    due = started + (number + 1) / self._rhythm.per_second
                    self._stopping.wait(max(0.0, due - time.monotonic()))
        finally:
            self._source.close()

    def _carry_out(self, step: Step, batch: Batch) -> Fate:
        """One transaction, entered into the ledger whatever happens."""
        fate = Fate.UNRESOLVED
        try:
            fate = self._crash(batch) if step is Step.CRASH else self._transact(step, batch)
        except KafkaException:  # not allowed: at its initialisation, or to write, and then it was aborted
            fate = Fate.NEVER_BEGUN if self._trace.failed is None else self._settled(self._trace.failed, is_lost=False)
            raise
        finally:
            self._ledger.enter(self._id, fate, records=len(batch.records), crashed=step is Step.CRASH)
        return fate

    def _transact(self, step: Step, batch: Batch) -> Fate:
        """One transaction by the template, and how it really ended."""
        self._allow(self._rhythm.stall_timeout_ms if step is Step.STALL else self._rhythm.timeout_ms)
        self._trace = _Trace()

        def write(producer: Producer) -> Decision:
            self._trace.epoch = self._epoch
            write_all(producer, batch.records, self._rhythm.give_up_s)
            self._source.send_offsets(producer, batch)
            self._stopping.wait(self._rhythm.hold_s)
            if step is Step.STALL:
                wait_until_ended(self._bootstrap, self._id, self._rhythm.give_up_s, stopped=self._stopping.is_set)
            elif step is Step.ZOMBIE:
                self._trace.failed = self._see()
                self._trace.successor = self._connect()
            elif step is Step.ABORT:
                self._trace.failed = self._see()  # an abort succeeds whether or not anything was written before it
                return "abort"
            return "commit"

        ended = self._transactions.run(write, failed=self._note)
        if self._trace.failed is None:
            assert ended is Ended.COMMITTED
            return Fate.COMMITTED
        if self._trace.successor is not None:
            self._transactions.replace(self._trace.successor)
        return self._settled(self._trace.failed, is_lost=ended is Ended.LOST)

    def _crash(self, batch: Batch) -> Fate:
        """The same by a process that is killed."""
        waits = self._rhythm.after_crash == "wait"
        scene = Scene(
            bootstrap=self._bootstrap,
            transactional_id=self._id,
            timeout_ms=self._rhythm.stall_timeout_ms if waits else self._rhythm.timeout_ms,
            give_up_s=self._rhythm.give_up_s,
            records=tuple((record.topic, record.partition, record.value) for record in batch.records),
            group=self._id,
            offsets=batch.offsets,
        )
        self._trace = _Trace()
        was_open = crash(scene)
        self._transactions.replace()
        if waits:
            wait_until_ended(self._bootstrap, self._id, self._rhythm.give_up_s)
        fate = self._settled(self._see(), is_lost=True)
        return fate if was_open or fate is Fate.NEVER_BEGUN else Fate.UNRESOLVED

    def _settled(self, before: Seen, *, is_lost: bool) -> Fate:
        """What became of a transaction whose producer does not know; one that is still open is ended."""
        after = self._see()
        if after.standing.is_open and after.standing.start_ms >= self._trace.began_ms:
            if _is_nearly_over(after):
                wait_until_ended(self._bootstrap, self._id, self._rhythm.give_up_s)
            else:
                self._transactions.replace(self._connect())
            after = self._see()
        attempt = Attempt(
            began_ms=self._trace.began_ms, epoch=self._trace.epoch, before=before, after=after, is_lost=is_lost
        )
        self._epoch = after.standing.producer_epoch
        return fate_of(attempt)

    def _note(self, _error: KafkaError) -> None:
        """What the coordinator says before the template does anything about a failure."""
        if self._trace.failed is not None:
            return
        self._trace.failed = self._see()
        if self._trace.failed.standing.is_open and _is_nearly_over(self._trace.failed):
            wait_until_ended(self._bootstrap, self._id, self._rhythm.give_up_s)
            self._trace.failed = self._see()

    def _allow(self, timeout_ms: int) -> None:
        if self._timeout_ms != timeout_ms:
            self._timeout_ms = timeout_ms
            self._transactions.replace()

    def _connect(self) -> Producer:
        producer = transactional_producer(
            self._bootstrap, self._id, timeout_ms=self._timeout_ms, give_up_s=self._rhythm.give_up_s
        )
        self._epoch = self._see().standing.producer_epoch
        return producer

    def _see(self) -> Seen:
        standing = standing_of(self._bootstrap, self._id, self._rhythm.give_up_s)
        return Seen(standing=standing, at_ms=now_ms())


def _is_nearly_over(seen: Seen) -> bool:
    return seen.at_ms + NEARLY_OVER_MS > seen.standing.start_ms + seen.standing.timeout_ms
