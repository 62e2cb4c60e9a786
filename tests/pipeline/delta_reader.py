"""Spark with its own reader of Delta tables, in a process of its own: prints the answers of docs/queries.md.

Started by `test_queries`, with the folder of the tables and a temporary one.
"""

from __future__ import annotations

import sys

from exporter.pipeline.session import open_session
from tests.brokers.maven import delta_jars
from tests.pipeline.queries import QUESTIONS, SPARK, as_table


def main(tables: str, temporary: str) -> None:
    spark = open_session(
        "local[2]",
        temporary,
        memory="512m",
        partitions=2,
        more={
            "spark.jars": ",".join(map(str, sorted(delta_jars().glob("*.jar")))),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": "2",
        },
    )
    exec(SPARK, {"spark": spark, "tables": tables})  # noqa: S102 - the page's own code
    for question in QUESTIONS:
        result = spark.sql(question.sql)
        print(f"## {question.name}\n{as_table(result.columns, result.collect())}")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
