"""Compares the markers that replicas have with those of their leaders, on Spark's workers.

Below the high watermark all in-sync replicas have the same records, but for those that each one's cleaner has removed. So
another marker at the same offset is a finding, and a marker without a counterpart where the other copy has no gap.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from exporter.audit.log_transactions import MarkerKind

_PLACE: Final = ["topic", "partition", "marker_offset"]
_MARKER: Final = ["producer_id", "marker", "marker_epoch"]


def disagreements(rows: DataFrame) -> DataFrame:
    """Markers that differ, from rows of leaders and replicas: as the replica has them, with `leader_marker`.

    A marker that the replica lacks has the columns of the leader's, without `marker`.
    """
    markers = rows.where(f.col("marker").isNotNull())
    leaders = markers.where(f.col("replica").isNull())
    copies = markers.where(f.col("replica").isNotNull())
    of_leader = leaders.select(*_PLACE, *(f.col(name).alias(f"leader_{name}") for name in _MARKER))
    is_gone = f.lit(MarkerKind.GONE.value)
    other = (
        copies.join(of_leader, on=_PLACE)
        .where((f.col("marker") != is_gone) & (f.col("leader_marker") != is_gone))
        .where(" OR ".join(f"{name} IS DISTINCT FROM leader_{name}" for name in _MARKER))
        .drop("leader_producer_id", "leader_marker_epoch")
    )
    alone = _within_whole(copies.where(f.col("marker") != is_gone), rows, "replica IS NULL").join(
        of_leader.select(*_PLACE), on=_PLACE, how="left_anti"
    )
    missing = _within_whole(leaders.where(f.col("marker") != is_gone), rows, "replica IS NOT NULL")
    missing = missing.join(
        copies.select(*_PLACE, f.col("replica").alias("in_replica")), on=[*_PLACE, "in_replica"], how="left_anti"
    )
    missing = missing.withColumn("leader_marker", f.col("marker")).withColumns(
        {"replica": f.col("in_replica"), "marker": f.lit(None).cast("string")}
    )
    return other.unionByName(alone.drop("in_replica"), allowMissingColumns=True).unionByName(missing.drop("in_replica"))


def _within_whole(markers: DataFrame, rows: DataFrame, of: str) -> DataFrame:
    """The markers whose offset is in a range of such a copy that was read without a gap, with its broker `in_replica`."""
    whole = (
        rows.where(f.col("producer_id").isNull() & f.col("first_gap").isNull())
        .where(of)
        .select(
            "topic",
            "partition",
            f.col("replica").alias("in_replica"),
            f.col("range_first").alias("from"),
            f.col("read_to").alias("to"),
        )
    )
    is_within = (f.col("marker_offset") >= f.col("from")) & (f.col("marker_offset") < f.col("to"))
    return markers.join(f.broadcast(whole), on=["topic", "partition"]).where(is_within).drop("from", "to")
