"""Runs the cycles of a fleet as Spark jobs: from the scan to one cycle per cluster.

The work on the rows of one cluster is in `exporter.fleet.scan`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from exporter.baseline import NO_BASELINE, Baseline
from exporter.config.settings import ClusterSettings, Settings
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Policy
from exporter.fleet.clients import CLIENTS
from exporter.fleet.data_source import PACKED_NAME, packed_source_of, unpacked_rows
from exporter.fleet.scan import Budget, ClusterCycle, packed, settle, unpacked

CYCLES: Final = pa.schema(
    [pa.field("cluster", pa.string(), nullable=False), pa.field("cycle", pa.binary(), nullable=False)]
)
TASKS_OF_A_CLUSTER: Final = 4
"""Clusters are spread over tasks by a hash: with this many tasks for each, few clusters share one."""
TASKS_MAX: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The input of an evaluation besides the snapshot."""

    policy: Policy
    memories: Mapping[str, Memory]
    """By cluster's name; empty before its first cycle."""
    baseline: Baseline = NO_BASELINE
    describe_all: bool = False
    """See `exporter.fleet.scan.settle`."""


def cycles_of(scan: DataFrame, clusters: tuple[ClusterSettings, ...], budget: Budget, known: Known) -> DataFrame:
    """One row per cluster: its packed `ClusterCycle` (`exporter.fleet.scan.unpacked`). `scan` is packed as well."""
    by_name = {cluster.name: cluster for cluster in clusters}

    def settled(rows: pa.Table) -> pa.Table:
        name = rows["cluster"][0].as_py()
        cycle = _settled(pa.concat_tables(map(unpacked_rows, rows["rows"])), by_name[name], budget, known)
        return pa.table([[name], [packed(cycle)]], schema=CYCLES)

    tasks = min(TASKS_OF_A_CLUSTER * len(clusters), TASKS_MAX)
    # Without an explicit number Spark would join these small partitions into one task.
    spread = scan.repartition(tasks, "cluster")
    return spread.groupBy("cluster").applyInArrow(settled, from_arrow_schema(CYCLES))


def _settled(rows: pa.Table, cluster: ClusterSettings, budget: Budget, known: Known) -> ClusterCycle:
    """A defect of the exporter costs this cluster its cycle, and no other cluster anything."""
    try:
        return settle(
            rows,
            cluster,
            budget,
            CLIENTS,
            memory=known.memories.get(cluster.name, Memory()),
            policy=known.policy,
            baseline=known.baseline,
            describe_all=known.describe_all,
        )
    except Exception as error:  # noqa: BLE001 - reported where the cycle is read
        failure = f"defect in the exporter: {type(error).__name__}: {error}"
        return ClusterCycle(cluster=cluster.name, evaluation=None, failure=failure, seconds=0.0, phases=(), requests=())


class SparkEngine:
    """Runs cycles over a fleet in one Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._registered: Settings | None = None

    def cycle(self, settings: Settings, known: Known) -> tuple[ClusterCycle, ...]:
        """One cycle for each cluster of `settings`. Raises Spark's exceptions when the job fails."""
        if self._registered is not settings:
            self._spark.dataSource.register(packed_source_of(settings))
            self._registered = settings
        budget = Budget.of_cycle(settings.scan)
        cycles = cycles_of(self._spark.read.format(PACKED_NAME).load(), settings.clusters, budget, known)
        return tuple(unpacked(data) for data in cycles.select("cycle").toArrow()["cycle"].to_pylist())

    def close(self) -> None:
        """Stop the session, and with it a running job."""
        self._spark.stop()
