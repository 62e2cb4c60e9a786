"""Reads the clusters of a daemon on the executors of Spark: each request of the daemon is a job with one task.

A job for each cluster keeps clusters apart: one that does not respond delays no other, as long as a task is free. The task
goes to the executor that has read the cluster last, which has its connections; any other does it as well.
"""

from __future__ import annotations

import logging
import re
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JError
from pyspark import RDD, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from exporter.config.kafka_section import KafkaSettings
from exporter.config.settings import ClusterSettings, ScanSettings
from exporter.cycle import EvaluationInput, JournalOf, Question, collect_with, run_cycle
from exporter.evaluation.verdicts import Evaluation
from exporter.fleet import executor
from exporter.fleet.executor import Task, TaskResult, pack, perform, unpack
from exporter.kafka.collect.collector import Collector
from exporter.kafka.errors import ClientClosedError, ClusterUnavailableError
from exporter.pipeline.spark_output import raised_on_worker
from exporter.snapshot import UNKNOWN_CLUSTER, ClusterIdentity
from exporter.status import ApiStatistics, total
from exporter.transaction_log.journal import Journal

log = logging.getLogger("exporter")
T = TypeVar("T")

PROTECTED: Final = ("spark.authenticate", "spark.network.crypto.enabled")
"""Settings of Spark without which whoever reaches the driver's port gets the clusters' passwords."""
_CALLS: Final = re.compile(r"An error occurred while calling \S+$")
_TASKS: Final = re.compile(r".* \(TID \d+\) \([^)]*\): (.+)")
FIRST_EXECUTOR_WITHIN_S: Final = 180.0
"""Seconds that a new application may wait for its first executor: others may have the workers, and on a busy one Java
starts slowly. To give it up earlier would put the next one at the end of the queue again, for ever.
"""
INSTALL: Final = "executors need kafka-transaction-exporter[spark]: examples/spark/submit.sh sends it with the job"


class ExecutorsError(Exception):
    """Executors cannot run this program."""


class SparkEngine:
    """Makes readers that share one Spark application, and starts another one when it has ended."""

    def __init__(
        self, open_session: Callable[[], SparkSession], monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._open_session = open_session
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._is_closed = False
        self._open()

    def _open(self) -> None:
        self._spark = self._open_session()
        self._opened_s = self._monotonic_s()
        self._has_had_executors = False

    def context(self) -> SparkContext:
        """Context of the running application. Raises ClientClosedError after `close`, and Spark's exceptions."""
        with self._lock:
            if self._is_closed:
                raise ClientClosedError
            if _has_ended(self._spark.sparkContext):
                log.warning("Spark's application has ended, as when its master was restarted: another one is started")
                self._spark.stop()
                self._open()
            return self._spark.sparkContext

    def has_answered(self, context: SparkContext) -> None:
        """Records that a job has ended: the application has had executors."""
        with self._lock:
            self._has_had_executors |= context is self._spark.sparkContext

    def give_up(self, context: SparkContext) -> None:
        """A job did not end: end the application if it has no executor, since a master that was restarted forgets it."""
        with self._lock:
            if context is not self._spark.sparkContext or _has_ended(context):
                return
            executors = context._jsc.sc().getExecutorMemoryStatus().size() - 1  # noqa: SLF001 - the driver is one, too
            is_late = self._monotonic_s() - self._opened_s > FIRST_EXECUTOR_WITHIN_S
            if executors == 0 and (self._has_had_executors or is_late) and not str(context.master).startswith("local"):
                self._spark.stop()

    def check(self) -> None:
        """Runs a task on the executors, and warns of an open network. Raises ExecutorsError with the cause."""

        def version(_: Any) -> str:  # a function within a function travels without its module
            import exporter  # noqa: PLC0415 - on the executor

            return exporter.__version__

        context = self._spark.sparkContext
        try:
            versions = context.parallelize(range(context.defaultParallelism)).map(version).distinct().collect()
        except (PySparkException, Py4JError) as error:
            raise ExecutorsError(
                f"Spark's executors cannot run this program: {job_failure_of(error)} ({INSTALL})"
            ) from error
        log.info("Spark's executors have version %s", ", ".join(sorted(versions)))
        lacking = [name for name in PROTECTED if context.getConf().get(name, "false") != "true"]
        if lacking and not str(context.master).startswith("local"):
            log.warning(
                "passwords travel to Spark's executors without protection: set %s to true", " and ".join(lacking)
            )

    def reader(self, cluster: ClusterSettings) -> SparkReader:
        return SparkReader(self, cluster.settings.kafka, cluster.settings.scan)

    def close(self) -> None:
        """Stops the session, and with it running jobs."""
        with self._lock:
            self._is_closed = True
        self._spark.stop()


class SparkReader:
    """Reads one cluster; see `exporter.cycle.Reader`."""

    def __init__(self, engine: SparkEngine, kafka: KafkaSettings, scan: ScanSettings) -> None:
        self._engine = engine
        self._kafka = kafka
        self._scan = scan
        self._recalled = UNKNOWN_CLUSTER, True
        self._requests: tuple[ApiStatistics, ...] = ()
        self._is_closed = False
        self._home: RDD[int] | None = None
        """One element in the memory of the executor that had the cluster last: Spark prefers that one."""
        self._boot_id = ""
        """Boot id of the machine whose monotonic clock the memory has."""
        self.phases: tuple[tuple[str, float], ...] = ()

    def cycle(self, known: EvaluationInput, journal_of: JournalOf) -> Evaluation:
        """The executor evaluates, too; the journal that it gets is of the transactions that are known by now."""
        journal = journal_of(set(known.memory.examined_producer_ids()))
        done = self._run(partial(_cycle, known, journal, self._boot_id))
        self.phases, self._boot_id = done.phases, done.boot_id
        evaluation: Evaluation = done.value
        self.recall(evaluation.snapshot.identity)
        return evaluation

    def query(self, question: Question[T], *, deadline_s: float) -> T:
        value: T = self._run(partial(_query, question, deadline_s)).value
        return value

    def use(self, kafka: KafkaSettings, scan: ScanSettings, *, reconnect: bool) -> None:  # noqa: ARG002 - see `Clients`
        if kafka.bootstrap_servers != self._kafka.bootstrap_servers:
            self._recalled = self._recalled[0], False
        self._kafka, self._scan = kafka, scan

    def recall(self, cluster: ClusterIdentity, *, is_required: bool = True) -> None:
        self._recalled = cluster, is_required

    def statistics(self) -> tuple[ApiStatistics, ...]:
        return self._requests

    def close(self) -> None:
        """Jobs that run end with the session."""
        self._is_closed = True

    def _run(self, work: Any) -> TaskResult:
        """Raises what `work` raises, ClusterUnavailableError if the job fails, ClientClosedError after `close`."""
        task = pack(Task(kafka=self._kafka, scan=self._scan, recalled=self._recalled, work=work))
        try:
            done: TaskResult = unpack(self._ran(self._engine.context(), task))
        except Exception as error:
            if self._is_closed:
                raise ClientClosedError from error
            raise ClusterUnavailableError(f"the Spark job failed: {job_failure_of(error)}") from error
        self._requests = total((*self._requests, *done.requests))
        if done.error is not None:
            raise done.error
        return done

    def _ran(self, context: SparkContext, task: bytes) -> bytes:
        """Returns the task's result. A job that is still there after an interval has no executor, or one that is stuck."""
        tag = uuid.uuid4().hex
        context.addJobTag(tag)
        too_long = threading.Timer(self._scan.interval_ms / 1000, _cancel, (context, tag))
        too_long.start()
        try:
            # The one element is taken: a Python process with unread input ends, and its connections with it.
            (data,) = self._home_in(context).map(lambda _: perform(task)).collect()
            self._engine.has_answered(context)
        except Exception:
            if not too_long.is_alive():
                self._engine.give_up(context)
            raise
        finally:
            too_long.cancel()
            with suppress(Exception):  # the application may have ended
                context.removeJobTag(tag)
        return bytes(data)

    def _home_in(self, context: SparkContext) -> RDD[int]:
        if self._home is None or self._home.context is not context:
            self._home = context.parallelize([0], 1).persist()
        return self._home


def _cycle(known: EvaluationInput, journal: Journal, boot_id: str, collector: Collector) -> Evaluation:
    if boot_id != executor.BOOT_ID:
        known = replace(known, memory=known.memory.without_monotonic())
    return run_cycle(collect_with(collector), known, lambda _: journal)


def _query(question: Question[T], deadline_s: float, collector: Collector) -> T:
    return collector.query(question, deadline_s=deadline_s)


def _cancel(context: SparkContext, tag: str) -> None:
    with suppress(Exception):  # another job has found that the application has ended
        context.cancelJobsWithTag(tag)


def _has_ended(context: SparkContext) -> bool:
    """True if the application has ended by itself, by `stop`, or by the master: PySpark does not report it."""
    return context._jsc is None or bool(context._jsc.sc().isStopped())  # noqa: SLF001


def job_failure_of(error: BaseException) -> str:
    """Returns the line of a failed job that has the reason: Spark's first line does not, and a page of traces follows."""
    raised = raised_on_worker(error)
    if raised is not None:
        return raised
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines() if line.strip()]
    lines = lines[1:] if len(lines) > 1 and _CALLS.match(lines[0]) else lines
    tasks = [match[1] for match in map(_TASKS.match, lines) if match is not None]
    return [*tasks[:1], *lines[:1], type(error).__name__][0]
