"""Opens the Spark session of a job: in one process, or on the cluster that `spark-submit` has chosen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from exporter.pipeline.spark_output import without_notices, write_log4j

MEMORY: Final = "1g"
SHUFFLE_PARTITIONS: Final = 16
"""Partitions of a batch of `ingest.BATCH_ROWS`, a tenth of which fits into any executor; Spark merges small ones by
itself.
"""

SMALL_ROWS_MAX: Final = 200_000
FAST_START: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
"""Options of a Java that compiles without optimising: a run that takes an hour of history ends before that pays; five
million rows do not. Without a size of its own the cache for code is small then: code is thrown away, and made again.
"""
LONG_RUN: Final = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
"""Options of a Java that optimises code ten times later than by default: most of Spark's code is of one query, and ends
before that pays. What millions of rows pass through is optimised nevertheless.
"""


def open_session(
    master: str | None,
    temporary: str,
    *,
    memory: str = MEMORY,
    is_short: bool = False,
    partitions: int | None = None,
    more: Mapping[str, str] = MappingProxyType({}),
) -> SparkSession:
    """`master` as Spark has it (`local[*]`); None keeps the master and the memory of `spark-submit`.

    `is_short`: few rows are expected (`FAST_START`, in one process). `more` are Spark's own settings on top.
    """
    builder = (
        SparkSession.builder.appName("kafka-transaction-exporter")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", str(partitions or SHUFFLE_PARTITIONS))
        # A cluster's id is text, even if it looks like a number.
        .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
        # Its checksum of every row is only for retries on a cluster.
        .config("spark.sql.shuffle.orderIndependentChecksum.enabled", "false")
        # Rows that are sorted already are aggregated in one pass, without hash tables of objects that spill into sorts.
        .config("spark.sql.execution.replaceHashWithSortAgg", "true")
        # Most keys are new: lookups in a small table before the large one are useless.
        .config("spark.sql.codegen.aggregate.map.twolevel.enabled", "false")
        # It costs as many calls of Java again: PySpark tells it the line of our code for each expression.
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
        # Listing a few hundred files is faster than starting a job for it.
        .config("spark.sql.sources.parallelPartitionDiscovery.threshold", "2000")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.parquet.compression.codec", "zstd")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")  # with statistics in the footers
        # There are many small files: opening one does not cost as much as 4 MB.
        .config("spark.sql.files.openCostInBytes", str(256 * 1024))
    )
    builder = builder.config(map=dict(more))
    if master is None:
        session = builder.getOrCreate()
    else:
        # Nobody waits for a pause of its garbage collector.
        java = ("-XX:+UseParallelGC", *_compiler(master, is_short=is_short), write_log4j(Path(temporary)))
        builder = (
            builder.master(master)
            .config("spark.driver.memory", memory)
            .config("spark.driver.extraJavaOptions", " ".join(java))
            .config("spark.local.dir", temporary)
            .config("spark.sql.warehouse.dir", f"{temporary}/warehouse")
            .config(map=_where(master, memory))
        )
        with without_notices():
            session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _compiler(master: str, *, is_short: bool) -> tuple[str, ...]:
    """Chooses the driver's compiler: on a cluster the driver does little, and waits for workers that compile as they do."""
    if not master.startswith("local"):
        return ()
    return (FAST_START if is_short else LONG_RUN,)


def _where(master: str, memory: str) -> dict[str, Any]:
    """Configures addresses and memory.

    In one process nothing listens outside the machine; the workers of a cluster must reach the driver.
    """
    if master.startswith("local"):
        return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return {"spark.executor.memory": memory}


def small(frame: DataFrame) -> DataFrame:
    """Computes `frame` now, and broadcasts it if it has few rows: otherwise Spark would shuffle the frames of its joins.

    It stays in memory until the session's cache is cleared.
    """
    kept = frame.persist()
    return f.broadcast(kept) if kept.count() <= SMALL_ROWS_MAX else kept
