"""Follows `__transaction_state` in its own thread: reads records, returns a journal for evaluation and counts to publish.

No error of the log ends the thread; an error is logged once, and the report has it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from types import MappingProxyType

from exporter.config.kafka_section import KafkaSettings
from exporter.config.settings import TransactionLogSettings
from exporter.kafka.log_progress import LogRecord
from exporter.kafka.state_log import LogPart, LogUnreadableError, StateLog
from exporter.log_format import LatestState
from exporter.transaction_log.counts import Counts
from exporter.transaction_log.journal import Journal
from exporter.transaction_log.ledger import Ledger
from exporter.transaction_log.records import MalformedRecordError, UnknownVersion, decode
from exporter.transaction_log.report import LogPosition, LogReport
from exporter.transaction_log.timeouts import EndedByCoordinator, ended_by_coordinator, in_words

log = logging.getLogger("exporter")

READ_SECONDS = 0.2
OPEN_AGAIN_SECONDS = 5.0
END_SECONDS = 0.5
LOGGED_OF_A_BATCH_MAX = 5
TIMEOUTS_MAX = 100
"""Maximum of timeouts that are cached for the page; older ones are dropped."""
NOT_YET = "it was not read yet"

OpenLog = Callable[..., StateLog]


class LogFollower:
    """Reads the transaction log. All methods but `start` and `close` may be called from any thread."""

    def __init__(
        self,
        kafka: KafkaSettings,
        settings: TransactionLogSettings,
        *,
        counted_before: LogPosition,
        shows_ids: bool = True,
        wall_clock: Callable[[], float] = time.time,
        open_log: OpenLog = StateLog,
    ) -> None:
        """`counted_before` is the position up to which an earlier run has counted; `shows_ids` as in `Counts`."""
        self._kafka = kafka
        self._since_ms = int(wall_clock() * 1000) - settings.lookback_ms
        self._open_log = open_log
        self._counted_before = dict(counted_before.offsets)
        self._counted_cluster_id = counted_before.cluster_id
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._reopening = threading.Event()
        run = partial(copy_context().run, self._run)  # its log lines are of the same cluster
        self._thread = threading.Thread(target=run, name="transaction-log", daemon=True)
        self._ledger = Ledger()
        self._counts = Counts(settings.groups, shows_ids=shows_ids)
        self._timeouts: deque[EndedByCoordinator] = deque(maxlen=TIMEOUTS_MAX)
        self._cluster_id = self._expected_cluster_id = ""
        self._partitions: tuple[int, ...] = ()
        self._positions: dict[int, int] = {}
        self._ends: Mapping[int, int] = {}
        self._reached_end: set[int] = set()
        self._is_caught_up = False
        self._records = self._malformed = self._unknown_versions = 0
        self._failure: str | None = NOT_YET
        self._said = LatestState(self._failure)

    def start(self) -> None:
        self._thread.start()

    def use(self, kafka: KafkaSettings) -> None:
        """Connects again, with these settings, and continues at the same positions."""
        self._kafka = kafka
        self._reopening.set()

    def expect(self, cluster_id: str) -> None:
        """Reads the log of this cluster and of no other one; an empty id is of any."""
        self._expected_cluster_id = cluster_id
        if cluster_id and self._cluster_id not in {"", cluster_id}:
            self._reopening.set()

    def close(self) -> None:
        """Ends within half a second or so."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(END_SECONDS)

    def journal(self, producer_ids: Iterable[int]) -> Journal:
        with self._lock:
            return self._ledger.journal(producer_ids, self._current())

    def report(self) -> LogReport:
        """The status, and the counts."""
        with self._lock:
            current = self._current()
            with_end = [partition for partition in self._partitions if partition in self._ends]
            # The counts of an earlier run stay while the log is read again.
            counted = {number: max(at, self._counted_before.get(number, 0)) for number, at in self._positions.items()}
            lags = [max(self._ends[partition] - self._positions.get(partition, 0), 0) for partition in with_end]
            return LogReport(
                counted=self._counts.counted() if self._is_caught_up else None,
                records=self._records,
                malformed=self._malformed,
                unknown_versions=self._unknown_versions,
                lag_records=sum(lags) if with_end else None,
                partitions_current=len(current),
                partitions_behind=len(with_end) - len(current),
                partitions_unread=len(self._partitions) - len(with_end),
                transactional_ids=self._ledger.transactional_ids,
                timeouts=tuple(sorted(self._timeouts, key=lambda transaction: -transaction.at_ms)),
                position=LogPosition(cluster_id=self._cluster_id, offsets=MappingProxyType(counted)),
                failure=self._failure,
            )

    def _current(self) -> frozenset[int]:
        return frozenset(
            partition for partition, end in self._ends.items() if self._positions.get(partition, -1) >= end
        )

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self._follow()
            except LogUnreadableError as error:
                self._say(str(error))
            except Exception:
                log.exception("the reader of __transaction_state failed unexpectedly; it starts again")
                self._say("the reader failed unexpectedly")
            self._ending.wait(0 if self._reopening.is_set() else OPEN_AGAIN_SECONDS)

    def _follow(self) -> None:
        """Reads until ordered to end or to connect again. Raises LogUnreadableError."""
        self._reopening.clear()
        source = self._open_log(self._kafka, since_ms=self._since_ms, positions=self._positions)
        try:
            with self._lock:
                self._begin(source)
            while not (self._ending.is_set() or self._reopening.is_set()):
                batch = source.read(READ_SECONDS)
                with self._lock:
                    self._take(source, batch)
                self._say(_what_is_wrong(source))
        finally:
            with self._lock:
                self._ends = {}
            source.close()

    def _begin(self, source: StateLog) -> None:
        if self._expected_cluster_id not in {"", source.cluster_id}:
            raise LogUnreadableError(
                f"the brokers belong to cluster {source.cluster_id}, not to {self._expected_cluster_id}, which is watched"
            )
        is_another = self._cluster_id not in {"", source.cluster_id}
        self._cluster_id = source.cluster_id
        self._partitions = source.partitions
        if is_another:
            self._ledger, self._positions, self._reached_end = Ledger(), {}, set()
            self._reopening.set()
            raise LogUnreadableError(f"the brokers belong to cluster {source.cluster_id} now: reading starts again")
        if self._counted_cluster_id != source.cluster_id:
            self._counted_before = {}
        if not self._positions:
            self._say_what_is_skipped(source)

    def _say_what_is_skipped(self, source: StateLog) -> None:
        skipped = sum(
            max(at - self._counted_before.get(partition, at), 0) for partition, at in source.positions.items()
        )
        if skipped:
            log.warning(
                "%d records of __transaction_state are older than transaction_log.lookback and are not counted",
                skipped,
            )

    def _take(self, source: StateLog, batch: LogPart) -> None:
        if batch.gaps:  # one line, however many there are: a broker can cause them
            log.warning(
                "records are missing in __transaction_state (partition %s): truncated, removed by retention, or "
                "compressed. What was known of open transactions there is forgotten; reading continues behind the gap",
                ", ".join(map(str, sorted(set(batch.gaps)))),
            )
        for partition in batch.gaps:
            self._ledger.forget(partition)
            self._counted_before.pop(partition, None)
        ended = [transaction for record in batch.records for transaction in self._take_record(record)]
        if self._is_caught_up:
            _log_timeouts(ended)
        self._positions = dict(source.positions)
        self._ends = source.ends
        for partition, end in self._ends.items():
            if self._counted_before.get(partition, 0) > end:
                self._counted_before.pop(partition)  # another log than the one that was counted
        self._reached_end |= self._current()
        if not self._is_caught_up and self._ends:
            self._is_caught_up = self._reached_end >= self._ends.keys()

    def _take_record(self, record: LogRecord) -> Iterable[EndedByCoordinator]:
        """Returns the transactions that their coordinators ended."""
        self._records += 1
        try:
            decoded = decode(record.key, record.value)
        except MalformedRecordError:
            self._malformed += 1
            return ()
        if isinstance(decoded, UnknownVersion):
            self._unknown_versions += 1
            return ()
        events = self._ledger.take(record.partition, decoded, record.written_at_ms)
        was_counted = record.offset < self._counted_before.get(record.partition, 0)
        for event in events:
            self._counts.count(event, was_counted=was_counted)
        ended = [transaction for event in events if (transaction := ended_by_coordinator(event)) is not None]
        self._timeouts.extend(ended)
        return ended

    def _say(self, sentence: str | None) -> None:
        """Logs one line per change."""
        with self._lock:
            self._failure = sentence
        if self._said.is_new(sentence):
            if sentence is None:
                log.info("the transaction log is read", extra={"subject": "transaction_log"})
            else:
                log.warning("__transaction_state cannot be read: %s", sentence, extra={"subject": "transaction_log"})


def _log_timeouts(ended: Sequence[EndedByCoordinator]) -> None:
    """A line for each of the first few of a batch: hundreds at once have one cause, and the page has the last hundred."""
    for transaction in ended[:LOGGED_OF_A_BATCH_MAX]:
        log.warning("%s", in_words(transaction), extra={"subject": "transaction_log"})
    more = len(ended) - LOGGED_OF_A_BATCH_MAX
    if more > 0:
        log.warning("%d more transactions were ended by their coordinators", more, extra={"subject": "transaction_log"})


def _what_is_wrong(source: StateLog) -> str | None:
    if source.failure is not None:
        return source.failure
    if not source.failures:
        return None
    number = min(source.failures)
    others = f", and {len(source.failures) - 1} more" if len(source.failures) > 1 else ""
    return f"partition {number}: {source.failures[number]}{others}"
