"""Reads the clusters of a daemon on the executors of Spark: each request of the daemon is a job with one task.

A job for each cluster keeps clusters apart: one that does not respond delays no other, as long as a task is free. The task
goes to the executor that has read the cluster last, which has its connections; any other does it as well.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from functools import partial
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from exporter.config.kafka_section import KafkaSettings
from exporter.config.settings import ClusterSettings, ScanSettings
from exporter.cycle import JournalOf, Known, Question, collect_with, run_cycle
from exporter.evaluation.verdicts import Evaluation
from exporter.fleet.executor import Done, Task, packed, perform, unpacked
from exporter.kafka.collect.collector import Collector
from exporter.kafka.errors import ClientClosedError, ClusterUnavailableError
from exporter.status import ApiStatistics, total
from exporter.transaction_log.journal import Journal

log = logging.getLogger("exporter")
T = TypeVar("T")

PROTECTED: Final = ("spark.authenticate", "spark.network.crypto.enabled")
"""Settings of Spark without which whoever reaches the driver's port gets the clusters' passwords."""
_PYTHONS: Final = re.compile(r"(?:\w+\.)*[A-Z]\w*(?:Error|Exception): (?!Traceback)")
_JAVAS: Final = re.compile(r"Caused by: ")
INSTALL: Final = "executors need kafka-transaction-exporter[spark]: examples/spark/submit.sh sends it with the job"


class ExecutorsError(Exception):
    """Executors cannot run this program."""


class SparkEngine:
    """Makes readers that share one Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def check(self) -> None:
        """Run a task on the executors, and warn of an open network. Raises ExecutorsError with the cause."""

        def version(_: Any) -> str:  # a function within a function travels without its module
            import exporter  # noqa: PLC0415 - on the executor

            return exporter.__version__

        context = self._spark.sparkContext
        try:
            versions = context.parallelize(range(context.defaultParallelism)).map(version).distinct().collect()
        except (PySparkException, Py4JError) as error:
            raise ExecutorsError(f"Spark's executors cannot run this program: {cause_of(error)} ({INSTALL})") from error
        log.info("Spark's executors have version %s", ", ".join(sorted(versions)))
        lacking = [name for name in PROTECTED if context.getConf().get(name, "false") != "true"]
        if lacking and not str(context.master).startswith("local"):
            log.warning(
                "passwords travel to Spark's executors without protection: set %s to true", " and ".join(lacking)
            )

    def reader(self, cluster: ClusterSettings) -> SparkReader:
        """The reader of a cluster."""
        return SparkReader(self._spark.sparkContext, cluster.settings.kafka, cluster.settings.scan)

    def close(self) -> None:
        """Stop the session, and with it running jobs."""
        self._spark.stop()


class SparkReader:
    """Reads one cluster; see `exporter.cycle.Reader`."""

    def __init__(self, context: SparkContext, kafka: KafkaSettings, scan: ScanSettings) -> None:
        self._context = context
        self._kafka = kafka
        self._scan = scan
        self._recalled: tuple[str, tuple[str, ...]] = ("", ())
        self._requests: tuple[ApiStatistics, ...] = ()
        self._is_closed = False
        # Spark prefers the executor that has this one element in memory.
        self._home = context.parallelize([0], 1).persist()
        self.phases: tuple[tuple[str, float], ...] = ()

    def cycle(self, known: Known, journal_of: JournalOf) -> Evaluation:
        """The executor evaluates, too; the journal that it gets is of the transactions that are known by now."""
        journal = journal_of({key.producer_id for key in known.memory.transactions})
        done = self._run(partial(_cycle, known, journal))
        self.phases = done.phases
        evaluation: Evaluation = done.value
        snapshot = evaluation.snapshot
        self.recall(snapshot.cluster_id, (*snapshot.partitions.topics, *snapshot.visibility.hidden_topics))
        return evaluation

    def query(self, question: Question[T], *, deadline_s: float) -> T:
        value: T = self._run(partial(_query, question, deadline_s)).value
        return value

    def use(self, kafka: KafkaSettings, scan: ScanSettings, *, reconnect: bool) -> None:  # noqa: ARG002 - see `Clients`
        self._kafka, self._scan = kafka, scan

    def recall(self, cluster_id: str, topics: tuple[str, ...]) -> None:
        self._recalled = cluster_id, topics

    def statistics(self) -> tuple[ApiStatistics, ...]:
        return self._requests

    def close(self) -> None:
        """Jobs that run end with the session."""
        self._is_closed = True

    def _run(self, work: Any) -> Done:
        """Raises what `work` raises, ClusterUnavailableError if the job fails, ClientClosedError after `close`."""
        task = packed(Task(kafka=self._kafka, scan=self._scan, recalled=self._recalled, work=work))
        try:
            # The one element is taken: a Python process with unread input ends, and its connections with it.
            (data,) = self._home.map(lambda _: perform(task)).collect()
        except (PySparkException, Py4JError) as error:
            if self._is_closed:
                raise ClientClosedError from error
            raise ClusterUnavailableError(f"the Spark job failed: {cause_of(error)}") from error
        done: Done = unpacked(data)
        self._requests = total((*self._requests, *done.requests))
        if done.error is not None:
            raise done.error
        return done


def _cycle(known: Known, journal: Journal, collector: Collector) -> Evaluation:
    def journal_of(_: Collection[int]) -> Journal:
        return journal

    return run_cycle(collect_with(collector), known, journal_of)


def _query(question: Question[T], deadline_s: float, collector: Collector) -> T:
    return collector.query(question, deadline_s=deadline_s)


def cause_of(error: BaseException) -> str:
    """The line of a failed job that names the cause: Spark's own first line does not, and a page of traces follows."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if _PYTHONS.match(line)] or [line for line in lines if _JAVAS.match(line)] or lines
    return causes[-1] if causes else type(error).__name__
